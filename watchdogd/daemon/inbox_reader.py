"""Taking in what people handed in: each paper once, and it is removed only when what came of it is stored.

In the inbox of a group only its author, and home's owner, may remove a paper. Where the daemon is neither, it
stays, and `.taken.json` says to all daemons after this one that it was taken.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

from watchdogd.errors import WatchdogError
from watchdogd.home import inbox
from watchdogd.home.inbox import Submission
from watchdogd.home.layout import Home, no_folder
from watchdogd.system.bounded_io import BoundedIO
from watchdogd.system.smallfile import read_plain

_TAKEN = ".taken.json"


class InboxReader:
    """The inbox as the rounds see it. `trouble` is what is wrong with it, or empty."""

    def __init__(self, home: Home, patient: BoundedIO) -> None:
        self._home = home
        self._patient = patient
        self._taken: dict[Path, Submission] = {}
        self._left: set[Path] = set()
        self.trouble = ""

    def take(self) -> list[Submission]:
        """Return the papers that no earlier round has taken."""
        try:
            submissions, complaints = self._patient.attempt(partial(inbox.take, self._home))
        except (WatchdogError, OSError) as error:
            if isinstance(error, NotADirectoryError):
                self.trouble = str(no_folder(self._home.inbox).strerror)
            else:
                self.trouble = (
                    f"{self._home.inbox} cannot be read: {getattr(error, 'strerror', None) or error}"
                )
            return []
        self.trouble = "; ".join(complaints)[:500]
        known = self._patient.attempt(partial(stored, self._home)) if submissions else frozenset()
        fresh = [each for each in submissions if each.path not in self._taken and each.path.name not in known]
        self._taken |= {
            submission.path: submission for submission in submissions if submission.path not in self._taken
        }
        return fresh

    def settle(self) -> None:
        """Remove what was taken: it is stored. WatchdogError or OSError where home does not let us."""
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
    """Return the names of the papers that a daemon took, and could not remove."""
    try:
        names = json.loads(read_plain(home.path / _TAKEN))
        return frozenset(name for name in names if isinstance(name, str))
    except (OSError, ValueError, TypeError, RecursionError):
        return frozenset()


def _store(home: Home, name: str) -> None:
    """Store one more; those that are gone are left out. OSError."""
    names = [each for each in stored(home) if os.path.lexists(home.inbox / each)]
    home.write(home.path / _TAKEN, json.dumps(sorted({*names, name})) + "\n")
