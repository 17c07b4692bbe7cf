"""First lines keep their heaviest clauses, whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from watchdogd.incidents import message_wording
from watchdogd.incidents.message_wording import ActionWords
from watchdogd.incidents.models import Incident
from watchdogd.plugin import Status


def test_an_outcome_names_each_failure_first_with_its_reason_where_there_is_room() -> None:
    failed, pressed = (
        ActionWords("requeue FAILED", "access denied"),
        ActionWords("kill switch pressed by watchdogd"),
    )
    line = message_wording.outcome([failed, pressed], "on_hang", 10, "stall-1b")
    assert line == "requeue FAILED (access denied), kill switch pressed by watchdogd (incident 10)"
    said = [failed, ActionWords("no stacks", "py-spy says much " * 9), pressed]
    line = message_wording.outcome(said, "on_hang", 10, "stall-1b")
    assert line == "requeue FAILED, no stacks, kill switch pressed by watchdogd (incident 10)"
    long = message_wording.outcome([ActionWords("x" * 200)], "on_hang", 10, "stall-1b")
    assert long.endswith("… (on_hang, incident 10)")
    assert len(f"[ACTION] stall-1b: {long}") <= message_wording.LIMIT


@pytest.mark.parametrize(
    ("text", "room", "kept"),
    [
        ("gone 7s ago, cause: out of memory, at step 7", 40, "gone 7s ago, cause: out of memory"),
        ("crashed: KeyError (on rank 7, node 3), at 9", 37, "crashed: KeyError (on rank 7, node 3)"),
        ("crashed: KeyError (on rank 7, node 3), at 9", 33, "crashed: KeyError"),
        (
            "FAILED (exit 1) after 9s: no room on the device of it",
            40,
            "FAILED (exit 1) after 9s: no room on…",
        ),
        ("one clause of many words and no end", 20, "one clause of many…"),
        ("short", 5, "short"),
    ],
)
def test_a_cut_leaves_whole_clauses(text: str, room: int, kept: str) -> None:
    assert message_wording.cut(text, room) == kept


def lasting(summary: str, seconds: float) -> Incident:
    """An incident of run glide that began so many seconds before 0."""
    return Incident(
        9, "glide/x", "glide", "glide", "", Status.CRITICAL, 20 - seconds, summary, since=-seconds
    )


def test_a_reminder_has_one_clock() -> None:
    stalled = lasting("stalled, no output for 19m58s (limit 2m), at step 7", 1210)
    assert message_wording.reminder(stalled, 0) == f"still CRITICAL: {stalled.summary}"
    full = lasting("98 % full, full in 3h (limit 20m)", 1210)
    assert message_wording.reminder(full, 0) == f"still CRITICAL after 20m10s: {full.summary}"


@pytest.mark.parametrize("say", [message_wording.reminder, message_wording.unacknowledged])
def test_a_later_message_keeps_the_cause_before_what_is_no_news_any_more(
    say: Callable[[Incident, float, str], str],
) -> None:
    cause = "host memory ran out on node17 of the second rack"
    said = say(lasting(f"FAILED (exit 137, by the kernel) after 3h20m: {cause}", 900), 0, "")
    assert said.endswith(f": FAILED: {cause}")
    assert message_wording.fits("REMINDER", "glide", said)
