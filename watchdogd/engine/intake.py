"""Taking in what people handed in: each paper once, and it is removed only when what came of it is stored."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from watchdogd import inbox
from watchdogd.errors import WatchdogError
from watchdogd.misfit import no_folder

if TYPE_CHECKING:
    from pathlib import Path

    from watchdogd.engine.patient import Patient
    from watchdogd.home import Home
    from watchdogd.inbox import Paper


class Intake:
    """The inbox as the rounds see it. `trouble` is what is wrong with it, or empty."""

    def __init__(self, home: Home, patient: Patient) -> None:
        self._home = home
        self._patient = patient
        self._taken: dict[Path, Paper] = {}
        self.trouble = ""

    def take(self) -> list[Paper]:
        """The papers that no earlier round has taken."""
        try:
            papers, complaints = self._patient.attempt(partial(inbox.take, self._home))
        except (WatchdogError, OSError) as error:
            if isinstance(error, NotADirectoryError):
                self.trouble = str(no_folder(self._home.inbox).strerror)
            else:
                self.trouble = f"{self._home.inbox} cannot be read: {error}"
            return []
        self.trouble = "; ".join(complaints)[:500]
        fresh = [paper for paper in papers if paper.path not in self._taken]
        self._taken |= {paper.path: paper for paper in fresh}
        return fresh

    def settle(self) -> None:
        """All that was taken is stored: remove it. WatchdogError or OSError where home does not let us."""
        for path, paper in list(self._taken.items()):
            self._patient.attempt(partial(inbox.remove, paper))
            del self._taken[path]
