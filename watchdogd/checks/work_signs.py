"""Evidence from outside a log, and what it adds to the patience with it. Pure.

A log that is silent, or tells nothing new, for longer than its limit is held against signs that checks saw
elsewhere: checkpoints that grow, GPUs at the power of work, processor time. They hold the alarm back as long
as they last, but not for ever: then a person is to look. What speaks against work shortens nothing; it is
named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from watchdogd.plugin import Sign, Status, Strength
from watchdogd.units import format_duration

LASTS = 600.0
"""Seconds for which a sign counts after it was seen last: what follows a save takes its time, too."""
CEILING = 7200.0
"""Seconds without a word of the log after which nothing holds a message back."""
WEAK, MOST = 2.0, 1800.0
"""Multiple of its limit for which a log may be silent with weak signs, and seconds beyond it at most."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """Outcome of all signs together for a log that stands longer than its limit.

    `status`: what it comes to; `seconds`: the patience that it was held against; `words`: the signs, the
    strongest first, as they stand in a sentence, and `held`: whether they hold the alarm back.
    """

    status: Status
    seconds: float
    words: tuple[str, ...] = ()

    @property
    def held(self) -> bool:
        """True if there is no alarm, though the limit has passed."""
        return self.status is Status.OK


def weigh(signs: Iterable[Sign], since: float, limit: float, now: float) -> Weighed:
    """Judge a log that has stood since then, for `limit` seconds or longer.

    Strong signs hold the alarm back until CEILING (twice the limit where that is longer), and make a WARNING
    of it then; weak ones until twice the limit. Only what was seen since it stands counts.
    """
    seen = sorted((each for each in signs if since < each.at <= now), key=lambda each: -each.strength)
    fresh = [each for each in seen if now - each.at < LASTS]
    works = [each for each in fresh if each.strength > 0 and not _belied(each, fresh)]
    words = tuple(_worded(each, now) for each in seen)
    if not works:
        return Weighed(Status.CRITICAL, limit, words)
    strong = works[0].strength is Strength.STRONG
    seconds = max(CEILING, 2 * limit) if strong else min(WEAK * limit, limit + MOST)
    if now - since < seconds:
        return Weighed(Status.OK, seconds, words)
    return Weighed(Status.WARNING if strong else Status.CRITICAL, seconds, words)


def _belied(sign: Sign, fresh: Sequence[Sign]) -> bool:
    """Return True if a weak sign counts for nothing.

    GPUs say more than the processors of what waits for them.
    """
    return sign.strength is Strength.WEAK and any(each.strength is Strength.AGAINST for each in fresh)


def _worded(sign: Sign, now: float) -> str:
    """Put a sign in words, with its time where that was not just now."""
    ago = now - sign.at
    return sign.what if ago < LASTS / 2 else f"{sign.what} ({format_duration(ago)} ago)"
