"""gpu_health: GPUs of the run's job are all present, healthy, cool, and working.

All nodes of the run's job are asked at once through Slurm's own launcher, by a step that takes no GPU from
the job, with one deadline for all; a node that does not answer is named. Slurm starts steps only for the
owner of a job: for a colleague's run, the samples that `watchdogd probe` left in home are read instead. The
tool is whichever is installed, rocm-smi, amd-smi or nvidia-smi, in old and new versions.

Missing GPUs and a driver that is not loaded are CRITICAL. Of memory errors only an increase of the
uncorrectable ones counts: totals are over the card's whole life, and correctable errors are harmless. Pending
remaps are a WARNING, failed ones CRITICAL. What NVIDIA's driver asks for is reported (a reset or reboot is
CRITICAL, a drain a WARNING), and so is an unhealthy NVLink fabric. A GPU that was bad before is recognised by
its UUID when a new job gets it.

The figures of all GPUs together, and of each node (the first 64, and those with a problem), are recorded; the
page shows them as charts.

The sign of a **hung collective** is GPUs that report 100 % at a power near idle: they spin, waiting for
others. The GPUs at 0 % are the ones that are waited for, and are named first. "Near idle" means a share of a
card's power cap, what the job's quiet GPUs draw, or far less than the GPU itself drew while it worked. It is
no hang as long as the run's steps come in their usual rhythm: ranks may wait for a rollout, or for another
job. Neither a hang nor idle GPUs are reported in a phase in which the run's log may be silent: while it loads
or saves a checkpoint, or its checkpoints grow. GPUs that draw as much as while the run made progress are a
sign that it works, even if its log is silent.

A GPU of which neither temperature nor power nor clock can be read counts as broken if its neighbours of the
same kind can be read, or if it could be read before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from watchdogd.batch.run_models import SURE
from watchdogd.checks import node_checks
from watchdogd.checks.working_job import running
from watchdogd.parsers.gpu.kernel_log import DriverEvent
from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.plugin import (
    Advice,
    Chart,
    Column,
    Duration,
    Job,
    Metric,
    Percent,
    Result,
    Run,
    Snapshot,
    Status,
    Suspect,
    check,
    unknown,
)
from watchdogd.plugins.gpu_health import activity, faults, standstill
from watchdogd.plugins.gpu_health.activity import GpuActivity, NamedGpu
from watchdogd.plugins.gpu_health.faults import Fault, GpuLimits, without_sensors
from watchdogd.plugins.gpu_health.gpu_state import GpuHealthState
from watchdogd.plugins.gpu_health.standstill import Patience, describe_gpu, gpus_cell, metrics_of, spreads
from watchdogd.probe.node_answers import GpuSurvey, query_gpus

_RECORDED = 64
"""How many nodes have their own figures recorded (four numbers each every two minutes), however large the
job."""


@check(
    every="2m",
    timeout="60s",
    follows=("job_liveness",),
    after=("log_staleness",),
    watches="run",
    needs="gpus_per_node",
    triggers=("on_hang",),
    columns=(Column("GPUs", order=50),),
    charts=(
        Chart("utilisation", "GPU utilisation of each node", "%", group="GPUs"),
        Chart("power", "GPU power of each node", "W", group="GPUs"),
        Chart("temperature", "temperature of each node's hottest GPU", "°C", group="GPUs"),
        Chart("vram", "memory used of each node's fullest GPU", "%", group="GPUs"),
        Chart("gpus", "GPUs that answer", group="GPUs"),
    ),
)
def gpu_health(
    run: Run,
    snapshot: Snapshot,
    state: GpuHealthState,
    now: float,
    gpus_per_node: int | None = None,
    vram_warn: Percent | None = None,
    vram_crit: Percent | None = None,
    temperature_warn: float | None = None,
    temperature_crit: float | None = None,
    power_warn: float | None = None,
    power_crit: float | None = None,
    hang_after: Duration = 600.0,
    idle_after: Duration = 900.0,
    recalled_for: Duration = 3600.0,
    deadline: Duration = 45.0,
) -> Iterator[Result | GpuHealthState]:
    """GPUs of the run's job are all present, healthy, cool, and working.

    gpus_per_node: GPUs that each node of the job should have
    vram_warn: per cent of a GPU's memory in use; default: not judged, since trainings fill it
    vram_crit: the same, for CRITICAL
    temperature_warn: degrees Celsius; default: the temperature at which the card slows itself down
    temperature_crit: the same, for CRITICAL
    power_warn: watts of one GPU; default: not judged
    power_crit: the same, for CRITICAL
    hang_after: how long a hung collective may last before it is CRITICAL
    idle_after: how long GPUs may do nothing while the job runs
    recalled_for: for how long after a new job's start GPUs that were bad in an earlier one are mentioned
    deadline: seconds for asking all nodes
    """
    limits = GpuLimits(
        gpus_per_node,
        vram_warn,
        vram_crit,
        temperature_warn,
        temperature_crit,
        power_warn,
        power_crit,
    )
    patience = Patience(hang_after, idle_after, recalled_for)
    yield from _judged(run, snapshot, state, limits, patience, now, deadline)
    yield state


def _judged(
    run: Run,
    snapshot: Snapshot,
    state: GpuHealthState,
    limits: GpuLimits,
    patience: Patience,
    now: float,
    deadline: float,
) -> Iterator[Result]:
    jobs = running(run, snapshot)
    if bar := node_checks.nothing_to_judge(snapshot, jobs):
        state.rest()
        yield bar
        if bar.status is Status.OK:
            yield from standstill.over(
                node_checks.recoveries(state.recovering, (), words="belongs to no job", quiet=True)
            )
        return
    job = jobs[0]
    state.begin(job.raw_id, job.started_at or 0.0, now)
    seen = query_gpus(run, job, deadline=deadline, now=now, skip=state.resting(now))
    if seen.closed:
        yield from node_checks.no_access(run.name, "its GPUs", seen.closed, reported=state.reported)
        state.reported = True
        return
    state.heard(seen.nodes, now)
    yield from judge(seen, state, limits, patience, job, run, now)


def judge(
    seen: GpuSurvey,
    state: GpuHealthState,
    limits: GpuLimits,
    patience: Patience,
    job: Job,
    run: Run,
    now: float,
) -> Iterator[Result]:
    """Judge one look at the GPUs, the job as a whole first. Changes only `state`."""
    silent = {node.name for node in seen.nodes if node.trouble} | set(state.silent)
    nodes = [node for node in seen.nodes if not node.trouble]
    since = (job.started_at or now) - 60.0
    if not nodes:
        troubles = [f"{node.name}: {node.trouble}" for node in (*seen.nodes, *state.unheard(seen.nodes))]
        why = seen.trouble or "; ".join(troubles[:3])
        yield unknown(f"its GPUs cannot be read: {why}").saying(advice=_unread(run, seen.nodes))
        broken = [
            each for each in _of_nodes(seen.nodes, state, limits, since) if each.status is Status.CRITICAL
        ]
        node_checks.recoveries(state.recovering, broken, hidden=set(state.recovering))
        yield from broken
        return
    for node in nodes:
        state.seen(node)
    gpus = [NamedGpu(f"{node.name}/{gpu.label}", gpu) for node in nodes for gpu in node.readout.gpus]
    muted = without_sensors(gpus, frozenset(state.read))
    state.read = sorted({*state.read, *(each.name for each in gpus if not each.gpu.mute)})
    moment = activity.classify(gpus, frozenset(state.used), state.power)
    state.worked([each.name for each in (*moment.busy, *moment.waiting)], moment.drawn)
    known = [*nodes, *state.unheard(seen.nodes)]
    known += [node for node in seen.nodes if node.trouble and node not in known]
    results = [
        *_of_nodes(known, state, limits, since),
        *(result for node in nodes for result in _of_gpus(node, state, limits, patience, muted, since, now)),
        *standstill.results(moment, gpus, state, patience, run, now),
    ]
    gets_on = run.progress is not None and run.progress.recent(now)
    signs = activity.work_signs(gpus, moment, state, now, gets_on=gets_on)
    yield replace(_whole(gpus, moment, len(nodes), silent, limits), signs=signs)
    results = [_advised(each, run, known) for each in results]
    hidden = {subject for subject in state.recovering if subject.partition("/")[0] in silent}
    results += standstill.over(
        node_checks.recoveries(state.recovering, results, words="is healthy again", hidden=hidden)
    )
    yield from _with_nodes(results, nodes, limits)


# ------------------------------------------------------------------ the whole job


def _whole(
    gpus: Sequence[NamedGpu], moment: GpuActivity, nodes: int, silent: set[str], limits: GpuLimits
) -> Result:
    """Report one line and the figures of all GPUs; faults of single GPUs have results of their own."""
    parts = [f"{len(gpus)} GPU{'' if len(gpus) == 1 else 's'} on {nodes} node{'s' if nodes > 1 else ''}"]
    seen = [each.gpu for each in gpus]
    parts += spreads(seen)
    if moment.hung:
        all_wait = len(moment.waiting) == len(gpus)
        parts.append("all wait" if all_wait else f"{len(moment.waiting)} wait for the others")
    if silent:
        parts.append(f"{len(silent)} node{'s' if len(silent) > 1 else ''} did not answer")
    metrics = {"gpus": Metric(len(gpus)), **metrics_of(seen, limits)}
    details = "\n".join(f"{each.name} {describe_gpu(each)}" for each in gpus[:64])
    summary = Result(Status.OK, ", ".join(parts), metrics, details=details)
    return replace(summary, cells={"GPUs": gpus_cell(metrics)})


def _with_nodes(results: Sequence[Result], nodes: Sequence[GpuNode], limits: GpuLimits) -> Iterator[Result]:
    """Add figures to the results of nodes, and results for nodes that only have figures."""
    gpus = {node.name: node.readout.gpus for node in nodes}
    judged = {result.subject for result in results}
    for result in results:
        figures = metrics_of(gpus.get(result.subject, ()), limits)
        yield replace(result, metrics={**figures, **result.metrics})
    for name in list(gpus)[:_RECORDED]:
        figures = metrics_of(gpus[name], limits)
        if figures and name not in judged:
            yield Result(Status.OK, f"{name}: {', '.join(spreads(gpus[name]))}", figures, subject=name)


# ------------------------------------------------------------------ nodes and GPUs


def _of_nodes(
    nodes: Sequence[GpuNode], state: GpuHealthState, limits: GpuLimits, since: float
) -> Iterator[Result]:
    """Judge each node as a whole; for one that does not answer, report what its drivers logged."""
    for node in nodes:
        events = _news(node, since)
        if node.trouble:
            events = tuple(replace(each, bus="", text=f"{each.bus} {each.text}".strip()) for each in events)
        whole = faults.node_fault(node, limits, tuple(state.labels.get(node.name, ())))
        found = [fault for fault in (whole, faults.driver_fault(events)) if fault]
        if found:
            details = "\n".join(event.text for event in node.events)
            yield _fault(node.name, node.name, found, details)


def _news(node: GpuNode, since: float) -> tuple[DriverEvent, ...]:
    """Return what the node's drivers reported during this job."""
    return tuple(event for event in node.events if event.since(since))


def _of_gpus(
    node: GpuNode,
    state: GpuHealthState,
    limits: GpuLimits,
    patience: Patience,
    muted: Mapping[str, str],
    since: float,
    now: float,
) -> Iterator[Result]:
    news = tuple(event for event in _news(node, since) if event.bus)
    for gpu in node.readout.gpus:
        name = f"{node.name}/{gpu.label}"
        events = tuple(event for event in news if event.speaks_of(gpu.bus))
        key = state.key(node.name, gpu)
        found = faults.gpu_faults(gpu, limits, state.rises.get(key, 0), events, muted.get(name, ""))
        lasting = [fault.text for fault in found if fault.lasting]
        if lasting:
            state.remember(key, name, lasting[0], now)
        recalled = state.recall(key, name, now, patience.recalled_for)
        if recalled:
            found.append(Fault(Status.WARNING, recalled, lasting=True))
        if found:
            yield _fault(name, node.name, found, describe_gpu(NamedGpu(name, gpu)))
    heard = {gpu.bus for gpu in node.readout.gpus}
    for event in news:
        if event.fatal and not any(event.speaks_of(bus) for bus in heard):
            subject = f"{node.name}/gpu-{event.bus}"
            text = f"{subject}: its driver reports: {event.text}"
            yield _accusing(Result(Status.CRITICAL, text, subject=subject), node.name, event.text)


def _fault(name: str, node: str, found: Sequence[Fault], details: str) -> Result:
    """Report several faults as one result: the worst one, and the others below it."""
    worst, *others = sorted(found, key=lambda fault: -fault.status.severity)
    result = Result(worst.status, f"{name}: {worst.text}", subject=name, details=details)
    result = result.saying(*(f"also: {fault.text}" for fault in others))
    lasting = next((fault.text for fault in found if fault.lasting), "")
    return _accusing(result, node, lasting) if lasting else result


def _accusing(result: Result, node: str, what: str) -> Result:
    """Return the result with its node as suspect, if the next job would have the same problem there."""
    return replace(result, suspects=(Suspect("GPU", what, SURE, node=node),))


def _unread(run: Run, nodes: Sequence[GpuNode]) -> tuple[Advice, ...]:
    """Return what helps where GPUs cannot be read: the tool is missing, or its node does not answer."""
    names = ",".join(node.name for node in nodes[:5])
    if any(node.tool_missing for node in nodes):
        return (
            Advice("Bring nvidia-smi onto its PATH (module load), or take gpus_per_node out of config.toml."),
        )
    if run.backend != "slurm":
        return ()
    asked = (Advice("To see whether Slurm answers:", "scontrol ping"),)
    they = "it is" if "," not in names else "they are"
    return (*asked, Advice(f"To see whether {they} up:", f"sinfo -N -n {names}")) if names else asked


def _advised(result: Result, run: Run, nodes: Sequence[GpuNode] = ()) -> Result:
    """Add the advice to keep the next job off a suspect node."""
    accused = ",".join(each.node for each in result.suspects)
    if result.status is Status.OK or result.advice:
        return result
    if accused and run.backend == "slurm":
        return result.saying(advice=[node_checks.leave_out(accused)])
    if result.status is Status.UNKNOWN:
        own = [node for node in nodes if node.name == result.subject]
        return result.saying(advice=_unread(run, own or [GpuNode(result.subject)]))
    node = accused or result.subject.partition("/")[0]
    return result.saying(advice=[Advice(f"Ask the administrators of {node} to look at it.")])
