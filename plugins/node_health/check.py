"""node_health: nodes of the run stay in service, and the partition has spare ones.

A draining node does not end a job, but the next one will not start there: it is reported with the
administrators' reason. "Kill task failed" is mostly a healthy node whose processes were slow to die; the
message then says so, with the command that an administrator would use.

Nodes that failed under more than one job of the run (NODE_FAIL, BOOT_FAIL), and under which none has ended
well since, are candidates for `--exclude`, ready to paste; if that is most of the nodes, the job itself is to
blame. With `min_idle` (a number or a percentage) a lack of spare nodes in the partition is reported before
the run needs one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from watchdogd.batch import sinfo, slurmtext
from watchdogd.batch.models import Ending
from watchdogd.batch.run_models import SURE
from watchdogd.batch.sinfo import SlurmNode
from watchdogd.checks import node_checks
from watchdogd.checks.working_job import as_owner
from watchdogd.errors import UnreadableError
from watchdogd.plugin import (
    Advice,
    AmountField,
    Duration,
    Metric,
    Result,
    Run,
    Snapshot,
    Status,
    Suspect,
    check,
    ok,
    unknown,
    warning,
)
from watchdogd.system import command
from watchdogd.system.text import nearest
from watchdogd.units import age

_OF_NODES = frozenset({"NODE_FAIL", "BOOT_FAIL"})
_FINE = frozenset({"COMPLETED", "TIMEOUT"})
_KEPT, _KEPT_FOR = 200, 7 * 86400.0
"""How many ends of jobs are remembered, and for how many seconds."""


@dataclass(frozen=True, slots=True)
class JobAttempt:
    """End of a job's attempt: when, on which nodes, whether these are to blame, and how, in words.

    `verdict`: 1 to blame, 0 maybe, -1 cleared.
    """

    at: float
    nodes: tuple[str, ...]
    verdict: int
    how: str = ""


Attempts = dict[str, JobAttempt]


@dataclass(frozen=True, slots=True)
class SuspectNode:
    """Node on which more than one job failed and none has ended well since; `jobs` in words."""

    node: str
    jobs: tuple[str, ...]


def add_endings(
    attempts: Attempts, endings: Sequence[Ending], broken: Collection[str], now: float
) -> Attempts:
    """Add the jobs that ended since; `broken` are nodes that are down, silent or drained now.

    A node failure is blamed on those of the job's nodes that are broken; if none is, it may be any of them.
    Failures by code or disk do not count here: job_liveness reads why a job failed, and names a node then.
    """
    known = {key: entry for key, entry in attempts.items() if now - entry.at < _KEPT_FOR}
    for ending in endings:
        key = f"{ending.raw_id}@{ending.ended_at or 0.0:.0f}"
        nodes = slurmtext.expand_hostlist(ending.nodes)
        if key in known or not nodes or ending.ended_at is None or now - ending.ended_at >= _KEPT_FOR:
            continue
        if ending.state in _OF_NODES:
            guilty = [node for node in nodes if node in broken]
            sure = bool(guilty) or len(nodes) == 1
            blamed = tuple(guilty or nodes)
            known[key] = JobAttempt(ending.ended_at, blamed, int(sure), f"{ending.id} {ending.how}")
        elif ending.state in _FINE:
            known[key] = JobAttempt(ending.ended_at, tuple(nodes), -1)
    return dict(sorted(known.items(), key=lambda item: item[1].at)[-_KEPT:])


def suspect_nodes(attempts: Mapping[str, JobAttempt]) -> tuple[SuspectNode, ...]:
    """Return the nodes on which more than one job failed.

    If any node of a job may be to blame, suspects must stand out: if most nodes failed, it is the job.
    """
    failed: dict[str, list[str]] = defaultdict(list)
    sure: dict[str, int] = defaultdict(int)
    seen: set[str] = set()
    for attempt in sorted(attempts.values(), key=lambda entry: entry.at):
        for node in attempt.nodes:
            seen.add(node)
            if attempt.verdict < 0:
                failed.pop(node, None)
                sure.pop(node, None)
            else:
                failed[node].append(attempt.how)
                sure[node] += attempt.verdict
    often = [node for node, jobs in failed.items() if len(jobs) > 1]
    stand_out = len(often) == 1 or 2 * len(often) <= len(seen)
    named = sorted(node for node in often if stand_out or sure[node] > 1)
    return tuple(SuspectNode(node, tuple(failed[node])) for node in named)


@dataclass(slots=True)
class NodeHealthState:
    """Ends of jobs, by name and attempt, and what is `recovering` (see node_checks.recoveries)."""

    endings: dict[str, Attempts] = field(default_factory=dict)
    recovering: dict[str, int] = field(default_factory=dict)


@check(every="10m", timeout="45s")
def node_health(
    run: Run | None,
    snapshot: Snapshot,
    state: NodeHealthState,
    partition: str = "",
    min_idle: AmountField | None = None,
    deadline: Duration = 30.0,
) -> Iterator[Result | NodeHealthState]:
    """Nodes of the run stay in service, and the partition has spare ones.

    partition: partition whose idle nodes count; default: all partitions
    min_idle: WARNING if fewer nodes are idle: a number, or per cent of the partition; default: not judged
    deadline: seconds for asking Slurm
    """
    env, mark = command.environment(slurmtext.ENVIRONMENT), slurmtext.mark()
    words = ("sinfo", "--noheader", "--all", "--Node", f"--format={sinfo.form(mark)}")
    answer = command.ask(words, deadline=deadline, env=env)
    if not answer.ok:
        yield unknown(f"the nodes are not known: {answer.complaint()}").saying(advice=node_checks.ASK_SLURM)
        return
    try:
        nodes = sinfo.read(answer.output, mark)
    except UnreadableError as error:
        yield unknown(f"the nodes are not known: {error}").saying(advice=node_checks.ASK_NODES)
        return
    if not nodes:
        none = unknown("the nodes are not known: sinfo printed none")
        yield none.saying(advice=node_checks.ASK_NODES)
        return
    yield spares(nodes, partition, min_idle)
    results = [*of_jobs(nodes, run, snapshot), *to_exclude(nodes, run, snapshot, state)]
    yield from _remembered(results, state, snapshot.jobs is not None)
    yield state


def spares(nodes: Sequence[SlurmNode], partition: str, wanted: AmountField | None) -> Result:
    """Report how many nodes are idle, and which ones administrators could return to service."""
    known = sorted({node.partition for node in nodes})
    if partition and partition not in known:
        told = unknown(f"there is no partition '{partition}'{nearest(partition, known)}")
        return told.saying(advice=[Advice("Correct partition of node_health in config.toml.")])
    inside = {node.name: node for node in nodes if not partition or node.partition == partition}
    idle = [node for node in inside.values() if node.spare]
    out = [node for node in inside.values() if node.drained or node.down]
    where = f" of {len(inside)} nodes{f' in {partition}' if partition else ''}"
    line = f"{len(idle)}{where} {'is' if len(idle) == 1 else 'are'} idle"
    line += f", {len(out)} out of service" if out else ""
    limit = None if wanted is None else wanted.of(len(inside))
    short = limit is not None and len(idle) < limit
    if short:
        here = f" in partition {partition}" if partition else ""
        line = f"only {len(idle)} spare node{'s' * (len(idle) != 1)}{here}, {limit:g} wanted"
        line += f", {len(out)} out of service" if out else ""
    details = "\n".join([*map(_words, out[:50]), *_give_back(out)])
    result = warning if short else ok
    told = result(line, details=details, idle=Metric(len(idle), warn=limit), out_of_service=len(out))
    asked = Advice("Ask the administrators when those out of service come back, or ask for fewer nodes.")
    return told.saying(advice=[asked]) if short else told.ending("spare nodes again", line)


def of_jobs(nodes: Sequence[SlurmNode], run: Run | None, snapshot: Snapshot) -> Iterator[Result]:
    """Report problems of nodes with jobs of the run (without a run, of all watched users)."""
    jobs = (snapshot.jobs or ()) if run is None else snapshot.of(run.job_name)
    users = {
        name: job
        for job in jobs
        if job.working and not job.own and (not snapshot.users or job.user in snapshot.users)
        for name in slurmtext.expand_hostlist(job.nodes)
    }
    for name, node in {node.name: node for node in nodes if node.name in users}.items():
        job = users[name]
        details = "\n".join(_give_back([node]))
        if node.down:
            told = Result(Status.CRITICAL, _words(node, snapshot.taken_at), subject=name, details=details)
            fact = f"job {job.id} ({job.name}) still occupies it"
            advice = Advice(
                as_owner(f"If job {job.id} makes no progress, restart it", job),
                f"scontrol requeue {job.handle}",
            )
        elif node.drained or node.silent:
            told = Result(Status.WARNING, _words(node, snapshot.taken_at), subject=name, details=details)
            fact = f"job {job.id} ({job.name}) runs on, no other starts there"
            advice = Advice(
                f"Nothing, while job {job.id} makes progress: Slurm starts no other job on {name}."
            )
        else:
            continue
        told = told.saying(fact, advice=[advice])
        yield told if node.since is None else told.dated(node.since)


def to_exclude(
    nodes: Sequence[SlurmNode], run: Run | None, snapshot: Snapshot, state: NodeHealthState
) -> Iterator[Result]:
    """Report nodes on which several jobs of the run failed (without a run, jobs of any one name)."""
    broken = {node.name for node in nodes if node.down or node.drained or node.silent}
    attempts_by_name = state.endings
    names = {run.job_name} if run else {end.name for end in snapshot.endings or () if not end.own}
    for name in names:
        tried = [end for end in snapshot.attempts if end.name == name and not end.own]
        ends = [*snapshot.ended(name), *tried]
        attempts_by_name[name] = add_endings(attempts_by_name.get(name, {}), ends, broken, snapshot.taken_at)
    for name in [name for name, attempts in attempts_by_name.items() if not attempts]:
        del attempts_by_name[name]
    for name, attempts in attempts_by_name.items():
        found = suspect_nodes(attempts)
        if found:
            yield _exclusion(run.name if run else name, found, "exclude" if run else f"exclude {name}")


def _exclusion(name: str, found: Sequence[SuspectNode], subject: str) -> Result:
    nodes = ",".join(suspect.node for suspect in found)
    line = f"more than one job failed on each of {', '.join(suspect.node for suspect in found[:5])}"
    if len(found) == 1:
        line = f"{len(found[0].jobs)} jobs failed on {found[0].node}: {', '.join(found[0].jobs[-3:])}"
    details = "\n".join(f"{suspect.node}: {', '.join(suspect.jobs)}" for suspect in found)
    suspects = tuple(Suspect("job", f"failed under {each.jobs[-1]}", SURE, node=each.node) for each in found)
    told = warning(line, subject=subject, details=details)
    return replace(told, suspects=suspects).saying(f"jobs of {name}", advice=[node_checks.leave_out(nodes)])


_FRESH = 60.0
"""Seconds for which a node's state is too new to say how long it has been so."""


def _words(node: SlurmNode, now: float | None = None) -> str:
    """Return a node in words: `node5: drained by root: bad DIMM`."""
    state = f"{node.state}, does not answer" if node.silent else node.state
    if now is not None and node.since is not None and now - node.since >= _FRESH and not node.silent:
        state += f" for {age(now - node.since)}"
    by = f" by {node.by}" if node.by and node.reason else ""
    why = f": {node.reason}" if node.reason else ""
    mild = " (mostly a healthy node: a process was slow to die)" if node.kill_failed else ""
    return f"{node.name}: {state}{by}{why}{mild}"


def _give_back(nodes: Sequence[SlurmNode]) -> list[str]:
    """Return the command that returns nodes to service that were drained because a process died slowly."""
    names = [node.name for node in nodes if node.kill_failed]
    if not names:
        return []
    return [
        "where no process of the job is left there, an administrator can take it back:",
        f"scontrol update NodeName={','.join(names)} State=RESUME",
    ]


def _remembered(found: Sequence[Result], state: NodeHealthState, certain: bool) -> Iterator[Result]:
    """Add OK for what was reported before; nothing if the queue is not known."""
    bad = {result.subject: result for result in found}
    yield from bad.values()
    if certain:
        yield from node_checks.recoveries(state.recovering, found, words="is healthy again")
