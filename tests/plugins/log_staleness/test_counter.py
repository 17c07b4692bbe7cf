"""Whether the number grows: resumes, epochs and bars are growth, repetition is none."""

from __future__ import annotations

from watchdogd.parsers.logs.progress import ProgressReport
from watchdogd.plugins.log_staleness.counter import Counter, begin_epoch, grows


def feed(counter: Counter, *numbers: float, series: str = "step", total: float | None = None) -> list[bool]:
    return [grows(counter, ProgressReport(series, number, total)) for number in numbers]


def test_only_what_grows_growss() -> None:
    assert feed({}, 1, 2, 2, 3) == [True, True, False, True]


def test_one_resume_is_progress_and_so_is_all_after_it() -> None:
    assert all(feed({}, 100, 120, 105, 110, 121, 106, 130))


def test_a_second_fall_before_the_record_is_repetition() -> None:
    counter: Counter = {}
    feed(counter, 100, 120, 105, 115)
    assert feed(counter, 105, 110, 115, 105, 115) == [False] * 5
    assert feed(counter, 121) == [True]


def test_epochs_begin_near_nought_again_and_again() -> None:
    counter: Counter = {}
    for _ in range(5):
        assert all(feed(counter, 1, 200, 400, 500))


def test_a_short_bar_that_was_full_begins_again() -> None:
    counter: Counter = {}
    for _ in range(5):
        assert all(feed(counter, 0, 2, 4, series="bar of 4", total=4))


def test_interleaved_ranks_that_stop_do_not_pass_for_progress() -> None:
    counter: Counter = {}
    feed(counter, 100, 99, 101, 100, 102, 101)
    assert feed(counter, *[102, 101] * 10)[3:] == [False] * 17


def test_reports_that_were_rounded_to_one_number_are_told_apart() -> None:
    counter: Counter = {}
    marks = [grows(counter, ProgressReport("epoch", 0.01, mark=mark)) for mark in (5.0, 6.0, 6.0, 7.0)]
    assert marks == [True, True, False, True]


def test_many_series_are_bounded() -> None:
    counter: Counter = {}
    for name in range(100):
        feed(counter, 1, series=f"bar of {name}")
    assert len(counter) <= 16


def test_a_count_that_has_no_room_for_one_more_step_was_full() -> None:
    """Reports every 50 of 505: the last of an epoch is 500, the first 50."""
    counter: Counter = {}
    reports = [ProgressReport("iter", number, 505) for _ in range(6) for number in range(50, 501, 50)]
    assert all(grows(counter, report) for report in reports)


def test_a_crash_loop_near_the_end_of_all_steps_is_no_progress() -> None:
    counter: Counter = {}
    reports = [ProgressReport("iter", number, 90000) for _ in range(6) for number in range(88000, 89500, 10)]
    assert sum(grows(counter, report) for report in reports) == 300


def test_a_new_epoch_lets_what_is_counted_in_it_begin_anew() -> None:
    counter: Counter = {}
    seen = []
    for epoch in range(1, 7):
        begin_epoch(counter, epoch)
        seen += [grows(counter, ProgressReport("step", number)) for number in range(100, 501, 100)]
    assert all(seen)


def test_epochs_that_are_repeated_by_a_crash_loop_are_no_progress() -> None:
    counter: Counter = {}
    seen = []
    for _ in range(9):
        for epoch in (1, 2, 3):
            begin_epoch(counter, epoch)
            seen += [grows(counter, ProgressReport("step", number)) for number in range(100, 501, 100)]
    assert not any(seen[35:])
