"""The word in brackets of all that is told beside incidents: never [OK] for what is not a good result."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.notify.test_outbox import GONE, Desk
from tests.notify.values import NOON, Script, event, letter
from watchdogd.checks import node_checks
from watchdogd.daemon.remediation_context import RemediationContext
from watchdogd.daemon.self_monitoring import SelfMonitoring
from watchdogd.daemon.switch_events import touch_events
from watchdogd.history.writer import kind_of
from watchdogd.home.inbox import Submission
from watchdogd.incidents.models import EventKind, IncidentEvent, Observation
from watchdogd.incidents.reminders import notice
from watchdogd.notify.channels.apprise import _TYPES
from watchdogd.notify.channels.slack import _SIGNS
from watchdogd.notify.message import compose, test_message
from watchdogd.notify.notification import ORDER
from watchdogd.notify.routing import MessageRules
from watchdogd.plugin import Result
from watchdogd.plugin import notice as said_by_a_plugin
from watchdogd.remediation.models import Action, ActionRecord


@dataclass
class Books:
    """What an outbox says of its channels, collected."""

    told: list[str] = field(default_factory=list)

    def of(self, *, again: bool) -> str:
        """The first lines as a channel fails, and works again."""
        slack, mail = Script(always=GONE), Script()
        desk = Desk({"slack": slack, "mail": mail})
        desk.add(letter())
        desk.work(60)
        slack.always = None
        desk.work(1000)
        return mail.headlines[again]


def _first_line(told: IncidentEvent) -> str:
    (message,) = compose([told], {}, MessageRules(("slack",)), NOON)
    return message.message.headline


def _result(result: Result) -> str:
    return _first_line(notice(Observation("run-17/x", "run-17", "run-17", result, NOON), NOON, quiet=False))


def _of_itself(text: str) -> str:
    itself = SelfMonitoring()
    itself.tell(text)
    setup: Any = SimpleNamespace(unusable=(), config=SimpleNamespace(daemon=SimpleNamespace(name="w")))
    (seen,) = (each for each in itself.observe(setup, None, NOON) if each.result.notice)
    return _first_line(notice(seen, NOON, quiet=False))


def _action(state: str) -> str:
    context: Any = SimpleNamespace(speaker=lambda _run: None, incidents={})
    record = ActionRecord(17, "run-17", "on_hang", Action("cancel"), NOON, state, "job 4711 was cancelled")
    return _first_line(RemediationContext.notice(context, [record], "", NOON))


def _press() -> str:
    paper = Submission(Path("x"), "touch", "bob", NOON, {"run": "run-17", "switch": "kill"})
    (told,) = touch_events([paper], lambda _run: None, NOON)
    return _first_line(told)


KINDS: dict[str, tuple[str, Callable[[], str]]] = {
    "nobody watched": ("WARNING", lambda: _of_itself("nobody watched for 1h: no daemon ran")),
    "the history begins anew": ("WARNING", lambda: _of_itself("history.db was damaged: begins anew")),
    "nodes cannot be looked at": (
        "WARNING",
        lambda: _result(
            [*node_checks.no_access("run-17", "its GPUs", "no step may be started", reported=False)][-1]
        ),
    ),
    "a job was replaced": ("INFO", lambda: _result(said_by_a_plugin("job 1 failed, job 2 is next"))),
    "a plugin's own": ("INFO", lambda: _result(said_by_a_plugin("the epoch is over"))),
    "a plugin's own warning": ("WARNING", lambda: _result(said_by_a_plugin("x", label="WARNING"))),
    "a plugin's odd label": ("INFO", lambda: _result(said_by_a_plugin("x", label="<!channel>\n[OK]"))),
    "a switch was pressed": ("INFO", _press),
    "something was done": ("ACTION", lambda: _action("done")),
    "what was to be done failed": ("ACTION", lambda: _action("failed")),
    "a test message": ("INFO", lambda: test_message("w", "login1", "alice", NOON).headline),
    "a channel delivers nothing": ("WARNING", lambda: Books().of(again=False)),
    "it delivers again, a good result": ("OK", lambda: Books().of(again=True)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_notice_has_its_word(kind: str) -> None:
    word, line = KINDS[kind]
    assert line().startswith(f"[{word}] ")


def test_a_notice_within_a_message_has_its_own_word_too() -> None:
    told = [
        event(),
        IncidentEvent(EventKind.NOTICE, NOON, "run-17/x", "run-17", "run-17", "cancelled", label="ACTION"),
    ]
    (message,) = compose(told, {}, MessageRules(("slack",)), NOON)
    assert [item.status for item in message.message.items] == ["CRITICAL", "ACTION"]
    assert "[ACTION] cancelled" in message.message.body


def test_channels_know_all_words() -> None:
    assert set(ORDER) <= set(_SIGNS)
    assert {_TYPES[word] for word in ("INFO", "ACTION", "OK")} == {"info"}


@pytest.mark.parametrize(
    ("label", "kind"), [("INFO", "notice"), ("ACTION", "action"), ("WARNING", "warning")]
)
def test_the_history_keeps_the_word(label: str, kind: str) -> None:
    assert kind_of(IncidentEvent(EventKind.NOTICE, NOON, "c", "", "t", "s", label=label)) == kind


def test_what_happens_to_an_incident_is_kept_under_its_own_name() -> None:
    assert kind_of(event(EventKind.REMINDER)) == "reminder"
