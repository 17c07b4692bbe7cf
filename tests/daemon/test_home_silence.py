"""A home that does not answer: a hiccup is not reported, what lasts is one message about one cause."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from watchdogd.daemon.self_monitoring import SelfMonitoring
from watchdogd.daemon.trouble import Trouble, TroubleKind
from watchdogd.incidents.evaluate import evaluate
from watchdogd.incidents.models import SELF, AlertPolicy, AlertState, EventKind, IncidentEvent
from watchdogd.notify.message import compose
from watchdogd.notify.routing import MessageRules, Route
from watchdogd.plugin import Status

START = 1_790_000_000.0
SLOW = {
    subject: Trouble(f"/h/{subject} cannot be read: /h has not answered for 5 s", TroubleKind.NO_ANSWER)
    for subject in ("home", "inbox", "history")
}


class Rounds:
    """Rounds 15 seconds apart; `incidents` are those open after the last."""

    def __init__(self) -> None:
        self.itself = SelfMonitoring()
        self.alerts, self.now = AlertState(), START
        daemon = SimpleNamespace(name="elm-watch", confirm=2, interval=15.0)
        self._setup: Any = SimpleNamespace(unusable=(), config=SimpleNamespace(daemon=daemon))

    def round(self, **troubles: str) -> list[IncidentEvent]:
        self.now += 15.0
        self.itself.troubles |= {"home": "", "inbox": "", "history": ""} | troubles
        seen = self.itself.observe(self._setup, None, self.now)
        self.alerts, events = evaluate(self.alerts, seen, {SELF: AlertPolicy(confirm=1)}, self.now)
        return [each for each in events if not each.quiet]


def test_a_hiccup_of_home_is_not_reported() -> None:
    rounds = Rounds()
    assert rounds.round(**SLOW) == []
    assert rounds.itself.unsure
    assert rounds.itself.standing == []
    assert rounds.round() == []
    assert not rounds.itself.unsure
    assert rounds.round(home=SLOW["home"]) == [], "each time counts by itself"


def test_a_home_that_stays_silent_is_one_message_without_answers_that_it_could_not_take() -> None:
    rounds = Rounds()
    rounds.round(**SLOW)
    (told,) = rounds.round(**SLOW)
    assert (told.kind, told.summary) == (
        EventKind.OPENED,
        "the watchdog's home has not answered for 15s",
    )
    (sent,) = compose([told], {SELF: Route(("slack",))}, MessageRules(("slack",)), rounds.now)
    assert "(and" not in sent.message.headline
    assert "acknowledgements are not taken in" in sent.message.body
    assert "watchdogd ack" not in sent.message.body
    assert "df -h" not in sent.message.body
    assert rounds.round(**SLOW) == []
    assert set(rounds.itself.standing) == {*SLOW.values()}
    (over,) = rounds.round()
    assert (over.kind, over.summary) == (
        EventKind.RESOLVED,
        "the watchdog's home answers again after 45s",
    )


def test_another_trouble_of_home_is_reported_at_once_and_outlasts_a_hiccup() -> None:
    rounds = Rounds()
    (told,) = rounds.round(inbox="/h/inbox cannot be read: Permission denied")
    assert told.incident
    assert told.incident.status is Status.CRITICAL
    assert rounds.round(**SLOW) == []
    assert rounds.round(inbox="/h/inbox cannot be read: Permission denied") == []
    (over,) = rounds.round()
    assert over.summary.startswith("acknowledgements are taken in again")


def test_a_link_in_home_that_leads_to_a_hung_file_system_is_reported_as_what_it_is() -> None:
    """Home itself answers: a drop-in's folder, or the pulse file, lies elsewhere."""
    rounds = Rounds()
    hangs = Trouble("/h/cron.daily/check has not answered for 5 s", TroubleKind.NO_ANSWER)
    assert rounds.round(**{"drop-ins": hangs}) == []
    (told,) = rounds.round(**{"drop-ins": hangs})
    assert (told.kind, told.summary) == (EventKind.OPENED, "check has not answered for 5 s")
    assert rounds.round(**{"drop-ins": hangs}) == []
    (over,) = rounds.round(**{"drop-ins": ""})
    assert over.summary.startswith("new drop-ins are taken up again")
