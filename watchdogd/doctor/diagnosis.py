"""A diagnosis, one line of the doctor's table, and the installation that is tested."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from watchdogd.batch import commands, scontrol
from watchdogd.batch.run_models import run_of
from watchdogd.chain import link_script
from watchdogd.chain.link_script import LinkOptions
from watchdogd.config.models import Config
from watchdogd.daemon.setup import Setup
from watchdogd.home.layout import Home
from watchdogd.plugin import Run
from watchdogd.system import command
from watchdogd.system.account import own_name

FINE, WARNING, BROKEN = "fine", "warning", "broken"
_EXIT = {FINE: 0, WARNING: 1, BROKEN: 2}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Line of the table. `state` is FINE, WARNING or BROKEN; the last two have a fix."""

    state: str
    topic: str
    text: str
    fix: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"state": self.state, "topic": self.topic, "text": self.text, "fix": self.fix}


def fine(topic: str, text: str) -> Diagnosis:
    return Diagnosis(FINE, topic, text)


def warning(topic: str, text: str, fix: str) -> Diagnosis:
    """Return the diagnosis of something that works, but not as expected."""
    return Diagnosis(WARNING, topic, text, fix)


def broken(topic: str, text: str, fix: str) -> Diagnosis:
    return Diagnosis(BROKEN, topic, text, fix)


def from_json(value: dict[str, Any]) -> Diagnosis:
    """Return the diagnosis that `as_json` made. KeyError where it is something else."""
    return Diagnosis(*(str(value[key]) for key in ("state", "topic", "text", "fix")))


def exit_code(findings: tuple[Diagnosis, ...]) -> int:
    """Return the exit code for all diagnoses: 0 all fine, 1 a warning, 2 something broken."""
    return max((_EXIT[finding.state] for finding in findings), default=0)


DEADLINE = 10.0
"""Seconds for one command."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Installation under test.

    `slurm`: Slurm is used; `site`: settings in `scontrol show config`, empty without an answer.
    """

    home: Home
    setup: Setup
    me: str
    wish: LinkOptions
    slurm: bool
    site: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, home: Home, setup: Setup) -> Installation:
        """Examine this machine; ask the controller once. HomeError where home is broken."""
        wish, walltime = link_script.remembered(home)
        slurm = bool(shutil.which("squeue")) and wish.mode != "local" and bool(walltime or _asks(home, setup))
        answer = ask("scontrol", "show", "config") if slurm else None
        site = scontrol.settings(answer.output) if answer and answer.ok else {}
        return cls(home, setup, own_name(), wish, slurm, site)

    @property
    def config(self) -> Config:
        return self.setup.config

    @property
    def partition(self) -> str:
        """Return the partition given to `start` or configured; empty: the site's default."""
        return self.wish.partition or self.config.slurm.partition or ""

    def runs(self) -> Sequence[Run]:
        return _runs(self.home, self.setup)


def _asks(home: Home, setup: Setup) -> bool:
    """Return whether what is watched needs Slurm: all runs may be processes of this machine."""
    runs = _runs(home, setup)
    return not runs or bool(setup.config.checks) or any(run.backend == "slurm" for run in runs)


def _runs(home: Home, setup: Setup) -> Sequence[Run]:
    usual = commands.here()
    return [run_of(name, section, setup.config, home, usual) for name, section in setup.config.runs.items()]


def ask(*argv: str, deadline: float = DEADLINE) -> command.Answer:
    """Run a command with `command.environment`."""
    return command.ask(argv, deadline=deadline)
