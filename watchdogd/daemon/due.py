"""Checks that are due now, when the next one is, and the rechecks of a tick: pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from watchdogd.daemon.registry.check_factory import Check
from watchdogd.incidents.confirmation import pending
from watchdogd.incidents.models import AlertPolicy, AlertState

SLACK = 1.0
"""Seconds that a check may run early, so that checks of one cadence meet in one round."""


def due(
    checks: Iterable[Check],
    started: Mapping[str, float],
    outstanding: Collection[str],
    now: float,
    sooner: Mapping[str, float] | None = None,
) -> tuple[Check, ...]:
    """List the checks to start now: never started, or one cadence ago; each once, however long overdue.

    `started` are the times of the last starts, by name. One that seems to have started in the future (the
    clock was set back) is due. `outstanding` checks still run and are not started again. `sooner` maps
    checks whose result needs confirming to a shorter cadence in seconds.
    """
    sooner = sooner or {}
    return tuple(
        check
        for check in checks
        if check.name not in outstanding
        and _next(check, started, now, sooner.get(check.name, check.every)) <= now + _slack(check)
    )


def next_due(checks: Iterable[Check], started: Mapping[str, float], now: float) -> float:
    """Return when the next check is due by its cadence; an hour ahead where there is none."""
    return min((_next(check, started, now, check.every) for check in checks), default=now + 3600.0)


def _slack(check: Check) -> float:
    return min(SLACK, check.every / 20)


def _next(check: Check, started: Mapping[str, float], now: float, every: float) -> float:
    last = started.get(check.name)
    if check.at is not None and every >= check.every:
        return check.at.following(check.since if last is None else min(last, now))
    if last is None or last > now + SLACK:
        return now
    return last + min(every, check.every)


LONGEST = 60.0
"""Seconds from one look to the next, at most."""
SHARE = 0.8
"""The share of the time from one tick to the next within which the last look begins."""
RESERVE = 150.0
"""Seconds before a link's end that are kept free for what has to be sent and done then."""
LEAST = 1.0
"""Seconds that must lie between two looks: sooner, the second one sees what the first one saw."""


@dataclass(frozen=True, slots=True)
class Rechecks:
    """Times of rechecks: every so many seconds, none after `until` (seconds since the epoch)."""

    every: float
    until: float

    @classmethod
    def of_tick(cls, interval: float, begin: float, step: float, left: float) -> Rechecks:
        """Return the rechecks of a tick that began at `begin` and is followed after `step` seconds.

        Its link, if it is one, ends in `left` seconds.
        """
        every = max(min(interval, LONGEST), LEAST)
        return cls(every, begin + min(SHARE * step, left - RESERVE))

    def pause(self, now: float) -> float:
        """Return seconds until the next recheck; 0 where there is no time for one."""
        return self.every if now + self.every <= self.until else 0.0


def unconfirmed(
    alerts: AlertState, policies: Mapping[str, AlertPolicy], checks: Iterable[Check], now: float
) -> frozenset[str]:
    """List, by name, the checks to run again: their result is new and bad, or a dependency's is."""
    doubtful = {
        state.check
        for state in alerts.states.values()
        if state.check in policies and pending(state, policies[state.check], now)
    }
    names = {check.name: check.follows for check in checks}
    dependencies = doubtful - names.keys()
    return frozenset(name for name, follows in names.items() if name in doubtful or dependencies & {*follows})
