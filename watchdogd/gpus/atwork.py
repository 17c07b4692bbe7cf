"""Whether a job's GPUs work, by the power that they draw: utilisation calls a hung collective busy. Pure.

Held against what they drew while the run told progress, and against what an idle card draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.gpus.together import NEAR_IDLE
from watchdogd.plugin import Sign, Strength

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from watchdogd.gpus.memory import Memory
    from watchdogd.gpus.together import Moment, Named

KIND = "gpus"
LIKE, FALLEN = 0.7, 0.5
"""Shares of what GPUs drew while the run told progress: from here on they work, below they do not."""
HALF = 0.5
"""Share of the power cap that only work draws, where no progress was seen yet."""
_NEW = 0.1
"""Share of the newest reading in what the job usually draws."""


def signs(
    gpus: Sequence[Named], moment: Moment, book: Memory, now: float, *, gets_on: bool
) -> tuple[Sign, ...]:
    """What this look says; none where it may be one thing or the other. `gets_on`: the run tells progress
    now, so that this is what its GPUs draw at work. Changes `book` alone."""
    gpus = [each for each in gpus if each.name in book.used] or gpus
    drawn = [each.gpu.power_w for each in gpus if each.gpu.power_w and not each.gpu.trouble]
    watts = sum(drawn) / len(drawn) if drawn else None
    if gets_on and watts is not None and not moment.hung:
        book.usual_w = round(book.usual_w + (watts - book.usual_w) * _NEW, 1) if book.usual_w else watts
    for strength, what in _said(gpus, moment, watts, book.usual_w):
        same = book.sign is not None and book.sign[0] == strength
        since = book.sign[1] if book.sign and same else now
        book.sign = (int(strength), since)
        return (Sign(KIND, what, now, since, strength),)
    book.sign = None
    return ()


def _said(
    gpus: Sequence[Named], moment: Moment, watts: float | None, usual: float
) -> Iterator[tuple[Strength, str]]:
    its = f"its {len(gpus)} GPUs" if len(gpus) > 1 else "its GPU"
    s = "" if len(gpus) > 1 else "s"
    at_work = f", {usual:.0f} W while it got on" if usual else ""
    if moment.quiet and not moment.busy and not moment.waiting:
        yield Strength.AGAINST, f"{its} do{'es' if s else ''} nothing{_mean(watts)}{at_work}"
    elif watts is None:
        return
    elif moment.hung or (usual and watts < FALLEN * usual):
        yield Strength.AGAINST, f"{its} draw{s} only {watts:.0f} W{'' if s else ' each'}{at_work}"
    elif moment.busy and not moment.waiting and _works(gpus, watts, usual):
        yield Strength.STRONG, f"{its} draw{s} {watts:.0f} W{'' if s else ' each'}{at_work}"


def _mean(watts: float | None) -> str:
    return "" if watts is None else f" at {watts:.0f} W"


def _works(gpus: Sequence[Named], watts: float, usual: float) -> bool:
    """Whether they draw what work draws; where neither their past nor their cap is known nobody can say."""
    caps = [each.gpu.power_cap_w for each in gpus if each.gpu.power_cap_w]
    cap = sum(caps) / len(caps) if caps else 0.0
    if not usual:
        return cap > 0 and watts >= HALF * cap
    return watts >= LIKE * usual and watts > NEAR_IDLE * cap
