"""The history as verbs read it: nothing is made, migrated or mended, since a daemon may be at work."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from watchdogd import config as configuration
from watchdogd.history.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchdogd.home import Home


@contextmanager
def store_of(home: Home) -> Iterator[Store]:
    """The store of a home. HistoryError, one line, where there is none yet."""
    store = Store.open(configuration.load(home).history.url, home, owner=False)
    try:
        yield store
    finally:
        store.close()
