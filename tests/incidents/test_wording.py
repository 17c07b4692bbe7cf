"""First lines keep their heaviest clauses, whole."""

from __future__ import annotations

import pytest

from watchdogd.incidents import message_wording


def test_an_outcome_names_what_ends_something_first_and_always_why() -> None:
    said = ["kill switch pressed by watchdogd", "no stacks: " + "py-spy says much " * 9, "job 7 requeued"]
    line = message_wording.outcome(said, "on_hang", 10, "stall-1b")
    assert line == "kill switch pressed by watchdogd, job 7 requeued (on_hang, incident 10)"
    long = message_wording.outcome(["x" * 200], "on_hang", 10, "stall-1b")
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
