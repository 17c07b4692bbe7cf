"""A run as the batch system is asked for it and plugins see it, and its state in one word."""

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
"""`gone`: no job, and that is wrong; `none`: no job, or not seen yet; `finished`: marked so; `?`: nobody can
say, or a user whose jobs do not count has one of its name."""
IDLE = ("starting", "suspended", "ending")
"""States in which a job that has nodes does nothing there; the first one counts first."""


@dataclass(frozen=True)
class Progress:
    """Progress of a run, as a check found it: for `status`, the page and other checks.

    `stalled`: it does not, though it should. `at` is when it last did, `within` the seconds in which its next
    step is due by its own rhythm; None: not known. `pause` is why it may stand still just now (`quiet phase
    'saving'`), or empty.

    How far it is: `done` of `total`, counted in `unit` (`iteration`), at `pace` seconds each by its own
    account; None: it does not say. `said` is the last line that it wrote.
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
        """Return whether its last step is within its own rhythm."""
        if self.stalled or self.at is None or self.within is None:
            return False
        return now - self.at < self.within


class Strength(enum.IntEnum):
    """Weight of a sign: that the run works, that it may, or that it does not."""

    AGAINST = -1
    WEAK = 1
    STRONG = 2


@dataclass(frozen=True)
class Sign:
    """Evidence from outside a run's log of whether it works.

    It holds the run's alarm back for a while where the log alone would call it stalled, or stands beside it
    in the message.

    `what` in words that go on after "but" (`its checkpoints grew by 12 GB within 60s`), `kind` in one
    (`checkpoints`, `gpus`, `cpu`); `at` when it was seen last, `since` when it began to be so.
    """

    kind: str
    what: str
    at: float
    since: float
    strength: Strength = Strength.STRONG


ASIDE, WEAK, FAIR, SURE = 0, 1, 2, 3
"""How much an accusation says: nothing but that it is so, beside others, by itself with a question mark, by
itself."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A node, rank or process that may hold a run up, as one source has it.

    `what` it does, in words that go on after its name (`has not entered AllReduce 1139`); `source` in a word
    (`NCCL`); `strength` ASIDE, WEAK, FAIR or SURE. Who it is by what is known: `rank` in the whole run,
    `node` by name, `gpu` as its tool counts it, `pid`.
    """

    source: str
    what: str
    strength: int = FAIR
    rank: int | None = None
    node: str = ""
    gpu: int | None = None
    pid: int | None = None


@dataclass(frozen=True)
class Run:
    """The run that a check speaks of: who it is and where its switches lie.

    The kill switch is set where there is a file at `kill_switch`, as configured, or at `home_kill_switch`, in
    home's switches/. `finished` is who marked it finished, and why (one line), or empty. `users` are those
    whose jobs count.
    `inbox` is home's folder for what colleagues and jobs submit, probe samples among it; empty: no home.
    `progress` is what its checks said last of whether it gets on; None: nobody could say. `signs` are those
    that its checks saw last.
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

    @property
    def phase(self) -> str:
        """Reason why it may stand still just now (`quiet phase 'saving'`), or empty."""
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
    """Return whose jobs count: `[slurm] users`, the members of `[slurm] group`, else `uid`'s.

    None stands for one's own.
    """
    if config.slurm.users:
        return frozenset(config.slurm.users)
    if config.slurm.group:
        return members_of(config.slurm.group, os.geteuid() if uid is None else uid)
    return frozenset({user_name(os.geteuid() if uid is None else uid)})


def state_of(numbers: Mapping[str, float], *, stalled: bool, wrong: bool) -> str:
    """Return a run's state with this many jobs: `running`, `waiting`, `held`, `elsewhere`, or of IDLE.

    `stalled`: its jobs make no progress; `wrong`: it has no job, and something is wrong with that.
    """
    if placed := numbers.get("running", 0.0):
        if sum(numbers.get(why, 0.0) for why in IDLE) >= placed:
            return next(why for why in IDLE if numbers.get(why, 0.0))
        return "hung" if stalled else "running"
    if numbers.get("waiting", 0.0) or numbers.get("held", 0.0):
        return "waiting"
    if numbers.get("elsewhere", 0.0):
        return "?"
    return "gone" if wrong else "none"


def merged_progress(reports: Iterable[Progress | None]) -> Progress | None:
    """Return one Progress of several: of those that saw the run get on, the latest."""
    known = [each for each in reports if each]
    return max(known, key=lambda each: (not each.stalled, each.at or 0.0), default=None)


def run_state(results: Iterable[Mapping[str, Any]]) -> str:
    """Return the state by what a run's checks said last, each as status.json has it.

    Empty: nothing was said of its jobs yet. That it is stalled does not count where a step came after that.
    """
    seen = list(results)
    state = next((each["run_state"] for each in seen if each.get("run_state")), "")
    if state != "running":
        return str(state)
    reports = [(each["at"], each["progress"]) for each in seen if each.get("progress")]
    step = max((_timestamp(progress["at"]) for _, progress in reports if progress["at"]), default=0.0)
    hangs = any(progress["stalled"] and _timestamp(at) >= step for at, progress in reports)
    return "hung" if hangs else "running"


def _timestamp(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def plugin_of(result: Mapping[str, Any]) -> str:
    """Return the plugin of a result, where its run or disk brings it."""
    return str(result["check"]).rpartition("/")[2]
