"""A log that grows under a clock of its own, looked at each minute by log_staleness with its defaults."""

from __future__ import annotations

import os
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from watchdogd.batch.models import Job, Snapshot
from watchdogd.plugin import Run, Status
from watchdogd.plugins.log_staleness.check import log_staleness

BEGIN = 1_800_000_000.0
"""Seconds since 1970 at which every job starts."""
EVERY = 60.0
"""Seconds between two looks."""
CONFIRM = 2
"""Bad looks in a row that make an alarm, as `[daemon] confirm` has it by default."""
_DEFAULTS = {name: each.default for name, each in log_staleness.parameters.items()}


@dataclass(frozen=True, slots=True)
class Alarm:
    """What would have been reported: `at` seconds after the job's start."""

    at: float
    status: Status
    subject: str
    summary: str


@dataclass(slots=True)
class Lab:
    """One job with its log in `folder`; `alarms` are those that have begun so far."""

    folder: Path
    clock: float = 0.0
    next_look: float = EVERY
    memory: dict[str, Any] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)
    alarms: list[Alarm] = field(default_factory=list)
    job_lives: bool = True

    @property
    def log(self) -> Path:
        """The job's log."""
        return self.folder / "train-4711.out"

    def write(self, text: str) -> None:
        """Append to the log, now."""
        with self.log.open("a", encoding="utf-8") as file:
            file.write(text)
        os.utime(self.log, (BEGIN + self.clock, BEGIN + self.clock))

    def wait(self, seconds: float) -> None:
        """Let time pass, and look whenever a look is due."""
        until = self.clock + seconds
        while self.next_look <= until:
            self.clock = self.next_look
            self.next_look += EVERY
            self._look()
        self.clock = until

    def stalled(self) -> bool:
        """Whether a bad result of the log itself stands."""
        return self.bad.get("", 0) >= CONFIRM

    def branch(self) -> tuple[Any, ...]:
        """All of this moment, to which `rewind` comes back."""
        stat = self.log.stat()
        kept = (self.memory, self.bad, self.alarms)
        return self.clock, self.next_look, deepcopy(kept), stat.st_size, stat.st_mtime

    def rewind(self, moment: tuple[Any, ...]) -> None:
        """Come back to that moment."""
        self.clock, self.next_look, kept, size, written = moment
        self.memory, self.bad, self.alarms = deepcopy(kept)
        os.truncate(self.log, size)
        os.utime(self.log, (written, written))

    def _look(self) -> None:
        job = Job(
            id="4711",
            raw_id="4711",
            name="train",
            user="alice",
            state="RUNNING",
            nodes="n[1-2]",
            started_at=BEGIN,
            work_dir=str(self.folder),
        )
        now = BEGIN + self.clock
        given = {
            "run": Run("train", "train"),
            "snapshot": Snapshot(now, jobs=(job,) if self.job_lives else ()),
            "memory": self.memory,
            "history": None,
            "now": now,
        }
        results = log_staleness.results(_DEFAULTS | {"log": str(self.log)}, given)
        seen = {result.subject: result for result in results}
        for subject, result in seen.items():
            bad = result.status is not Status.OK
            self.bad[subject] = self.bad.get(subject, 0) + 1 if bad else 0
            if self.bad[subject] == CONFIRM:
                self.alarms.append(Alarm(self.clock, result.status, subject, result.summary))
        for subject in set(self.bad) - set(seen):
            self.bad[subject] = 0
