"""Activity of all GPUs of a job at one moment: working, waiting for one another, or idle. Pure.

Measured on 2 H100 with NCCL: training 100 % at 699 W; stalled on data 0 % at 125 W; hung in a collective: the
waiting GPU 100 % at 124 W, the guilty one 0 % at 126 W; idle 72 W. On 2 H200: 700 W, 120 W both, 78 W. So
utilisation alone takes a hang for work. Power is therefore compared with what a GPU drew while the run
reported progress, and with what an idle card draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from watchdogd.checks.node_checks import lasting, smoothed
from watchdogd.parsers.gpu.models import Gpu
from watchdogd.plugin import Sign, Strength
from watchdogd.plugins.gpu_health.gpu_state import GpuHealthState

QUIET, HIGH = 5.0, 90.0
"""Per cent of utilisation: at most QUIET for an idle GPU, at least HIGH for one that seems busy."""
NEAR_IDLE = 0.3
"""Share of its power cap below which a GPU that seems busy only waits (measured: 0.18; training: 1.0)."""
LIKE_QUIET = 1.25
"""A waiting GPU draws this much of what the job's quiet GPUs draw, at most (measured: 0.98)."""
FALLEN = 0.5
"""Share of what a GPU drew while it worked, below which it waits; for the case that all GPUs wait."""
LOW = 0.4
"""Share of its power cap below which a GPU that has fallen so far waits, even if that is not near idle."""
_HELD, _HELD_BYTES = 1.0, 1 << 30
"""A GPU with less memory in use (per cent, bytes) is held by nobody: drivers keep some (0.3 GB on MI300X)."""


@dataclass(frozen=True, slots=True)
class NamedGpu:
    """GPU with its full name: `node5/gpu3`."""

    name: str
    gpu: Gpu

    @property
    def shown(self) -> str:
        """Name, with the power if known."""
        return self.name if self.gpu.power_w is None else f"{self.name} ({self.gpu.power_w:.0f} W)"


@dataclass(frozen=True, slots=True)
class GpuActivity:
    """GPUs by activity: `quiet` are the job's GPUs at 0 %, `busy` all others that report utilisation.

    In a hang (`hung`), `waiting` are the GPUs with high utilisation at a power near idle, and `quiet` the
    suspects, if any. `drawn`: watts of each GPU at full utilisation, by name.
    """

    waiting: tuple[NamedGpu, ...] = ()
    quiet: tuple[NamedGpu, ...] = ()
    busy: tuple[NamedGpu, ...] = ()
    hung: bool = False
    drawn: Mapping[str, float] = field(default_factory=dict)


def classify(
    gpus: Sequence[NamedGpu], used: frozenset[str] = frozenset(), power: Mapping[str, float] | None = None
) -> GpuActivity:
    """Sort the job's GPUs by activity.

    `used`: names of GPUs that worked before in this job; `power`: watts that each drew then. A GPU that holds
    no memory and never worked belongs to nobody: it is quiet, but no suspect.
    """
    power = power or {}
    telling = [each for each in gpus if each.gpu.utilisation is not None and not each.gpu.trouble]
    quiet = tuple(each for each in telling if (each.gpu.utilisation or 0.0) <= QUIET)
    suspects = tuple(each for each in quiet if each.name in used or _held(each.gpu))
    quiet_w = [each.gpu.power_w for each in suspects if each.gpu.power_w is not None]
    level = median(quiet_w) if quiet_w else None
    others = [each for each in telling if each not in quiet]
    high = [each for each in others if is_busy(each.gpu)]
    waiting = tuple(each for each in high if _near_idle(each.gpu, level, power.get(each.name)))
    busy = tuple(each for each in others if each not in waiting)
    if waiting and suspects and not busy:
        return GpuActivity(waiting, suspects, hung=True)
    if waiting and not suspects and not busy and power:
        usual = median(power.values())
        fallen = all((each.gpu.power_w or 0.0) <= FALLEN * power.get(each.name, usual) for each in waiting)
        return GpuActivity(waiting, hung=fallen)
    drawn = {each.name: each.gpu.power_w for each in high if each not in waiting and each.gpu.power_w}
    return GpuActivity((), suspects if others else quiet, busy + waiting, drawn=drawn)


def is_busy(gpu: Gpu) -> bool:
    """Return True if it is at full utilisation: working, or waiting for others."""
    return (gpu.utilisation or 0.0) >= HIGH


def waits(gpu: Gpu) -> bool:
    """Return True if it waits for others: full utilisation at a power near idle."""
    return is_busy(gpu) and _near_idle(gpu, None, None)


def _held(gpu: Gpu) -> bool:
    """Return True if a process uses it, or if its memory is not reported."""
    return gpu.vram is None or gpu.vram >= _HELD or (gpu.vram_used or 0) >= _HELD_BYTES


def _near_idle(gpu: Gpu, quiet_w: float | None, usual_w: float | None) -> bool:
    """Compare its power with its cap, with quiet GPUs, or with what it drew itself while it worked."""
    now, cap = gpu.power_w, gpu.power_cap_w
    if now is None:
        return False
    by_cap = cap is not None and now <= NEAR_IDLE * cap
    by_past = usual_w is not None and (
        now <= NEAR_IDLE * usual_w or (cap is not None and now <= min(LOW * cap, FALLEN * usual_w))
    )
    return by_cap or by_past or (quiet_w is not None and now <= LIKE_QUIET * quiet_w)


GPU_SIGN = "gpus"
WORKS_FROM, RESTS_BELOW = 0.7, 0.5
"""Shares of what GPUs drew while the run reported progress: above the first they work, below the second
not."""
HALF = 0.5
"""Share of the power cap that only work draws, for a run without progress so far."""
_NEW = 0.1
"""Weight of the newest reading in the job's usual power."""


def work_signs(
    gpus: Sequence[NamedGpu], moment: GpuActivity, state: GpuHealthState, now: float, *, gets_on: bool
) -> tuple[Sign, ...]:
    """Return the sign of work in this look, or none if it is ambiguous. Changes only `state`.

    `gets_on`: the run reports progress now, so that this is what its GPUs draw while working.
    """
    gpus = [each for each in gpus if each.name in state.used] or gpus
    drawn = [each.gpu.power_w for each in gpus if each.gpu.power_w and not each.gpu.trouble]
    watts = sum(drawn) / len(drawn) if drawn else None
    if gets_on and watts is not None and not moment.hung:
        state.usual_w = smoothed(state.usual_w or None, watts, _NEW)
    for strength, what in _said(gpus, moment, watts, state.usual_w):
        state.sign = lasting(state.sign, Sign(GPU_SIGN, what, now, now, strength))
        return (state.sign,)
    state.sign = None
    return ()


def _said(
    gpus: Sequence[NamedGpu], moment: GpuActivity, watts: float | None, usual: float
) -> Iterator[tuple[Strength, str]]:
    its = f"its {len(gpus)} GPUs" if len(gpus) > 1 else "its GPU"
    s = "" if len(gpus) > 1 else "s"
    at_work = f", {usual:.0f} W while it got on" if usual else ""
    if moment.quiet and not moment.busy and not moment.waiting:
        yield Strength.AGAINST, f"{its} do{'es' if s else ''} nothing{_mean(watts)}{at_work}"
    elif watts is None:
        return
    elif moment.hung or (usual and watts < RESTS_BELOW * usual):
        yield Strength.AGAINST, f"{its} draw{s} only {watts:.0f} W{'' if s else ' each'}{at_work}"
    elif moment.busy and not moment.waiting and _works(gpus, watts, usual):
        yield Strength.STRONG, f"{its} draw{s} {watts:.0f} W{'' if s else ' each'}{at_work}"


def _mean(watts: float | None) -> str:
    return "" if watts is None else f" at {watts:.0f} W"


def _works(gpus: Sequence[NamedGpu], watts: float, usual: float) -> bool:
    """Return True if they draw as much as at work; False if neither their past nor their cap is known."""
    caps = [each.gpu.power_cap_w for each in gpus if each.gpu.power_cap_w]
    cap = sum(caps) / len(caps) if caps else 0.0
    if not usual:
        return cap > 0 and watts >= HALF * cap
    return watts >= WORKS_FROM * usual and watts > NEAR_IDLE * cap
