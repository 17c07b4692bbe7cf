"""Rounds go in, and come out as they were."""

import json
import stat
import threading
from dataclasses import replace
from math import inf, isnan, nan
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import text
from sqlalchemy.sql.compiler import SQLCompiler

from tests.history.values import (
    NOW,
    alerts,
    incident,
    new_home,
    notification,
    opened,
    opening,
    round_of,
    seen,
    standing,
)
from watchdogd.errors import HistoryError
from watchdogd.history.models import Change, Gap, Past, Record, UserAction
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.incidents.models import AlertState, EventKind, IncidentEvent
from watchdogd.plugin import Metric, Result, Status

# ---------------------------------------------------------------------- what a daemon goes on from


def test_the_first_incident_waits_for_no_statement_to_be_made(store: Store) -> None:
    held = incident()
    round_with_incident = Record(
        NOW + 60,
        observations=(seen(NOW + 60, status=Status.CRITICAL, lag=900.0),),
        alerts=alerts(standing(about=held)),
        events=(opening(),),
        notifications=(notification(),),
    )
    store.record(round_of(NOW, lag=1.0))
    with patch.object(SQLCompiler, "process", side_effect=AssertionError("a statement is compiled")):
        store.record(round_with_incident)
        store.settle([replace(notification(), state="sent", sent_at=NOW + 61)])
    assert [each.state for each in store.notifications()] == ["sent"]


def test_a_new_home_has_no_past(store: Store) -> None:
    assert store.past() == Past()
    assert store.troubles == ()


def test_the_next_daemon_finds_what_the_last_one_knew(store: Store, home: Home) -> None:
    held = incident()
    known = alerts(
        standing(about=held),
        standing(NOW - 5, check="scratch/disk_quota", subject="", incident=None, flips=()),
        pending_recoveries=(incident(9, resolved_at=NOW - 1),),
    )
    store.record(
        Record(
            NOW,
            alerts=known,
            events=(opening(),),
            notifications=(notification(),),
            memories={"run-17/log_staleness": '{"offset":1200,"rhythm":[1.5,null],"name":"Zürich"}'},
            started={"run-17/log_staleness": NOW - 1.125},
        )
    )
    store.close()
    past = opened(home).past()
    assert past.alerts == known
    assert past.last_round == NOW
    assert past.started == {"run-17/log_staleness": NOW - 1.125}
    assert past.memories == {"run-17/log_staleness": '{"offset":1200,"rhythm":[1.5,null],"name":"Zürich"}'}
    assert past.waiting == (notification(id=1),)


@pytest.mark.parametrize("kept", ["null", "[]", "7", '"a"', "{{{", "", '{"offset":12', "[NaN"])
def test_what_a_check_remembers_and_nobody_can_read_costs_that_check_alone(store: Store, kept: str) -> None:
    known = {"run-17/log_staleness": kept, "run-4/log_staleness": '{"offset":7}'}
    store.record(Record(NOW, alerts=alerts(standing()), memories=known))
    past = store.past()
    assert past.memories == {"run-4/log_staleness": '{"offset":7}'}
    assert past.last_round == NOW
    assert store.troubles == ("what run-17/log_staleness remembers cannot be read: it begins anew",)
    assert store.memories(list(known)) == past.memories


def test_the_book_is_kept_exactly_as_it_changes(store: Store, home: Home) -> None:
    gone = standing(check="old/check", subject="")
    store.record(Record(NOW, alerts=alerts(standing(), gone)))
    for step in range(1, 4):
        calm = standing(NOW + step, streak=3 + step, summary=f"no line for {31 + step}m")
        store.record(Record(NOW + step, alerts=alerts(calm)))
    assert store.past().alerts == alerts(calm)
    worse = replace(calm, status=Status.UNKNOWN, hard=Status.WARNING, flips=(NOW,), details="x")
    store.record(Record(NOW + 9, alerts=alerts(worse, next_id=43)))
    assert store.past().alerts == alerts(worse, next_id=43)
    again = opened(home)
    again.record(Record(NOW + 10, alerts=AlertState(next_id=43)))
    assert again.past().alerts == AlertState(next_id=43)
    again.close()


def test_ids_of_incidents_are_never_given_twice(store: Store) -> None:
    store.record(Record(NOW, events=(opening(80),), alerts=AlertState(next_id=1)))
    assert store.past().alerts.next_id == 81


def test_a_standing_of_another_version_is_read_as_far_as_it_goes(store: Store, home: Home) -> None:
    store.record(Record(NOW, alerts=alerts(standing(), standing(check="odd/check", subject=""))))
    with store._database.transaction(writing=True) as connection:
        older = '{"check":"run-17/log_staleness","subject":"node5","status":2,"summary":"","at":1,'
        older += '"since":5.0,"attempts":1,"added_later":{"a":1}}'
        for value, check in ((older, "run-17/log_staleness"), ("[]", "odd/check")):
            connection.execute(
                text('UPDATE check_states SET value = :v WHERE "check" = :c'), {"v": value, "c": check}
            )
    check_states = store.past().alerts.states
    assert check_states["run-17/log_staleness", "node5"].since == 5.0
    assert check_states["run-17/log_staleness", "node5"].at == NOW
    assert ("odd/check", "") not in check_states
    assert store.troubles == ("what was known of odd/check cannot be read: it is judged anew",)


def test_what_no_database_can_hold_is_stored_a_little_changed(store: Store, home: Home) -> None:
    bad = "line \udc80 of a log\0"
    record = Record(
        NOW,
        (seen(NOW, check=bad, summary=bad, subject=bad, lag=1.0),),
        alerts=alerts(standing(check=bad, summary=bad, about=incident(summary=bad, details=bad))),
        events=(IncidentEvent(EventKind.NOTICE, NOW, bad, bad, bad, bad),),
        notifications=(notification(failure=bad),),
        memories={bad: json.dumps({"last": bad})},
        touches=(bad,),
    )
    store.record(record)
    store.record(replace(record, at=NOW + 60))
    past = opened(home).past()
    assert [each.summary for each in past.alerts.states.values()] == [
        "line ? of a log\N{REPLACEMENT CHARACTER}"
    ]
    cleaned = "line ? of a log\N{REPLACEMENT CHARACTER}"
    assert store.touches() == [UserAction(NOW, cleaned), UserAction(NOW + 60, cleaned)]
    assert len(past.memories) == 1


# ---------------------------------------------------------------------- a round is stored once


def everything() -> Record:
    return Record(
        NOW,
        (seen(NOW, lag=12.0), seen(NOW, subject="x", status=Status.WARNING, lag=1.0)),
        alerts=alerts(standing(about=incident())),
        events=(opening(),),
        notifications=(notification("a@mail"), notification("b@slack")),
        memories={"c": '{"n":1}'},
        started={"c": NOW},
        gaps=(Gap(NOW - 900, NOW - 300, "the node died"),),
        touches=("bob set the kill switch of run-17: wrong learning rate",),
    )


def contents(store: Store) -> list[object]:
    return [
        store.past(),
        store.notifications(),
        store.readings(),
        store.changes(),
        store.events(),
        store.incidents(),
        store.gaps(),
        store.touches(),
        store.series("run-17/log_staleness", 0),
    ]


def test_the_same_round_again_changes_nothing(store: Store, home: Home) -> None:
    store.record(everything())
    once = contents(store)
    store.record(everything())
    assert contents(store) == once
    later = opened(home)  # as after a write that timed out, and was done all the same
    later.record(everything())
    assert contents(later) == once
    later.close()


def test_a_round_that_fails_in_the_middle_leaves_nothing(store: Store) -> None:
    store.record(round_of(NOW, lag=1.0))
    before = contents(store)
    broken = replace(everything(), at=NOW + 60, gaps=(Gap(None, 1.0),))  # type: ignore[arg-type]  # it fails in the middle
    with pytest.raises(HistoryError):
        store.record(broken)
    assert contents(store) == before
    store.record(everything())
    assert len(store.notifications()) == 2


def test_two_threads_record_and_settle(store: Store) -> None:
    keys = [f"{number}@mail" for number in range(60)]

    def settle() -> None:
        for key in keys:
            store.settle([notification(key, "sent", attempts=1, sent_at=NOW + 9)])

    thread = threading.Thread(target=settle)
    thread.start()
    for number, key in enumerate(keys):
        at = NOW + number
        store.record(Record(at, (seen(at, lag=number),), notifications=(notification(key),)))
    thread.join(240)
    assert store.waiting() == []
    assert {each.key for each in store.notifications(state="sent")} == set(keys)
    assert len(store.series("run-17/log_staleness", 0)["", "lag"]) == len(keys)


# ---------------------------------------------------------------------- notifications


def test_an_outcome_is_set_once(store: Store) -> None:
    store.record(Record(NOW, notifications=(notification(),)))
    retried = notification(attempts=1, next_try=NOW + 60, failure="451 try again later")
    store.settle([retried])
    assert store.waiting() == [replace(retried, id=1)]
    sent = notification(state="sent", attempts=2, sent_at=NOW + 61, receipt="<17@host>")
    store.settle([sent])
    store.settle([retried])
    store.settle([notification(state="expired")])
    assert store.notifications() == [replace(sent, id=1, next_try=NOW + 5)]
    assert store.waiting() == []


def test_what_was_sent_from_memory_is_not_sent_again_once_its_round_is_stored(store: Store) -> None:
    store.settle([notification(state="sent", attempts=1, sent_at=NOW)])
    store.record(Record(NOW, notifications=(notification(),)))
    assert store.waiting() == []


def test_what_became_of_several_is_stored_at_once(store: Store) -> None:
    first, second = notification("first"), notification("second")
    store.record(Record(NOW, notifications=(first,)))
    store.settle([replace(each, state="sent", sent_at=NOW) for each in (first, second)])
    assert {each.key: each.state for each in store.notifications()} == {"first": "sent", "second": "sent"}
    store.settle([replace(each, state="expired") for each in (first, second)])
    assert {each.state for each in store.notifications()} == {"sent"}


def test_notifications_by_state_time_and_number(store: Store) -> None:
    made = [
        notification(f"{n}@mail", created_at=NOW + n, state="sent" if n % 2 else "waiting") for n in range(6)
    ]
    store.record(Record(NOW, notifications=tuple(made)))
    assert [each.key for each in store.waiting()] == ["0@mail", "2@mail", "4@mail"]
    assert [each.key for each in store.notifications(state="sent", since=NOW + 2)] == ["3@mail", "5@mail"]
    assert [each.key for each in store.notifications(limit=2)] == ["4@mail", "5@mail"]


# ---------------------------------------------------------------------- looking back


def test_series_are_by_subject_and_metric(store: Store) -> None:
    for step in range(3):
        at = NOW + 60 * step
        store.record(
            Record(
                at,
                (
                    seen(at, lag=step, size=10 * step),
                    seen(at, subject="node5", lag=7),
                    seen(at, check="scratch/disk_quota", run="", target="scratch", used=1),
                ),
            )
        )
    found = store.series("run-17/log_staleness", NOW + 30)
    assert found == {
        ("", "lag"): ((NOW + 60, 1.0), (NOW + 120, 2.0)),
        ("", "size"): ((NOW + 60, 10.0), (NOW + 120, 20.0)),
        ("node5", "lag"): ((NOW + 60, 7.0), (NOW + 120, 7.0)),
    }
    store.record(round_of(NOW + 180, lag=9))
    assert store.series("run-17/log_staleness", NOW + 150) == {("", "lag"): ((NOW + 180, 9.0),)}


def test_numbers_that_are_none_and_numbers_without_end(store: Store) -> None:
    store.record(round_of(NOW, loss=nan, top=inf))
    result = Result(Status.OK, "odd", {"loss": Metric("much")})  # type: ignore[arg-type]  # as a plugin might
    store.record(Record(NOW + 1, (replace(seen(NOW + 1), result=result),)))
    assert store.series("run-17/log_staleness", 0) == {("", "top"): ((NOW, inf),)}
    values = {(each.metric, each.at): each.value for each in store.readings() if each.metric}
    assert values.pop(("top", NOW)) == inf
    assert len(values) == 2
    assert all(value is not None and isnan(value) for value in values.values())
    assert [each.metric for each in store.measures()] == ["top"]


def test_only_turns_of_status_are_kept(store: Store, home: Home) -> None:
    turns = [Status.OK, Status.OK, Status.WARNING, Status.WARNING, Status.OK]
    for step, status in enumerate(turns):
        if step == 3:
            store.close()
        store.record(Record(NOW + step, (seen(NOW + step, status=status, summary=f"s{step}"),)))
    assert store.changes("run-17", since=NOW + 1) == [
        Change(NOW + 2, "run-17", "run-17/log_staleness", "", Status.WARNING, "s2"),
        Change(NOW + 4, "run-17", "run-17/log_staleness", "", Status.OK, "s4"),
    ]
    assert len(store.changes()) == 3


def test_a_reading_has_the_status_of_its_time(store: Store) -> None:
    for step, status in enumerate([Status.OK, Status.CRITICAL, Status.CRITICAL]):
        at = NOW + 60 * step
        store.record(Record(at, (seen(at, status=status, summary=f"s{step}", lag=step),)))
    lines = [
        (line.at - NOW, line.status.name, line.metric, line.value, line.unit, line.summary)
        for line in store.readings("run-17", since=NOW + 1)
    ]
    assert lines == [
        (60, "CRITICAL", "", None, "", "s1"),
        (60, "CRITICAL", "lag", 1.0, "s", "s1"),
        (120, "CRITICAL", "lag", 2.0, "s", "s1"),
    ]


@pytest.mark.parametrize("target", ["scratch", "scratch/disk_quota"])
def test_a_target_is_a_short_or_a_full_name(store: Store, target: str) -> None:
    disk = seen(NOW, check="scratch/disk_quota", run="", target="scratch", used=5.0)
    store.record(
        Record(
            NOW,
            (disk, seen(NOW, lag=1)),
            events=(opening(), replace(opening(), check="scratch/disk_quota", run="", target="scratch")),
        )
    )
    assert [line.check for line in store.readings(target)] == ["scratch/disk_quota"] * 2
    assert [line.check for line in store.changes(target)] == ["scratch/disk_quota"]
    assert [line.check for line in store.measures(target)] == ["scratch/disk_quota"]
    assert [line.check for line in store.events(target)] == ["scratch/disk_quota"]
    assert store.readings("scr") == []


def test_incidents_as_they_are_after_the_round(store: Store) -> None:
    first = incident(1)
    ended = incident(2, resolved_at=NOW + 100, recovery="a line again", check="other", run="", target="other")
    store.record(Record(NOW, events=(opening(1),), alerts=alerts(standing(about=first))))
    worse = replace(first, notified=Status.CRITICAL)
    store.record(
        Record(
            NOW + 60,
            events=(
                replace(opening(), incident=first),
                replace(opening(), kind=EventKind.RESOLVED, incident=ended),
            ),
            alerts=alerts(standing(about=worse)),
        )
    )
    assert store.incidents() == [ended, worse]
    assert store.incidents(open_only=True) == [worse]
    assert store.incidents(since=NOW + 101) == [worse]
    assert store.incidents(since=NOW + 99, target="other") == [ended]
    assert store.incident(2) == ended
    assert store.incident(3) is None


def test_gaps_and_touches_since_a_time(store: Store) -> None:
    store.record(Record(NOW, gaps=(Gap(1.0, 2.0), Gap(NOW - 60, NOW, "moved")), touches=("one",)))
    store.record(Record(NOW + 60, touches=("two", "two more")))
    assert store.gaps(since=100) == [Gap(NOW - 60, NOW, "moved")]
    assert store.touches(since=NOW + 1) == [UserAction(NOW + 60, "two"), UserAction(NOW + 60, "two more")]


# ---------------------------------------------------------------------- files and URLs


@pytest.mark.parametrize(("group", "mode"), [(None, 0o600), pytest.param(0, 0o660, marks=pytest.mark.root)])
def test_files_have_the_rights_of_home(tmp_path: Path, group: int | None, mode: int) -> None:
    home = new_home(tmp_path, group)
    store = opened(home)
    store.record(everything())
    store.backup()
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.path.glob("history*")}
    assert files == dict.fromkeys(("history.db", "history.db-journal", "history.backup.db"), mode)
    store.close()


def test_those_that_look_make_nothing(home: Home) -> None:
    for _ in range(2):
        with pytest.raises(HistoryError, match="there is none yet"):
            opened(home, owner=False)
    assert not home.history.exists()


def test_those_that_look_see_a_daemons_rounds(store: Store, home: Home) -> None:
    looking = opened(home, owner=False)
    store.record(round_of(NOW, lag=1))
    assert len(looking.readings()) == 2
    store.record(round_of(NOW + 60, lag=2))
    assert len(looking.readings()) == 3
    looking.close()


def test_relative_paths_hang_on_home_and_others_are_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = new_home(tmp_path)
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    Store.open("sqlite:///logs/../h.db", home).close()
    Store.open("sqlite:///$SCRATCH/i.db", home).close()
    assert (home.path / "h.db").exists()
    assert (tmp_path / "i.db").exists()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("history.db", "is no URL"),
        ("sqlite://", "names no file"),
        ("mysql://alice:secret@host/db", "names mysql: SQLite and PostgreSQL are supported"),
        ("postgresql+nodriver://alice:secret@host/db", "install the driver"),
    ],
)
def test_a_url_that_cannot_be_used_is_told_in_one_line_without_its_password(
    tmp_path: Path, wrong: str, said: str
) -> None:
    home = new_home(tmp_path)
    with pytest.raises(HistoryError) as error:
        Store.open(wrong, home)
    assert said in str(error.value)
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_the_default_url_is_the_file_that_home_names(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    opened(home).close()
    assert home.history.exists()
