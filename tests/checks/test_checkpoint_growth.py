"""Whether checkpoints grow, on real files; the clock is the test's."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from watchdogd.checks import checkpoint_inventory
from watchdogd.plugin import Sign

START, MINUTE, MB = 1_800_000_000.0, 60.0, 1 << 20


@dataclass
class Folder:
    """Where a run saves, and who looks minute by minute."""

    path: Path
    pattern: str = "global_step*"
    now: float = START
    kept: checkpoint_inventory.CheckpointInventory = field(
        default_factory=checkpoint_inventory.CheckpointInventory
    )
    grown: checkpoint_inventory.Growth = field(default_factory=checkpoint_inventory.Growth)

    def write(self, name: str, size: int) -> None:
        """A file of so many bytes, written now; sparse, which nobody minds."""
        path = self.path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        with path.open("ab") as file:
            file.truncate(size)
        os.utime(path, (self.now, self.now))

    def look(self, seconds: float = MINUTE, *, stands: bool = True) -> tuple[Sign, ...]:
        self.now += seconds
        pattern = str(self.path / self.pattern)
        checkpoint_inventory.update_inventory(pattern, self.kept, self.now)
        return checkpoint_inventory.growth_signs(pattern, self.kept, self.grown, self.now, stands=stands)

    def grew(self, seconds: float = MINUTE) -> str:
        """What is said to have come since the last look; empty: nothing."""
        found = self.look(seconds)
        return found[0].what if found and found[0].at == self.now else ""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_save_that_takes_long_is_seen_to_grow_and_to_have_grown(folder: Folder) -> None:
    folder.write("global_step100/rank0.pt", 40 * MB)
    assert folder.look(10 * MINUTE) == (), "what lay there at the first look is not new"
    for size in range(1, 4):
        folder.write("global_step200/rank0.pt", size * 200 * MB)
        assert folder.grew() == "its checkpoints grew by 210 MB within 1m"
    assert folder.grew() == ""
    [sign] = folder.look(30 * MINUTE)
    assert (sign.at, sign.since) == (START + 13 * MINUTE, START + 10 * MINUTE)
    assert folder.look(checkpoint_inventory.TOLD_FOR) == ()


@pytest.mark.parametrize(("size", "signs"), [(2 * MB, 1), (2000, 0)])
def test_what_was_written_to_just_before_the_first_look_of_all_counts(
    folder: Folder, size: int, signs: int
) -> None:
    """Who sets watchdogd up amid a save is not told of a hang."""
    folder.write("global_step100/rank0.pt", size)
    assert len(folder.look()) == signs


def test_the_first_checkpoint_of_all_counts(folder: Folder) -> None:
    assert folder.grew() == ""
    folder.write("global_step100/rank0.pt", 2 * MB)
    assert folder.grew()


@pytest.mark.parametrize(
    "name", ["tmp-global_step200/a.pt", "global-200.tmp/a.pt", "200.orbax-checkpoint-tmp-17/x", "a.pt.part"]
)
def test_what_is_marked_as_unfinished_grows_though_no_pattern_knows_it_yet(folder: Folder, name: str) -> None:
    folder.write("global_step100/a.pt", 40 * MB)
    folder.look()
    folder.write(name, 80 * MB)
    assert folder.grew()
    folder.write(name, 81 * MB)
    assert folder.grew()


def test_a_draft_that_is_renamed_when_it_is_whole_did_not_grow_by_that(folder: Folder) -> None:
    folder.write("tmp-global_step200/a.pt", 80 * MB)
    folder.look()
    (folder.path / "tmp-global_step200").rename(folder.path / "global_step200")
    assert folder.grew() == ""


def test_a_file_that_is_written_anew_in_place_counts(folder: Folder) -> None:
    folder.write("global_step/last.pt", 80 * MB)
    folder.look()
    folder.write("global_step/last.pt", 80 * MB)
    assert folder.grew() == "its checkpoints were written to within 1m"


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("global_step100/heartbeat", 4),
        ("global_step100/train.log", 90 * MB),
        ("global_step100/metrics.jsonl.1", 90 * MB),
        ("global_step100/events.out.tfevents.17.n1", 90 * MB),
        ("wandb/run.bin", 90 * MB),
    ],
)
def test_what_any_run_writes_that_hangs_is_no_growth(folder: Folder, name: str, size: int) -> None:
    folder.write("global_step100/a.pt", 40 * MB)
    folder.write(name, 2)
    folder.look()
    folder.write(name, size)
    assert folder.grew() == ""
    folder.write(name, size)
    assert folder.grew() == ""


def test_older_ones_that_come_to_light_when_newer_ones_are_removed_are_not_new(folder: Folder) -> None:
    for number in range(checkpoint_inventory.KEPT + 3):
        folder.now += 1
        folder.write(f"global_step{number}", 5 * MB)
    folder.look()
    for number in range(3, checkpoint_inventory.KEPT + 3):
        (folder.path / f"global_step{number}").unlink()
    assert folder.grew() == ""


def test_the_newest_one_is_looked_into_again_where_the_log_stands(folder: Folder) -> None:
    """Its own folder does not change by what is written deep in it."""
    folder.write("global_step100/shard/a.pt", 40 * MB)
    folder.look(checkpoint_inventory.ON)
    folder.write("global_step100/shard/a.pt", 400 * MB)
    assert folder.look(stands=False) == ()
    assert folder.grew()


def test_a_draft_that_a_crash_left_did_not_grow(folder: Folder) -> None:
    folder.write("global_step100/a.pt", 40 * MB)
    folder.now += 1
    folder.write("tmp-global_step200/a.pt", 40 * MB)
    folder.look(3600.0, stands=False)
    assert folder.grew() == ""


def test_a_clock_that_is_set_back_makes_nothing_grow(folder: Folder) -> None:
    folder.write("global_step100/a.pt", 40 * MB)
    folder.look()
    folder.write("global_step100/a.pt", 60 * MB)
    assert folder.look(-3600.0) == ()
    folder.write("global_step100/a.pt", 80 * MB)
    assert folder.look()
