"""What tests need is said in one place, and holds."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.conftest import pytest_ignore_collect
from tests.needs import NEEDS, needs, order

ROOT = Path(__file__).parents[1]
PYTEST = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
MARKS = {line.partition(":")[0] for line in PYTEST["markers"]} - {"attack"}  # that says what is tried


def test_a_file_has_the_needs_of_its_folder_beside_its_own() -> None:
    assert set(needs("tests/deploy/test_crontab.py")) == {"root", "slow", "slurm"}
    assert set(needs("tests/slurm/test_chain.py")) == {"root", "slow", "slurm"}
    assert set(needs("tests/test_units.py")) == set()


def test_what_is_named_exists_and_each_need_is_a_mark_that_quick_leaves_out() -> None:
    assert [place for place in NEEDS if not (ROOT / place).exists()] == []
    assert {need for words in NEEDS.values() for need in words.split()} <= MARKS
    quick = (ROOT / "Makefile").read_text().partition("-m 'not (")[2].partition(")'")[0]
    assert set(quick.split(" or ")) == MARKS


def test_the_longest_come_first_and_what_an_environment_is_brought_for_later() -> None:
    usual, slow = {"slurm", "root", "slow"}, {"slow"}
    ordered = [usual, {*usual, "torch"}, {"torch", "slow"}, slow, {"lowest"}, {"root"}]
    assert sorted(ordered, key=order) == ordered
    assert len({*map(order, ordered)}) == len(ordered)


def test_a_file_of_which_nothing_is_left_is_not_even_read() -> None:
    def read(expression: str, name: str) -> bool:
        config = SimpleNamespace(option=SimpleNamespace(markexpr=expression), rootpath=ROOT)
        return not pytest_ignore_collect(ROOT / name, cast("pytest.Config", config))

    assert not read("not (slurm or slow)", "tests/test_fuzz.py")
    assert not read("not (slurm)", "tests/slurm/test_chain.py")
    assert read("not (slurm or slow)", "tests/test_units.py")  # what it holds is marked itself, or is run
    for expression in ("", "slow", "not slurm", "not (slurm and root)"):
        assert read(expression, "tests/slurm/test_chain.py")
