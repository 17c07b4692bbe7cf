"""Inquiry into who holds a run up, on its nodes and of its Guards, once a stall is confirmed.

It comes before the report, and only reads. All is asked at once; what has not come within PATIENCE is left
behind, and the message goes with what is there.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from watchdogd.batch import node_steps, slurmtext
from watchdogd.config import switch_places
from watchdogd.errors import UsageError, WatchdogError
from watchdogd.home import suspect_nodes
from watchdogd.home.layout import Home
from watchdogd.incidents.models import IncidentEvent
from watchdogd.plugin import SLOW, Job, Result, Run, Suspect
from watchdogd.probe import node_ranks
from watchdogd.probe.node_answers import query_gpus
from watchdogd.probe.node_ranks import NodeRanks
from watchdogd.remediation import suspects
from watchdogd.remediation.models import ActionTask
from watchdogd.remediation.suspects import Suspicion
from watchdogd.stacks import stack_collection
from watchdogd.stacks.stack_folding import Process
from watchdogd.system import command
from watchdogd.system.pathname import file_name

PATIENCE = 9.5
"""Seconds from the confirmation of a stall to its message, at most."""
MOST = 8
"""Runs that are asked about in one round: more that stall at once have one cause, which is none of theirs."""
_NODES, _GUARDS = 8.5, 8.0
_STARTING = 2.0
"""Seconds of a node's deadline that starting there and collecting may take."""

Attempt = Callable[[Callable[[], bool]], bool]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StallInquiry:
    """An event to be told of a run that stalls or is slow, what its check said, and what is known of the run.

    `stacks`: its `on_hang` takes stacks.
    """

    event: IncidentEvent
    result: Result
    task: ActionTask
    stacks: bool


@dataclass(slots=True)
class RunEvidence:
    """Evidence of one run; each part is set once, whole, by the thread that asks for it."""

    nodes: tuple[NodeRanks, ...] = ()
    silent: Mapping[str, str] = field(default_factory=dict)
    guards: tuple[Process, ...] = ()
    closed: str = ""

    def suspects(self, *, slow: bool = False) -> list[Suspect]:
        """Return whom all of it accuses of a stall, or of being `slow`."""
        if slow:
            return list(suspects.of_slow(self.nodes, self.guards))
        expected = {each.rank: node.node for node in self.nodes for each in node.processes}
        ranks = {rank: node for rank, node in expected.items() if rank is not None}
        return [
            *suspects.of_nodes(self.nodes, self.silent),
            *suspects.of_guards(self.guards, ranks),
        ]


def with_evidence(
    stalls: Sequence[StallInquiry],
    events: Iterable[IncidentEvent],
    attempt: Attempt = lambda function: function(),
) -> tuple[IncidentEvent, ...]:
    """Return the events, those of `stalls` with whom the evidence names, after PATIENCE seconds at most.

    Beyond MOST runs nobody is asked: what their checks said is all that is known of them. `attempt` runs a
    look at home within a deadline.
    """
    until = time.monotonic() + PATIENCE
    seen = {stall.task.record.run: RunEvidence() for stall in stalls}
    asked = dict(islice({stall.task.record.run: stall.task for stall in stalls}.items(), MOST))
    threads = [
        thread
        for run, task in asked.items()
        for ask in _ways(task, attempt)
        if (thread := _begun(ask, task, seen[run]))
    ]
    for thread in threads:
        thread.join(max(until - time.monotonic(), 0.0))
    named = {id(stall.event): _named(stall, seen[stall.task.record.run]) for stall in stalls}
    return tuple(named.get(id(event), event) for event in events)


def _ways(task: ActionTask, attempt: Attempt) -> Iterator[Callable[[ActionTask, RunEvidence], None]]:
    """Yield how a run is asked about: the message waits for a thread each."""
    if any(job.working for job in task.queue):
        yield _ask_nodes
    with contextlib.suppress(WatchdogError, OSError):  # home may be gone, and what Guards write with it
        if attempt(partial(_has_guards, task)):
            yield _ask_guards


def _begun(
    ask: Callable[[ActionTask, RunEvidence], None], task: ActionTask, seen: RunEvidence
) -> threading.Thread | None:
    """Begin on a thread that is left behind where it hangs; None where there is none to be had."""

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


def _named(stall: StallInquiry, seen: RunEvidence) -> IncidentEvent:
    """Name the suspect, which the first line keeps, and put what is known of it below."""
    event, result, task, run = stall.event, stall.result, stall.task, stall.task.record.run
    slow = result.kind == SLOW
    try:
        found = suspects.merge([*result.suspects, *seen.suspects(slow=slow)])
        lines = [*found.lines(), *([] if slow else suspects.notes(seen.nodes))]
        if task.run is not None:
            why = f"incident {task.incident.id}"
            put_under_suspicion(task.home, task.run, found, why, task.suspect_for)
    except Exception:  # a fault of ours: the message goes without it
        log.exception("evidence of %s", run)
        return event
    notes = [*event.notes, *([seen.closed] if seen.closed and not lines else [])]
    if not (stall.stacks or slow):
        notes.append(
            f'stacks of its ranks: on_hang = ["stacks"] under [runs.{run}], or: watchdogd stacks {run}'
        )
    suspect = _named_first(found)
    summary = result.short if suspect and result.short else event.summary
    more = [event.summary] if suspect else []
    details = "\n".join(filter(None, ["\n".join([*more, *lines]), event.details or result.details]))
    return replace(event, summary=summary, suspect=suspect, details=details, notes=tuple(notes))


def put_under_suspicion(home: Home, run: Run, found: Suspicion, why: str, lasts: float) -> None:
    """List the nodes of culprits for the run's next jobs, where the evidence is strong and they are few."""
    nodes = {each.node: each for each in reversed(found.culprits) if each.node}
    if not found.sure or len(nodes) > suspect_nodes.MOST or run.backend == "process":
        return
    for node, culprit in nodes.items():
        reason = f"{why}: {culprit} {culprit.said[0].what}"
        try:
            suspect_nodes.add(home, node, run.name, reason, lasts, by_hand=False)
        except (OSError, UsageError):
            log.exception("node %s is not listed", node)


def _named_first(found: Suspicion) -> str:
    """Return whom the first line names; a weak suspicion alone stands below: the first line is believed."""
    return found.words() if found.culprits and found.culprits[0].weight > (1, 1) else ""


# ------------------------------------------------------------------ asking


def _ask_nodes(task: ActionTask, seen: RunEvidence) -> None:
    if task.run:
        found = look_at(task.run, task.queue)
        seen.nodes, seen.silent, seen.closed = found.nodes, found.silent, found.closed


def look_at(run: Run, jobs: Sequence[Job]) -> RunEvidence:
    """Return what the nodes of its newest job say.

    Asked through Slurm's launcher, here for plain processes; else what the job's probe left in home.
    """
    working = [job for job in jobs if job.working]
    if not working:
        return RunEvidence()
    if run.backend == "process":
        pids = [job.id for job in working if job.id]
        answer = command.ask(node_ranks.argv(["--below", *pids], _NODES - _STARTING), deadline=_NODES)
        ranks = node_ranks.read(answer.output)
        return RunEvidence((ranks,) if ranks else ())
    job = max(working, key=lambda job: job.started_at or 0.0)
    if run.backend == "slurm":
        whose = ["--job", job.raw_id, "--since", f"{job.started_at or 0.0:.0f}"]
        argv = node_ranks.argv(whose, _NODES - _STARTING)
        hosts = slurmtext.expand_hostlist(job.nodes)
        heard = node_steps.run_on_nodes(job.raw_id, hosts, argv, deadline=_NODES)
        if not heard.denied:
            answers = [ranks for text in heard.texts.values() if (ranks := node_ranks.read(text))]
            return RunEvidence(tuple(answers), {} if heard.trouble else heard.silent)
    left = query_gpus(run, job, deadline=_NODES, now=time.time())
    nodes = tuple(NodeRanks(node.name, (), (), gpus=node.readout.gpus) for node in left.nodes)
    return RunEvidence(nodes, closed=left.closed)


def _has_guards(task: ActionTask) -> bool:
    """Return whether a Guard of the run beats, or did."""
    run = task.record.run
    inbox = switch_places.find_or_default(str(task.home.path), run, "kill").inbox
    return bool(glob.glob(os.path.join(glob.escape(inbox), f"{file_name(run)}.beat.*")))


def _ask_guards(task: ActionTask, seen: RunEvidence) -> None:
    """Ask the Guards, who write when they are asked."""
    home, run = str(task.home.path), task.record.run
    answers = stack_collection.ask(home, run, _GUARDS, lambda heard: heard == suspects.world(seen.nodes))
    seen.guards = answers.processes
