"""The history as verbs read it: nothing is made, migrated or mended, since a daemon may be at work."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from watchdogd.engine import goodconfig
from watchdogd.errors import ConfigError, NoHistoryError
from watchdogd.history.store import Store
from watchdogd.home.layout import DEFAULT_URL, Home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchdogd.config.models import Config


def config_of(home: Home, *, pressing: bool = True) -> Config:
    """The configuration; where an edit broke it, the last good one, as the daemon goes on. ConfigError.

    Not `pressing`: what it names will be run.
    """
    from watchdogd.config.loading import load  # half of what a look at the history would cost

    try:
        return load(home, pressing=pressing)
    except ConfigError:
        last = goodconfig.last(home)
        if last is None:
            raise
        return last


@contextmanager
def store_of(home: Home) -> Iterator[Store]:
    """The store of a home; before the first round an empty one, which is said on stderr. HistoryError."""
    with ExitStack() as stack:
        try:
            store = stack.enter_context(recorded(home))
        except NoHistoryError:
            print("watchdogd: nothing is recorded yet; 'watchdogd start' begins it", file=sys.stderr)
            nowhere = Home(Path(stack.enter_context(TemporaryDirectory(prefix="watchdogd-"))))
            store = stack.enter_context(closing(Store.open("sqlite:///history.db", nowhere)))
        yield store


@contextmanager
def recorded(home: Home) -> Iterator[Store]:
    """The store of a home that has one. NoHistoryError where nothing was recorded yet; HistoryError."""
    with closing(Store.open(_url(home), home, owner=False)) as store:
        yield store


def _url(home: Home) -> str:
    """`[history] url`. ConfigError."""
    tables = goodconfig.tables(home)
    if tables is None:
        return config_of(home).history.url
    url: str = tables.get("history", {}).get("url", DEFAULT_URL)
    return url
