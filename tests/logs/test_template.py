"""Which numbers of a line are clocks of the run, found from the lines alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from watchdogd.logs import template
from watchdogd.logs.template import Template


def told(lines: Iterable[str], every: float = 60.0) -> Template:
    """The one template of these lines, one each `every` seconds."""
    found: dict[int, Template] = {}
    for number, line in enumerate(lines):
        shape = template.shape_of(line)
        at = number * every + number * number % 13
        known = found.setdefault(shape.key, template.new(line, shape, at))
        known.take(shape.values(line), number * every if "attempt" in line else at)
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
