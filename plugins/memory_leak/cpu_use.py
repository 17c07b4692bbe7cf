"""Processor time of a run's processes, held against what they took while it reported progress. Pure.

A weak sign of work: what waits in a loop burns as well, above all what waits for GPUs, where it says nothing.
Processes that sleep, though, do not work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from watchdogd.checks.node_checks import lasting, smoothed
from watchdogd.parsers.probe_sample import Cpu
from watchdogd.plugin import Sign, Strength

KIND = "cpu"
LIKE, FALLEN = 0.7, 0.1
"""Shares of what it took while it told progress: from here on it may work, below it does not."""
LEAST = 0.1
"""Processors that must have been busy then: less says nothing."""
ASLEEP = 0.01
"""Processors that are busy in all where everything waits."""
_NEW = 0.1
"""Share of the newest reading in what it usually takes."""


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Processor time of a run's processes: what they had `spent` on each node, and when (seconds).

    `usual`: how many processors were busy as a rule while the run reported progress; and the last sign.
    """

    spent: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    usual: float | None = None
    sign: Sign | None = None

    @property
    def signs(self) -> tuple[Sign, ...]:
        """Sign of work or against it, where there is one."""
        return (self.sign,) if self.sign else ()


def advance(before: CpuUse, spent: Mapping[str, Cpu], now: float, *, gets_on: bool) -> CpuUse:
    """Take in what its processes did since the last look, `spent` by node.

    `gets_on`: the run reports progress now.
    """
    past = before.spent
    newer = {node: cpu for node, cpu in spent.items() if node not in past or cpu.at > past[node][1]}
    if not newer:
        return before
    after = replace(before, spent={node: (cpu.seconds, cpu.at) for node, cpu in spent.items()}, sign=None)
    pairs = [(cpu, *past[node]) for node, cpu in newer.items() if node in past]
    rates = [(cpu.seconds - seconds) / (cpu.at - at) for cpu, seconds, at in pairs]
    known = [rate for rate in rates if rate >= 0.0]  # less than before: another job, or some have ended
    if not known:
        return after
    busy = sum(known) / len(known) * len(spent)
    if gets_on:
        after = replace(after, usual=smoothed(before.usual, busy, _NEW))
    found = _said(busy, after.usual or 0.0, waits=any(cpu.gpus for cpu in spent.values()))
    if found is None:
        return after
    strength, what = found
    return replace(after, sign=lasting(before.sign, Sign(KIND, what, now, now, strength)))


def _said(busy: float, usual: float, *, waits: bool) -> tuple[Strength, str] | None:
    past = f", {usual:.1f} while it got on" if usual >= LEAST else ""
    if busy < ASLEEP or (past and busy < FALLEN * usual):
        return Strength.AGAINST, f"its processes keep {busy:.2f} processors busy{past}"
    if past and not waits and busy >= LIKE * usual:
        return Strength.WEAK, f"its processes keep {busy:.1f} processors busy{past}"
    return None
