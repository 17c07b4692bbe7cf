"""What a checkpoint lacks beside the one before it, by the names and sizes of its files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.history.values import NOW
from watchdogd.checks import checkpoint_shards
from watchdogd.checks.checkpoint_inventory import CheckpointInventory, update_inventory
from watchdogd.checks.checkpoint_shards import KINDS, Shards

BIG = 4_000_000
WHOLE = {f"mp_rank_{number:02d}.pt": BIG for number in range(8)} | {"config.json": 700}


def shards(files: dict[str, int]) -> dict[str, Shards]:
    kinds: dict[str, Shards] = {}
    for name, size in files.items():
        checkpoint_shards.add(kinds, name, size)
    return kinds


def without(*names: str) -> dict[str, int]:
    return {name: size for name, size in WHOLE.items() if name not in names}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (WHOLE, ""),
        (WHOLE | {"mp_rank_03.pt": BIG - 9000, "extra.json": 1}, ""),
        (without("mp_rank_03.pt"), "7 of 8 mp_rank_*.pt are there (mp_rank_03.pt is missing)"),
        (without("mp_rank_07.pt"), "7 of 8 mp_rank_*.pt are there (mp_rank_07.pt is missing)"),
        (without("mp_rank_00.pt", "mp_rank_03.pt"), "6 of 8 mp_rank_*.pt are there"),
        (WHOLE | {"mp_rank_05.pt": 0}, "mp_rank_05.pt is empty"),
        (WHOLE | {"mp_rank_05.pt": 4096}, "mp_rank_05.pt has 4.1 kB, before it was 4 MB at least"),
        ({"config.json": 700}, "it has no mp_rank_*.pt, the one before it has 8"),
        (without("config.json"), ""),  # small, and some frameworks write it once
        (WHOLE | {"config.json": 90}, ""),
        ({f"mp_rank_{number:02d}.pt": BIG for number in range(4)}, ""),  # half of the ranks, all of theirs
    ],
)
def test_what_a_checkpoint_lacks(files: dict[str, int], said: str) -> None:
    assert checkpoint_shards.flaw(shards(files), shards(WHOLE)) == said


def test_shards_of_two_numbers_and_of_another_step() -> None:
    before = shards({f"iter_0001000/__{rank}_{part}.distcp": BIG for rank in range(4) for part in range(2)})
    now = shards({f"iter_0002000/__{rank}_{part}.distcp": BIG for rank in range(4) for part in range(2)})
    assert checkpoint_shards.flaw(now, before) == ""
    fewer = shards({f"iter_0002000/__{rank}_0.distcp": BIG for rank in range(3)})
    assert checkpoint_shards.flaw(fewer, before) == "3 of 8 iter_*/__*_*.distcp are there"


def test_of_files_of_too_many_kinds_nothing_is_said() -> None:
    many = {f"{'x' * number}.bin": BIG for number in range(1, KINDS + 9)}
    assert checkpoint_shards.flaw({}, shards(many)) == ""


STEPS = [(1000, 9), (2000, 6), (3000, 3)]
"""The steps at which it saved, and how many hours ago."""


@pytest.mark.parametrize(
    ("names", "missing", "said"),
    [
        ([f"ep0-ba{{}}-rank{rank}.pt" for rank in range(4)], 2, "3 of 4 ep*-ba*-rank*.pt are there"),
        (
            ["model.ckpt-{}.index", *(f"model.ckpt-{{}}.data-0000{part}-of-00002" for part in range(2))],
            1,
            "1 of 2 model.ckpt-*.data-*-of-* are there",
        ),
        (["epoch=3-step={}.ckpt"], None, ""),
        (["model-{}.pt", "optimizer-{}.pt"], 1, "it has no optimizer-2000.pt, the one before it has 1"),
    ],
)
def test_files_of_one_step_are_one_checkpoint(
    tmp_path: Path, names: list[str], missing: int | None, said: str
) -> None:
    for step, hours in STEPS:
        for number, name in enumerate(names):
            if (step, number) != (3000, missing):
                path = tmp_path / name.format(step)
                path.write_bytes(b"x" * 5000)
                os.utime(path, (NOW - hours * 3600 + number,) * 2)
    inventory = CheckpointInventory()
    assert update_inventory(f"{tmp_path}/*", inventory, NOW)
    assert [(one.files, one.flaw) for one in inventory.known.values()] == [
        (len(names) - bool(said), said),
        (len(names), ""),
        (len(names), ""),
    ]


def test_the_last_one_under_a_name_of_its_own_lacks_nothing(tmp_path: Path) -> None:
    for hours, name in enumerate(["last.ckpt", "epoch=1-step=2000.ckpt", "epoch=0-step=1000.ckpt"]):
        (tmp_path / name).write_bytes(b"x" * 5000)
        os.utime(tmp_path / name, (NOW - 3600 - hours * 3600,) * 2)
    inventory = CheckpointInventory()
    update_inventory(f"{tmp_path}/*.ckpt", inventory, NOW)
    assert [one.flaw for one in inventory.known.values()] == ["", "", ""]
