"""The second look of a tick: what it found bad, and nobody knew, is confirmed before it ends. Pure.

Ticks are minutes apart: with `confirm = 2` the next one would be the first to report a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from watchdogd.daemon.registry.check_factory import Check
from watchdogd.incidents.confirmation import pending
from watchdogd.incidents.models import AlertPolicy, AlertState

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
    """Times of further looks: every so many seconds, none after `until` (seconds since the epoch)."""

    every: float
    until: float

    @classmethod
    def of_tick(cls, interval: float, begin: float, step: float, left: float) -> Rechecks:
        """Return the further looks of a tick that began at `begin` and is followed after `step` seconds.

        Its link, if it is one, ends in `left` seconds.
        """
        every = max(min(interval, LONGEST), LEAST)
        return cls(every, begin + min(SHARE * step, left - RESERVE))

    def pause(self, now: float) -> float:
        """Return seconds until the next look; 0 where there is no time for one."""
        return self.every if now + self.every <= self.until else 0.0


def unconfirmed(
    alerts: AlertState, policies: Mapping[str, AlertPolicy], checks: Iterable[Check], now: float
) -> frozenset[str]:
    """List the checks that have to be looked at again, by name: what they said is new and bad.

    Or what they rest on said so.
    """
    doubtful = {
        standing.check
        for standing in alerts.states.values()
        if standing.check in policies and pending(standing, policies[standing.check], now)
    }
    names = {check.name: check.follows for check in checks}
    dependencies = doubtful - names.keys()
    return frozenset(name for name, follows in names.items() if name in doubtful or dependencies & {*follows})
