"""Files that are written anew each time: what of them was not said before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.plugins.test_log_staleness import MINUTE, Training
from watchdogd.parsers.logs.log_lines import LogLine
from watchdogd.plugin import Status
from watchdogd.plugins.log_staleness import file_versions


def lines(first: int, last: int) -> list[LogLine]:
    return [LogLine(f"it {number} xent 2.{number % 7}") for number in range(first, last + 1)]


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        (lines(1, 9), lines(1, 9), []),
        (lines(1, 9), lines(1, 10), lines(10, 10)),
        (lines(1, 900), lines(1, 900), []),
        (lines(1, 900), lines(1, 903), lines(901, 903)),
        (lines(1, 20), lines(3, 22), lines(21, 22)),
        (lines(1, 9), lines(20, 22), lines(20, 22)),
        ([], lines(1, 3), lines(1, 3)),
        ([*lines(1, 1), LogLine("-- end --")], [*lines(2, 2), LogLine("-- end --")], lines(2, 2)),
    ],
    ids=[
        "the same",
        "longer",
        "the same, long",
        "long and longer",
        "a window",
        "another",
        "empty",
        "a frame",
    ],
)
def test_what_the_last_version_said_is_not_new(
    before: list[LogLine], now: list[LogLine], new: list[LogLine]
) -> None:
    assert file_versions.unsaid(now, file_versions.of(before)) == new
    assert file_versions.unsaid(now, None) == now


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path / "table.txt")


def save(training: Training, text: str) -> None:
    draft = training.path.with_suffix(".new")
    draft.write_text(text)
    os.utime(draft, (training.now, training.now))
    draft.replace(training.path)


def test_a_table_that_is_saved_again_without_a_new_row_is_stuck(training: Training) -> None:
    rows = ""
    for number in range(1, 100):
        training.now += MINUTE
        rows += f"it {number * 3} of 90000 | xent {3 - number / 90:.4f}\n"
        save(training, rows)
        assert training.state() is Status.OK, number
    seen = []
    for _ in range(20):
        training.now += MINUTE
        save(training, rows)
        seen.append(training.state())
    assert seen[3] is Status.OK
    assert seen[-1] is Status.CRITICAL


def test_a_log_under_a_link_begins_with_the_lines_of_the_last_one(training: Training) -> None:
    """A second attempt loads for longer than the first one, and takes the count up from its checkpoint."""
    step = 0
    for attempt in range(3):
        target = training.path.with_name(f"attempt-{attempt}.txt")
        training.now += 30
        training.write("loading\n", target)
        link = training.path.with_suffix(".link")
        link.symlink_to(target.name)
        link.replace(training.path)
        for _ in range(9 if attempt else 1):
            training.now += MINUTE
            assert training.state() is Status.OK, f"attempt {attempt} loads"
        step = max(step - 40, 0)
        for _ in range(100):
            step += 3
            training.write(f"it {step} of 90000 | xent 2.{step % 9}\n", target)
            training.now += MINUTE
            assert training.state() is Status.OK, f"attempt {attempt} at {step}"


def test_what_rotation_packs_is_no_sign_of_life(training: Training) -> None:
    pattern = f"{training.path}*"
    training.log = pattern
    for number in range(100):
        training.now += MINUTE
        training.write(f"it {number} of 90000 | xent 2.{number % 9}\n")
        assert training.state() is Status.OK
    seen = []
    for number in range(30):
        training.now += MINUTE
        training.write(os.urandom(99).hex(), training.path.with_name(f"{training.path.name}.{number}.gz"))
        seen.append(training.state())
    assert seen[15] is Status.CRITICAL


@pytest.mark.parametrize(
    "text",
    [
        "epoch {epoch:3}\nstep {step:06}\nxent 2.{odd}\n",
        "step {step:06} of 90000\n-- end --\n",
        "step {step} of 90000\n{rows}-- end --\n",
        "\r{step:06}/90000 [xent 2.{odd}]",
    ],
    ids=["as long", "its end is the same", "longer", "a bar"],
)
def test_a_small_file_that_is_written_anew_in_its_place_gets_on_and_hangs(
    training: Training, text: str
) -> None:
    seen = []
    for number in range(1, 70):
        training.now += MINUTE
        grown = min(number, 50)
        told = text.format(
            epoch=grown // 20, step=grown * 25, odd=grown * 7919 % 10, rows="row\n" * (grown // 3)
        )
        training.path.write_text(told)
        os.utime(training.path, (training.now, training.now))
        seen.append(training.state())
    assert set(seen[:55]) == {Status.OK}
    assert seen[-1] is Status.CRITICAL
