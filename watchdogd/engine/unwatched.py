"""The time before this daemon's first round in which nobody watched, and whether that is to be told. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.history.record import Gap
from watchdogd.units import format_duration, iso

if TYPE_CHECKING:
    from watchdogd.home.markers import Pause

STEPS, LEAST = 3, 60.0
"""Steps from one round to the next, and seconds at least, without a round that make a gap."""
NOBODY = "no daemon ran"


def unrecorded(recorded: float | None, seen: float | None, step: float) -> str:
    """Say that rounds went on after the last one that is `recorded`, up to the last that was `seen`.

    Its daemon could not write the history, or that was restored. Empty where they did not.
    """
    if recorded is None or seen is None or seen - recorded < max(STEPS * step, LEAST):
        return ""
    lasted, begin, end = format_duration(seen - recorded), iso(recorded), iso(seen)
    return f"no history of {lasted}, from {begin} to {end}: a daemon ran, but what it saw is not recorded"


def gaps(last: float | None, now: float, step: float, pause: Pause | None) -> list[tuple[Gap, bool]]:
    """List the gaps between the last round (None: there was none) and now, each with whether it is told.

    `step`: seconds from one round to the next. A `pause` that somebody wanted is recorded and not told; the
    time before and after it is, where it is long.
    """
    least = max(STEPS * step, LEAST)
    if last is None or now - last < least:
        return []
    if pause is None or pause.end <= last:
        return [(Gap(last, now, NOBODY), True)]
    begin, end = min(max(pause.begin, last), now), min(pause.end, now)
    around = [(Gap(last, begin, NOBODY), True), (Gap(end, now, NOBODY), True)]
    long = [(gap, told) for gap, told in around if gap.end - gap.begin >= least]
    return [(Gap(begin, end, pause.words), False), *long]
