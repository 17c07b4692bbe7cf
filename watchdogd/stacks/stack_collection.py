"""Collection of a run's stacks: by py-spy on all its nodes at once, else from its Guards and probes.

Guards and probes write stacks when `inbox/RUN.stacks-request` is touched. That also works if Slurm starts no
step for us: a probe in the job runs py-spy, and a Guard writes its own stacks, even if py-spy is missing or
may not attach.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sysconfig
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from watchdogd.batch import node_steps
from watchdogd.batch.live_job import LiveJob
from watchdogd.config import switch_places
from watchdogd.errors import Problem
from watchdogd.parsers import faulthandler
from watchdogd.plugin import Job
from watchdogd.stacks import node_stacks, stack_folding
from watchdogd.stacks.node_stacks import Parcel
from watchdogd.stacks.stack_folding import Process, StackSummary
from watchdogd.system import account, command
from watchdogd.system.pathname import file_name, group_of
from watchdogd.system.smallfile import NoPlainFileError, parse_json, read_head, replace_file
from watchdogd.system.startup import own_python

_QUIET = 7.0
"""Seconds without a new file after which all Guards count as heard; each looks for a request every 5 s."""
_LOOK = 0.2
_FILE_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class _Taken:
    """One probe's file: the processes of one node."""

    run: str
    node: str
    parcels: tuple[Parcel, ...]


@dataclass(frozen=True, slots=True)
class StackAnswers:
    """Answers to a request: `processes` from Guards, `nodes` from probes, and a line on how it went."""

    processes: tuple[Process, ...]
    note: str
    nodes: tuple[tuple[str, tuple[Parcel, ...]], ...] = ()


def ask(
    home: str,
    run: str,
    patience: float,
    enough: Callable[[int], bool] = lambda _: False,
    job: Job | None = None,
) -> StackAnswers:
    """Request stacks and wait for them, at most `patience` seconds or until the number of files is `enough`.

    Guards of other jobs than `job` are left out. Never raise because of a file.
    """
    ids = {"", job.id, job.raw_id, job.handle} if job and "@" not in job.raw_id else None
    inbox = switch_places.find(home, run, "kill").inbox
    request = os.path.join(inbox, f"{file_name(run)}.stacks-request")
    try:
        asked_at = _touch(request)
    except OSError as error:
        return StackAnswers((), f"its Guards cannot be asked: {request}: {error.strerror or error}")
    try:
        found, refused = _gather(inbox, run, asked_at, patience, enough, ids)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(request)
    guards = [each for each in found if isinstance(each, faulthandler.Handed)]
    nodes = tuple((each.node, each.parcels) for each in found if isinstance(each, _Taken))
    processes = tuple(
        Process(
            each.host, each.dump.pid or 0, each.rank, samples=(each.dump,), step=each.step, looks=each.looks
        )
        for each in guards
    )
    return StackAnswers(processes, _note(run, bool(processes), len(nodes), refused, patience), nodes)


def _note(run: str, guards: bool, nodes: int, refused: dict[str, str], patience: float) -> str:
    if refused:
        name, why = next(iter(refused.items()))
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        return f"{name} of its Guards{more} cannot be read: {why}: a home that a team shares has a group"
    if nodes:
        count = f"its probe{'s' if nodes > 1 else ''} on {nodes} node{'s' if nodes > 1 else ''}"
        return f"the stacks are from {count}{' and from the Guards of the run' if guards else ''}"
    if guards:
        return "the stacks are from the Guards of the run"
    return f"no Guard of {run} wrote its stacks within {patience:.0f} s, and no probe took them"


def _touch(request: str) -> float:
    """Replace the request file, which all Guards see; return its mtime by the file server's clock."""
    shared = group_of(os.path.dirname(request)) is not None
    try:
        replace_file(request, f"{account.user_name(os.getuid())}\n", 0o660 if shared else 0o600)
    except PermissionError:  # left by another user who was killed: touch it instead
        os.utime(request, follow_symlinks=False)
    return os.lstat(request).st_mtime


def _gather(
    inbox: str,
    run: str,
    since: float,
    patience: float,
    enough: Callable[[int], bool],
    ids: Collection[str] | None,
) -> tuple[list[faulthandler.Handed | _Taken], dict[str, str]]:
    """Read and remove all files of this request; also return why some could not be read."""
    until, last = time.monotonic() + patience, float("inf")
    found: dict[str, faulthandler.Handed | _Taken] = {}
    others: set[str] = set()
    refused: dict[str, str] = {}
    while time.monotonic() < min(until, last + _QUIET) and not enough(len(found)):
        for path in Path(inbox).glob(f"{file_name(run)}.stacks.*"):
            if path.name in {*found, *others, *refused} or path.suffix not in (".txt", ".json"):
                continue
            try:
                handed = _read(path, since)
            except OSError as error:
                refused[path.name], last = error.strerror or str(error), time.monotonic()
                continue
            if isinstance(handed, faulthandler.Handed) and ids is not None and handed.job not in ids:
                others.add(path.name)
            elif handed and handed.run == run:
                found[path.name], last = handed, time.monotonic()
                with contextlib.suppress(OSError):
                    path.unlink()
        time.sleep(_LOOK)
    return list(found.values()), refused


def _read(path: Path, since: float) -> faulthandler.Handed | _Taken | None:
    """Read a file; None if it belongs to an earlier request or is invalid. Raise OSError if unreadable."""
    if path.lstat().st_mtime < since:
        return None
    try:
        text = read_head(path, _FILE_LIMIT)[0].decode("utf-8", "replace")
    except NoPlainFileError:
        return None
    return faulthandler.handed(text) if path.suffix == ".txt" else _taken(text)


def _taken(text: str) -> _Taken | None:
    """Read a probe's file; None if it is invalid or incomplete."""
    try:
        fields = parse_json(text)
        return _Taken(
            str(fields["run"]), str(fields["node"]), tuple(node_stacks.parcels(str(fields["text"])))
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


MISSING = Problem("py-spy is not installed here", "pip install 'watchdogd[stacks]'")
_STARTING = 5.0
"""Seconds of the deadline reserved for starting on the nodes."""
_GUARDS = 8.0
"""Least seconds to wait for Guards, even past the deadline; each looks for a request every 5 s."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Plan of sampling: number of samples, `every` so many seconds, all within `deadline` seconds."""

    samples: int = 3
    every: float = 2.0
    deadline: float = 30.0
    native: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """Stacks that were taken, and lines about how, if it was not the usual way."""

    folded: StackSummary
    notes: tuple[str, ...] = ()


def py_spy() -> str | None:
    """Return the absolute path of this installation's py-spy, else of one on PATH, else None."""
    beside = os.path.join(sysconfig.get_path("scripts"), "py-spy")
    found = beside if os.access(beside, os.X_OK) else shutil.which("py-spy")
    return os.path.abspath(found) if found else None


def take(home: str, live: LiveJob, wish: Sampling) -> Taken:
    """Take the stacks of the run's newest job. Never raise because of a node or a process."""
    until = time.monotonic() + wish.deadline
    tool = py_spy()
    processes, notes = _by_py_spy(live, wish, tool) if tool else ([], [MISSING])
    folded = stack_folding.fold(processes, (wish.samples - 1) * wish.every)
    if folded.ranks or folded.stopped:  # a stopped process runs no Guard either
        return Taken(folded, tuple(notes))
    patience = max(until - time.monotonic(), _GUARDS)
    answers = ask(home, live.run.name, patience, job=None if live.run.backend == "process" else live.job)
    processes = _both(processes_of(answers.nodes), answers.processes)
    if processes:
        folded = stack_folding.fold(processes)
    return Taken(folded, (*notes, answers.note))


def _both(taken: Sequence[Process], written: Sequence[Process]) -> list[Process]:
    """Join the processes of probes and Guards.

    For one process the entry with a stack counts, the probe's before the Guard's.
    """
    known = {(each.node, each.pid) for each in taken if each.samples}
    theirs = [each for each in written if (each.node, each.pid) not in known]
    named = {(each.node, each.pid) for each in theirs}
    return [each for each in taken if (each.node, each.pid) not in named] + theirs


def processes_of(parcels_by_node: Iterable[tuple[str, Sequence[Parcel]]]) -> list[Process]:
    """Return the processes of all nodes with their ranks.

    Ranks are read from one variable, the first of RANKS that any process has: launchers have SLURM_PROCID
    too. Helpers are processes whose parent has the same rank; if others have ranks, also those without one.
    """
    parcels = [(node, parcel) for node, each in parcels_by_node for parcel in each]
    known = {name for _, parcel in parcels for name in parcel.found.ranks}
    source = next((name for name in node_stacks.RANKS if name in known), "")
    ranks = {(node, parcel.found.pid): parcel.found.ranks.get(source) for node, parcel in parcels}
    return [
        Process(
            node=node,
            pid=parcel.found.pid,
            rank=(rank := ranks[node, parcel.found.pid]),
            helper=_helps(ranks, node, parcel, rank, bool(source)),
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
    found = processes_of((node, node_stacks.parcels(text)) for node, text in heard.texts.items())
    return found + [Process(node, 0, trouble=why) for node, why in heard.silent.items()], []


def _here(live: LiveJob, wish: Sampling, tool: str) -> tuple[list[Process], list[str]]:
    pids = [job.id for job in live.jobs if job.id]
    answer = command.ask(_probe(wish, tool, "--below", *pids), deadline=wish.deadline)
    found = processes_of([(os.uname().nodename, node_stacks.parcels(answer.output))])
    return found, [] if found else [
        f"no Python runs there: {answer.trouble or 'see its pid_file or command'}"
    ]


def _probe(wish: Sampling, tool: str, *whose: str) -> list[str]:
    deadline = max(wish.deadline - _STARTING, 1.0)
    words = [*whose, "--py-spy", tool, "--samples", str(wish.samples), "--every", str(wish.every)]
    words += ["--deadline", str(deadline), *(["--native"] if wish.native else [])]
    return own_python("from watchdogd.stacks.node_stacks import main; main()", *words)
