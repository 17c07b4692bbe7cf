"""Results that had no answer, kept until it is known whether a whole file system is silent.

Then it is one cause, told once, and what the checks say is that they cannot find out. Otherwise it is told as
they say it. Whichever of them notices first, and however slow the machine is, what comes is the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from watchdogd.plugin import Status
from watchdogd.system.clock import fresh

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchdogd.incidents.models import Observation

LONGEST = 120.0
"""Seconds after which it is told as it is, should nobody have found out."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """Last results of a check, on which file systems it rests, and when it began to say so."""

    grounds: tuple[str, ...]
    seen: tuple[Observation, ...]
    since: float


class Withheld:
    """Results that are kept back, by check, the newest."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    @property
    def checks(self) -> frozenset[str]:
        """Return those of which something is kept."""
        return frozenset(self._kept)

    def keep(self, check: str, grounds: tuple[str, ...], seen: tuple[Observation, ...], now: float) -> None:
        """Keep what a check said instead of what is kept of it."""
        before = self._kept.get(check)
        self._kept[check] = _Kept(grounds, seen, before.since if before else now)

    def drop(self, check: str) -> None:
        """Forget what is kept of a check: it had an answer after all."""
        self._kept.pop(check, None)

    def open(self, ground: str) -> float | None:
        """Since when something waits for a word of this file system; None where nothing does."""
        return min((kept.since for kept in self._kept.values() if ground in kept.grounds), default=None)

    def release(
        self, silent: Callable[[str], bool], answered: Callable[[str, float], bool], now: float
    ) -> dict[str, tuple[Observation, ...]]:
        """Return what may be judged now, by check.

        `silent` says whether a file system is known to be, `answered` whether it was asked at a time or
        later, and did answer.
        """
        found = {}
        for check, kept in list(self._kept.items()):
            if any(silent(ground) for ground in kept.grounds):
                found[check] = tuple(_blind(seen) for seen in kept.seen)
            elif _over(kept, now) or all(answered(ground, kept.since) for ground in kept.grounds):
                found[check] = kept.seen
            else:
                continue
            del self._kept[check]
        return found


def _over(kept: _Kept, now: float) -> bool:
    return not fresh(kept.since, now, LONGEST)


def _blind(seen: Observation) -> Observation:
    """Return the same as something that cannot be found out."""
    result = seen.result
    return replace(seen, result=replace(result, status=Status.UNKNOWN)) if result.unanswered else seen
