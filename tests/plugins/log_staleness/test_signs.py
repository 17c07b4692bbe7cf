"""What signs of work do to a log that stands: they hold its alarm back for a while, and are named in it."""

from __future__ import annotations

import pytest

from watchdogd.checks.working_job import CEILING, LASTS, MOST, weigh
from watchdogd.plugin import Sign, Status, Strength

MINUTE, HOUR = 60.0, 3600.0
SINCE = 1_800_000_000.0
LIMIT = 30 * MINUTE
OK, WARNING, CRITICAL = Status.OK, Status.WARNING, Status.CRITICAL


def sign(
    age: float, ago: float = MINUTE, strength: Strength = Strength.STRONG, what: str = "it grew"
) -> Sign:
    """A sign that was seen `ago` seconds before the log has stood for `age`."""
    at = SINCE + age - ago
    return Sign("checkpoints", what, at, at, strength)


@pytest.mark.parametrize(
    ("age", "ago", "strength", "limit", "status"),
    [
        (45 * MINUTE, MINUTE, Strength.STRONG, LIMIT, OK),
        (45 * MINUTE, LASTS - 1, Strength.STRONG, LIMIT, OK),
        (45 * MINUTE, LASTS, Strength.STRONG, LIMIT, CRITICAL),
        (6 * MINUTE, 7 * MINUTE, Strength.STRONG, 5 * MINUTE, CRITICAL),  # it was seen before the log stood
        (6 * MINUTE, -MINUTE, Strength.STRONG, 5 * MINUTE, CRITICAL),  # the clock was set back
        (CEILING - 1, MINUTE, Strength.STRONG, LIMIT, OK),
        (CEILING, MINUTE, Strength.STRONG, LIMIT, WARNING),
        (CEILING, MINUTE, Strength.STRONG, 5 * HOUR, OK),
        (10 * HOUR, MINUTE, Strength.STRONG, 5 * HOUR, WARNING),
        (8 * MINUTE, MINUTE, Strength.WEAK, 5 * MINUTE, OK),
        (10 * MINUTE, MINUTE, Strength.WEAK, 5 * MINUTE, CRITICAL),
        (5 * HOUR + MOST, MINUTE, Strength.WEAK, 5 * HOUR, CRITICAL),
        (45 * MINUTE, MINUTE, Strength.AGAINST, LIMIT, CRITICAL),
    ],
)
def test_for_how_long_a_sign_holds_the_alarm_back(
    age: float, ago: float, strength: Strength, limit: float, status: Status
) -> None:
    assert weigh([sign(age, ago, strength)], SINCE, limit, SINCE + age).status is status


def test_without_signs_the_limit_stands() -> None:
    found = weigh([], SINCE, LIMIT, SINCE + LIMIT)
    assert (found.status, found.held, found.words) == (CRITICAL, False, ())


def test_gpus_that_wait_belie_processors_that_burn_but_not_checkpoints_that_grow() -> None:
    waits = sign(40 * MINUTE, strength=Strength.AGAINST, what="its GPUs draw only 120 W")
    burns = sign(40 * MINUTE, strength=Strength.WEAK, what="its processes keep 8 processors busy")
    assert weigh([waits, burns], SINCE, LIMIT, SINCE + 40 * MINUTE).status is CRITICAL
    found = weigh([waits, sign(40 * MINUTE)], SINCE, LIMIT, SINCE + 40 * MINUTE)
    assert (found.held, found.words) == (True, ("it grew", "its GPUs draw only 120 W"))


def test_what_was_seen_a_while_ago_is_named_with_its_age() -> None:
    found = weigh([sign(50 * MINUTE, 20 * MINUTE)], SINCE, LIMIT, SINCE + 50 * MINUTE)
    assert (found.status, found.words) == (CRITICAL, ("it grew (20m ago)",))
