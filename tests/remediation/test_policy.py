"""What is done for an incident, in which order, how often, and what is left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from watchdogd.incidents import message_wording
from watchdogd.plugin import Advice
from watchdogd.remediation.models import BEGUN, DONE, EVIDENCE, FAILED, LOST, SKIPPED, Action, ActionRecord
from watchdogd.remediation.policy import (
    DAY,
    GATHERED,
    REST,
    ActionLimits,
    ActionRequest,
    Foreign,
    PendingAction,
    decide,
    forget,
    pending,
)
from watchdogd.units import local_time

NOW = 1_790_000_000.0
STACKS, SAVE, REQUEUE, CANCEL = Action("stacks"), Action("save-switch"), Action("requeue"), Action("cancel")
CALL = Action("exec", ("call", "--who", "ops"))
HANG = ActionRequest(7, "glide", "on_hang", (STACKS, REQUEUE))


class Desk:
    """Decides round after round, and remembers."""

    def __init__(self, rules: ActionLimits | None = None) -> None:
        self.rules = rules or ActionLimits()
        self.records: tuple[ActionRecord, ...] = ()
        self.now = NOW

    def round(self, *cases: ActionRequest, after: float = 60.0, room: int = 4) -> list[ActionRecord]:
        self.now += after
        fresh = decide(cases, self.records, self.rules, self.now, room)
        self.records += tuple(fresh)
        return fresh

    def pending(self, *cases: ActionRequest) -> list[PendingAction]:
        return list(pending(cases, self.records, self.rules, self.now))

    def promise(self, *cases: ActionRequest) -> str:
        """What the alert says of what is to come."""
        return message_wording.upcoming([each.next(self.now) for each in self.pending(*cases)])

    def end(self, state: str = DONE) -> None:
        """All that is under way has come to that."""
        self.records = tuple(
            each if each.ended else replace(each, state=state, ended_at=self.now) for each in self.records
        )

    def until_nothing(self, *cases: ActionRequest) -> list[str]:
        """What is done until nothing is left to do, in order."""
        labels = []
        while fresh := self.round(*cases, after=1.0):
            labels += [record.action.label for record in fresh if not record.ended]
            self.end()
        return labels


def labels(records: list[ActionRecord]) -> list[str]:
    return [record.action.label for record in records]


def states(records: list[ActionRecord]) -> list[tuple[str, str]]:
    return [(record.action.label, record.state) for record in records]


def test_one_after_the_other_in_their_order() -> None:
    desk = Desk()
    assert labels(desk.round(HANG)) == ["stacks"]
    assert desk.round(HANG) == []
    desk.end()
    assert labels(desk.round(HANG)) == ["requeue"]
    desk.end()
    assert desk.round(HANG) == []


def test_what_is_under_way_or_to_come_is_pending() -> None:
    desk = Desk()
    case = replace(HANG, actions=(EVIDENCE, *HANG.actions))

    def coming() -> list[tuple[str, bool]]:
        return [(each.action.label, each.began is not None) for each in desk.pending(case)]

    assert coming() == [("stacks", False), ("requeue", False)]
    for expected in ([("stacks", False), ("requeue", False)], [("stacks", True), ("requeue", False)]):
        desk.end()
        desk.round(case)
        assert coming() == expected
    desk.end()
    desk.round(case)
    desk.end()
    assert coming() == []


STOPS = "An acknowledgement or a silence stops that."


def test_a_promise_says_when_a_limit_delays_it() -> None:
    desk, case = Desk(), ActionRequest(7, "glide", "on_gone", (CALL, REQUEUE))
    assert desk.promise(case) == f"watchdogd will run call, then requeue its job. {STOPS}"
    desk.round(ActionRequest(3, "glide", "on_hang", (REQUEUE,)))
    at = local_time(desk.now + REST)
    assert desk.promise(case) == (
        f"watchdogd will run call, then requeue its job at {at} at the earliest (it does so now). {STOPS}"
    )
    desk.end()
    desk.round(after=66.0)
    assert desk.promise(case) == (
        f"watchdogd will run call, then requeue its job at {at} at the earliest (it did so 66s ago). {STOPS}"
    )
    assert labels(desk.round(case)) == [CALL.label]
    desk.end()
    ago = "it did so 2m6s ago"
    assert desk.promise(case) == f"watchdogd will requeue its job at {at} at the earliest ({ago}). {STOPS}"
    assert labels(desk.round(case, after=REST - 126)) == ["requeue"], "it comes when it was promised for"


def test_what_a_limit_refuses_is_not_promised() -> None:
    desk = Desk(ActionLimits(max_per_day=1))
    desk.round(replace(HANG, actions=(REQUEUE,)))
    desk.end()
    desk.now += 2 * REST
    again = replace(HANG, incident=8)
    why = "1 today already (max_per_day)"
    assert desk.promise(again) == (f"watchdogd will take stacks. {STOPS} It will not requeue its job: {why}.")
    desk.rules = ActionLimits(certain=False)
    unknown = "the history cannot be read, so nobody knows what was done before"
    assert desk.promise(again) == (
        f"watchdogd will take stacks. {STOPS} It will not requeue its job: {unknown}."
    )


def test_what_the_owner_of_a_job_alone_may_is_neither_promised_nor_tried() -> None:
    by_hand = Advice("To restart it (as bob):", "scontrol requeue 41")
    desk, case = (
        Desk(),
        replace(HANG, foreign=Foreign("job 41 is bob's, who alone may", {"requeue": by_hand})),
    )
    assert desk.promise(case) == (
        "watchdogd will take stacks. An acknowledgement or a silence stops that. "
        "It will not requeue its job: job 41 is bob's, who alone may."
    )
    assert labels(desk.round(case)) == ["stacks"]
    desk.end()
    (refused,) = desk.round(case)
    assert (refused.state, refused.outcome) == (SKIPPED, "job 41 is bob's, who alone may")
    assert refused.advice("glide") == (by_hand,)
    assert desk.round(case) == []


def test_the_end_of_a_process_is_promised_as_that() -> None:
    case = ActionRequest(7, "glide", "on_hang", (CANCEL,), process=True)
    assert Desk().promise(case).startswith("watchdogd will end its process. ")


def test_what_fails_holds_up_nothing() -> None:
    desk = Desk()
    desk.round(HANG)
    desk.end(FAILED)
    assert labels(desk.round(HANG)) == ["requeue"]


def test_an_incident_that_ended_stops_the_rest() -> None:
    desk = Desk()
    desk.round(HANG)
    desk.end()
    assert desk.round() == []


def test_evidence_comes_first() -> None:
    desk = Desk()
    assert labels(desk.round(ActionRequest(7, "glide", "", (EVIDENCE,)), HANG)) == ["evidence"]
    assert desk.round(HANG) == []
    desk.end()
    assert labels(desk.round(HANG)) == ["stacks"]


def test_one_look_is_evidence_for_all_incidents_of_a_run_at_that_time() -> None:
    desk = Desk()
    first, second, other = (
        ActionRequest(number, run, "", (EVIDENCE,))
        for number, run in ((1, "glide"), (2, "glide"), (3, "dive"))
    )
    assert [(record.incident, record.state) for record in desk.round(first, second, other)] == [
        (1, BEGUN),
        (2, SKIPPED),
        (3, BEGUN),
    ]
    assert desk.records[1].outcome == "see evidence/1"
    desk.end()
    assert states(desk.round(ActionRequest(4, "glide", "", (EVIDENCE,)), after=GATHERED)) == [
        ("evidence", BEGUN)
    ]


@pytest.mark.parametrize("state", [DONE, FAILED, LOST, SKIPPED])
def test_once_an_incident_whatever_came_of_it(state: str) -> None:
    desk = Desk()
    desk.round(ActionRequest(7, "glide", "on_hang", (REQUEUE,)))
    desk.end(state)
    assert desk.round(ActionRequest(7, "glide", "on_hang", (REQUEUE,)), after=2 * DAY) == []


def test_two_incidents_of_one_hang_requeue_once() -> None:
    desk = Desk()
    by_log, by_gpus = (ActionRequest(number, "glide", "on_hang", (REQUEUE,)) for number in (1, 2))
    assert [record.incident for record in desk.round(by_log, by_gpus)] == [1]
    desk.end()
    assert desk.round(by_gpus, after=REST - 61) == []
    assert [record.incident for record in desk.round(by_gpus, after=61)] == [2]


def test_other_runs_and_other_actions_are_not_held_up() -> None:
    desk = Desk()
    cases = [
        ActionRequest(1, "glide", "on_hang", (REQUEUE,)),
        ActionRequest(2, "dive", "on_hang", (REQUEUE,)),
        ActionRequest(3, "glide", "on_disk", (SAVE,)),
        ActionRequest(4, "glide", "on_hang", (CALL,)),
    ]
    assert len(desk.round(*cases)) == 4


def test_a_limit_a_day_for_each_run_and_action() -> None:
    desk = Desk(ActionLimits(max_per_day=2))
    for number in (1, 2):
        desk.round(ActionRequest(number, "glide", "on_hang", (REQUEUE,)), after=REST)
        desk.end()
    (third,) = desk.round(ActionRequest(3, "glide", "on_hang", (REQUEUE,)), after=REST)
    assert (third.state, third.outcome) == (SKIPPED, "2 today already (max_per_day)")
    assert str(third) == f"requeue for incident 3 (on_hang) was not done: {third.outcome}"
    assert states(desk.round(ActionRequest(4, "dive", "on_hang", (REQUEUE,)))) == [("requeue", BEGUN)]
    assert states(desk.round(ActionRequest(5, "glide", "on_hang", (REQUEUE,)), after=DAY)) == [
        ("requeue", BEGUN)
    ]


def test_commands_are_told_apart_by_their_words() -> None:
    desk = Desk(ActionLimits(max_per_day=1))
    other = Action("exec", ("call", "--who", "boss"))
    assert desk.until_nothing(ActionRequest(1, "glide", "on_gone", (CALL, other))) == [
        CALL.label,
        other.label,
    ]


def test_none_at_all() -> None:
    assert states(Desk(ActionLimits(max_per_day=0)).round(HANG)) == [
        ("stacks", SKIPPED),
        ("requeue", SKIPPED),
    ]


def test_a_dry_run_says_all_that_would_be_done() -> None:
    fresh = Desk(ActionLimits(dry_run=True)).round(HANG)
    assert [str(record) for record in fresh] == [
        "stacks for incident 7 (on_hang) was not done: dry run",
        "requeue for incident 7 (on_hang) was not done: dry run",
    ]
    desk = Desk(ActionLimits(dry_run=True, max_per_day=1))
    assert desk.promise(HANG) == "watchdogd will not take stacks: dry run; requeue its job: dry run."
    desk.round(HANG)
    desk.rules = ActionLimits(max_per_day=1)
    assert labels(desk.round(replace(HANG, incident=8))) == ["stacks"], "a dry run uses up nothing"


def test_where_the_past_is_not_known_only_what_is_harmless_is_done() -> None:
    desk = Desk(ActionLimits(certain=False))
    assert desk.until_nothing(ActionRequest(1, "glide", "on_hang", (STACKS, SAVE, CALL, CANCEL))) == [
        "stacks",
        "save-switch",
    ]
    assert [record.state for record in desk.records] == [DONE, DONE, SKIPPED, SKIPPED]


def test_no_more_at_once_than_there_is_room() -> None:
    desk = Desk()
    cases = [ActionRequest(number, f"run{number}", "on_hang", (STACKS,)) for number in range(6)]
    assert len(desk.round(*cases, room=4)) == 4
    assert len(desk.round(*cases, room=2)) == 2


def test_what_is_forgotten() -> None:
    old = ActionRecord(1, "glide", "on_hang", REQUEUE, NOW - DAY - 1, DONE)
    young, open_one = replace(old, incident=2, at=NOW - 60), replace(old, incident=3)
    under_way = replace(old, incident=4, state=BEGUN)
    assert forget((old, young, open_one, under_way), frozenset({3}), NOW) == (young, open_one, under_way)


def test_a_deed_is_kept_as_it_is() -> None:
    record = ActionRecord(3, "glide", "on_gone", CALL, NOW, DONE, "ended well", NOW + 1)
    assert ActionRecord.from_json(record.as_json()) == record
