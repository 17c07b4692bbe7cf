"""What a checkpoint lacks beside the one before it, by the names and sizes of its files."""

from __future__ import annotations

import pytest

from watchdogd.checks import checkpoint_shards
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
