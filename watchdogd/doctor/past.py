"""The history: it can be opened, wherever `[history] url` says that it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.doctor.finding import Finding, broken, fine
from watchdogd.errors import HistoryError, NoHistoryError
from watchdogd.history.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchdogd.doctor.scene import Scene

TOPIC = "history"


def look(scene: Scene) -> Iterator[Finding]:
    """Opens it as verbs do that only look; a first start makes it."""
    try:
        Store.open(scene.config.history.url, scene.home, owner=False).close()
    except NoHistoryError:
        yield fine(TOPIC, "there is none yet; the first start makes it")
    except HistoryError as error:
        mend = "correct url under [history], or see that its server and its password are there"
        yield broken(TOPIC, str(error), mend)
    else:
        yield fine(TOPIC, "it can be read")
