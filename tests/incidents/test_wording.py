"""First lines keep their heaviest clauses, whole."""

from __future__ import annotations

import pytest

from watchdogd.incidents import message_wording
from watchdogd.incidents.message_wording import ActionWords


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
        ("one clause of many words and no end", 20, "one clause of many…"),
        ("short", 5, "short"),
    ],
)
def test_a_cut_leaves_whole_clauses(text: str, room: int, kept: str) -> None:
    assert message_wording.cut(text, room) == kept
