"""History, configuration and known names, read by verbs while a daemon may be running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from watchdogd.cli.output import note
from watchdogd.config import last_good_config
from watchdogd.errors import ConfigError, NoHistoryError, WatchdogError
from watchdogd.history.store import Store
from watchdogd.home import inbox
from watchdogd.home.layout import DEFAULT_URL, Home
from watchdogd.system.smallfile import STATUS_LIMIT, parse_json, read_plain
from watchdogd.system.text import nearest

if TYPE_CHECKING:
    from watchdogd.config.models import Config


def config_of(home: Home, *, pressing: bool = True) -> Config:
    """Return the configuration; if it is broken, the last good one, as the daemon does. Raise ConfigError.

    `pressing` is False if commands or templates from the configuration will be run.
    """
    from watchdogd.config.loading import load  # half the cost of a look at the history

    try:
        return load(home, pressing=pressing)
    except ConfigError:
        last = last_good_config.last(home)
        if last is None:
            raise
        return last


@contextmanager
def store_of(home: Home) -> Iterator[Store]:
    """Open a home's store; before the first round an empty one, with a note. Raise HistoryError."""
    with ExitStack() as stack:
        try:
            store = stack.enter_context(existing_store(home))
        except NoHistoryError:
            note(f"nothing is recorded yet; '{home.command('start')}' begins it")
            nowhere = Home(Path(stack.enter_context(TemporaryDirectory(prefix="watchdogd-"))))
            store = stack.enter_context(closing(Store.open("sqlite:///history.db", nowhere)))
        yield store


@contextmanager
def existing_store(home: Home) -> Iterator[Store]:
    """Open a home's store. Raise NoHistoryError if nothing was recorded yet, else HistoryError."""
    with closing(Store.open(_history_url(home), home, owner=False)) as store:
        yield store


def _history_url(home: Home) -> str:
    """Return `[history] url`. Raise ConfigError."""
    tables = last_good_config.tables(home)
    if tables is None:
        return config_of(home).history.url
    url: str = tables.get("history", {}).get("url", DEFAULT_URL)
    return url


def known_target(home: Home, target: str) -> str:
    """Return the target. Raise WatchdogError if no run, disk, check, drop-in or daemon has its name."""
    names = _known_names(home)
    if target in names or target.startswith("cron."):
        return target
    raise WatchdogError(f"there is no run, disk or check '{target}'{nearest(target, sorted(names))}")


def silenced_targets(home: Home) -> set[str] | None:
    """Return the silenced targets: those of the daemon's last round, and later requests.

    None if that cannot be read.
    """
    now = datetime.now().astimezone()
    try:
        listed = parse_json(read_plain(home.status, limit=STATUS_LIMIT))["silences"]
        found = {str(each["target"]) for each in listed if datetime.fromisoformat(each["until"]) > now}
    except FileNotFoundError:
        found = set()  # there was no round yet
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    for submission in inbox.waiting(home, {"silence", "unsilence"}):
        for order in submission.requests:
            found.discard(order.target)
            if order.verb == "silence" and order.until > now.timestamp():
                found.add(order.target)
    return found


def _known_names(home: Home) -> set[str]:
    config = config_of(home)
    names = {config.daemon.name, "watchdogd", *config.runs, *config.disks, *config.checks}
    try:
        status = parse_json(read_plain(home.status, limit=STATUS_LIMIT))
        for key in ("checks", "incidents", "silences"):
            for entry in status[key]:
                names |= {str(entry[word]) for word in ("check", "target", "run") if entry.get(word)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # the daemon has not written one yet: only the configuration counts
    plugins = {name.rpartition("/")[2] for name in names}
    return names | plugins
