"""GPUs of a job that wait for one another (a hung collective) or are idle: for how long, in words."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from watchdogd.checks import checkpoint_inventory, working_job
from watchdogd.parsers.gpu.models import Gpu
from watchdogd.plugin import Advice, Metric, Progress, Result, Run, Status, warning
from watchdogd.plugins.gpu_health.activity import GpuActivity, NamedGpu
from watchdogd.plugins.gpu_health.faults import GpuLimits
from watchdogd.plugins.gpu_health.gpu_state import GpuHealthState
from watchdogd.units import age


def _measured(gpus: Sequence[Gpu]) -> Iterator[tuple[str, str, list[float]]]:
    """Yield name, unit and values of each figure that GPUs report."""
    well = [gpu for gpu in gpus if not gpu.trouble]  # values of GPUs in trouble mean nothing
    cells = (
        ("utilisation", "%", [gpu.utilisation for gpu in well]),
        ("power", "W", [gpu.power_w for gpu in well]),
        ("temperature", "C", [gpu.temperature_c for gpu in well]),
        ("vram", "%", [gpu.vram for gpu in well]),
    )
    for name, unit, values in cells:
        known = [value for value in values if value is not None]
        if known:
            yield name, unit, known


def metrics_of(gpus: Sequence[Gpu], limits: GpuLimits) -> dict[str, Metric]:
    """Return the mean of each figure, or the maximum of those that are judged by their worst GPU."""
    thresholds = {
        "utilisation": (None, None),
        "power": (limits.power_warn, limits.power_crit),
        "temperature": (limits.temperature_warn, limits.temperature_crit),
        "vram": (limits.vram_warn, limits.vram_crit),
    }
    found = {}
    for name, unit, known in _measured(gpus):
        warn, crit = thresholds[name]
        worst = name in ("temperature", "vram") or warn is not None or crit is not None
        found[name] = Metric(round(max(known) if worst else sum(known) / len(known), 1), unit, warn, crit)
    return found


def spreads(gpus: Sequence[Gpu]) -> Iterator[str]:
    """Return each figure in words: `power 71 to 650 W`."""
    for name, unit, known in _measured(gpus):
        low, high = min(known), max(known)
        spread = f"{low:.0f} to {high:.0f}" if high - low >= 1 else f"{sum(known) / len(known):.0f}"
        yield f"{name} {spread} {'°C' if unit == 'C' else unit}"


def describe_gpu(each: NamedGpu) -> str:
    """Return one GPU in words, as evidence: `100 % 124 W 41 °C memory 74 % GPU-...`."""
    gpu = each.gpu
    cells = (
        f"{gpu.utilisation:.0f} %" if gpu.utilisation is not None else "",
        f"{gpu.power_w:.0f} W" if gpu.power_w is not None else "",
        f"{gpu.temperature_c:.0f} °C" if gpu.temperature_c is not None else "",
        f"memory {gpu.vram:.0f} %" if gpu.vram is not None else "",
        gpu.uuid,
        gpu.trouble,
    )
    return " ".join(cell for cell in cells if cell)


def gpus_cell(metrics: Mapping[str, Metric]) -> str:
    """Return the cell for `status` and the page from the metrics of all GPUs: `8: 97 % 412 W`."""
    units = {"utilisation": "%", "power": "W"}
    figures = [f"{metrics[name].value:.0f} {unit}" for name, unit in units.items() if name in metrics]
    return f"{metrics['gpus'].value:.0f}: {' '.join(figures)}"


HUNG = "collective"
"""Subject of a job whose GPUs wait for one another."""
IDLE = "idle"
"""Subject of idle GPUs."""
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds until a hang is CRITICAL, until idle GPUs are reported, and that bad GPUs are remembered."""

    hang_after: float
    idle_after: float
    recalled_for: float


def results(
    moment: GpuActivity,
    gpus: Sequence[NamedGpu],
    state: GpuHealthState,
    patience: Patience,
    run: Run,
    now: float,
) -> Iterator[Result]:
    """Report a hang or idle GPUs, unless the run may stand still: it loads or saves. Changes only `state`."""
    if run.finished or run.phase or _saves(run, now):
        state.rest()
        return
    yield from _hang(moment, state, patience, run, now)
    for idle in _idle(moment, gpus, state, patience, now):
        gpus_now = Advice("To see its GPUs now:", f"watchdogd gpus {shlex.quote(run.name)}")
        yield idle.saying(advice=[_stacks(run), gpus_now])


def _stacks(run: Run) -> Advice:
    return Advice("To see where each process stands:", f"watchdogd stacks {shlex.quote(run.name)}", "stacks")


def _saves(run: Run, now: float) -> bool:
    """Return True while its checkpoints grow, since GPUs wait then. Endless growth is no save."""
    return any(
        each.kind == checkpoint_inventory.GROWTH_KIND
        and now - each.at < working_job.LASTS
        and each.at - each.since < working_job.CEILING
        for each in run.signs
    )


def over(ends: Iterable[Result]) -> Iterator[Result]:
    """Add to the end of a hang that no GPU stands still."""
    for each in ends:
        freed = replace(each, progress=Progress()).ending("GPUs work again")
        yield (
            freed
            if each.subject == HUNG
            else each.ending("GPUs work again")
            if each.subject == IDLE
            else each
        )


def _hang(
    moment: GpuActivity, state: GpuHealthState, patience: Patience, run: Run, now: float
) -> Iterator[Result]:
    """Report the sign of a hung collective: WARNING at once, CRITICAL if it lasts.

    Each step of the run starts the time anew, and there is no hang until the next step is late.
    """
    if not moment.hung:
        state.hung_since = None
        return
    step = (run.progress and run.progress.at) or 0.0
    state.hung_since = min(max(state.hung_since or now, step), now)  # the clock may have been set back
    if run.progress and run.progress.recent(now):
        return
    lasted = now - state.hung_since
    suspects = ", ".join(each.shown for each in moment.quiet[:_SHOWN])
    more = f" and {len(moment.quiet) - _SHOWN} more" if len(moment.quiet) > _SHOWN else ""
    status = Status.CRITICAL if lasted >= patience.hang_after else Status.WARNING
    waiting = "\n".join(f"waits: {each.name} {describe_gpu(each)}" for each in moment.waiting[:32])
    blamed = "\n".join(f"suspect: {each.name} {describe_gpu(each)}" for each in moment.quiet[:32])
    details = f"{blamed}\n{waiting}".strip()
    progress = Progress(stalled=status is Status.CRITICAL, at=step or None)
    count, short = len(moment.waiting), f"stalled for {age(lasted)}"
    wait = f"{count} GPUs wait" if count > 1 else "1 GPU waits"
    line = f"{short}: {suspects}{more} at 0 %, {wait} for {'them' if len(moment.quiet) > 1 else 'it'}"
    if not suspects:
        line = f"{short}: {wait} for one another, none stands out: perhaps the network"
    hang = Result(status, line, subject=HUNG, details=details, progress=progress, short=short)
    hang = hang.saying(f"{_busy_at(moment.waiting)}, near idle", advice=[_stacks(run)])
    hang = hang.dated(state.hung_since)
    yield hang.triggers("on_hang") if status is Status.CRITICAL else hang


def _busy_at(waiting: Sequence[NamedGpu]) -> str:
    powers = sorted(round(each.gpu.power_w) for each in waiting if each.gpu.power_w is not None)
    count = len(waiting)
    draw = f"{powers[0]} W" if powers[0] == powers[-1] else f"{powers[0]} to {powers[-1]} W"
    return f"{count} GPU{' shows' if count == 1 else 's show'} full utilisation at {draw}"


def _idle(
    moment: GpuActivity, gpus: Sequence[NamedGpu], state: GpuHealthState, patience: Patience, now: float
) -> Iterator[Result]:
    """Report GPUs at 0 % in every look for a while, except those of a hang, which are reported there."""
    if moment.hung:
        return
    since = state.idle([each.name for each in moment.quiet], now)
    late = [name for name, begin in since.items() if now - begin >= patience.idle_after]
    if not late:
        return
    telling = sum(each.gpu.utilisation is not None for each in gpus)
    begin = max(since[name] for name in late)
    count = "all" if len(late) == telling else f"{len(late)} of"
    who = f"{count} {telling} GPUs idle"
    names = "" if len(late) == telling else f": {', '.join(late[:_SHOWN])}{' ...' * (len(late) > _SHOWN)}"
    yield warning(
        f"{who} for {age(now - begin)}{names}",
        subject=IDLE,
        details="\n".join(late),
    ).dated(begin)
