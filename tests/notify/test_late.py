"""A message that comes late says how late, and whether what it reports has ended since."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.notify.test_outbox import GONE, PASSING, POLICY, Desk
from tests.notify.values import NOON, Script, letter
from watchdogd.notify.channel_state import QuietHours
from watchdogd.notify.delivery_plan import as_late
from watchdogd.notify.notification import Message, Notification
from watchdogd.units import local_time

FACT = "no new line for 25m"


def ended(now: float, *, recovered: bool = True) -> Notification:
    return letter(1, "slack", "end", now, status="RESOLVED", opens=False, recovered=recovered)


def heard(script: Script) -> list[Message]:
    return [taken.message for taken in script.taken]


def test_one_that_comes_at_once_is_as_it_was_written() -> None:
    message = letter(1).message
    assert as_late(message, {}, NOON + 59) is message


@pytest.mark.parametrize(("recovered", "since"), [(True, "recovered since"), (False, "ended since")])
def test_an_alert_whose_end_waits_behind_it_says_so(recovered: bool, since: str) -> None:
    """A channel was down for so long."""
    slack = Script(always=PASSING)
    desk = Desk({"slack": slack})
    desk.add(letter(1))
    desk.work(40)
    desk.add(ended(NOON + 40, recovered=recovered))
    desk.work(50)
    slack.always = None
    desk.work(600)
    begun, end = heard(slack)
    assert begun.headline.endswith(f" late, {since}: {FACT}")
    assert begun.headline.startswith("[CRITICAL] run-1: ")
    first, then, what = begun.body.split("\n")[:3]
    assert first.startswith("This message is ")
    assert then == f"{since.split()[0].title()} at {local_time(NOON + 40)}: no new line"
    assert what == f"What follows is as it was at {local_time(NOON)}."
    assert end.headline.startswith("[RESOLVED] run-1: ")


def test_one_that_still_holds_says_how_late_it_is_on_the_fallback_too() -> None:
    slack, mail = Script(always=GONE), Script(always=PASSING)
    desk = Desk({"slack": slack, "mail": mail}, replace(POLICY, fallback=("mail",)))
    desk.add(letter(1))
    desk.work(100)
    mail.always = None
    desk.work(600)
    (diverted,) = (each for each in heard(mail) if each.incidents == (1,))
    assert diverted.headline.startswith("[CRITICAL] run-1: ")
    assert diverted.headline.endswith(f" late: {FACT}")
    assert diverted.body.startswith("This message is ")
    assert "Sent here because channel slack does not deliver" in diverted.body


def test_one_that_waited_for_the_end_of_quiet_hours_is_late() -> None:
    noon = datetime.fromtimestamp(NOON, UTC)
    hours = QuietHours((noon - timedelta(hours=1)).time(), (noon + timedelta(hours=2)).time(), UTC)
    slack = Script()
    desk = Desk({"slack": slack}, replace(POLICY, quiet={"slack": hours}))
    desk.add(letter(1, status="WARNING"))
    desk.work(3 * 3600)
    (told,) = heard(slack)
    assert told.headline == f"[WARNING] run-1: 2h late: {FACT}"


def test_of_several_alerts_the_one_that_has_ended_is_named_below() -> None:
    two = letter(1).message
    two = replace(two, items=(*two.items, *letter(2).message.items), incidents=(1, 2))
    told = as_late(two, {1: ended(NOON + 90).message}, NOON + 100)
    assert told.headline == f"[CRITICAL] run-1: 100s late: {FACT}"
    assert f"\nRecovered at {local_time(NOON + 90)}: no new line\n" in told.body


def test_a_first_line_that_is_cut_for_it_stands_whole_below() -> None:
    fact = "no new line for 25m (limit 20m), at step 81,240/95,000; node n17 (GPU 3) waits for rank 137"
    told = as_late(letter(1, headline=f"[CRITICAL] run-1: {fact}").message, {}, NOON + 3600)
    assert len(told.headline) <= 100
    assert told.headline.startswith("[CRITICAL] run-1: 1h late: no new line for 25m")
    assert told.line == f"[CRITICAL] run-1: 1h late: {fact}"
    assert told.body.split("\n")[2] == fact
