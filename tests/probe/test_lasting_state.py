"""States of a process that count: it halts only where two looks say so."""

from __future__ import annotations

import pytest

from watchdogd.probe.node_ranks import lasting


@pytest.mark.parametrize(
    ("before", "now", "state"),
    [
        ("S (sleeping)", "S (sleeping)", "S (sleeping)"),
        ("T (stopped)", "T (stopped)", "T (stopped)"),
        ("D (disk sleep)", "D (disk sleep), waits in nfs_wait", "D (disk sleep), waits in nfs_wait"),
        ("t (tracing stop)", "S (sleeping)", "S (sleeping)"),
        ("S (sleeping)", "D (disk sleep)", "S (sleeping)"),
        ("D (disk sleep)", "T (stopped)", ""),
        ("T (stopped)", "", ""),
    ],
)
def test_two_looks_at_a_process(before: str, now: str, state: str) -> None:
    assert lasting(before, now) == state
