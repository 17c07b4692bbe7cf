"""Numbers that are given to things, and given up."""

import pickle

from watchdogd.history.sql import Ids, NotedIds


def test_things_that_come_and_go_leave_nothing_behind() -> None:
    ids = Ids([(300, "job_liveness", "")])
    before = len(pickle.dumps(ids))
    for number in range(1000):
        key = ("gpu_health", f"node{number}")
        assert ids.of(key) == 301 + number
        ids.forget(key)
    assert len(pickle.dumps(ids)) == before


def test_new_ones_are_handed_out_once() -> None:
    ids = NotedIds([(4, "free")])
    assert [ids.of((name,)) for name in ("free", "used", "used")] == [4, 5, 5]
    assert ids.new_rows() == [(5, "used")]
    assert ids.new_rows() == []
