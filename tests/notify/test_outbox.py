"""The outbox, with real threads where it matters and a clock of its own where it does not."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import pytest

from tests.notify.conftest import Keep
from tests.notify.values import NOON, Ledger, Script, letter
from tests.servers.web import WebServer
from tests.waiting import AT_ONCE, wait_until
from watchdogd.errors import DeliveryError, PartlyDeliveredError
from watchdogd.notify import message_outbox
from watchdogd.notify.channel_state import Policy
from watchdogd.notify.channel_worker import HANGS
from watchdogd.notify.channels.webhook import JsonWebhook
from watchdogd.notify.delivery_plan import Delivered
from watchdogd.notify.message_outbox import Outbox
from watchdogd.notify.notification import Item, Notification
from watchdogd.system.times import SteadyClock

PASSING = DeliveryError("slack answered 500")
GONE = DeliveryError("slack answered 404: no_service", permanent=True)
POLICY = Policy(name="bloom-watch", command="watchdogd --home /h")


@dataclass
class Desk:
    """An outbox whose time is moved by hand."""

    senders: dict[str, Script]
    policy: Policy = POLICY
    now: float = NOON
    ledger: Ledger = field(default_factory=Ledger)
    sent: tuple[Notification, ...] = ()
    ahead: float = 0.0

    def __post_init__(self) -> None:
        self.outbox = Outbox(
            self.senders,
            self.policy,
            self.ledger.settle,
            clock=SteadyClock(lambda: self.now, lambda: self.now - self.ahead),
        )
        self.outbox.add(self.sent)

    def set_clock(self, by: float) -> None:
        """Somebody sets the clock: no time passes."""
        self.now += by
        self.ahead += by

    def add(self, *notifications: Notification) -> None:
        """As the engine does it: stored with the round, then handed over."""
        self.ledger.record(notifications)
        self.outbox.add(notifications)

    def work(self, seconds: float = 0.0) -> None:
        """Let that much time pass, and every channel do what is due in it."""
        end = self.now + seconds
        while True:
            wake = min(worker.step() for worker in self.outbox.workers.values())
            again = min(worker.step() for worker in self.outbox.workers.values())
            if min(wake, again) > end:
                self.now = end
                return
            self.now = max(self.now, min(wake, again))


def test_a_message_leaves_before_the_round_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_outbox, "HEAD_START", 60.0)
    slack, ledger = Script(), Ledger()
    outbox = Outbox({"slack": slack}, POLICY, ledger.settle)
    outbox.start()
    try:
        outbox.add([letter(now=time.time())])
        assert [each.key for each in slack.taken] == ["incident-17-opened@slack"]
    finally:
        outbox.stop(5)


def test_a_message_is_sent_then_marked() -> None:
    desk = Desk({"slack": Script()})
    desk.add(letter())
    desk.work()
    row = desk.ledger.rows["incident-17-opened@slack"]
    assert (row.state, row.sent_at, row.attempts) == ("sent", NOON, 1)
    assert row.receipt == "receipt of incident-17-opened@slack"
    assert desk.outbox.waiting == 0


def test_a_key_is_sent_once_in_one_process() -> None:
    slack = Script()
    desk = Desk({"slack": slack})
    for _ in range(3):
        desk.add(letter())
        desk.work(10)
    assert len(slack.taken) == 1


def test_a_failure_is_noted_and_tried_again() -> None:
    slack = Script(faults=[PASSING, PASSING])
    desk = Desk({"slack": slack})
    desk.add(letter())
    desk.work()
    row = desk.ledger.rows["incident-17-opened@slack"]
    assert (row.state, row.attempts, row.failure) == ("waiting", 1, "slack answered 500")
    assert desk.outbox.troubles[0].failure == "slack answered 500"
    desk.work(30)
    assert desk.ledger.states() == {"incident-17-opened@slack": "sent"}
    assert desk.ledger.rows["incident-17-opened@slack"].failure == ""
    assert desk.outbox.troubles == ()


def test_while_a_channel_fails_it_is_tried_seldom_however_many_wait() -> None:
    slack = Script(always=PASSING)
    desk = Desk({"slack": slack})
    desk.add(*(letter(n, name=f"n{n}") for n in range(500)))
    desk.work(600)
    assert 5 <= len(slack.tried) <= 20


def test_retry_after_holds_all_messages_of_the_channel() -> None:
    slack = Script(faults=[DeliveryError("slack answered 429", retry_after=30)])
    desk = Desk({"slack": slack})
    desk.add(letter(1), letter(2, name="other"))
    desk.work(29.9)
    assert len(slack.tried) == 1
    desk.work(10)
    assert len(slack.taken) == 2


def test_a_later_message_of_an_incident_never_overtakes_an_earlier_one() -> None:
    slack = Script(faults=[PASSING])
    desk = Desk({"slack": slack})
    desk.add(letter(1, name="opened"), letter(1, name="resolved"))
    desk.work(60)
    assert slack.keys == ["opened@slack", "resolved@slack"]


def test_the_rate_is_kept() -> None:
    times: list[float] = []
    slack = Script()
    desk = Desk({"slack": slack}, replace(POLICY, rates={"slack": 0.5}))
    slack.before = lambda _each: times.append(desk.now)
    desk.add(*(letter(n, name=f"n{n}") for n in range(10)))
    desk.work(17.9)
    assert times == [NOON + 2 * n for n in range(9)]


def test_a_permanent_error_pauses_the_channel_and_is_told_on_the_others() -> None:
    slack, mail = Script(always=GONE), Script()
    desk = Desk({"slack": slack, "mail": mail})
    desk.add(letter())
    desk.work(POLICY.pause - 1)
    assert len(slack.tried) == 1
    assert mail.headlines == [
        "[WARNING] bloom-watch: channel slack does not deliver: slack answered 404: no_service"
    ]
    assert "run-17: no new line" in mail.taken[0].message.body
    assert "watchdogd --home /h notify --test slack" in mail.taken[0].message.body
    assert desk.outbox.troubles[0].broken
    slack.always = None
    desk.work(10)
    assert slack.keys == ["incident-17-opened@slack"]
    assert mail.headlines[1:] == ["[OK] bloom-watch: channel slack delivers again"]
    assert all(state == "sent" for state in desk.ledger.states().values())


def test_a_channel_that_stays_broken_hands_its_messages_to_the_fallback() -> None:
    slack, mail = Script(always=PASSING), Script()
    desk = Desk({"slack": slack, "mail": mail}, replace(POLICY, fallback=("mail",)))
    desk.add(letter(1, name="first"))
    desk.work(POLICY.patience - 1)
    assert mail.taken == []
    desk.work(2)
    assert "first@mail" in mail.keys
    copy = next(each for each in mail.taken if each.key == "first@mail")
    late, why = copy.message.body.split("\n\n")[:2]
    assert late.startswith("This message is 10m late.")
    assert why == "Sent here because channel slack does not deliver: slack answered 500"
    assert desk.ledger.states()["first@slack"] == "diverted"
    desk.add(letter(2, name="second"))
    desk.work(POLICY.longest)
    assert "second@mail" in mail.keys
    assert sum("does not deliver" in headline for headline in mail.headlines) == 1
    slack.always = None
    desk.work(POLICY.longest)
    desk.add(letter(3, name="third"))
    desk.work(POLICY.longest)
    assert slack.keys == ["third@slack"]


def test_a_message_that_goes_to_the_fallback_anyway_goes_there_once() -> None:
    slack, mail = Script(always=GONE), Script()
    desk = Desk({"slack": slack, "mail": mail}, replace(POLICY, fallback=("mail",)))
    desk.add(letter(), letter(channel="mail"))
    desk.work(60)
    assert mail.keys.count("incident-17-opened@mail") == 1
    assert desk.ledger.states()["incident-17-opened@slack"] == "diverted"


def test_where_the_fallback_is_broken_too_messages_wait() -> None:
    slack, mail = Script(always=GONE), Script(always=GONE)
    desk = Desk({"slack": slack, "mail": mail}, replace(POLICY, fallback=("mail", "slack")))
    desk.add(letter(), letter(channel="mail"))
    desk.work(60)
    assert desk.ledger.states()["incident-17-opened@mail"] == "waiting"
    slack.always = mail.always = None
    desk.work(POLICY.pause)
    assert desk.ledger.states()["incident-17-opened@mail"] == "sent"
    assert desk.outbox.waiting == 0


def test_what_was_diverted_comes_back_where_the_other_way_breaks_too() -> None:
    slack, mail = Script(faults=[GONE]), Script(always=PASSING)
    desk = Desk({"slack": slack, "mail": mail}, replace(POLICY, fallback=("mail", "slack")))
    desk.add(letter(), letter(channel="mail"))
    desk.work(POLICY.pause + 1)
    desk.add(letter(2, name="other"))
    desk.work(POLICY.longest)
    assert mail.taken == []
    assert slack.keys.count("incident-17-opened@slack") == 1
    assert desk.ledger.states()["incident-17-opened@slack"] == "sent"


def test_a_message_that_one_channel_never_takes_holds_no_other_up() -> None:
    slack, mail = Script(), Script()

    def refuse_one(notification: Notification) -> None:
        if notification.key == "poison@slack":
            raise GONE

    slack.before = refuse_one
    desk = Desk({"slack": slack, "mail": mail})
    desk.add(letter(1, name="poison"), *(letter(n, name=f"n{n}") for n in range(2, 12)))
    desk.work(2 * POLICY.pause)
    assert len(slack.taken) == 10
    assert desk.ledger.states()["poison@slack"] == "failed"
    assert any("refused a message" in headline for headline in mail.headlines)


def test_what_nobody_took_in_time_is_given_up_and_that_is_told() -> None:
    slack, mail = Script(always=PASSING), Script()
    desk = Desk({"slack": slack, "mail": mail})
    desk.add(*(letter(n, name=f"n{n}") for n in range(30)))
    desk.work(POLICY.expire + 1)
    told = [headline for headline in mail.headlines if "given up" in headline]
    assert told == ["[WARNING] bloom-watch: channel slack did not deliver 30 messages within 1d; given up"]
    assert "… and 10 more" in next(
        each.message.body for each in mail.taken if "given up" in each.message.headline
    )
    states = [state for key, state in desk.ledger.states().items() if key.endswith("@slack")]
    assert set(states) == {"expired"}


def test_a_clock_that_is_set_forward_gives_nothing_up() -> None:
    slack = Script(faults=[PASSING])
    desk = Desk({"slack": slack})
    desk.add(letter())
    desk.work()
    desk.set_clock(2 * POLICY.expire)
    desk.work(POLICY.longest)
    assert desk.ledger.states() == {"incident-17-opened@slack": "sent"}


def test_a_clock_that_is_set_back_holds_nothing_up() -> None:
    slack = Script(faults=[PASSING])
    desk = Desk({"slack": slack})
    desk.set_clock(5 * 3600.0)
    desk.add(letter(now=desk.now))
    desk.work()
    desk.set_clock(-5 * 3600.0)
    desk.add(letter(18, name="other", now=desk.now))
    desk.work(POLICY.longest)
    assert len(slack.taken) == 2


def test_what_an_earlier_life_put_off_by_a_clock_that_was_wrong_is_tried_soon() -> None:
    slack = Script()
    desk = Desk({"slack": slack})
    later = NOON + 30 * 3600.0
    of_the_future = letter(1, name="future", now=later)
    desk.add(replace(of_the_future, next_try=later + 60), replace(letter(2, name="past"), next_try=later))
    desk.work(POLICY.pause)
    assert sorted(slack.keys) == ["future@slack", "past@slack"]


def test_what_is_told_about_channels_is_not_told_about_again() -> None:
    slack, mail = Script(always=PASSING), Script(always=PASSING)
    desk = Desk({"slack": slack, "mail": mail})
    desk.add(letter())
    desk.work(5 * POLICY.expire)
    assert desk.outbox.waiting == 0
    assert len(desk.ledger.rows) <= 6


def test_one_recipient_who_is_refused_holds_nobody_up() -> None:
    some = PartlyDeliveredError("b@x.org refused: 452 mailbox full", receipt="a@x.org")
    mail, slack = Script(faults=[some, None, some]), Script()
    desk = Desk({"mail": mail, "slack": slack})
    desk.add(letter(1, "mail", "opened"), letter(1, "mail", "resolved"))
    desk.work()
    assert mail.keys == ["resolved@mail"]
    assert desk.ledger.rows["opened@mail"].receipt == "a@x.org"
    desk.work(60)
    assert mail.keys == ["resolved@mail", "opened@mail"]
    assert mail.taken[-1].receipt == "a@x.org"
    assert slack.headlines == []


def test_one_recipient_who_is_refused_for_good_is_told_once() -> None:
    some = PartlyDeliveredError("b@x.org refused: 550 unknown", receipt="a@x.org", permanent=True)
    mail, slack = Script(always=some), Script()
    desk = Desk({"mail": mail, "slack": slack})
    desk.add(*(letter(n, "mail", f"n{n}") for n in range(5)))
    desk.work(60)
    assert set(desk.ledger.states().values()) == {"sent"}
    assert slack.headlines == [
        "[WARNING] bloom-watch: channel mail delivers to some only: b@x.org refused: 550 unknown"
    ]


def test_a_full_disk_stops_no_message_and_repeats_none() -> None:
    slack = Script()
    desk = Desk({"slack": slack})
    desk.ledger.full = True
    desk.add(*(letter(n, name=f"n{n}") for n in range(5)))
    desk.work(60)
    assert len(slack.taken) == 5
    assert set(desk.ledger.states().values()) == {"waiting"}
    desk.add(*(letter(n, name=f"n{n}") for n in range(5)))
    desk.ledger.full = False
    desk.work(10)
    assert len(slack.taken) == 5
    assert set(desk.ledger.states().values()) == {"sent"}


def test_on_a_full_disk_messages_still_go_to_the_fallback_and_are_stored_later() -> None:
    slack, mail = Script(always=GONE), Script()
    desk = Desk({"slack": slack, "mail": mail}, replace(POLICY, fallback=("mail",)))
    desk.ledger.full = True
    desk.add(letter())
    desk.work(30)
    assert "incident-17-opened@mail" in mail.keys
    desk.ledger.full = False
    desk.work(30)
    states = desk.ledger.states()
    assert states["incident-17-opened@slack"] == "diverted"
    assert states["incident-17-opened@mail"] == "sent"


def test_later_messages_know_the_first_of_their_threads_also_after_a_restart() -> None:
    slack = Script()
    desk = Desk({"slack": slack})
    desk.add(letter(1, name="one", incidents=(1, 2)))
    desk.work()
    desk.add(letter(2, name="two", opens=False))
    desk.work()
    assert slack.roots == [(), ("receipt of one@slack",)]
    again = Script()
    after = Desk({"slack": again}, sent=(desk.ledger.rows["one@slack"],), ledger=desk.ledger)
    after.add(letter(2, name="three", opens=False))
    after.work()
    assert again.roots == [("receipt of one@slack",)]


WITH_FALLBACK = replace(POLICY, fallback=("mail",))


def _end(name: str = "ended", channel: str = "slack", now: float = NOON) -> Notification:
    return letter(1, channel, name, now, status="RESOLVED", opens=False)


def _after_a_detour() -> tuple[Desk, Script, Script]:
    """Slack failed for good, the beginning of incident 1 went to the fallback, and Slack works again."""
    slack, mail = Script(always=GONE), Script()
    desk = Desk({"slack": slack, "mail": mail}, WITH_FALLBACK)
    desk.add(letter(1, name="began"))
    desk.work(60)
    assert "began@mail" in mail.keys
    slack.always = None
    desk.outbox.rows.learn("slack", [Delivered("test-1@slack", "slack", desk.now)])
    desk.work()
    return desk, slack, mail


def test_an_end_is_told_where_its_beginning_was() -> None:
    desk, slack, mail = _after_a_detour()
    desk.add(_end(now=desk.now))
    desk.work()
    assert slack.keys == []
    assert mail.keys[-1] == "ended@mail"
    assert "did not deliver before" in mail.taken[-1].message.body
    assert desk.ledger.states()["ended@slack"] == "diverted"


def test_also_after_a_restart() -> None:
    before, _, _ = _after_a_detour()
    slack, mail = Script(), Script()
    rows = tuple(before.ledger.rows.values())
    desk = Desk({"slack": slack, "mail": mail}, WITH_FALLBACK, before.now, before.ledger, rows)
    desk.add(_end(now=desk.now))
    desk.work()
    assert (slack.keys, mail.keys) == ([], ["ended@mail"])


def test_an_end_is_told_on_both_where_the_channel_heard_of_it_later() -> None:
    desk, slack, mail = _after_a_detour()
    desk.add(letter(1, name="still", now=desk.now, status="REMINDER", opens=False))
    desk.work()
    desk.add(_end(now=desk.now))
    desk.work()
    assert slack.keys == ["still@slack", "ended@slack"]
    assert mail.keys[-1] == "ended@mail"


def test_an_end_that_goes_to_the_fallback_anyway_goes_there_once() -> None:
    desk, slack, mail = _after_a_detour()
    desk.add(_end(now=desk.now), _end(channel="mail", now=desk.now))
    desk.work()
    assert slack.keys == []
    assert mail.keys.count("ended@mail") == 1


def test_an_end_whose_beginning_nobody_heard_of_is_not_told() -> None:
    slack = Script(always=PASSING)
    desk = Desk({"slack": slack})
    desk.add(letter(1, name="began"))
    desk.work(POLICY.expire + 1)
    assert desk.ledger.states()["began@slack"] == "expired"
    slack.always = None
    desk.add(_end(now=desk.now))
    desk.work(POLICY.longest)
    assert slack.taken == []
    assert desk.ledger.states()["ended@slack"] == "expired"


def test_an_end_is_told_where_its_beginning_was_though_the_route_was_edited_since() -> None:
    pager, mail = Script(), Script()
    desk = Desk({"pager": pager, "mail": mail})
    desk.add(letter(1, "pager", name="began"))
    desk.work()
    desk.add(_end(channel="mail", now=desk.now))
    desk.work()
    assert (pager.keys, mail.keys) == (["began@pager", "ended@pager"], ["ended@mail"])
    assert pager.taken[-1].message.body.startswith("Sent here because this channel told what it ends")


def test_an_end_with_news_beside_it_or_of_more_than_what_was_lost_is_told() -> None:
    slack = Script(always=PASSING)
    desk = Desk({"slack": slack})
    desk.add(letter(1, name="began"))
    desk.work(POLICY.expire + 1)
    slack.always = None
    end = _end(now=desk.now)
    news = (*end.message.items, Item("OK", "run/job_liveness", "task 4 was replaced"))
    with_news = replace(end, message=replace(end.message, items=news))
    of_two = replace(end, key="two ended@slack", message=replace(end.message, incidents=(1, 2)))
    desk.add(with_news, of_two)
    desk.work(POLICY.longest)
    assert slack.keys == ["ended@slack", "two ended@slack"]


def test_an_end_is_told_to_those_who_heard_of_its_beginning_though_others_never_did() -> None:
    full = PartlyDeliveredError("bob's mailbox is full", receipt="alice@x.org")
    mail = Script(always=full)
    desk = Desk({"mail": mail})
    desk.add(letter(1, "mail", name="began"))
    desk.work(POLICY.expire + 1)
    assert desk.ledger.states()["began@mail"] == "expired"
    mail.always = None
    desk.add(_end(channel="mail", now=desk.now))
    desk.work(POLICY.longest)
    assert mail.keys == ["ended@mail"]


def test_an_end_that_went_to_the_fallback_comes_where_its_beginning_was_once_that_works_again() -> None:
    pager, mail = Script(), Script()
    desk = Desk({"pager": pager, "mail": mail}, WITH_FALLBACK)
    desk.add(letter(1, "pager", name="began"))
    desk.work()
    pager.always = GONE
    desk.add(_end(channel="pager", now=desk.now), letter(2, "pager", name="other", now=desk.now))
    desk.work(POLICY.pause)
    assert {"ended@mail", "other@mail"} <= set(mail.keys)
    pager.always = None
    desk.work(POLICY.pause)
    assert pager.keys == ["began@pager", "ended@pager"]
    assert mail.keys.count("ended@mail") == 1


def test_an_end_within_a_digest_is_told_where_its_beginning_was_too() -> None:
    pager, mail = Script(), Script()
    desk = Desk({"pager": pager, "mail": mail})
    desk.add(letter(1, "pager", name="began"))
    desk.work()
    digest = letter(2, "mail", name="digest", now=desk.now)
    items = (*digest.message.items, *_end().message.items)
    desk.add(replace(digest, message=replace(digest.message, incidents=(1, 2), items=items)))
    desk.work()
    assert [key.partition("-")[0] for key in pager.keys] == ["began@pager", "digest"]


def test_after_a_restart_an_end_that_waits_behind_what_is_still_to_be_told_comes_after_it() -> None:
    slack, mail = Script(), Script()
    lost = replace(letter(1, name="began"), state="diverted")
    desk = Desk({"slack": slack, "mail": mail}, WITH_FALLBACK, sent=(lost,))
    desk.add(letter(1, name="still", status="REMINDER", opens=False), _end())
    desk.work()
    assert slack.keys == ["still@slack", "ended@slack"]


def test_while_its_beginning_waits_an_end_comes_after_it() -> None:
    slack = Script(always=PASSING)
    desk = Desk({"slack": slack})
    desk.add(letter(1, name="began"), _end())
    desk.work(60)
    slack.always = None
    desk.work(POLICY.longest)
    assert slack.keys == ["began@slack", "ended@slack"]


def test_after_an_outage_all_go_in_the_order_in_which_they_came() -> None:
    slack = Script(always=PASSING)
    desk = Desk({"slack": slack})
    for number in range(4):
        desk.add(letter(number, name=f"n{number}", now=desk.now))
        desk.work(40)
    desk.add(letter(9, name="n9", now=desk.now))
    slack.always = None
    desk.work(POLICY.longest)
    assert slack.keys[1:] == sorted(set(slack.keys) - {slack.keys[0]})
    assert len(slack.keys) == 5


def test_a_channel_that_took_a_test_message_goes_on_at_once() -> None:
    slack = Script(always=GONE)
    desk = Desk({"slack": slack, "mail": Script()})
    desk.add(letter(1))
    desk.work(60)
    slack.always = None
    desk.outbox.rows.learn("slack", [Delivered("test-1@slack", "slack", desk.now)])
    desk.work()
    assert len(slack.taken) == 1
    assert desk.outbox.troubles == ()


def test_what_somebody_else_delivered_is_marked_and_not_sent() -> None:
    slack = Script(always=PASSING)
    desk = Desk({"slack": slack})
    desk.add(letter(1, name="one"), letter(1, name="two", opens=False))
    desk.work(10)
    slack.always = None
    slack.tried.clear()
    for _ in range(2):  # each round says so, until it is marked
        desk.outbox.rows.learn("slack", [Delivered("one@slack", "slack", NOON + 9, "C1 17.5")])
    desk.work()
    assert (slack.keys, slack.roots) == (["two@slack"], [("C1 17.5",)])
    row = desk.ledger.rows["one@slack"]
    assert (row.state, row.sent_at, row.receipt) == ("sent", NOON + 9, "C1 17.5")


def test_what_waits_for_a_channel_that_is_no_more_goes_elsewhere() -> None:
    mail = Script()
    desk = Desk({"mail": mail})
    desk.add(letter(channel="slack"))
    desk.work()
    assert mail.keys == ["incident-17-opened@mail"]
    assert mail.taken[0].message.body.startswith(
        "Sent here because channel slack does not deliver: there is no channel slack"
    )
    assert desk.ledger.states()["incident-17-opened@slack"] == "diverted"


def test_a_bug_in_a_channel_is_a_failure_like_any_other() -> None:
    def trip(_notification: Notification) -> None:
        raise KeyError("secret-token")

    slack, mail = Script(before=trip), Script()
    desk = Desk({"slack": slack, "mail": mail})
    desk.add(letter(), letter(channel="mail"))
    desk.work(POLICY.patience + 1)
    assert "incident-17-opened@mail" in mail.keys
    assert desk.outbox.troubles[0].failure == "channel slack failed within: KeyError"


def test_what_came_of_it_could_not_be_noted_for_want_of_memory_and_it_goes_again() -> None:
    slack = Script()
    desk = Desk({"slack": slack})
    desk.add(letter())
    with (
        patch("watchdogd.notify.delivery_plan.after_success", side_effect=MemoryError),
        pytest.raises(MemoryError),
    ):
        desk.work()
    desk.work(10)
    assert desk.ledger.rows["incident-17-opened@slack"].state == "sent"
    assert desk.outbox.waiting == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # that is the fault
def test_a_channel_whose_thread_died_delivers_again() -> None:
    slack, deaths = Script(), [GeneratorExit()]
    outbox = Outbox({"slack": slack}, Policy(), Ledger().settle)
    step = outbox.workers["slack"].step

    def dies_once() -> float:
        if deaths:
            raise deaths.pop()
        return step()

    with patch.object(outbox.workers["slack"], "step", dies_once):
        assert outbox.start() == ""
        wait_until(lambda: not outbox._threads["slack"].is_alive(), 60, "its thread died")
        outbox.add([letter(now=time.time())])
        assert outbox.start() == ""
        wait_until(lambda: slack.taken, 60, "it is delivered")
        outbox.stop(30)


def test_a_channel_for_which_there_is_no_thread_is_told_and_begins_later() -> None:
    slack = Script()
    outbox = Outbox({"slack": slack}, Policy(), Ledger().settle)
    outbox.add([letter(now=time.time())])
    with patch("threading.Thread.start", side_effect=RuntimeError("can't start new thread")):
        said = outbox.start()
        assert said.startswith("no alerts go out on slack: this user has too many processes here, or ")
    assert outbox.start() == ""
    wait_until(lambda: slack.taken, 60, "it is delivered")
    outbox.stop(30)


def test_a_storm_is_marked_in_batches_and_a_single_message_at_once() -> None:
    desk = Desk({"slack": Script()})
    desk.add(*(letter(n, name=f"n{n}") for n in range(1000)))
    desk.work()
    assert sum(desk.ledger.calls) == 1000
    assert max(desk.ledger.calls) == 50
    assert len(desk.ledger.calls) <= 60


@pytest.fixture
def hook(endpoint: WebServer, keep: Keep) -> JsonWebhook:
    """A webhook on a real server."""
    made: JsonWebhook = keep(JsonWebhook(f"{endpoint.url}/hook"))
    return made


def test_a_real_webhook_takes_them_in_order_and_stop_returns(endpoint: WebServer, hook: JsonWebhook) -> None:
    ledger = Ledger()
    outbox = Outbox({"hook": hook}, Policy(), ledger.settle)
    outbox.start()
    try:
        outbox.add(letter(1, "hook", f"n{n}", time.time()) for n in range(50))
        wait_until(lambda: not outbox.waiting, 20, "all messages are delivered and marked")
    finally:
        outbox.stop(5)
    assert [request.json()["key"] for request in endpoint.requests] == [f"n{n}@hook" for n in range(50)]
    assert set(ledger.states().values()) == {"sent"}


def test_stop_delivers_what_it_can(endpoint: WebServer, hook: JsonWebhook) -> None:
    ledger = Ledger()
    outbox = Outbox({"hook": hook}, Policy(), ledger.settle)
    outbox.add(letter(n, "hook", f"n{n}", time.time()) for n in range(30))
    outbox.start()
    outbox.stop(20)
    assert len(endpoint.requests) == 30
    assert len(ledger.states()) == 30


@pytest.mark.slow
def test_stop_returns_in_time_where_a_sender_hangs() -> None:
    released = threading.Event()
    held = Script(before=_until(released))
    outbox = Outbox({"slack": held}, Policy(), Ledger().settle)
    outbox.start()
    outbox.add([letter(now=time.time())])
    wait_until(lambda: held.tried, 30, "the message is on its way")
    began = time.monotonic()
    outbox.stop(0.2)
    assert time.monotonic() - began < AT_ONCE
    released.set()
    wait_until(lambda: held.closed, 30, "the sender is let go in the end")


def _until(answered: threading.Event) -> Callable[[Notification], None]:
    """A server that answers when the test says so."""

    def wait(_each: Notification) -> None:
        answered.wait(600)

    return wait


def test_an_edit_of_the_channels_repeats_nothing_and_loses_nothing() -> None:
    answered, ledger = threading.Event(), Ledger()
    slow, fresh, mail = Script(before=_until(answered)), Script(), Script()
    before = Outbox({"slack": slow, "mail": Script()}, Policy(), ledger.settle)
    before.start()
    letters = [letter(number, name=f"n{number}", now=time.time()) for number in (1, 2)]
    stray = letter(3, "gone", now=time.time())
    ledger.record([*letters, stray])
    before.add(letters)
    wait_until(lambda: slow.tried, 60, "the first is on its way")
    ledger.full = True
    before.stop(0.1)
    after = Outbox({"slack": fresh, "mail": mail}, Policy(fallback=("mail",)), ledger.settle)
    after.succeed(before)
    after.start()
    after.add([*letters, stray])  # as they still wait in the history
    wait_until(lambda: fresh.keys == ["n2@slack"] and mail.taken, 60, "the others go by the new channels")
    answered.set()
    wait_until(lambda: slow.closed, 60, "the first has come")
    ledger.full = False

    def all_sent() -> bool:
        after.start()  # as each round does
        return {ledger.states()[each.key] for each in letters} == {"sent"}

    wait_until(all_sent, 60, "what came of them is marked, also what the old outbox could not mark")
    after.stop(60)
    assert (slow.keys, fresh.keys) == (["n1@slack"], ["n2@slack"])


def test_what_went_another_way_while_nothing_could_be_stored_does_not_come_back_by_an_edit() -> None:
    slack, mail = Script(always=GONE), Script()
    desk = Desk({"slack": slack, "mail": mail}, WITH_FALLBACK)
    desk.ledger.record([letter()])
    desk.ledger.full = True
    desk.outbox.add([letter()])
    desk.work(5)
    assert "incident-17-opened@mail" in mail.keys
    slack.always = None
    before = desk.outbox
    desk.__post_init__()
    desk.outbox.succeed(before)
    desk.outbox.add(row for row in desk.ledger.rows.values() if row.state == "waiting")
    desk.work(60)
    assert "incident-17-opened@slack" not in slack.keys
    desk.ledger.full = False
    desk.outbox.rows.save(now=True)
    assert desk.ledger.states()["incident-17-opened@slack"] == "diverted"


def test_what_failed_while_the_channels_were_edited_goes_by_the_new_ones() -> None:
    answered = threading.Event()
    slow, fresh = Script(before=_until(answered), always=PASSING), Script()
    before = Outbox({"slack": slow}, Policy(), Ledger().settle)
    before.start()
    before.add([letter(now=time.time())])
    wait_until(lambda: slow.tried, 60, "it is on its way")
    before.stop(0.1)
    after = Outbox({"slack": fresh}, Policy(first=0.1), Ledger().settle)
    after.succeed(before)
    answered.set()
    wait_until(lambda: after.start() or fresh.taken, 60, "it goes by the new channel", every=0.2)
    after.stop(60)
    assert (len(slow.tried), len(fresh.taken)) == (1, 1)


def test_a_try_that_hangs_is_told_and_what_waits_goes_elsewhere() -> None:
    answered = threading.Event()
    ahead, ledger = [0.0], Ledger()
    held, mail = Script(before=_until(answered)), Script()
    outbox = Outbox(
        {"slack": held, "mail": mail},
        replace(POLICY, fallback=("mail",)),
        ledger.settle,
        clock=SteadyClock(lambda: time.time() + ahead[0], lambda: time.monotonic() + ahead[0]),
    )
    outbox.start()
    ledger.record(sent := [letter(now=time.time())])
    outbox.add(sent)
    wait_until(lambda: held.tried, 60, "the message is on its way")
    assert not outbox.troubles
    ahead[0] = HANGS + 1
    outbox.start()  # as each round does
    [trouble] = outbox.troubles
    assert trouble.broken
    assert "is its server's name looked up without end?" in trouble.failure
    wait_until(lambda: len(mail.taken) == 2, 60, "the other channel has the message, and why")
    assert (
        sum("channel slack does not deliver: a try has not come back" in each for each in mail.headlines) == 1
    )
    answered.set()
    wait_until(lambda: not outbox.troubles, 60, "it came back")
    wait_until(
        lambda: mail.headlines[-1:] == ["[OK] bloom-watch: channel slack delivers again"], 60, "is told"
    )
    outbox.stop(60)


@pytest.mark.slow
def test_a_thousand_messages_leave_quickly_and_one_at_once(endpoint: WebServer, hook: JsonWebhook) -> None:
    ledger = Ledger()
    outbox = Outbox({"hook": hook}, Policy(), ledger.settle)
    outbox.start()
    try:
        outbox.add([letter(0, "hook", "warm", time.time())])
        wait_until(lambda: not outbox.waiting, 10, "the first message is delivered")
        delays = []
        for number in range(10):
            asked = time.time()
            outbox.add([letter(0, "hook", f"single{number}", asked)])
            wait_until(lambda: not outbox.waiting, 30, "the single message is delivered", every=0.001)
            delays.append(endpoint.requests[-1].arrived - asked)
        assert min(delays) < 0.2  # 2 ms on an idle machine
        outbox.add(letter(n, "hook", f"n{n}", time.time()) for n in range(1, 1001))
        took = wait_until(lambda: not outbox.waiting, 60, "a thousand messages are delivered").seconds
    finally:
        outbox.stop(5)
    assert len(ledger.states()) == 1011
    assert took < 90  # 1.4 s on an idle machine of two cores
