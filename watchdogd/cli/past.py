"""The history as verbs read it: nothing is made, migrated or mended, since a daemon may be at work."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from watchdogd import config as configuration
from watchdogd.engine import goodconfig
from watchdogd.errors import ConfigError
from watchdogd.history.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchdogd.config import Config
    from watchdogd.home import Home


def config_of(home: Home) -> Config:
    """The configuration; where an edit broke it, the last good one, as the daemon goes on. ConfigError."""
    try:
        return configuration.load(home)
    except ConfigError:
        last = goodconfig.last(home)
        if last is None:
            raise
        return last


@contextmanager
def store_of(home: Home) -> Iterator[Store]:
    """The store of a home. HistoryError, one line, where there is none yet."""
    store = Store.open(config_of(home).history.url, home, owner=False)
    try:
        yield store
    finally:
        store.close()
