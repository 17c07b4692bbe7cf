"""Taking the stacks of a run: by py-spy on all its nodes at once, else from its Guards."""

from __future__ import annotations

import os
import shutil
import sysconfig
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdogd.batch import node_steps
from watchdogd.errors import Problem
from watchdogd.stacks import stackprobe, stackrequest, stacks
from watchdogd.stacks.stacks import Process
from watchdogd.system import command
from watchdogd.system.startup import own_python

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from watchdogd.batch.live_job import LiveJob
    from watchdogd.stacks.stackprobe import Parcel
    from watchdogd.stacks.stacks import Picture

MISSING = Problem("py-spy is not installed here", "pip install 'watchdogd[stacks]'")
_STARTING = 5.0
"""Seconds of the deadline that are left for starting on the nodes."""
_GUARDS = 8.0
"""Seconds that Guards are given at least, past the deadline too: each looks for a request every five."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to look: so many samples, `every` seconds apart, all of it within `deadline` seconds."""

    samples: int = 3
    every: float = 2.0
    deadline: float = 30.0
    native: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of it; `notes` are lines on how it was done where that was not the usual way."""

    picture: Picture
    notes: tuple[str, ...] = ()


def py_spy() -> str | None:
    """The absolute path of the py-spy that belongs to this installation, else of one on PATH."""
    beside = os.path.join(sysconfig.get_path("scripts"), "py-spy")
    found = beside if os.access(beside, os.X_OK) else shutil.which("py-spy")
    return os.path.abspath(found) if found else None


def take(home: str, live: LiveJob, wish: Sampling) -> Taken:
    """The stacks of the run's newest job. Never raises for what a node or a process does."""
    until = time.monotonic() + wish.deadline
    tool = py_spy()
    processes, notes = _by_py_spy(live, wish, tool) if tool else ([], [MISSING])
    picture = stacks.fold(processes, (wish.samples - 1) * wish.every)
    if picture.ranks:
        return Taken(picture, tuple(notes))
    patience = max(until - time.monotonic(), _GUARDS)
    answers = stackrequest.ask(home, live.run.name, patience)
    processes = _both(processes_of(answers.nodes), answers.processes)
    if processes:
        picture = stacks.fold(processes)
    return Taken(picture, (*notes, answers.note))


def _both(taken: Sequence[Process], written: Sequence[Process]) -> list[Process]:
    """What probes took and Guards wrote; of one process what has a stack, the probe's before the Guard's."""
    known = {(each.node, each.pid) for each in taken if each.samples}
    theirs = [each for each in written if (each.node, each.pid) not in known]
    named = {(each.node, each.pid) for each in theirs}
    return [each for each in taken if (each.node, each.pid) not in named] + theirs


def processes_of(parcels_by_node: Iterable[tuple[str, Sequence[Parcel]]]) -> list[Process]:
    """The processes of all nodes with their ranks: RANK's where any has it, as launchers have SLURM_PROCID.

    Helpers are those whose parent is of the same rank, and, where others have ranks, those without one.
    """
    parcels = [(node, parcel) for node, each in parcels_by_node for parcel in each]
    known = {name for _, parcel in parcels for name in parcel.found.ranks}
    source = next((name for name in stackprobe.RANKS if name in known), "")
    ranks = {(node, parcel.found.pid): parcel.found.ranks.get(source) for node, parcel in parcels}
    return [
        Process(
            node=node,
            pid=parcel.found.pid,
            rank=(rank := ranks[node, parcel.found.pid]),
            helper=_helps(ranks, node, parcel, rank, bool(source)),
            command=parcel.found.command,
            samples=parcel.samples,
            trouble=parcel.trouble,
            state=parcel.state,
        )
        for node, parcel in parcels
    ]


def _helps(
    ranks: dict[tuple[str, int], int | None], node: str, parcel: Parcel, rank: int | None, ranked: bool
) -> bool:
    above = (node, parcel.found.parent)
    return (ranked and rank is None) or (above in ranks and ranks[above] == rank)


def _by_py_spy(live: LiveJob, wish: Sampling, tool: str) -> tuple[list[Process], list[str]]:
    if live.run.backend == "process":
        return _here(live, wish, tool)
    if live.run.backend != "slurm":
        return [], [f"nothing can be started in job {live.job.id} of {live.run.backend.upper()}"]
    whose = ("--job", live.job.raw_id, "--since", f"{live.job.started_at or 0.0:.0f}")
    heard = node_steps.run_on_nodes(
        live.job.raw_id, live.hosts, _probe(wish, tool, *whose), deadline=wish.deadline
    )
    if heard.trouble:
        owner = f": job {live.job.id} is {live.job.user}'s" if heard.denied else f": {heard.trouble}"
        return [], [f"Slurm starts nothing in this job{owner}"]
    found = processes_of((node, stackprobe.parcels(text)) for node, text in heard.texts.items())
    return found + [Process(node, 0, trouble=why) for node, why in heard.silent.items()], []


def _here(live: LiveJob, wish: Sampling, tool: str) -> tuple[list[Process], list[str]]:
    pids = [job.id for job in live.jobs if job.id]
    answer = command.ask(_probe(wish, tool, "--below", *pids), deadline=wish.deadline)
    found = processes_of([(os.uname().nodename, stackprobe.parcels(answer.output))])
    return found, [] if found else [
        f"no Python runs there: {answer.trouble or 'see its pid_file or command'}"
    ]


def _probe(wish: Sampling, tool: str, *whose: str) -> list[str]:
    """The command for a node."""
    deadline = max(wish.deadline - _STARTING, 1.0)
    words = [*whose, "--py-spy", tool, "--samples", str(wish.samples), "--every", str(wish.every)]
    words += ["--deadline", str(deadline), *(["--native"] if wish.native else [])]
    return own_python("from watchdogd.stacks.stackprobe import main; main()", *words)
