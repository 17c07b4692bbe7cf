"""Quiet hours: what waits for their end and comes as one message, and what goes out all the same."""

from dataclasses import replace
from datetime import datetime, time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.notify.test_outbox import POLICY, Desk
from tests.notify.values import Script, event, incident, letter
from watchdogd.config.loading import parse
from watchdogd.errors import ConfigError, DeliveryError
from watchdogd.home.layout import Home
from watchdogd.incidents.models import EventKind
from watchdogd.notify import senders
from watchdogd.notify.channel_state import QuietHours
from watchdogd.notify.locks import Locks
from watchdogd.notify.message import compose
from watchdogd.notify.message_outbox import Outbox
from watchdogd.notify.notification import Item, Notification
from watchdogd.notify.routing import MessageRules
from watchdogd.system.times import SteadyClock, zone_named

BERLIN = zone_named("Europe/Berlin")
NIGHT = QuietHours(time(22), time(7), BERLIN, frozenset({"CRITICAL"}))
QUIET = replace(POLICY, quiet={"slack": NIGHT})


def _at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


EVENING, MIDNIGHT, MORNING = _at("2026-06-01 21:00"), _at("2026-06-02 00:00"), _at("2026-06-02 07:00")


def _said(number: int, word: str, now: float, subject: str = "", channel: str = "slack") -> Notification:
    items = (Item(word, "run-17/log_staleness", "as it is", subject or str(number), incident=number),)
    headline = f"[{word}] run-{number}: as it is"
    row = letter(number, channel, f"{number} {word}", now, status=word, headline=headline, items=items)
    return replace(row, message=replace(row.message, at=now))


def _desk(now: float, slack: Script | None = None) -> tuple[Desk, Script]:
    slack = slack or Script()
    return Desk({"slack": slack, "mail": Script()}, QUIET, now), slack


def test_what_comes_by_night_comes_as_one_message_in_the_morning() -> None:
    desk, slack = _desk(MIDNIGHT)
    for number in range(5):
        desk.add(_said(number, "WARNING", desk.now))
        desk.work(600)
    desk.add(_said(0, "RESOLVED", desk.now))
    desk.work(MORNING - desk.now - 1)
    assert slack.taken == []
    desk.work(2)
    [digest] = slack.taken
    assert digest.message.headline == ("[WARNING] run-1: as it is (and 5 more messages)")
    for number in range(5):
        assert f"[WARNING] run-{number}: as it is" in digest.message.body
    assert {(each.incident, each.status) for each in digest.message.items} == {
        (0, "RESOLVED"),
        *((number, "WARNING") for number in range(1, 5)),
    }
    states = {**desk.ledger.states()}
    assert {states.pop(digest.key), *states.values()} == {"sent", "diverted"}
    assert states == dict.fromkeys(states, "diverted")
    desk.add(_said(3, "RESOLVED", desk.now))
    desk.work()
    assert slack.keys[1:] == ["3 RESOLVED@slack"]


def test_one_alone_comes_as_it_is_however_long_it_waited() -> None:
    slack = Script()
    desk = Desk({"slack": slack}, replace(QUIET, expire=3600), MIDNIGHT)
    desk.add(_said(1, "WARNING", desk.now))
    desk.work(MORNING - MIDNIGHT + 1)
    assert slack.keys == ["1 WARNING@slack"]


def test_what_is_excepted_comes_at_once_with_what_waits_of_the_same_and_so_does_its_end() -> None:
    desk, slack = _desk(MIDNIGHT)
    desk.add(_said(1, "WARNING", desk.now), _said(2, "WARNING", desk.now))
    desk.work(60)
    desk.add(_said(1, "CRITICAL", desk.now))
    desk.work(60)
    assert slack.keys == ["1 CRITICAL@slack"]
    assert "[WARNING] run-1: as it is" in slack.taken[0].message.body
    assert [(each.incident, each.status) for each in slack.taken[0].message.items] == [(1, "CRITICAL")]
    assert desk.ledger.states()["1 WARNING@slack"] == "superseded"
    desk.add(_said(1, "RESOLVED", desk.now), _said(2, "RESOLVED", desk.now))
    desk.work(60)
    assert slack.keys == ["1 CRITICAL@slack", "1 RESOLVED@slack"]
    desk.work(MORNING - desk.now)
    assert slack.taken[-1].message.headline.endswith("(and 1 more message)")


@pytest.mark.parametrize(("word", "urgent"), [("CRITICAL", False), ("WARNING", True)])
def test_the_end_of_what_got_worse_or_escalated_at_night_comes_at_night(word: str, urgent: bool) -> None:
    desk, slack = _desk(EVENING)
    desk.add(_said(1, "WARNING", desk.now), _said(2, "WARNING", desk.now))
    desk.work(MIDNIGHT - EVENING)
    row = _said(1, word, desk.now)
    desk.add(replace(row, key="loud@slack", message=replace(row.message, urgent=urgent)))
    desk.work(60)
    desk.add(_said(1, "RESOLVED", desk.now), _said(2, "RESOLVED", desk.now))
    desk.work(60)
    assert slack.keys == ["1 WARNING@slack", "2 WARNING@slack", "loud@slack", "1 RESOLVED@slack"]


def test_an_end_is_not_told_as_what_came_before_an_alert_that_was_late() -> None:
    """The escalation was refused at first; meanwhile it ended, and waits for the morning like any end."""
    desk, slack = _desk(MIDNIGHT, Script(faults=[DeliveryError("answered 500")]))
    row = _said(1, "WARNING", desk.now)
    desk.add(replace(row, message=replace(row.message, urgent=True)))
    desk.work(1)
    desk.add(_said(1, "RESOLVED", desk.now))
    desk.work(60)
    assert slack.keys == ["1 WARNING@slack", "1 RESOLVED@slack"]
    assert "RESOLVED" not in slack.taken[0].message.body


def test_what_is_over_by_the_morning_is_told_as_over() -> None:
    desk, slack = _desk(MIDNIGHT)
    desk.add(_said(1, "WARNING", desk.now), _said(2, "UNKNOWN", desk.now))
    desk.work(60)
    desk.add(_said(1, "RESOLVED", desk.now), _said(2, "RESOLVED", desk.now))
    desk.work(MORNING - desk.now)
    [digest] = slack.taken
    assert digest.message.headline == "[INFO] run-1: as it is (and 3 more messages)"


def test_what_nobody_acknowledged_wakes_somebody() -> None:
    desk, slack = _desk(MIDNIGHT)
    called = event(EventKind.ESCALATION, incident(7))
    rules = MessageRules(escalate_to=("slack",))
    desk.add(*compose([replace(called, at=desk.now)], {}, rules, desk.now))
    desk.work(1)
    assert len(slack.taken) == 1


def test_by_day_and_on_other_channels_nothing_waits() -> None:
    desk, slack = _desk(EVENING)
    desk.add(_said(1, "WARNING", desk.now))
    desk.work(1)
    assert slack.keys == ["1 WARNING@slack"]
    night, _ = _desk(MIDNIGHT)
    night.add(_said(1, "WARNING", night.now, channel="mail"))
    night.work(1)
    assert night.ledger.states() == {"1 WARNING@mail": "sent"}


def test_what_failed_before_the_night_waits_too_and_goes_nowhere_else() -> None:
    slack = Script(always=DeliveryError("answered 500"))
    desk = Desk(
        {"slack": slack, "mail": Script()}, replace(QUIET, fallback=("mail",)), _at("2026-06-01 21:59")
    )
    desk.add(_said(1, "WARNING", desk.now))
    desk.work(3600)
    tried = len(slack.tried)
    desk.work(3600)
    assert len(slack.tried) == tried
    assert desk.ledger.states()["1 WARNING@slack"] == "waiting"
    slack.always = None
    desk.work(MORNING - desk.now + 1)
    assert slack.keys == ["1 WARNING@slack"]


def test_a_restart_in_the_night_changes_nothing() -> None:
    desk, slack = _desk(MIDNIGHT)
    desk.add(_said(1, "WARNING", desk.now), _said(2, "WARNING", desk.now))
    desk.work(60)
    again = Desk({"slack": slack}, QUIET, MORNING + 3600, desk.ledger)
    again.add(*desk.ledger.rows.values())
    again.work(1)
    assert len(slack.taken) == 1


def test_a_relay_leaves_the_digest_to_the_daemon_and_loses_nothing_without_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.make()
    now, slack = [MIDNIGHT], Script()
    policy = replace(QUIET, tell=None, merges=False)
    locks = Locks(home, stores=False)
    relay = Outbox(
        {"slack": slack},
        policy,
        lambda _rows: None,
        clock=SteadyClock(lambda: now[0], lambda: now[0]),
        locks=locks,
    )
    relay.add([_said(1, "WARNING", MIDNIGHT), _said(2, "WARNING", MIDNIGHT)])
    worker = relay.workers["slack"]
    assert worker.step() == MORNING + 120
    now[0] = MORNING + 1
    assert worker.step() == MORNING + 120
    now[0] = MORNING + 121
    worker.step()
    worker.step()
    assert slack.keys == ["1 WARNING@slack", "2 WARNING@slack"]


@pytest.mark.parametrize(
    ("at", "begin", "end"),
    [
        ("2026-06-02 03:00", "2026-06-01 22:00", "2026-06-02 07:00"),
        ("2026-06-02 22:00", "2026-06-02 22:00", "2026-06-03 07:00"),
        ("2026-06-02 07:00", None, None),
        ("2026-03-29 03:30", "2026-03-28 22:00", "2026-03-29 07:00"),  # summer time begins: an hour shorter
        ("2026-10-25 02:30", "2026-10-24 22:00", "2026-10-25 07:00"),  # it ends: an hour longer
    ],
)
def test_the_night_is_that_of_the_clocks_on_the_wall(at: str, begin: str | None, end: str | None) -> None:
    found = NIGHT.window(_at(at))
    assert found == (None if begin is None or end is None else (_at(begin), _at(end)))


def test_a_night_in_which_clocks_are_set_is_as_long_as_it_is() -> None:
    spring, autumn = NIGHT.window(_at("2026-03-29 01:00")), NIGHT.window(_at("2026-10-25 01:00"))
    assert spring is not None
    assert autumn is not None
    assert (spring[1] - spring[0], autumn[1] - autumn[0]) == (8 * 3600, 10 * 3600)


@given(
    at=st.floats(1.5e9, 2.2e9),
    begin=st.times(),
    end=st.times(),
    zone=st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "UTC"]),
)
def test_a_window_holds_the_time_that_it_was_asked_for(at: float, begin: time, end: time, zone: str) -> None:
    found = QuietHours(begin, end, zone_named(zone)).window(at)
    if found is not None:
        assert found[0] <= at < found[1]
        assert found[1] - found[0] <= 25.5 * 3600


CONFIG = """
[channels.slack]
type = "console"
quiet_hours = { from = "22:00", to = "7:00", except = ["CRITICAL"], timezone = "Europe/Berlin" }
"""


def test_the_configuration_says_so(tmp_path: Path) -> None:
    policy = senders.policy(parse(CONFIG, tmp_path / "config.toml"))
    night = policy.quiet["slack"]
    assert replace(night, zone=BERLIN) == NIGHT
    assert str(night.zone) == "Europe/Berlin"  # tests that forget all zones make another one of that name
    assert senders.policy(parse(CONFIG.replace("quiet_hours", "# "), tmp_path / "config.toml")).quiet == {}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"22:00"', '"25:00"', "quiet_hours.from: '25:00' is no time of day: write it as \"22:00\""),
        ('"22:00"', "22", 'quiet_hours.from: 22 is no time of day: write it as "22:00"'),
        ('"22:00"', '"7:00"', "from and to are the same time"),
        ('from = "22:00", ', "", "quiet_hours.from: is missing"),
        ("except", "exept", "did you mean 'except'?"),
        ('["CRITICAL"]', '["URGENT"]', "quiet_hours.except: 'URGENT' is no severity"),
        ("Europe/Berlin", "Europe/Berln", "did you mean 'Europe/Berlin'?"),
    ],
)
def test_wrong_words_are_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(CONFIG.replace(old, new), tmp_path / "config.toml")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
