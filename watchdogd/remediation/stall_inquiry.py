"""Inquiry into who holds a run up, by its nodes and Guards, once a stall is confirmed.

It comes before the report and only reads. Everything is asked at once; what has not come within PATIENCE is
left behind, and the message goes out with what there is.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from watchdogd.batch import node_steps, slurmtext
from watchdogd.checks.working_job import as_owner
from watchdogd.config import switch_places
from watchdogd.errors import UnreadableError, UsageError, WatchdogError
from watchdogd.home import suspect_nodes
from watchdogd.home.layout import Home
from watchdogd.incidents.models import IncidentEvent
from watchdogd.parsers import guard_heartbeat
from watchdogd.plugin import SLOW, Advice, Job, Result, Run, Suspect
from watchdogd.probe import node_ranks
from watchdogd.probe.node_answers import query_gpus
from watchdogd.probe.node_ranks import NodeRanks
from watchdogd.remediation import accusations, nccl_suspects, slow_suspects, suspects
from watchdogd.remediation.models import ActionTask
from watchdogd.remediation.suspects import Suspicion, short
from watchdogd.stacks import stack_collection
from watchdogd.stacks.stack_folding import Process
from watchdogd.system import command
from watchdogd.system.pathname import file_name
from watchdogd.system.smallfile import read_head

PATIENCE = 9.3
"""Longest time in seconds from the confirmation of a stall to its message."""
MOST = 8
"""Runs inquired about in one round: if more stall at once, the cause is none of theirs."""
_NODES, _GUARDS, _LISTING = 8.5, 8.0, 0.2
_BEAT = 1 << 16
"""Bytes of a heartbeat that are read."""
_STARTING = 2.0
"""Seconds of a node's deadline reserved for starting there and collecting."""

Attempt = Callable[[Callable[[], bool]], bool]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StallInquiry:
    """The event about a run that stalls or is slow, its check's result, and what is known of the run.

    `stacks`: its `on_hang` takes stacks.
    """

    event: IncidentEvent
    result: Result
    task: ActionTask
    stacks: bool


@dataclass(slots=True)
class RunEvidence:
    """Evidence about one run; each part is set once, as a whole, by the thread that asks for it.

    `beats`: nodes (by their short names) and processes whose Guards sent heartbeats.
    """

    nodes: tuple[NodeRanks, ...] = ()
    silent: Mapping[str, str] = field(default_factory=dict)
    guards: tuple[Process, ...] = ()
    beats: frozenset[tuple[str, int]] = frozenset()
    closed: str = ""

    def suspects(self, *, slow: bool = False) -> list[Suspect]:
        """Return whom all of it accuses of a stall, or of being `slow`.

        A number that ranks of several nodes have, as a trainer's and a generator's, names none of them.
        """
        places = {(each.rank, short(node.node)) for node in self.nodes for each in node.processes}
        times = Counter(rank for rank, _ in places)
        return [
            replace(each, rank=None) if each.pid is not None and times[each.rank] > 1 else each
            for each in self._accused(slow=slow)
        ]

    def _accused(self, *, slow: bool) -> list[Suspect]:
        if slow:
            return list(slow_suspects.of_slow(self.nodes, self.guards))
        beating = {
            each.rank: node.node
            for node in self.nodes
            for each in node.processes
            if each.rank is not None and any((short(node.node), pid) in self.beats for pid in each.pids)
        }
        waiting = nccl_suspects.held_up(self.nodes).items()
        held = {(short(node), pid) for (node, _), pids in waiting for pid in pids}
        of_guards = accusations.of_guards(self.guards, beating, nccl_suspects.world(self.nodes))
        live = {short(each.node) for each in self.guards}
        of_nodes = accusations.of_nodes(self.nodes, self.silent)
        return [
            *(each for each in of_nodes if each.source != accusations.NODE or short(each.node) not in live),
            *(each for each in of_guards if (short(each.node), each.pid) not in held),
        ]


def with_evidence(
    stalls: Sequence[StallInquiry],
    events: Iterable[IncidentEvent],
    attempt: Attempt = lambda function: function(),
) -> tuple[IncidentEvent, ...]:
    """Return the events, those of `stalls` with the suspects, after at most PATIENCE seconds.

    At most MOST runs are inquired about; for others, only their checks' results are known. `attempt` runs a
    look at home within a deadline.
    """
    until = time.monotonic() + PATIENCE
    seen = {stall.task.record.run: RunEvidence() for stall in stalls}
    asked = dict(islice({stall.task.record.run: stall.task for stall in stalls}.items(), MOST))
    threads = [
        thread
        for run, task in asked.items()
        for ask in _ways(task, attempt, until)
        if (thread := _begun(ask, task, seen[run]))
    ]
    for thread in threads:
        thread.join(max(until - time.monotonic(), 0.0))
    named = {id(stall.event): _named(stall, seen[stall.task.record.run], until) for stall in stalls}
    return tuple(named.get(id(event), event) for event in events)


def _ways(
    task: ActionTask, attempt: Attempt, until: float
) -> Iterator[Callable[[ActionTask, RunEvidence], None]]:
    """Yield the ways to ask about a run, each for a thread that the message waits for."""
    if any(job.working for job in task.queue):
        yield _ask_nodes
    with contextlib.suppress(WatchdogError, OSError):  # home may be gone, and the Guards' files with it
        if time.monotonic() < until and attempt(partial(_has_guards, task)):
            yield _ask_guards


def _begun(
    ask: Callable[[ActionTask, RunEvidence], None], task: ActionTask, seen: RunEvidence
) -> threading.Thread | None:
    """Start a thread that is left behind if it hangs; None if none can be started."""

    def run() -> None:
        try:
            ask(task, seen)
        except Exception:  # the message goes without it
            log.exception("evidence of %s", task.record.run)

    thread = threading.Thread(target=run, name="inquiry", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


def _named(stall: StallInquiry, seen: RunEvidence, until: float) -> IncidentEvent:
    """Name the suspect in the first line, and add what is known about it below."""
    event, result, task, run = stall.event, stall.result, stall.task, stall.task.record.run
    slow = result.kind == SLOW
    try:
        found = suspects.merge([*result.suspects, *seen.suspects(slow=slow)])
        notes = slow_suspects.notes(seen.nodes) if slow else accusations.notes(seen.nodes, seen.silent)
        lines = [*found.lines(), *notes]
        if task.run is not None and found.sure:
            why, hosts = f"incident {task.incident.id}", hosts_of(task.queue)
            listing = partial(put_under_suspicion, task.home, task.run, hosts, found, why, task.suspect_for)
            if thread := _begun(lambda _task, _seen: listing(), task, seen):
                thread.join(max(until + _LISTING - time.monotonic(), 0.0))
    except Exception:  # an internal error: the message goes out without it
        log.exception("evidence of %s", run)
        return event
    asides = [*event.notes, *([seen.closed] if seen.closed and not lines else [])]
    advice = event.advice or (event.incident.advice if event.incident else ())
    woken = continued(task, found, seen.nodes)
    if woken:  # whoever is stopped shows no stack
        advice = (*woken, *(each for each in advice if each.action != "stacks"))
    if not (stall.stacks or slow) and any(each.action == "stacks" for each in advice):
        asides.append(f'to have them taken at once next time: on_hang = ["stacks"] under [runs.{run}]')
    suspect = _named_first(found)
    measured = not slow or found.sources[:1] == (slow_suspects.GUARD,)
    summary = result.short if suspect and result.short and measured else event.summary
    more = [event.summary] if suspect else []
    details = "\n".join(filter(None, ["\n".join([*more, *lines]), event.details or result.details]))
    return replace(
        event, summary=summary, suspect=suspect, details=details, notes=tuple(asides), advice=tuple(advice)
    )


def continued(task: ActionTask, found: Suspicion, nodes: Iterable[NodeRanks]) -> tuple[Advice, ...]:
    """Return how to let the stopped processes among the culprits go on, on each of their nodes."""
    named = {(short(each.node), each.pid) for each in found.culprits if each.pid is not None}
    stopped = {
        node.node: pids
        for node in nodes
        if (
            pids := [
                str(each.pid)
                for each in node.processes
                if each.state.startswith("T") and (short(node.node), each.pid) in named
            ]
        )
    }
    if task.run is None or not stopped:
        return ()
    if task.run.backend == "process":
        return tuple(
            Advice(f"To let it go on, on {node}:", f"kill -CONT {' '.join(pids)}")
            for node, pids in stopped.items()
        )
    job = newest(task.queue)
    if task.run.backend != "slurm" or job is None:
        lets = (f"on {node}: kill -CONT {' '.join(pids)}" for node, pids in stopped.items())
        return (Advice(f"To let it go on, {'; '.join(lets)}."),)
    names = hosts_of(task.queue)
    within = f"srun --jobid={job.raw_id} --overlap --nodes=1 --ntasks=1 --nodelist="
    return tuple(
        Advice(
            as_owner("To let it go on", job),
            f"{within}{names.get(short(node), node)} kill -CONT {' '.join(pids)}",
        )
        for node, pids in stopped.items()
    )


def hosts_of(jobs: Iterable[Job]) -> dict[str, str]:
    """Return the nodes of the running jobs: short name → the batch system's name."""
    working = (node for job in jobs if job.working for node in slurmtext.expand_hostlist(job.nodes))
    return {short(node): node for node in working}


def put_under_suspicion(
    home: Home, run: Run, hosts: Mapping[str, str] | None, found: Suspicion, why: str, lasts: float
) -> None:
    """List culprits' nodes for the run's next jobs, if the evidence is strong and they are few.

    Only nodes in `hosts` are listed, by the batch system's names: it refuses a job that excludes an unknown
    node. None: the names are the batch system's own.
    """
    nodes = {short(each.node): each for each in reversed(found.culprits) if each.node}
    if not found.sure or len(nodes) > suspect_nodes.MOST or run.backend == "process":
        return
    for name, culprit in nodes.items():
        node = culprit.node if hosts is None else hosts.get(name, "")
        if not node:
            continue
        whom = "" if culprit.is_node else f"{replace(culprit, node='')} "
        reason = f"{why}: {whom}{culprit.said[0].what}"
        try:
            suspect_nodes.add(home, node, run.name, reason, lasts, by_hand=False)
        except (OSError, UsageError):
            log.exception("node %s is not listed", node)


def _named_first(found: Suspicion) -> str:
    """Return the suspects for the first line, which people believe: a weak suspicion goes below."""
    return found.words() if found.culprits and found.culprits[0].weight > (1, 1) else ""


# ------------------------------------------------------------------ asking


def _ask_nodes(task: ActionTask, seen: RunEvidence) -> None:
    if task.run:
        found = look_at(task.run, task.queue)
        seen.nodes, seen.silent, seen.closed = found.nodes, found.silent, found.closed


def look_at(run: Run, jobs: Sequence[Job]) -> RunEvidence:
    """Return what the nodes of the run's newest job report.

    They are asked through Slurm's launcher (a plain process: here); if that fails, from what the job's probe
    left in home.
    """
    job = newest(jobs)
    if job is None:
        return RunEvidence()
    if run.backend == "process":
        pids = [each.id for each in jobs if each.working and each.id]
        answer = command.ask(node_ranks.argv(["--below", *pids], _NODES - _STARTING), deadline=_NODES)
        ranks = node_ranks.read(answer.output)
        return RunEvidence((ranks,) if ranks else ())
    if run.backend == "slurm":
        whose = ["--job", job.raw_id, "--since", f"{job.started_at or 0.0:.0f}"]
        argv = node_ranks.argv(whose, _NODES - _STARTING)
        hosts = slurmtext.expand_hostlist(job.nodes)
        heard = node_steps.run_on_nodes(job.raw_id, hosts, argv, deadline=_NODES)
        if not heard.denied:
            answers = {node: node_ranks.read(text) for node, text in heard.texts.items()}
            partly = {node: "its answer broke off" for node, ranks in answers.items() if ranks is None}
            whole = tuple(ranks for ranks in answers.values() if ranks)
            return RunEvidence(whole, {} if heard.trouble else {**heard.silent, **partly})
    left = query_gpus(run, job, deadline=_NODES, now=time.time())
    nodes = tuple(NodeRanks(node.name, (), (), gpus=node.readout.gpus) for node in left.nodes)
    return RunEvidence(nodes, closed=left.closed)


def newest(jobs: Iterable[Job]) -> Job | None:
    """Return the working job that started last."""
    working = [job for job in jobs if job.working]
    return max(working, key=lambda job: job.started_at or 0.0, default=None)


def _has_guards(task: ActionTask) -> bool:
    """Return True if a Guard of the run sends heartbeats, or did."""
    return bool(_beat_files(task))


def _beat_files(task: ActionTask) -> list[str]:
    run = task.record.run
    inbox = switch_places.find_or_default(str(task.home.path), run, "kill").inbox
    return glob.glob(os.path.join(glob.escape(inbox), f"{file_name(run)}.beat.*"))


def _beats(task: ActionTask) -> Iterator[tuple[str, int]]:
    """Yield where the Guards with heartbeats run: others write nothing before they are asked."""
    for path in _beat_files(task):
        with contextlib.suppress(OSError, UnreadableError):
            beat = guard_heartbeat.read(read_head(path, _BEAT)[0].decode("utf-8", "replace"), 0.0)
            yield short(beat.host), beat.pid


def _ask_guards(task: ActionTask, seen: RunEvidence) -> None:
    """Ask the Guards, who write their stacks when asked."""
    home, run = str(task.home.path), task.record.run
    seen.beats = frozenset(_beats(task))
    job = newest(task.queue) if task.run and task.run.backend != "process" else None
    answers = stack_collection.ask(
        home, run, _GUARDS, lambda heard: heard == nccl_suspects.world(seen.nodes), job
    )
    seen.guards = answers.processes
