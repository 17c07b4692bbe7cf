"""What goes where by its severity; an end goes where its beginning went; escalation ignores it."""

import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from tests.notify.test_outbox import POLICY, Desk
from tests.notify.values import NOON, Script, event, incident, letter
from watchdogd.config.loading import parse
from watchdogd.daemon.setup import Setup
from watchdogd.errors import ConfigError, DeliveryError
from watchdogd.home.layout import Home
from watchdogd.incidents import evaluate
from watchdogd.incidents.models import AlertPolicy, AlertState, EventKind, IncidentEvent, Observation
from watchdogd.notify import senders
from watchdogd.notify.message import compose
from watchdogd.notify.notification import Item
from watchdogd.notify.routing import MessageRules, Route
from watchdogd.plugin import Result, Status

CRITICAL, WARNING, UNKNOWN = Status.CRITICAL, Status.WARNING, Status.UNKNOWN
RULES = MessageRules(only={"pager": frozenset({"CRITICAL"})}, escalate_to=("phone", "pager"))
ALL = ("slack", "pager")
BOTH = Route(ALL)


def _to(
    kind: EventKind, status: Status, *told: Status, label: str = "INFO", route: Route = BOTH
) -> list[str]:
    about = (
        None
        if kind is EventKind.NOTICE
        else incident(status=status, notified=(told or (None,))[-1], notified_as=told)
    )
    happened = event(kind, about or incident(), incident=about, label=label)
    return sorted(each.channel for each in compose([happened], {happened.check: route}, RULES, NOON))


@pytest.mark.parametrize(
    ("kind", "status", "told", "to"),
    [
        (EventKind.OPENED, CRITICAL, (CRITICAL,), ["pager", "slack"]),
        (EventKind.OPENED, WARNING, (WARNING,), ["slack"]),
        (EventKind.OPENED, UNKNOWN, (UNKNOWN,), ["slack"]),
        (EventKind.WORSE, CRITICAL, (WARNING, CRITICAL), ["pager", "slack"]),
        (EventKind.REMINDER, WARNING, (CRITICAL, WARNING), ["slack"]),
        (EventKind.RESOLVED, WARNING, (WARNING,), ["slack"]),
        (EventKind.RESOLVED, CRITICAL, (WARNING, CRITICAL), ["pager", "slack"]),
        (EventKind.RESOLVED, WARNING, (CRITICAL,), ["pager", "slack"]),
        (EventKind.ESCALATION, WARNING, (WARNING,), ["pager", "phone"]),
    ],
)
def test_what_goes_where(kind: EventKind, status: Status, told: tuple[Status, ...], to: list[str]) -> None:
    assert _to(kind, status, *told) == to


@pytest.mark.parametrize("label", ["INFO", "ACTION", "WARNING"])
def test_a_notice_goes_by_its_word(label: str) -> None:
    assert _to(EventKind.NOTICE, WARNING, label=label) == ["slack"]
    route = Route(ALL, only={"slack": frozenset({"CRITICAL"}), "pager": frozenset({label})})
    assert _to(EventKind.NOTICE, WARNING, label=label, route=route) == []


def test_a_table_and_only_both_hold() -> None:
    route = Route(ALL, only={"slack": frozenset({"WARNING"}), "pager": frozenset({"CRITICAL", "WARNING"})})
    assert _to(EventKind.OPENED, WARNING, WARNING, route=route) == ["slack"]
    assert _to(EventKind.OPENED, CRITICAL, CRITICAL, route=route) == ["pager"]


def test_what_an_incident_was_told_as_is_remembered_to_its_end() -> None:
    """WARNING, worse, eased, over: each channel that heard of it hears the end, once."""
    alerts, now, policy = AlertState(), NOON, {"c": AlertPolicy(confirm=1)}
    went: dict[str, list[str]] = defaultdict(list)
    for status in (WARNING, CRITICAL, WARNING, Status.OK):
        now += 60
        seen = Observation("c", "", "c", Result(status, "as it is"), now)
        alerts, events = evaluate.evaluate(alerts, (seen,), policy, now)
        for each in compose(events, {"c": Route(ALL)}, RULES, now):
            went[each.channel].append(each.message.status)
    assert went == {"slack": ["WARNING", "CRITICAL", "RESOLVED"], "pager": ["CRITICAL", "RESOLVED"]}


def test_an_end_comes_once_though_it_travels_with_others_elsewhere() -> None:
    """On slack two ends of one target are one message, at the pager one of them stands alone."""
    slack, pager = Script(), Script()
    desk = Desk({"slack": slack, "pager": pager})
    bad = incident(1, CRITICAL, notified=CRITICAL, notified_as=(CRITICAL,))
    mild = incident(2, WARNING, notified=WARNING, notified_as=(WARNING,), subject="node7")
    for kind in (EventKind.OPENED, EventKind.RESOLVED):
        events = [replace(event(kind, each), at=desk.now) for each in (bad, mild)]
        desk.add(*compose(events, {bad.check: Route(ALL)}, RULES, desk.now))
        desk.work(5)
    assert [each.message.incidents for each in slack.taken] == [(1, 2), (1, 2)]
    assert [each.message.incidents for each in pager.taken] == [(1,), (1,)]


@pytest.mark.parametrize("working", [True, False])
def test_a_channel_that_has_it_gets_no_copy_of_it_in_other_company(working: bool) -> None:
    """A pager is told of more, since it escalated there, in one message; others know the rest."""
    hook, pager = Script(), Script()
    desk = Desk({"hook": hook, "pager": pager}, replace(POLICY, fallback=("hook",)))
    rules = MessageRules(("hook", "pager"), escalate_to=("pager",), standing=frozenset({"pager"}))

    def happens(*events: IncidentEvent) -> None:
        desk.now += 60
        desk.add(*compose([replace(each, at=desk.now) for each in events], {}, rules, desk.now))
        desk.work(5)

    line = incident(9, CRITICAL, check="r/must_not_see", notified=CRITICAL, notified_as=(CRITICAL,))
    happens(event(EventKind.OPENED, line))
    line = replace(line, escalated_at=desk.now)
    happens(event(EventKind.ESCALATION, line))
    if not working:
        pager.always = DeliveryError("answered 404", permanent=True)
    stopped = incident(12, WARNING, check="r/job_liveness", notified=WARNING, notified_as=(WARNING,))
    happens(replace(event(EventKind.RESOLVED, line), quiet=True), event(EventKind.OPENED, stopped))
    happens(replace(event(EventKind.RESOLVED, stopped), quiet=True))
    desk.work(POLICY.patience)
    alerts = [each.message.incidents for each in hook.taken if each.message.items]
    assert alerts == [(9,), (12,)]
    told = {item.fact for each in pager.taken for item in each.message.items}
    assert not working or "end 9" in told


def test_a_channel_is_told_the_end_alone_where_it_comes_with_what_it_is_not_told() -> None:
    """The route was edited since: the new one brings two things in one message."""
    slack, mail = Script(), Script()
    desk = Desk({"slack": slack, "mail": mail})
    first = incident(1, CRITICAL, notified=CRITICAL, notified_as=(CRITICAL,))
    desk.add(*compose([event(EventKind.OPENED, first)], {}, MessageRules(("slack",)), desk.now))
    desk.work()
    other = replace(first, id=2, subject="node7")
    events = [event(EventKind.RESOLVED, first, summary="runs again"), event(EventKind.OPENED, other)]
    events = [replace(each, at=desk.now + 1) for each in events]
    desk.add(*compose(events, {}, MessageRules(("mail",)), desk.now + 1))
    desk.work(5)
    assert [each.message.headline for each in slack.taken[1:]] == ["[RESOLVED] run-17: runs again"]
    assert slack.taken[1].message.incidents == (1,)
    assert [each.message.incidents for each in mail.taken] == [(1, 2)]


def test_what_begins_as_another_ends_goes_another_way_too() -> None:
    """The end is copied as it comes, to where its beginning went; the rest once the channel is given up."""
    slack, mail = Script(always=DeliveryError("answered 500")), Script()
    desk = Desk({"slack": slack, "mail": mail}, replace(POLICY, fallback=("mail",)))
    first, other = incident(1, CRITICAL, notified=CRITICAL, notified_as=(CRITICAL,)), incident(2, subject="b")
    for events in ([event(about=first)], [event(EventKind.RESOLVED, first), event(about=other)]):
        events = [replace(each, at=desk.now) for each in events]
        desk.add(*compose(events, {}, MessageRules(("slack",)), desk.now))
        desk.work(POLICY.patience + POLICY.longest)
    told = [(item.incident, item.status) for each in mail.taken for item in each.message.items]
    assert sorted(told) == [(1, "CRITICAL"), (1, "RESOLVED"), (2, "CRITICAL")]


def test_an_update_of_what_went_another_way_is_not_told() -> None:
    """A pager that was down is not told that something eased of which it never heard."""
    pager, mail = Script(always=DeliveryError("answered 404", permanent=True)), Script()
    desk = Desk(
        {"pager": pager, "mail": mail}, replace(POLICY, fallback=("mail",), standing=frozenset({"pager"}))
    )
    desk.add(letter(1, "pager", name="began"))
    desk.work(60)
    desk.add(letter(1, "pager", name="eased", now=desk.now, status="WARNING", opens=False, quiet=True))
    pager.always = None
    desk.work(POLICY.pause + 60)
    desk.add(letter(1, "pager", name="over", now=desk.now, status="RESOLVED", opens=False, items=ENDED))
    desk.work(60)
    assert (pager.keys, mail.keys[1:]) == ([], ["began@mail", "over@mail"])
    assert desk.ledger.states()["eased@pager"] == "expired"


def test_an_update_leaves_out_what_went_another_way() -> None:
    """A pager would open it, and not hear of its end."""
    pager = Script()
    desk = Desk({"pager": pager, "mail": Script()}, replace(POLICY, fallback=("mail",)))
    desk.add(letter(2, "pager", name="told"))
    desk.work(5)
    pager.always = DeliveryError("answered 404", permanent=True)
    desk.add(letter(4, "pager", name="lost", now=desk.now), letter(2, "pager", name="again", now=desk.now))
    desk.work(5)
    pager.always = None
    eased = Item("WARNING", "r/c", "", incident=4, quiet=True)
    items = (eased, Item("RESOLVED", "r/a", "", incident=2, quiet=True))
    desk.add(letter(4, "pager", name="eased", now=desk.now, incidents=(2, 4), items=items, quiet=True))
    desk.work(POLICY.pause + 60)
    assert [[item.incident for item in each.message.items] for each in pager.taken] == [[2], [2]]


ENDED = (Item("RESOLVED", "run-1/log_staleness", "runs again", incident=1),)
CONFIG = """
[alerts]
channels = ["slack"]
[channels.slack]
type = "console"
[channels.pager]
type = "console"
only = ["CRITICAL"]
[runs.r]
backend = "process"
command = "no such process"
channels = { CRITICAL = ["pager", "slack"], WARNING = ["pager"] }
"""


@pytest.mark.slow
def test_the_configuration_says_so(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.make()
    home.write(home.config, CONFIG)
    setup = Setup.load(home)
    route = setup.routes["r/job_liveness"]
    assert route.channels == ("pager", "slack")
    assert route.only == {
        "pager": {"CRITICAL", "WARNING"},
        "slack": {"CRITICAL", "UNKNOWN", "INFO", "ACTION"},
    }
    assert setup.rules.only == {"pager": {"CRITICAL"}}
    shown = subprocess.run(
        [sys.executable, "-m", "watchdogd", "--home", str(tmp_path), "config"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert 'channels.pager.only = ["CRITICAL"]' in shown
    assert 'runs.r.channels.WARNING = ["pager"]' in shown


def test_reports_on_channels_go_to_those_who_take_warnings(tmp_path: Path) -> None:
    config = parse(CONFIG.replace('channels = ["slack"]', 'channels = ["pager", "slack"]'), tmp_path / "x")
    assert senders.policy(config).tell == ("slack",)
    alone = parse(CONFIG.replace('channels = ["slack"]', 'channels = ["pager"]'), tmp_path / "x")
    assert senders.policy(alone).tell == ("pager",)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'only = ["CRITICAL"]',
            'only = ["CRITCAL"]',
            "channels.pager.only: 'CRITCAL' is no severity; did",
        ),
        ('only = ["CRITICAL"]', 'only = ["critical"]', "did you mean 'CRITICAL'?"),
        ('only = ["CRITICAL"]', 'only = ["RESOLVED"]', "an end goes where its beginning went"),
        ('only = ["CRITICAL"]', "only = []", "channels.pager.only: must be a list"),
        ('only = ["CRITICAL"]', "only = 3", "channels.pager.only: must be a list"),
        ("WARNING = [", "WARN = [", "runs.r.channels: 'WARN' is no severity; did you mean 'WARNING'?"),
        ('WARNING = ["pager"]', "WARNING = 3", "runs.r.channels: must be a list"),
        ('WARNING = ["pager"]', 'WARNING = ["pagre"]', "there is no [channels.pagre]; did you mean 'pager'?"),
    ],
)
def test_wrong_words_are_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(CONFIG.replace(old, new), tmp_path / "config.toml")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
