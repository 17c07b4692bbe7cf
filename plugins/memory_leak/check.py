"""memory_leak: memory left to the run on each of its nodes, and when it will be used up.

The limit is the one at which the kernel would kill: that of the job's control group if it has one, else the
node's memory. Less than `memory_free` left is CRITICAL, since it is measured; the forecast below is a
WARNING.

A leak is a trend of **anonymous** memory that would use up what is left within `used_up_within`. Page cache
and mapped files do not count; shared segments count once, however many processes map them. Memory that rises
and falls with garbage collection or evaluation is no leak: the trend is that of the low points since the job
warmed up. The processes that hold most are named.

On nodes without GPUs, processors as busy as while the run made progress are a weak sign that it works.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from watchdogd.batch import commands
from watchdogd.checks import node_checks
from watchdogd.checks.node_checks import NodeCheckState, lasting, smoothed
from watchdogd.checks.trend import filling_rate, time_to_full
from watchdogd.checks.working_job import as_owner, running
from watchdogd.parsers.probe_sample import Cpu, JobProcess, NodeMemory
from watchdogd.plugin import (
    Advice,
    Amount,
    AmountField,
    Chart,
    Column,
    Duration,
    History,
    Job,
    Metric,
    Result,
    Run,
    Sign,
    Snapshot,
    Status,
    Strength,
    check,
    critical,
    ok,
    unknown,
    warning,
)
from watchdogd.probe.node_answers import look
from watchdogd.units import age, format_size

CPU_SIGN = "cpu"
LIKE, FALLEN = 0.7, 0.1
"""Shares of the processor time used while the run reported progress: above the first it may work, below the
second it does not. A weak sign: a loop that waits uses processors too, especially one that waits for GPUs."""
LEAST = 0.1
"""Processors that must have been busy then; fewer mean nothing."""
ASLEEP = 0.01
"""Processors busy in all if everything waits."""
_NEW = 0.1
"""Weight of the newest reading in the usual processor time."""


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Processor time of a run's processes: `spent` on each node so far, and when (seconds).

    `usual`: how many processors were busy on average while the run reported progress; and the last sign.
    """

    spent: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    usual: float | None = None
    sign: Sign | None = None

    @property
    def signs(self) -> tuple[Sign, ...]:
        """Sign of work, or against it, if there is one."""
        return (self.sign,) if self.sign else ()


def advance_cpu(before: CpuUse, spent: Mapping[str, Cpu], now: float, *, gets_on: bool) -> CpuUse:
    """Add what its processes did since the last look (`spent`: seconds by node).

    `gets_on`: the run reports progress now.
    """
    past = before.spent
    newer = {node: cpu for node, cpu in spent.items() if node not in past or cpu.at > past[node][1]}
    if not newer:
        return before
    after = replace(before, spent={node: (cpu.seconds, cpu.at) for node, cpu in spent.items()}, sign=None)
    pairs = [(cpu, *past[node]) for node, cpu in newer.items() if node in past]
    rates = [(cpu.seconds - seconds) / (cpu.at - at) for cpu, seconds, at in pairs]
    known = [
        rate for rate in rates if rate >= 0.0
    ]  # less than before: another job, or some processes have ended
    if not known:
        return after
    busy = sum(known) / len(known) * len(spent)
    if gets_on:
        after = replace(after, usual=smoothed(before.usual, busy, _NEW))
    found = _said(busy, after.usual or 0.0, waits=any(cpu.gpus for cpu in spent.values()))
    if found is None:
        return after
    strength, what = found
    return replace(after, sign=lasting(before.sign, Sign(CPU_SIGN, what, now, now, strength)))


def _said(busy: float, usual: float, *, waits: bool) -> tuple[Strength, str] | None:
    past = f", {usual:.1f} while it got on" if usual >= LEAST else ""
    if busy < ASLEEP or (past and busy < FALLEN * usual):
        return Strength.AGAINST, f"its processes keep {busy:.2f} processors busy{past}"
    if past and not waits and busy >= LIKE * usual:
        return Strength.WEAK, f"its processes keep {busy:.1f} processors busy{past}"
    return None


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Memory that should be left; seconds within which no trend may use it up; seconds of warm-up."""

    free: Amount
    used_up_within: float
    warm_up: float


@dataclass(slots=True)
class LeakState(NodeCheckState):
    """State of this check, with the processor time of the run's processes."""

    cpu: CpuUse = field(default_factory=CpuUse)


def _rejudge(subject: str, numbers: Mapping[str, float], parameters: Mapping[str, Any]) -> Result | None:
    """Judge recorded memory by the present `memory_free`, if that is a size: no total is recorded."""
    free: Amount = parameters["memory_free"]
    if "left" not in numbers or free.absolute is None:
        return None
    result = critical if numbers["left"] < free.absolute else ok
    return result(
        f"{subject}: {format_size(numbers['left'])} memory left, {format_size(free.absolute)} wanted"
    )


@check(
    every="1m",
    timeout="60s",
    follows=("job_liveness",),
    remembers="1d",
    rejudge=_rejudge,
    watches="run",
    needs="memory_free",
    triggers=("on_memory",),
    columns=(Column("mem left", right=True, order=60),),
    charts=(
        Chart("left", "memory left on each node", "B", group="Memory"),
        Chart("anonymous", "memory held by processes", "B", group="Memory"),
    ),
    trend="left",
)
def memory_leak(
    run: Run,
    snapshot: Snapshot,
    state: LeakState,
    history: History,
    now: float,
    memory_free: AmountField,
    used_up_within: Duration = 6 * 3600.0,
    warm_up: Duration = 1800.0,
    deadline: Duration = 40.0,
) -> Iterator[Result | LeakState]:
    """Memory left to the run on each of its nodes, and when it will be used up.

    memory_free: CRITICAL if less is left to the job's control group, or on the node: a size or per cent
    used_up_within: WARNING if the trend of anonymous memory uses up what is left sooner
    warm_up: start of a job, in which memory fills anyway; a trend is judged over at least as long
    deadline: seconds for asking all nodes
    """
    limits = MemoryLimits(memory_free, used_up_within, warm_up)
    found = list(_judged(run, snapshot, history, state, limits, now, deadline))
    yield from found
    if found[0].status is not Status.UNKNOWN:
        yield from node_checks.recoveries(state.recovering, found, words="is left by the run", quiet=True)
    yield state


def _judged(
    run: Run,
    snapshot: Snapshot,
    history: History,
    state: LeakState,
    limits: MemoryLimits,
    now: float,
    deadline: float,
) -> Iterator[Result]:
    jobs = running(run, snapshot)
    if bar := node_checks.nothing_to_judge(snapshot, jobs):
        yield bar
        return
    seen = look(run, jobs, deadline=deadline, now=now)
    if seen.closed:
        yield from node_checks.no_access(run.name, "its memory", seen.closed, reported=state.reported)
        state.reported = True
        return
    held_by = {node: usage.memory for node, usage in seen.told.items() if usage.memory is not None}
    spent = {node: usage.cpu for node, usage in seen.told.items() if usage.cpu is not None}
    gets_on = run.progress is not None and run.progress.recent(now)
    state.cpu = advance_cpu(state.cpu, spent, now, gets_on=gets_on)
    told = node_checks.for_backend(whole(held_by, seen.trouble), run.backend)
    yield replace(told, signs=state.cpu.signs)
    since = max(job.started_at or 0.0 for job in jobs) + limits.warm_up
    helps = relief(run, jobs)
    for node, held in held_by.items():
        past = [point for point in history.series("anonymous", node) if point[0] >= since]
        yield judge(node, held, limits, [*past, (now, held.anonymous)], helps)
    yield from node_checks.silent(run, "its memory is", seen.silent)


def whole(nodes: Mapping[str, NodeMemory], trouble: str = "") -> Result:
    """Report the node with the least memory left; `trouble` says why no node could be asked."""
    if not nodes:
        why = f": {trouble}" if trouble else ", no node answers"
        return unknown(f"its memory is not known{why}").saying(advice=node_checks.ASK_NODES)
    node, least = min(nodes.items(), key=lambda item: item[1].left / max(item[1].total, 1.0))
    count = f"{len(nodes)} node{'' if len(nodes) == 1 else 's'}"
    summary = ok(f"{count}; least is left on {_left(node, least)}")
    return replace(summary, cells={"mem left": format_size(least.left)})


def judge(
    node: str,
    held: NodeMemory,
    limits: MemoryLimits,
    points: Sequence[tuple[float, float]],
    helps: Sequence[Advice] = (),
) -> Result:
    """Judge one node: what is left, and the trend of `points` (time, bytes held), oldest first."""
    free = limits.free.of(held.total)
    holders = "\n".join(map(_named, held.processes))
    details = holders if len(held.processes) > _NAMED else ""
    figures = {
        "left": Metric(round(held.left), "B", crit=round(free)),
        "anonymous": Metric(round(held.anonymous), "B"),
    }
    line = f"{_left(node, held)} ({held.pool}), its processes hold {format_size(held.anonymous)}"
    if held.left < free:
        told = critical(_left(node, held), subject=node, details=details, **figures).triggers("on_memory")
        return told.saying(line, f"less than memory_free = {format_size(free)}{_most(held)}", advice=helps)
    long = points[-1][0] - points[0][0] >= limits.warm_up
    rate = filling_rate(points, held.left) if long else None
    until = time_to_full(held.left, rate, points)
    if rate and until is not None and until <= limits.used_up_within:
        speed = f"{format_size(rate * 3600)} an hour more"
        text = f"{node}: memory will run out in {age(until)}, {format_size(held.left)} left"
        return warning(text, subject=node, details=details, **figures).saying(
            line, f"{speed}{_most(held)}", advice=helps
        )
    fine = ok(line, subject=node, details=holders, **figures)
    return fine.ending(f"{node}: enough memory again", f"{format_size(held.left)} left")


_NAMED = 3
"""Processes that are named beside what is short; if there are more, all are evidence."""


def relief(run: Run, jobs: Sequence[Job]) -> tuple[Advice, ...]:
    """Return how to save and restart a run before the kernel ends it."""
    save = f"watchdogd save-switch {shlex.quote(run.name)}"
    again, requeue = "To restart it before the kernel ends it", commands.of(run.backend).requeue
    number = shlex.quote(jobs[0].handle)
    return (
        Advice("To have it save a checkpoint first:", save, "save-switch"),
        Advice(as_owner(again, jobs[0]), requeue.format(id=number), "requeue")
        if requeue
        else Advice("Restart it before the kernel ends it."),
        Advice("Fewer workers of its data loaders hold less memory."),
    )


def _left(node: str, held: NodeMemory) -> str:
    return f"{node}: {format_size(held.left)} of {format_size(held.total)} memory left"


def _most(held: NodeMemory) -> str:
    """Return which processes hold most."""
    named = [_named(each) for each in held.processes[:_NAMED]]
    return f"; most is held by {', '.join(named)}" if named else ""


def _named(process: JobProcess) -> str:
    return f"{process.command}[{process.pid}] {format_size(process.anonymous)}"
