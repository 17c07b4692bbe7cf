"""Reading the inbox: each submission is taken once, and removed only when its effect is stored.

In a group's inbox only the author and home's owner may remove a submission. Where the daemon is neither, it
stays, and `.taken.json` records for all later daemons that it was taken.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

from watchdogd.daemon.trouble import Trouble, TroubleKind
from watchdogd.errors import WatchdogError
from watchdogd.home import inbox
from watchdogd.home.inbox import Submission
from watchdogd.home.layout import Home, not_a_folder
from watchdogd.system.bounded_io import BoundedIO
from watchdogd.system.smallfile import read_plain

_TAKEN = ".taken.json"


class InboxReader:
    """Reader of home's inbox. `trouble`: why it cannot be read in full, or empty."""

    def __init__(self, home: Home, patient: BoundedIO) -> None:
        self._home = home
        self._patient = patient
        self._taken: dict[Path, Submission] = {}
        self._left: set[Path] = set()
        self.trouble = ""

    def take(self) -> list[Submission]:
        """Return submissions that were not taken before."""
        try:
            submissions, complaints = self._patient.attempt(partial(inbox.take, self._home))
        except (WatchdogError, OSError) as error:
            if isinstance(error, NotADirectoryError):
                self.trouble = Trouble.wrong([not_a_folder(os.fspath(self._home.inbox))], self._home.inbox)
            else:
                why = getattr(error, "strerror", None) or error
                self.trouble = Trouble.of(
                    f"{self._home.inbox} cannot be read: {why}", error, self._home.inbox
                )
            return []
        self.trouble = Trouble("; ".join(complaints)[:500], TroubleKind.SET_ASIDE, self._home.inbox)
        known = self._patient.attempt(partial(stored, self._home)) if submissions else frozenset()
        fresh = [each for each in submissions if each.path not in self._taken and each.path.name not in known]
        self._taken |= {
            submission.path: submission for submission in submissions if submission.path not in self._taken
        }
        return fresh

    def settle(self) -> None:
        """Remove submissions whose effect is stored. WatchdogError or OSError where home forbids it."""
        for path, submission in list(self._taken.items()):
            try:
                self._patient.attempt(partial(inbox.remove, submission))
            except PermissionError:
                if self._home.group is None:
                    raise
                if path not in self._left:
                    self._patient.attempt(partial(_store, self._home, path.name))
                    self._left.add(path)
            else:
                self._left.discard(path)
                del self._taken[path]


def stored(home: Home) -> frozenset[str]:
    """Return the names of submissions that were taken and could not be removed."""
    try:
        names = json.loads(read_plain(home.path / _TAKEN))
        return frozenset(name for name in names if isinstance(name, str))
    except (OSError, ValueError, TypeError, RecursionError):
        return frozenset()


def _store(home: Home, name: str) -> None:
    """Record one more such name; names of removed files are dropped. OSError."""
    names = [each for each in stored(home) if os.path.lexists(home.inbox / each)]
    home.write(home.path / _TAKEN, json.dumps(sorted({*names, name})) + "\n")
