"""What is done next on a channel: kept in order within a line, free among lines; a pure decision."""

import math
from dataclasses import replace

from tests.notify.values import NOON, letter
from watchdogd.errors import DeliveryError
from watchdogd.notify.channel_state import ChannelState, Policy
from watchdogd.notify.delivery_plan import BATCH, DeliveryPlan, Situation
from watchdogd.notify.notification import Notification

POLICY = Policy()


def _channel(*rows: Notification) -> ChannelState:
    channel = ChannelState("slack")
    for row in rows:
        channel.put(row)
    return channel


def _plan(channel: ChannelState, now: float = NOON, policy: Policy = POLICY) -> DeliveryPlan:
    return Situation({"slack": channel}, "slack", now, policy).plan()


def _next(channel: ChannelState, now: float = NOON) -> list[str]:
    return [send.row.key for send in _plan(channel, now).sends]


def test_what_came_first_goes_first() -> None:
    assert _next(_channel(letter(1, name="a"), letter(2, name="b"))) == ["a@slack"]


def test_a_line_waits_for_its_first_and_no_other_line_does() -> None:
    first = replace(letter(1, name="a"), next_try=NOON + 60, attempts=1)
    channel = _channel(first, letter(1, name="b"), letter(2, name="c"))
    assert _next(channel) == ["c@slack"]
    channel.end(replace(channel.rows["c@slack"], state="sent"))
    waits = _plan(channel)
    assert (waits.sends, waits.until) == ((), NOON + 60)
    channel.end(replace(channel.rows["a@slack"], state="sent"))
    assert _next(channel) == ["b@slack"]


def test_a_message_about_two_incidents_stands_in_both_lines() -> None:
    channel = _channel(
        letter(1, name="a"), letter(2, name="both", incidents=(1, 2)), letter(2, name="b", items=())
    )
    channel.sending["a@slack"] = 0.0
    assert _next(channel) == []
    channel.end(replace(channel.rows["a@slack"], state="sent"))
    assert _next(channel) == ["both@slack"]


def test_what_was_refused_least_goes_first() -> None:
    channel = _channel(letter(1, name="a"), letter(2, name="b"))
    [send] = _plan(channel).sends
    now = Situation({"slack": channel}, "slack", NOON, POLICY)
    after = now.after_try(send, DeliveryError("answered 500"))
    channel.health = after.health
    for row in after.rows:
        channel.put(row)
    assert after.rows[0].attempts == 1
    assert _next(channel, after.health.rests_until) == ["b@slack"]


def test_what_was_refused_in_an_earlier_life_goes_last_too() -> None:
    refused = replace(letter(1, name="a"), attempts=3, next_try=NOON - 1)
    assert _next(_channel(refused, letter(2, name="b"))) == ["b@slack"]


def test_what_some_have_holds_its_line_up_no_more() -> None:
    some = replace(letter(1, name="a"), receipt="alice@x.org", next_try=NOON + 60)
    assert _next(_channel(some, letter(1, name="b"))) == ["b@slack"]


def test_what_is_on_its_way_is_left_alone() -> None:
    channel = _channel(letter(1, name="a", now=NOON - 2 * POLICY.expire))
    channel.sending["a@slack"] = 0.0
    assert _plan(channel) == DeliveryPlan(channel.health)
    channel.sending.clear()
    assert [row.state for row in _plan(channel).rows] == ["expired"]


def test_a_channel_without_rows_waits_for_them() -> None:
    assert _plan(_channel()).until == math.inf


def test_many_that_depend_on_nothing_go_in_one_batch_and_not_where_a_rate_is_set() -> None:
    many = _channel(*(letter(n, name=f"n{n}") for n in range(200)))
    assert len(_next(many)) == BATCH
    assert len(_plan(many, policy=replace(POLICY, rates={"slack": 1.0})).sends) == 1
    few = _channel(*(letter(n % 5, name=f"n{n}") for n in range(200)))
    assert _next(few) == ["n0@slack"]
