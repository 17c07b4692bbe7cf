"""Whether a run's processes take as much processor time as while it told progress. Pure.

A weak sign of work: what waits in a loop burns as well, above all what waits for GPUs, where it says nothing.
Processes that sleep, though, do not work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchdogd.plugin import Sign, Strength

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.readers.usage import Cpu

KIND = "cpu"
LIKE, FALLEN = 0.7, 0.1
"""Shares of what it took while it told progress: from here on it may work, below it does not."""
LEAST = 0.1
"""Processors that must have been busy then: less says nothing."""
ASLEEP = 0.01
"""Processors that are busy in all where everything waits."""
_NEW = 0.1
"""Share of the newest reading in what it usually takes."""


def signs(spent: Mapping[str, Cpu], memory: dict[str, Any], now: float, *, gets_on: bool) -> tuple[Sign, ...]:
    """What its processes did since the last look, `spent` by node; none where that says nothing. `gets_on`:
    the run tells progress now. Kept in `memory`."""
    past = memory.get("spent", {})
    newer = {node: cpu for node, cpu in spent.items() if node not in past or cpu.at > past[node][1]}
    before = memory.get("told")
    if not newer:
        return (_sign(*before),) if before else ()
    memory["spent"] = {node: [cpu.seconds, cpu.at] for node, cpu in spent.items()}
    memory.pop("told", None)
    rates = [_rate(cpu, *past[node]) for node, cpu in newer.items() if node in past]
    known = [rate for rate in rates if rate >= 0.0]  # less than before: another job, or some have ended
    if not known:
        return ()
    busy = sum(known) / len(known) * len(spent)
    if gets_on:
        usual = memory.get("usual", busy)
        memory["usual"] = round(usual + (busy - usual) * _NEW, 3)
    found = _said(busy, memory.get("usual", 0.0), waits=any(cpu.gpus for cpu in spent.values()))
    if found is None:
        return ()
    strength, what = found
    since = before[2] if before and before[3] == strength else now
    memory["told"] = [what, now, since, int(strength)]
    return (_sign(what, now, since, strength),)


def _sign(what: str, at: float, since: float, strength: int) -> Sign:
    return Sign(KIND, what, at, since, Strength(strength))


def _rate(cpu: Cpu, seconds: float, at: float) -> float:
    return (cpu.seconds - seconds) / (cpu.at - at)


def _said(busy: float, usual: float, *, waits: bool) -> tuple[Strength, str] | None:
    past = f", {usual:.1f} while it got on" if usual >= LEAST else ""
    if busy < ASLEEP or (past and busy < FALLEN * usual):
        return Strength.AGAINST, f"its processes keep {busy:.2f} processors busy{past}"
    if past and not waits and busy >= LIKE * usual:
        return Strength.WEAK, f"its processes keep {busy:.1f} processors busy{past}"
    return None
