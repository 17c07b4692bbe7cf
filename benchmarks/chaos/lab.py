"""Where people work without a Slurm: alice and bob, and an installation that both can run."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Self

from tests.lab import accounts, folders, interpreter
from tests.lab.people import People
from tests.lab.site import usual_umask


class Lab:
    """A context manager, with what a Cluster offers for programs: all that is made goes when it is left."""

    def __enter__(self) -> Self:
        with folders.one_at_a_time(), usual_umask():
            folders.sweep()
            self.folder, self._lock = folders.create()
            (self.folder / "home").mkdir()
            accounts.ensure()
        self.people = People(self.folder)
        self.people.make_homes()
        self.run_as, self.home = self.people.run, self.people.home
        return self

    def __exit__(self, *_: object) -> None:
        self.people.end()
        with folders.one_at_a_time():
            folders.remove(self.folder)
            os.close(self._lock)
            if not folders.in_use():
                accounts.remove_made()

    @cached_property
    def watchdogd(self) -> Path:
        """The command, for all users."""
        with usual_umask():
            return interpreter.install(self.folder / "python", self.people) / "watchdogd"
