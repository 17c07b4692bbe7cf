"""What was known before, read only after rounds had begun without it."""

from dataclasses import replace

from tests.history.values import NOW, alerts, incident, standing
from watchdogd.incidents.evaluate import resumed
from watchdogd.incidents.models import AlertState, EventKind, Silence
from watchdogd.plugin import Status

KEY = (standing().check, standing().subject)


def test_what_is_open_in_both_goes_on_with_what_people_did() -> None:
    before = incident(9, acknowledged_by="alice", acknowledged_at=NOW - 60, opened_at=NOW - 900)
    past = alerts(standing(about=before))
    anew = alerts(
        standing(about=incident(1_780_000_000, opened_at=NOW, acknowledged_by="", acknowledged_at=None))
    )
    found, events = resumed(past, anew, NOW)
    kept = found.states[KEY].incident
    assert kept is not None
    assert (kept.id, kept.acknowledged_by, kept.opened_at) == (1_780_000_000, "alice", NOW - 900)
    [ended] = events
    assert ended.incident is not None
    assert (ended.kind, ended.quiet, ended.incident.id) == (EventKind.RESOLVED, True, 9)
    assert (ended.incident.resolved_at, ended.summary) == (NOW, "it goes on as incident 1780000000")


def test_what_was_open_is_settled_by_the_results_that_come() -> None:
    past = alerts(standing(about=incident(9)))
    well = replace(standing(), status=Status.OK, hard=Status.OK, incident=None)
    for present in (AlertState(), replace(AlertState(), states={KEY: well})):
        found, events = resumed(past, present, NOW)
        assert found.states[KEY] == past.states[KEY]
        assert events == ()


def test_silences_and_ends_that_are_owed_are_kept_and_numbers_collide_with_none() -> None:
    past = AlertState({}, (Silence("a", NOW + 60, "bo"), Silence("b", NOW + 60, "bo")), 17, (incident(3),))
    anew = AlertState({}, (Silence("b", NOW + 90, "cy"),), 1_780_000_001)
    found, _ = resumed(past, anew, NOW)
    assert found.silences == (Silence("a", NOW + 60, "bo"), Silence("b", NOW + 90, "cy"))
    assert (found.next_id, [each.id for each in found.pending_recoveries]) == (1_780_000_001, [3])
