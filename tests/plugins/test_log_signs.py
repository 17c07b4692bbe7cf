"""What log_staleness makes of signs of work that other checks saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.test_log_staleness import HOUR, MINUTE, Training
from tests.plugins.words import text_of
from watchdogd.plugin import Result, Sign, Status, Strength
from watchdogd.plugins.log_staleness.check import log_staleness

OK, WARNING, CRITICAL = Status.OK, Status.WARNING, Status.CRITICAL
GREW = "its checkpoints grew by 48 GB within 1m"


@pytest.fixture
def training(tmp_path: Path) -> Training:
    found = Training(tmp_path / "out.txt")
    found.iterate(1, 30)
    return found


def stand(
    training: Training,
    minutes: int,
    what: str = "",
    strength: Strength = Strength.STRONG,
    line: str = "",
) -> list[Result]:
    """Looks, minute by minute, at a log that stands (or gets `line` again and again) beside a sign."""
    seen, begin = [], training.now
    for _ in range(minutes):
        training.now += MINUTE
        if line:
            training.write(line)
        if what:
            training.signs = (Sign("checkpoints", what, training.now - MINUTE / 2, begin, strength),)
        seen.append(training.look()[""])
    return seen


def test_a_first_huge_save_of_45_minutes_is_no_alarm_while_its_folder_grows(training: Training) -> None:
    training.write("writing all that was learned to disk\n")
    seen = stand(training, 45, GREW)
    assert {each.status for each in seen} == {OK}
    late = seen[-1]
    assert "no output for 45m (limit 30m" in late.summary
    assert f": {training.path}\n" in text_of(late)
    assert late.summary.endswith(f"but {GREW}")
    assert late.progress
    assert (late.progress.stalled, late.progress.pause) == (False, GREW)
    assert late.metrics["age"].crit == late.metrics["allowed"].value == 2 * HOUR


@pytest.mark.parametrize("line", ["", "the loader waits for its lock\n"])
def test_what_stands_after_its_signs_ended_is_an_alarm_that_names_them(training: Training, line: str) -> None:
    assert {each.status for each in stand(training, 45, GREW, line=line)} == {OK}
    after = stand(training, 12, line=line)
    assert [each.status for each in after][:8] == [OK] * 8
    assert after[-1].status is CRITICAL
    assert after[-1].progress
    assert after[-1].progress.stalled
    assert f"{GREW} (12m30s ago)" in text_of(after[-1])


def test_signs_that_last_for_ever_are_reported_but_as_no_hang(training: Training) -> None:
    """Nobody requeues a run that may be saving."""
    seen = stand(training, 125, GREW)
    first = next(number for number, each in enumerate(seen, 1) if each.status is not OK)
    assert first == 120
    assert {each.status for each in seen[first:]} == {WARNING}
    assert GREW in text_of(seen[-1])
    assert seen[-1].progress
    assert not seen[-1].progress.stalled


@pytest.mark.parametrize(
    ("what", "strength", "minutes"),
    [
        ("", Strength.AGAINST, 15),
        ("its 4 GPUs draw only 124 W each, 650 W while it got on", Strength.AGAINST, 15),
        ("its processes keep 8.0 processors busy, 8.1 while it got on", Strength.WEAK, 30),
    ],
)
def test_what_waits_or_only_burns_is_reported_on_time(
    training: Training, what: str, strength: Strength, minutes: int
) -> None:
    seen = stand(training, 40, what, strength)
    assert [each.status for each in seen].index(CRITICAL) + 1 == minutes
    assert what in text_of(seen[-1])


def test_a_limit_of_the_users_own_is_held_against_signs_as_well(training: Training) -> None:
    training.wanted = {"stale_after": 10 * MINUTE}
    assert {each.status for each in stand(training, 45, GREW)} == {OK}


def test_where_nothing_stands_signs_say_nothing(training: Training) -> None:
    training.signs = (Sign("gpus", "its GPUs do nothing", training.now, training.now, Strength.AGAINST),)
    assert set(training.iterate(31, 5)) == {OK}
    assert "GPUs" not in text_of(training.look()[""])


def test_it_is_explained_which_signs_were_seen(training: Training) -> None:
    stand(training, 3, GREW)
    assert log_staleness.explain
    lines = "\n".join(log_staleness.explain(training.known(), training.now))
    assert f"sign for work: {GREW}, at " in lines
    training.signs = ()
    training.look()
    assert "sign" not in "\n".join(log_staleness.explain(training.known(), training.now))


def test_a_job_that_waits_is_not_judged_by_signs(training: Training) -> None:
    training.job = None
    assert {each.status for each in stand(training, int(3 * HOUR / MINUTE), GREW)} == {OK}


def test_that_there_is_no_log_is_reported_however_well_the_run_works(tmp_path: Path) -> None:
    training = Training(tmp_path / "misspelt.txt")
    seen = stand(training, 40, GREW)
    assert seen[-1].status is CRITICAL
    assert "no log for" in text_of(seen[-1])
