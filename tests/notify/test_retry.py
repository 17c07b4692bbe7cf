"""What becomes of a notification after a failure: a pure decision."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.notify.values import NOON, letter
from watchdogd.errors import DeliveryError, PartlyDeliveredError
from watchdogd.notify.channel_state import (
    Health,
    Policy,
    after_failed_try,
    after_failure,
    after_success,
    timely,
)

POLICY = Policy()
PASSING = DeliveryError("hooks.example.org answered 500")
GONE = DeliveryError("hooks.example.org answered 404: no_service", permanent=True)


def test_the_wait_doubles_with_jitter_up_to_the_longest() -> None:
    waiting = letter()
    waits = []
    for _ in range(12):
        waiting = after_failed_try(waiting, PASSING, NOON, POLICY)
        waits.append(waiting.next_try - NOON)
    for number, wait in enumerate(waits):
        whole = min(POLICY.first * 2**number, POLICY.longest)
        assert whole / 2 <= wait <= whole
    assert waiting.attempts == 12
    assert waiting.failure == "hooks.example.org answered 500"


def test_two_messages_do_not_come_back_together() -> None:
    tries = {after_failed_try(letter(n, name=f"n{n}"), PASSING, NOON, POLICY).next_try for n in range(20)}
    assert len(tries) > 10


@pytest.mark.parametrize("asked", [0.0, 7.0, 3600.0])
def test_retry_after_is_obeyed(asked: float) -> None:
    step = after_failed_try(letter(), DeliveryError("429", retry_after=asked), NOON, POLICY)
    assert step.next_try - NOON >= asked
    assert step.next_try - NOON <= max(asked, POLICY.first)


def test_nobody_makes_us_wait_longer_than_a_message_lives() -> None:
    step = after_failed_try(letter(), DeliveryError("429", retry_after=1e12), NOON, POLICY)
    assert step.next_try == NOON + POLICY.expire


def test_a_permanent_error_leaves_the_channel_in_peace_for_a_while() -> None:
    step = after_failed_try(letter(), GONE, NOON, POLICY)
    assert step.state == "waiting"
    assert step.next_try == NOON + POLICY.pause
    health = after_failure(Health(), GONE, step, NOON)
    assert health.broken(NOON, POLICY)
    assert health.rests_until == NOON + POLICY.pause


def test_what_is_refused_again_while_others_are_taken_is_given_up() -> None:
    step = after_failed_try(letter(), GONE, NOON, POLICY)
    later = step.next_try + 10
    assert after_failed_try(step, GONE, later, POLICY, Health(worked_at=later - 1)).state == "failed"
    assert after_failed_try(step, GONE, later, POLICY, Health(worked_at=NOON - 1)).state == "waiting"


def test_what_is_too_old_is_given_up() -> None:
    assert after_failed_try(letter(), PASSING, NOON + POLICY.expire - 1, POLICY).state == "waiting"
    assert after_failed_try(letter(), PASSING, NOON + POLICY.expire, POLICY).state == "expired"


def test_who_has_it_is_kept_and_the_channel_works() -> None:
    some = PartlyDeliveredError("b@x.org refused: 450", receipt="a@x.org")
    step = after_failed_try(letter(), some, NOON, POLICY)
    assert (step.state, step.receipt) == ("waiting", "a@x.org")
    assert after_failure(Health(), some, step, NOON).since is None
    for_good = PartlyDeliveredError("b@x.org refused: 550", receipt="a@x.org", permanent=True)
    step = after_failed_try(letter(), for_good, NOON, POLICY)
    assert (step.state, step.failure) == ("sent", "b@x.org refused: 550")


def test_where_a_channel_fails_for_all_all_wait_longer() -> None:
    fresh = after_failed_try(letter(), PASSING, NOON, POLICY, Health(failures=5, since=NOON - 60))
    assert fresh.next_try - NOON >= POLICY.first * 2**5 / 2


def test_a_channel_is_broken_when_it_failed_for_long_and_well_after_a_success() -> None:
    health = after_failure(Health(), PASSING, after_failed_try(letter(), PASSING, NOON, POLICY), NOON)
    assert not health.broken(NOON + POLICY.patience - 1, POLICY)
    assert health.broken(NOON + POLICY.patience, POLICY)
    assert not after_success(health, NOON).broken(NOON + 1e6, POLICY)


@given(
    attempts=st.integers(0, 10_000),
    failures=st.integers(0, 10_000),
    age=st.floats(0, 2e5),
    permanent=st.booleans(),
    retry_after=st.none() | st.floats(0, 1e9),
)
def test_a_step_always_leads_somewhere(
    attempts: int, failures: int, age: float, permanent: bool, retry_after: float | None
) -> None:
    error = DeliveryError("no", permanent=permanent, retry_after=retry_after)
    step = after_failed_try(
        replace(letter(), attempts=attempts), error, NOON + age, POLICY, Health(failures=failures, since=NOON)
    )
    if step.state == "waiting":
        assert NOON + age < step.next_try <= NOON + age + max(POLICY.expire, POLICY.pause)
    else:
        assert step.state == "expired"
        assert age >= POLICY.expire


@pytest.mark.parametrize("days", [1.0, 3.0, 30.0])
def test_what_nobody_could_try_is_not_given_up_untried(days: float) -> None:
    """The machine was off over a weekend, or its clock was set ahead."""
    now = NOON + days * 86_400
    found = timely(letter(), now, POLICY)
    assert now - found.created_at < POLICY.expire / 2
    tried = timely(replace(letter(), attempts=40, next_try=NOON + 7200), now, POLICY)
    assert now - tried.created_at == 7200
    assert after_failed_try(tried, PASSING, now, POLICY).state == "waiting"


def test_what_was_tried_all_the_time_is_given_up_as_before() -> None:
    """By ticks, each of which begins with what the one before stored."""
    now = NOON + POLICY.expire
    for row in (replace(letter(), attempts=90, next_try=now - 900), replace(letter(), next_try=now + 100)):
        assert timely(row, now, POLICY) == row
    young = letter()
    assert timely(young, NOON + POLICY.expire - 1, POLICY) == young
