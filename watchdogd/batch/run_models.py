"""A run as plugins see it, its progress and signs of work, and its state in one word."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from watchdogd.home.layout import Home, absolute, switch_path
from watchdogd.system.account import members_of, user_name

if TYPE_CHECKING:
    from watchdogd.config.models import Config
    from watchdogd.config.target_models import RunSection


STATES = ("running", "starting", "suspended", "ending", "waiting", "hung", "gone", "finished", "none", "?")
"""`gone`: no job, which is a fault; `none`: no job, or not seen yet; `finished`: marked so; `?`: unknown, or
a user whose jobs do not count has one with its name."""
IDLE = ("starting", "suspended", "ending")
"""States of a job that has nodes but does nothing there, in order of precedence."""


@dataclass(frozen=True)
class Progress:
    """Progress of a run as one check sees it, for `status`, the page and other checks.

    stalled  it should progress, but does not
    at       time of the last progress; None: unknown
    within   seconds within which the next step is due by its rhythm; None: unknown
    pause    why it may stand still now (`quiet phase 'saving'`), or empty
    done     how far it is, of `total`, in `unit` (`iteration`), at `pace` seconds each; None: unknown
    said     its last line of output
    """

    stalled: bool = False
    at: float | None = None
    within: float | None = None
    pause: str = ""
    done: float | None = None
    total: float | None = None
    unit: str = ""
    pace: float | None = None
    said: str = ""

    def recent(self, now: float) -> bool:
        """Return whether the last progress is within its rhythm."""
        if self.stalled or self.at is None or self.within is None:
            return False
        return now - self.at < self.within


class Strength(enum.IntEnum):
    """Weight of a sign: that the run works, may work, or does not."""

    AGAINST = -1
    WEAK = 1
    STRONG = 2


@dataclass(frozen=True)
class Sign:
    """Evidence from outside a run's log of whether it works.

    It delays the alarm where the log alone shows a stall, or is quoted in the message. `what`: words that
    follow "but" (`its checkpoints grew by 12 GB within 60s`); `kind`: one word (`checkpoints`, `gpus`,
    `cpu`); `at`: when it was last seen; `since`: when it began.
    """

    kind: str
    what: str
    at: float
    since: float
    strength: Strength = Strength.STRONG


ASIDE, WEAK, FAIR, SURE = 0, 1, 2, 3
"""Strength of a suspicion: a mere fact, valid beside others, valid alone as a question, valid alone."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """Node, rank or process that may delay a run, according to one source.

    `what`: words that follow its name (`has not entered AllReduce 1139`); `source`: one word (`NCCL`);
    `strength`: ASIDE, WEAK, FAIR or SURE. It is identified by what is known: `rank` in the run, `node` by
    name, `gpu` by its tool's number, `pid`.
    """

    source: str
    what: str
    strength: int = FAIR
    rank: int | None = None
    node: str = ""
    gpu: int | None = None
    pid: int | None = None


HEEDS = 900.0
"""Seconds for which an end counts as watchdogd's doing after it asked for it: a job may save first."""


@dataclass(frozen=True, slots=True)
class JobDeed:
    """What watchdogd did to the job of a run for an `incident`: `action` is cancel or requeue.

    `trigger`: the key of the run that asks for it, one of TRIGGERS.
    """

    action: str
    incident: int
    at: float
    trigger: str = ""

    def ended(self, action: str, started_at: float | None, alive_at: float, gone_at: float) -> bool:
        """Return whether it ended a job in this way, which was last seen `alive_at` and not at `gone_at`."""
        before = started_at is None or started_at <= self.at
        return self.action == action and before and alive_at - HEEDS <= self.at <= gone_at


@dataclass(frozen=True)
class Run:
    """Run that a check is about.

    The kill switch is set where a file exists at `kill_switch`, as configured, or at `home_kill_switch`, in
    home's switches/. `finished`: who marked it finished, and why (one line), or empty. `users`: whose jobs
    count. `inbox`: home's folder for submissions and samples; empty: no home. `progress` and `signs`: last
    reports of its checks; None: unknown. `deeds`: what watchdogd did to its jobs lately, oldest first.
    """

    name: str
    job_name: str
    backend: str = "slurm"
    pid_file: str = ""
    command: str = ""
    kill_switch: str = ""
    save_switch: str = ""
    finished: str = ""
    users: frozenset[str] = field(default_factory=frozenset)
    inbox: str = ""
    progress: Progress | None = None
    home_kill_switch: str = ""
    signs: tuple[Sign, ...] = ()
    deeds: tuple[JobDeed, ...] = ()

    def deed(self, action: str, started_at: float | None, alive_at: float, gone_at: float) -> JobDeed | None:
        """Return what watchdogd did to a job so that it ended (see JobDeed.ended), or None."""
        found = (each for each in self.deeds if each.ended(action, started_at, alive_at, gone_at))
        return max(found, key=lambda each: each.at, default=None)

    @property
    def phase(self) -> str:
        """Return why it may stand still now (`quiet phase 'saving'`), or empty."""
        return self.progress.pause if self.progress else ""


def run_of(name: str, section: RunSection, config: Config, home: Home, default_backend: str) -> Run:
    """Return a run as its plugins see it."""
    process = bool(section.pid_file or section.command)
    backend = section.backend or ("process" if process else default_backend)
    users = () if backend == "process" else config.slurm.users
    return Run(
        name=name,
        job_name=section.job_name or name,
        backend=backend,
        pid_file=absolute(home, section.pid_file) if section.pid_file else "",
        command=section.command or "",
        kill_switch=switch_path(home, name, section.kill_switch, "kill"),
        save_switch=switch_path(home, name, section.save_switch, "save"),
        users=frozenset({section.user} if section.user else users),
        inbox=str(home.inbox),
        home_kill_switch=switch_path(home, name, None, "kill"),
    )


def slurm_users(config: Config, uid: int | None = None) -> frozenset[str]:
    """Return the users whose jobs count: `[slurm] users`, members of `[slurm] group`, or else `uid`'s.

    None: this process's user.
    """
    if config.slurm.users:
        return frozenset(config.slurm.users)
    if config.slurm.group:
        return members_of(config.slurm.group, os.geteuid() if uid is None else uid)
    return frozenset({user_name(os.geteuid() if uid is None else uid)})


_STALLS = ("running", "suspended")
"""States of a run that can stall: a stopped process does, while a job that Slurm suspends is not judged."""


def state_of(numbers: Mapping[str, float], *, stalled: bool, wrong: bool) -> str:
    """Return a run's state from numbers of its jobs: `running`, `waiting`, `held`, `elsewhere`, and IDLE's.

    `stalled`: its jobs make no progress, which is a fault; `wrong`: it has no job, which is one.
    """
    if placed := numbers.get("running", 0.0):
        idle = sum(numbers.get(why, 0.0) for why in IDLE) >= placed
        state = next(why for why in IDLE if numbers.get(why, 0.0)) if idle else "running"
        return "hung" if stalled and state in _STALLS else state
    if numbers.get("waiting", 0.0) or numbers.get("held", 0.0):
        return "waiting"
    if numbers.get("elsewhere", 0.0):
        return "?"
    return "gone" if wrong else "none"


def merged_progress(reports: Iterable[Progress | None]) -> Progress | None:
    """Return the report with the latest progress; stalled ones only if there are no others."""
    known = [each for each in reports if each]
    return max(known, key=lambda each: (not each.stalled, each.at or 0.0), default=None)


def run_state(results: Iterable[Mapping[str, Any]]) -> str:
    """Return the state from the last results of a run's checks in status.json; empty: none on its jobs yet.

    A stall does not count if there was progress after it.
    """
    seen = list(results)
    state = next((each["run_state"] for each in seen if each.get("run_state")), "")
    if state not in _STALLS:
        return str(state)
    reports = [(each["at"], each["progress"]) for each in seen if each.get("progress")]
    step = max((_timestamp(progress["at"]) for _, progress in reports if progress["at"]), default=0.0)
    hangs = any(progress["stalled"] and _timestamp(at) >= step for at, progress in reports)
    return "hung" if hangs else str(state)


def _timestamp(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def plugin_of(result: Mapping[str, Any]) -> str:
    """Return the plugin's name in a result's check name."""
    return str(result["check"]).rpartition("/")[2]
