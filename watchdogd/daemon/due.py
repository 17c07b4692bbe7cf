"""Selection of due checks, the time of the next one, and the rechecks of a tick. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from watchdogd.daemon.registry.check_factory import Check
from watchdogd.incidents.confirmation import pending
from watchdogd.incidents.models import AlertPolicy, AlertState

SLACK = 1.0
"""Seconds that a check may start early, so that checks of the same interval share a round."""


def due(
    checks: Iterable[Check],
    started: Mapping[str, float],
    outstanding: Collection[str],
    now: float,
    sooner: Mapping[str, float] | None = None,
) -> tuple[Check, ...]:
    """Return checks that never started or started one interval ago; each once, however long overdue.

    `started`: last start times by name; one in the future (the clock was set back) makes a check due.
    `outstanding` checks are still running and are left out. `sooner`: shorter intervals in seconds, for
    checks whose result needs confirmation.
    """
    sooner = sooner or {}
    return tuple(
        check
        for check in checks
        if check.name not in outstanding
        and _next(check, started, now, sooner.get(check.name, check.every))
        <= now + min(SLACK, check.every / 20)
    )


def next_due(checks: Iterable[Check], started: Mapping[str, float], now: float) -> float:
    """Return when the next check is due; an hour ahead where there is none."""
    return min((_next(check, started, now, check.every) for check in checks), default=now + 3600.0)


def _next(check: Check, started: Mapping[str, float], now: float, every: float) -> float:
    last = started.get(check.name)
    if check.at is not None and every >= check.every:
        return check.at.following(check.since if last is None else min(last, now))
    if last is None or last > now + SLACK:
        return now
    return last + min(every, check.every)


LONGEST = 60.0
"""Maximum seconds between rechecks."""
SHARE = 0.8
"""Share of the time between two ticks within which the last recheck begins."""
RESERVE = 150.0
"""Seconds before a link's end that are kept for sending and actions."""
LEAST = 1.0
"""Minimum seconds between two rechecks: sooner, a check would see the same again."""


@dataclass(frozen=True, slots=True)
class Rechecks:
    """Schedule of rechecks: one `every` so many seconds, none after `until` (seconds since the epoch)."""

    every: float
    until: float

    @classmethod
    def of_tick(cls, interval: float, begin: float, step: float, left: float) -> Rechecks:
        """Return the rechecks of a tick that began at `begin`; the next tick follows `step` seconds later.

        `left`: seconds until its link ends, infinite without one.
        """
        every = max(min(interval, LONGEST), LEAST)
        return cls(every, begin + min(SHARE * step, left - RESERVE))

    def pause(self, now: float) -> float:
        """Return seconds until the next recheck; 0 where no time is left for one."""
        return self.every if now + self.every <= self.until else 0.0


def unconfirmed(
    alerts: AlertState, policies: Mapping[str, AlertPolicy], checks: Iterable[Check], now: float
) -> frozenset[str]:
    """Return the names of checks to run again: their result, or a dependency's, is bad and unconfirmed."""
    doubtful = {
        state.check
        for state in alerts.states.values()
        if state.check in policies and pending(state, policies[state.check], now)
    }
    names = {check.name: check.follows for check in checks}
    dependencies = doubtful - names.keys()
    return frozenset(name for name, follows in names.items() if name in doubtful or dependencies & {*follows})
