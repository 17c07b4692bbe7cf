"""The size and rhythm of checkpoints, and what both mean for a disk."""

from __future__ import annotations

from pathlib import Path

from watchdogd.checks import checkpoint_inventory
from watchdogd.checks.checkpoint_inventory import Cadence, cadence

HOUR, TB = 3600.0, 1e12


def test_for_how_many_more_there_is_room_and_for_how_long() -> None:
    found = cadence([(n * 3 * HOUR, 2.3 * TB) for n in range(5)])
    assert found == Cadence(2.3 * TB, 3 * HOUR)
    assert found.room(10 * TB) == 4
    assert found.lasts(10 * TB) == 15 * HOUR
    assert found.room(-1.0) == 0


def test_a_pause_between_jobs_and_one_cut_short_move_neither() -> None:
    times = [0.0, 3 * HOUR, 6 * HOUR, 80 * HOUR, 83 * HOUR]
    sizes = [2.0, 2.0, 2.0, 2.0, 0.1]
    assert cadence(zip(times, sizes, strict=True)) == Cadence(2.0, 3 * HOUR)


def test_what_is_not_known_is_none() -> None:
    assert cadence([]) is None
    assert cadence([(5.0, 0)]) is None
    one = cadence([(5.0, 7.0)])
    assert one is not None
    assert (one.every, one.lasts(70.0), one.room(70.0)) == (None, None, 10)
    assert cadence([(5.0, 7.0)], every=HOUR) == Cadence(7.0, HOUR)


def test_those_that_were_cleaned_up_still_tell_the_rhythm(tmp_path: Path) -> None:
    known = checkpoint_inventory.CheckpointInventory()
    now = 1_800_000_000.0
    for number in range(4):
        path = tmp_path / f"global_step{number}"
        path.write_bytes(b"x" * 1000)
        for after in (0.0, 300.0):
            now += after
            checkpoint_inventory.update_inventory(str(tmp_path / "global_step*"), known, now)
        path.unlink()
        now += 3300.0
    assert checkpoint_inventory.usual_cadence(known) == Cadence(1000, HOUR)
