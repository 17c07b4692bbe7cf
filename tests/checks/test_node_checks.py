"""What was told of before is said to be well until that is confirmed, and no longer."""

from __future__ import annotations

from watchdogd.checks import node_checks
from watchdogd.plugin import Result, Status, critical, ok

BAD = critical("broken", subject="node5")


def said(memory: dict[str, int], *found: Result, hidden: frozenset[str] = frozenset()) -> list[str]:
    ends = node_checks.recoveries(memory, found, hidden=hidden)
    assert all(end.status is Status.OK for end in ends)
    return [end.subject for end in ends]


def test_what_was_bad_is_well_in_more_rounds_than_confirm_asks_for() -> None:
    memory: dict[str, int] = {}
    assert said(memory, BAD) == []
    assert [said(memory) for _ in range(node_checks.ROUNDS)] == [["node5"]] * node_checks.ROUNDS
    said(memory)
    assert said(memory) == [] == list(memory)


def test_what_was_never_bad_is_passed_over() -> None:
    memory: dict[str, int] = {}
    assert said(memory, ok("well", subject="node5"), ok("all")) == []
    assert said(memory) == []


def test_what_is_bad_again_is_counted_anew() -> None:
    memory: dict[str, int] = {}
    said(memory, BAD)
    said(memory)
    assert said(memory, BAD) == []
    assert memory == {"node5": 0}


def test_nothing_is_said_of_what_cannot_be_seen() -> None:
    memory: dict[str, int] = {}
    said(memory, BAD)
    assert said(memory, hidden=frozenset({"node5"})) == []
    assert said(memory) == ["node5"]


def test_the_newest_are_remembered() -> None:
    memory: dict[str, int] = {}
    said(memory, *(critical("broken", subject=f"node{number}") for number in range(node_checks.KEPT + 7)))
    assert len(memory) == node_checks.KEPT
    assert "node0" not in memory
