"""Checks that are due, and when the next is: pure; on the wall clock, since it outlives restarts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from watchdogd.daemon.registry.check_factory import Check

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
    clock was set back) is due. `outstanding` are still running, and are not started again on top. `sooner`
    are those looked at sooner than their cadence says, with seconds: what they found wants confirmation.
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
    if last is None or last > now + SLACK:
        return now
    return last + min(every, check.every)
