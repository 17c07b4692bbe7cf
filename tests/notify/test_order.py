"""On a channel, what is said of one thing comes in the order of what happened; no end outlives its truth."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.notify.conftest import Keep
from tests.notify.test_outbox import GONE, PASSING, POLICY, WITH_FALLBACK, Desk
from tests.notify.values import NOON, Script, letter
from tests.servers.slack import SERVER_ERROR, SlackServer
from tests.servers.smtp import Mailbox, refuse_recipient
from tests.servers.web import Answer
from watchdogd.errors import PartlyDeliveredError
from watchdogd.notify.channels.email import Account, Mail, compose
from watchdogd.notify.channels.slack import Webhook, blocks
from watchdogd.notify.delivery_plan import joined, superseded
from watchdogd.notify.notification import Item, Message, Notification

CHECK = "run-17/log_staleness"


def item(incident: int, status: str, check: str = CHECK) -> Item:
    """One incident of a check's life, as a message tells of it."""
    return Item(status, check, "as it is", incident=incident)


def said(incident: int, word: str, channel: str = "slack", *more: Item, **changes: Any) -> Notification:
    """A message about one incident of CHECK: `1 CRITICAL`, `1 RESOLVED`, `2 CRITICAL`, …"""
    values: dict[str, Any] = {
        "status": word,
        "opens": word != "RESOLVED",
        "items": (item(incident, word), *more),
        "headline": f"[{word}] run-17: {incident}",
        "incidents": (incident, *(each.incident for each in more)),
    }
    return letter(incident, channel, f"{incident} {word}", **values | changes)


BEGAN, OVER, AGAIN = said(1, "CRITICAL"), said(1, "RESOLVED"), said(2, "CRITICAL")


def _failing_at_the_end(fault: Exception = PASSING) -> tuple[Desk, Script]:
    """Incident 1 was told; its end is tried, and refused."""
    slack = Script()
    desk = Desk({"slack": slack})
    desk.add(BEGAN)
    desk.work()
    slack.faults = [fault]  # type: ignore[list-item]  # one of the script's
    desk.add(OVER)
    desk.work()
    return desk, slack


def test_an_end_that_was_refused_does_not_come_after_the_next_beginning() -> None:
    desk, slack = _failing_at_the_end()
    desk.add(AGAIN)
    desk.work(POLICY.longest)
    assert slack.keys == ["1 CRITICAL@slack", "2 CRITICAL@slack"]
    row = desk.ledger.rows["1 RESOLVED@slack"]
    assert (row.state, row.failure) == ("superseded", "told no more: [CRITICAL] run-17: 2")
    told = slack.taken[-1].message
    assert {(each.incident, each.status) for each in told.items} == {(2, "CRITICAL"), (1, "RESOLVED")}
    assert "Before this, at " in told.body
    assert "[RESOLVED] run-17: 1" in told.body
    assert told.headline == "[CRITICAL] run-17: 2"
    assert desk.outbox.waiting == 0


def test_an_end_that_is_being_tried_when_it_burns_again_is_told_with_that() -> None:
    slack = Script()
    desk = Desk({"slack": slack})
    desk.add(BEGAN)
    desk.work()
    slack.faults = [PASSING]
    slack.before = lambda each: desk.add(AGAIN) if each.key == OVER.key else None
    desk.add(OVER)
    desk.work(POLICY.longest)
    assert slack.keys == ["1 CRITICAL@slack", "2 CRITICAL@slack"]


def test_an_end_with_other_news_comes_before_the_next_beginning_however_often_it_was_refused() -> None:
    slack = Script(faults=[PASSING, PASSING, PASSING])
    desk = Desk({"slack": slack})
    news = said(1, "RESOLVED", "slack", item(7, "WARNING", "other"), status="WARNING")
    desk.add(news, AGAIN)
    desk.work(POLICY.longest)
    assert slack.keys == [news.key, AGAIN.key]


def test_what_is_said_of_another_subject_waits_for_nobody() -> None:
    desk, slack = _failing_at_the_end()
    other = letter(3, name="other", items=(replace(item(3, "CRITICAL"), subject="node7"),))
    desk.add(other)
    desk.work(POLICY.longest)
    assert slack.keys == ["1 CRITICAL@slack", "other@slack", "1 RESOLVED@slack"]


def test_the_next_beginning_gets_through_where_the_end_itself_is_refused_for_ever() -> None:
    desk, slack = _failing_at_the_end()

    def dislike(each: Notification) -> None:
        if each.key == OVER.key:
            raise PASSING

    slack.before = dislike
    desk.add(AGAIN)
    desk.work(POLICY.longest)
    assert slack.keys[-1] == "2 CRITICAL@slack"


def test_an_end_comes_once_the_next_beginning_went_another_way() -> None:
    slack, mail = Script(always=GONE), Script()
    desk = Desk({"slack": slack, "mail": mail}, WITH_FALLBACK, sent=(replace(BEGAN, state="sent"),))
    desk.add(OVER)
    desk.work(60)
    desk.add(replace(AGAIN, created_at=desk.now))
    desk.work(60)
    assert [key for key in mail.keys if key[0].isdigit()] == ["1 RESOLVED@mail", "2 CRITICAL@mail"]
    slack.always = None
    desk.work(POLICY.pause)
    assert slack.keys == ["2 CRITICAL@slack"]
    desk.add(said(2, "RESOLVED", now=desk.now))
    desk.work()
    assert slack.keys == ["2 CRITICAL@slack", "2 RESOLVED@slack"]


def test_a_detour_ends_where_newer_words_came_first() -> None:
    """The route is by Slack alone; the escalation of incident 2 calls the fallback itself."""
    slack, mail = Script(always=PASSING), Script()
    desk = Desk({"slack": slack, "mail": mail}, WITH_FALLBACK)
    desk.add(said(1, "RESOLVED"))
    desk.work(60)
    desk.add(said(2, "CRITICAL", "mail", now=desk.now))
    desk.work(POLICY.patience + 1)
    assert "2 CRITICAL@mail" in mail.keys
    assert "1 RESOLVED@mail" not in mail.keys
    assert desk.ledger.states()["1 RESOLVED@mail"] == "superseded"


def test_a_standing_channel_is_told_each_end() -> None:
    slack, mail = Script(always=PASSING), Script()
    policy = replace(WITH_FALLBACK, standing=frozenset({"mail"}))
    desk = Desk({"slack": slack, "mail": mail}, policy)
    desk.add(said(1, "RESOLVED"))
    desk.work(60)
    desk.add(said(2, "CRITICAL", "mail", now=desk.now))
    desk.work(POLICY.patience + 1)
    assert [key for key in mail.keys if key[0].isdigit()] == ["2 CRITICAL@mail", "1 RESOLVED@mail"]


def test_a_beginning_whose_end_was_told_is_told_no_more() -> None:
    some = PartlyDeliveredError("bob's mailbox is full", receipt="alice@x.org")
    mail = Script(faults=[some])
    desk = Desk({"mail": mail})
    desk.add(said(1, "CRITICAL", "mail"), said(1, "RESOLVED", "mail"))
    desk.work(POLICY.longest)
    assert mail.keys == ["1 RESOLVED@mail"]
    assert desk.ledger.states()["1 CRITICAL@mail"] == "superseded"


def test_what_comes_late_to_some_says_what_was_told_since() -> None:
    some = PartlyDeliveredError("bob's mailbox is full", receipt="alice@x.org")
    mail = Script(faults=[some])
    desk = Desk({"mail": mail})
    both = said(1, "RESOLVED", "mail", item(7, "WARNING", "other"), status="WARNING")
    desk.add(both, said(2, "CRITICAL", "mail"))
    desk.work(POLICY.longest)
    assert mail.keys == ["2 CRITICAL@mail", "1 RESOLVED@mail"]
    late = mail.taken[-1].message
    assert late.items == (item(7, "WARNING", "other"),)
    assert "No longer so, as was told since: [RESOLVED] as it is" in late.body


@pytest.mark.parametrize("state", ["sent", "superseded"])
def test_after_a_restart_it_is_the_same(state: str) -> None:
    slack = Script()
    past = (replace(BEGAN, state="sent"), replace(AGAIN, state="sent"), said(2, "RESOLVED"))
    desk = Desk({"slack": slack}, sent=(*past[:2], replace(past[2], state=state)))
    desk.add(OVER, said(2, "REMINDER", opens=False))
    desk.work()
    assert slack.keys == []
    assert set(desk.ledger.states().values()) == {"superseded"}


def test_a_killed_daemon_leaves_the_end_to_the_next_which_tells_it_with_the_beginning() -> None:
    desk, _ = _failing_at_the_end()
    desk.add(AGAIN)
    again = Script()
    rows = desk.ledger.rows.values()
    after = Desk({"slack": again}, sent=tuple(each for each in rows if each.state == "sent"))
    after.add(*(each for each in rows if each.state == "waiting"))
    after.work(POLICY.longest)
    assert again.keys == ["2 CRITICAL@slack"]


def test_a_full_disk_changes_nothing() -> None:
    desk, slack = _failing_at_the_end()
    desk.ledger.full = True
    desk.add(AGAIN)
    desk.work(POLICY.longest)
    assert slack.keys == ["1 CRITICAL@slack", "2 CRITICAL@slack"]
    desk.ledger.full = False
    desk.work(60)
    assert desk.ledger.states()["1 RESOLVED@slack"] == "superseded"


def test_what_is_superseded_says_by_what() -> None:
    assert superseded(OVER, "a\nb").failure == "told no more: a b"


def test_on_slack_the_last_word_is_that_it_burns(slack: SlackServer, keep: Keep) -> None:
    desk = Desk({"slack": keep(Webhook(slack.url))})
    desk.add(BEGAN)
    desk.work()
    slack.behave([SERVER_ERROR, Answer(502)])
    desk.add(OVER)
    desk.work(3)
    desk.add(AGAIN)
    desk.work(POLICY.longest)
    assert [each.text for each in slack.messages] == ["[CRITICAL] run-17: 1", "[CRITICAL] run-17: 2"]


def test_by_mail_the_last_word_to_each_is_that_it_burns(mailbox: Mailbox) -> None:
    account = Account((mailbox.url,), "watch@example.org", ("alice@example.org", "bob@example.org"))
    desk = Desk({"mail": Mail(account)})  # type: ignore[dict-item]  # any sender
    desk.add(said(1, "CRITICAL", "mail"))
    desk.work()
    mailbox.behave([refuse_recipient("bob@example.org", 452)])
    desk.add(said(1, "RESOLVED", "mail"))
    desk.work(1)
    desk.add(said(2, "CRITICAL", "mail"))
    desk.work(POLICY.longest)
    for person in account.to:
        told = [str(each.message["Subject"]) for each in mailbox.messages if person in each.recipients]
        assert told[-1] == "[CRITICAL] run-17: 2"
    assert desk.ledger.states()["1 RESOLVED@mail"] == "superseded"


EVIL = "<!channel> [x](http://evil.test)\n\x1b[31m\u202egnp <script>\r\nBcc: eve@evil.test"


def test_what_others_wrote_stays_harmless_where_it_is_told_with_something_newer() -> None:
    end = said(1, "RESOLVED", headline=f"[RESOLVED] run-17: {EVIL}")
    late = Item("RESOLVED", CHECK, EVIL, incident=1)
    message = joined(AGAIN.message, [end], frozenset({late}))
    notes = message.body.removeprefix(AGAIN.message.body).strip().splitlines()
    assert [note.split(",")[0].split(":")[0] for note in notes] == ["Before this", "No longer so"]
    assert all(note.isprintable() for note in notes)
    assert "<!channel>" not in json.dumps(blocks(message))
    letter = compose(replace(AGAIN, message=message), (), Account(("smtp://x",), "w@x.test", ("a@x.test",)))
    assert letter["Bcc"] is None
    html = letter.get_body(("html",))
    assert html is not None
    assert "<script>" not in html.get_content()


def test_a_message_without_items_outdates_nothing() -> None:
    empty = Message("[WARNING] x: y", "", "WARNING", "x", "notice-1", NOON)
    assert not AGAIN.message.begins_anew(empty)
    assert not empty.begins_anew(OVER.message)
