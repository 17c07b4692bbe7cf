"""Which numbers of a line are clocks of the run, found from the lines alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from watchdogd.parsers.logs.line_shapes import shape_of
from watchdogd.plugins.log_staleness import line_templates
from watchdogd.plugins.log_staleness.line_templates import Template


def told(lines: Iterable[str], every: float = 60.0) -> Template:
    """The one template of these lines, one each `every` seconds."""
    found: dict[int, Template] = {}
    for number, line in enumerate(lines):
        shape = shape_of(line)
        at = number * every + number * number % 13
        known = found.setdefault(shape.layout.key, line_templates.new(line, shape, at))
        known.take([shape.layout.values(line)], number * every if "attempt" in line else at)
    (only,) = found.values()
    return only


@pytest.mark.parametrize(
    ("line", "weight"),
    [
        (lambda n: f"iteration {n}/9000 | lm loss: 2.{n % 7}", 3),
        (lambda n: f" {n * 10}: loss {3 - n / 90:.4f}, {3.1 - n / 80:.4f} avg", 3),
        (lambda n: f"[{n}] rmse {0.5 + n % 3 / 10}", 2),
        (lambda n: f"shard {n} of 800", 2),
        (
            lambda n: (
                f"simulated 2026-02-03_{n // 12:02}:{n * 5 % 60:02}:00 after {9 + n * 7919 % 13 % 4}.25 s"
            ),
            2,
        ),
        (lambda n: f"seen {n * n} files", 1),
        (lambda n: f"still waiting, attempt {n}", 0.5),
        (lambda n: f"10:{n:02}:00 waiting", 0),
        (lambda n: f"waited for {n * 60 + n * n % 13} s", 0),
        (lambda n: f"temperature 6{n * 7919 % 13 % 5} C", 0),
        (lambda n: f"PIMPLE: iteration {1 + n % 2}", 0),
    ],
)
def test_what_a_clock_says_is_found_from_how_it_goes(line: Callable[[int], str], weight: float) -> None:
    assert told(line(n) for n in range(30)).weight == weight


def _told_by_the_wall(shift: Callable[[int], float], *, unit: int = 1) -> Template:
    """The template of lines that tell the time each 5 s for 4 h, looked at each minute."""
    found: dict[int, Template] = {}
    for number in range(2880):
        at = number // 12 * 60.0 + 60.0
        line = f"at {int((36_000 + number * 5 + shift(number)) * unit)} fps 0.{number * 5 % 7}"
        shape = shape_of(line)
        found.setdefault(shape.layout.key, line_templates.new(line, shape, at)).take(
            [shape.layout.values(line)], at
        )
    (only,) = found.values()
    return only


@pytest.mark.parametrize("unit", [1, 1000])
@pytest.mark.parametrize("hours", [-24, -1, 1])
@pytest.mark.parametrize("when", [300, 2405])
def test_a_clock_of_the_wall_that_is_set_is_none_of_the_run(when: int, hours: int, unit: int) -> None:
    told = _told_by_the_wall(lambda number: hours * 3600.0 * (number >= when) + 90_000, unit=unit)
    assert not told.weight
    assert told.rose < 600.0, "nor was it one for a while"


def test_a_clock_of_the_wall_that_begins_anew_at_midnight_is_none_of_the_run() -> None:
    told = _told_by_the_wall(lambda number: 43_200.0 - 86_400 * (number * 5 >= 7200))
    assert not told.weight
    assert told.rose < 600.0


def test_hours_of_a_log_that_are_read_at_once_hide_no_clock_of_the_wall() -> None:
    found: dict[int, Template] = {}
    for number in range(4000):
        at = max(15_000.0, number * 5.0)
        line = f"at {36_000 + number * 5} fps 0.{number * 5 % 7}"
        shape = shape_of(line)
        found.setdefault(shape.layout.key, line_templates.new(line, shape, at)).take(
            [shape.layout.values(line)], at
        )
    (only,) = found.values()
    assert not only.weight


def test_a_count_that_begins_anew_in_each_epoch_goes_on() -> None:
    lines = [f"({epoch}, {batch}) done" for epoch in range(3) for batch in range(0, 100, 10)]
    assert told(lines).rose > 60.0 * (len(lines) - 1)


def test_two_ranks_that_are_a_step_apart_are_no_fall() -> None:
    lines = [f"at {step - rank}" for step in range(5, 40) for rank in (0, 1)]
    assert told(lines).weight


def test_a_count_that_is_full_says_so() -> None:
    assert not told(f"{n}/20 done" for n in range(1, 20)).full
    assert told(f"{n}/20 done" for n in range(1, 21)).full


def test_bars_dates_and_identifiers_make_no_template_of_their_own() -> None:
    lines = [f"{'█' * n}{' ' * (20 - n)} part {n}/20 of {n * 7919:06x}bead" for n in range(1, 20)]
    assert told(lines).count == len(lines)


@pytest.mark.parametrize(
    "line", ["9" * 5000, "1e999", "²³ ٣", "-" * 3000, "a" * 100_000, "1,2,3,4", "@\x00\ud800", ":" * 500]
)
def test_no_line_is_too_odd(line: str) -> None:
    assert told([line, line]).count == 2


def test_a_count_that_goes_as_seconds_do_is_one_again_in_each_epoch() -> None:
    found = told((f"attempt at part {n % 20 * 60}, 0.{n * 5 % 7}" for n in range(70)), every=60.0)
    assert found.rose > 60.0 * 60
