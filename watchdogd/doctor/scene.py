"""What all pieces look at: home, its configuration, and what Slurm says of itself, each asked once."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from watchdogd.batch import scontrol
from watchdogd.batch.runs import run_of
from watchdogd.chain import link
from watchdogd.system import command
from watchdogd.system.account import user

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from watchdogd.chain.link import LinkOptions
    from watchdogd.config.sections import Config
    from watchdogd.engine.setup import Setup
    from watchdogd.home.layout import Home
    from watchdogd.plugin import Run

DEADLINE = 10.0
"""Seconds for one command."""


@dataclass(frozen=True, slots=True)
class Scene:
    """`slurm`: Slurm is to be used; `site`: the keys of `scontrol show config`, none without an answer."""

    home: Home
    setup: Setup
    me: str
    wish: LinkOptions
    slurm: bool
    site: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, home: Home, setup: Setup) -> Scene:
        """Look around; asks the controller once. HomeError where home is broken."""
        wish = link.remembered(home)[0]
        slurm = bool(shutil.which("squeue")) and wish.mode != "local"
        answer = ask("scontrol", "show", "config") if slurm else None
        site = scontrol.settings(answer.output) if answer and answer.ok else {}
        return cls(home, setup, user(os.geteuid()), wish, slurm, site)

    @property
    def config(self) -> Config:
        """The configuration."""
        return self.setup.config

    @property
    def partition(self) -> str:
        """The partition as wished or configured; empty: the site's default one."""
        return self.wish.partition or self.config.slurm.partition or ""

    def runs(self) -> Sequence[Run]:
        """All runs, as plugins see them."""
        backend = "slurm" if shutil.which("squeue") else "none"
        return [
            run_of(name, section, self.config, self.home, backend)
            for name, section in self.config.runs.items()
        ]


def ask(*argv: str, deadline: float = DEADLINE) -> command.Answer:
    """One command, in the environment that tools get."""
    return command.ask(argv, deadline=deadline)
