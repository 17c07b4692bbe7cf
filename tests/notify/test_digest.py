"""Too many messages of one round: stored one by one, and made one on each channel by the plan."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.notify.test_outbox import POLICY, Desk
from tests.notify.values import NOON, Script, event, incident
from watchdogd.config.models import Config
from watchdogd.home.layout import Home
from watchdogd.incidents.models import EventKind
from watchdogd.notify import senders
from watchdogd.notify.channels.slack import blocks
from watchdogd.notify.locks import Locks
from watchdogd.notify.message import BODY_LIMIT, compose
from watchdogd.notify.message_outbox import Outbox
from watchdogd.notify.notification import Notification
from watchdogd.notify.routing import MessageRules
from watchdogd.plugin import Status
from watchdogd.system.times import SteadyClock

RULES = MessageRules(channels=("slack", "mail"))
MANY = replace(POLICY, digest_above=20)


def _round(numbers: range, at: float = NOON, kind: EventKind = EventKind.OPENED) -> list[Notification]:
    worst = (Status.WARNING, Status.CRITICAL, Status.CRITICAL)
    names = {n: {"check": f"run-{n}/loss", "run": f"run-{n}", "target": f"run-{n}"} for n in numbers}
    told = [event(kind, incident(n, worst[n % 3], **named)) for n, named in names.items()]
    return compose(told, {}, RULES, at)


def _desk() -> tuple[Desk, Script, Script]:
    slack, mail = Script(), Script()
    return Desk({"slack": slack, "mail": mail}, MANY), slack, mail


def test_five_hundred_at_once_are_one_message_within_the_limits() -> None:
    desk, slack, mail = _desk()
    rows = _round(range(500))
    assert len(rows) == 1000
    desk.add(*rows)
    desk.work()
    [one], [other] = slack.taken, mail.taken
    message = one.message
    assert message.headline == "[CRITICAL] run-1: no new line for 25m (and 499 more messages)"
    assert message.headline == other.message.headline
    assert message.incidents == tuple(range(500))
    assert len(message.body) <= BODY_LIMIT
    assert len(blocks(message)) <= 50
    states = desk.ledger.states()
    assert Counter(states.values()) == {"sent": 2, "diverted": 1000}
    assert states[one.key] == states[other.key] == "sent"


@pytest.mark.parametrize(("numbers", "messages"), [(20, 20), (21, 1)])
def test_as_many_as_allowed_are_told_one_by_one(numbers: int, messages: int) -> None:
    desk, slack, _mail = _desk()
    desk.add(*_round(range(numbers)))
    desk.work()
    assert len(slack.taken) == messages


def test_messages_of_two_rounds_are_told_one_by_one() -> None:
    desk, slack, _mail = _desk()
    desk.add(*_round(range(15)), *_round(range(15, 30), NOON - 60))
    desk.work()
    assert len(slack.taken) == 30


def test_a_daemon_killed_before_it_made_them_one_makes_the_same_one() -> None:
    desk, slack, _mail = _desk()
    rows = _round(range(30))
    desk.add(*rows)
    desk.work()
    again, other, _ = _desk()
    again.add(*reversed(rows))
    again.work()
    assert other.keys == slack.keys


def test_an_end_follows_a_beginning_that_was_told_among_many() -> None:
    desk, slack, _mail = _desk()
    desk.add(*_round(range(30)))
    desk.work()
    desk.add(*_round(range(7, 8), desk.now + 60, EventKind.RESOLVED))
    desk.work(60)
    assert [each.message.status for each in slack.taken] == ["CRITICAL", "RESOLVED"]
    assert slack.roots[-1] == (f"receipt of {slack.keys[0]}",)


def test_a_relay_leaves_it_to_the_daemon_and_loses_nothing_without_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.make()
    now, slack = [NOON], Script()
    relay = Outbox(
        {"slack": slack},
        replace(MANY, tell=None, merges=False),
        lambda _rows: None,
        clock=SteadyClock(lambda: now[0], lambda: now[0]),
        locks=Locks(home, stores=False),
    )
    relay.add([row for row in _round(range(30)) if row.channel == "slack"])
    worker = relay.workers["slack"]
    assert worker.step() == NOON + 120
    assert not slack.taken
    now[0] = NOON + 121
    for _ in range(31):
        worker.step()
    assert len(slack.taken) == 30


def test_config_toml_says_how_many_are_allowed() -> None:
    config = Config.model_validate({"alerts": {"digest_above": 3}})
    assert senders.policy(config).digest_above == 3
