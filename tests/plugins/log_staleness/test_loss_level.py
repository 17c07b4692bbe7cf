"""A level that rises and stays is seen; spikes, drops and scatter are not."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import islice

import pytest

from watchdogd.plugins.log_staleness.loss_level import WINDOW, Level, rise


def fed(values: Iterable[float], level: Level | None = None) -> Level:
    level = deepcopy(level) if level else Level()
    for value in values:
        level.take(value)
    return level


def renewed(level: Level) -> Level:
    level.renew()
    return level


def falling(count: int) -> list[float]:
    scatter = random.Random(7)
    return [2.0 + 8.0 * math.exp(-step / 60) + scatter.gauss(0, 0.04) for step in range(count)]


def first_rise(values: Iterable[float], level: Level | None = None) -> int | None:
    """After how many of these values a rise is seen, or None."""
    known = deepcopy(level) if level else Level()
    for index, value in enumerate(values, 1):
        known.take(value)
        if rise(known):
            return index
    return None


def small_batches(chance: random.Random, scatter: float) -> Iterator[float]:
    """Each batch its own few samples: losses lie anywhere about the level."""
    for step in range(100_000):
        yield (2.0 + 8.0 * math.exp(-step / 200)) * chance.lognormvariate(0, scatter)


def averaged(chance: random.Random, scatter: float, over: int) -> Iterator[float]:
    """What is printed is the mean of the last values, as many frameworks have it."""
    values: list[float] = []
    for value in small_batches(chance, scatter):
        values = [*values[1 - over :], value]
        yield sum(values) / len(values)


def of_sources(chance: random.Random) -> Iterator[float]:
    """Batches of sources that differ, by turns."""
    for value in small_batches(chance, 0.1):
        yield value * chance.choice((0.5, 1.0, 1.0, 2.2))


def each_epoch_from_hard_to_easy(chance: random.Random) -> Iterator[float]:
    """Samples that are sorted: each epoch begins with the hard ones."""
    for step, value in enumerate(small_batches(chance, 0.05)):
        yield value * (1.15 - 0.15 * (step % 100) / 100)


def test_a_falling_loss_never_rises() -> None:
    assert first_rise(falling(2000)) is None


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scatter", [0.02, 0.1, 0.2, 0.32, 0.45])
def test_the_losses_of_small_batches_do_not_rise_by_chance(scatter: float, seed: int) -> None:
    assert first_rise(islice(small_batches(random.Random(seed), scatter), 3000)) is None


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "series",
    [
        lambda chance: averaged(chance, 0.1, 20),
        lambda chance: averaged(chance, 0.1, 50),
        of_sources,
        each_epoch_from_hard_to_easy,
    ],
    ids=["mean of 20", "mean of 50", "sources", "sorted"],
)
def test_nor_do_averages_sources_and_sorted_samples(series: object, seed: int) -> None:
    assert callable(series)
    assert first_rise(islice(series(random.Random(seed)), 3000)) is None


@pytest.mark.parametrize(
    ("scatter", "factor", "within"), [(0.02, 1.3, 100), (0.1, 1.6, 200), (0.32, 2.5, 250)]
)
def test_what_leaves_the_scatter_and_stays_is_a_rise(scatter: float, factor: float, within: int) -> None:
    series = small_batches(random.Random(5), scatter)
    level = fed(islice(series, 3000))
    after = first_rise((value * factor for value in islice(series, 1000)), level)
    assert after is not None
    assert after <= within


def test_what_came_back_may_come_again() -> None:
    """A rise that was over after some time is how this run is; the same once more is none."""
    series = small_batches(random.Random(3), 0.02)
    level = fed(islice(series, 2000))
    hill = [1.2] * 120 + [1.0] * 200
    level = fed((value * factor for factor, value in zip(hill, series, strict=False)), level)
    assert first_rise((value * factor for factor, value in zip(hill, series, strict=False)), level) is None
    assert first_rise((value * 1.2 for value in islice(series, 1500)), level) is not None


@pytest.mark.parametrize("length", [1, 5, 10])
def test_a_spike_that_comes_back_is_none(length: int) -> None:
    assert first_rise([9.0] * length + [2.0] * 100, fed(falling(600))) is None


def test_a_loss_that_stays_out_is_one() -> None:
    level = fed([*falling(600), *[2.6] * 2 * WINDOW])
    found = rise(level)
    assert found
    assert found.level == pytest.approx(2.6)
    assert found.best == pytest.approx(2.0, abs=0.03)
    assert rise(fed([1.9] * WINDOW, level)) is None


def test_a_loss_that_creeps_is_one() -> None:
    assert rise(fed([*falling(600), *[2.0 + 0.002 * step for step in range(150)]]))


def test_a_jump_at_a_resume_is_one_at_once_and_a_drop_is_none() -> None:
    before = renewed(fed(falling(600)))
    assert rise(before) is None
    after = first_rise([2.5] * 100, before)
    assert after is not None
    assert after <= 10
    level = deepcopy(before)
    for value in [2.5] * 3 * WINDOW:
        level.take(value)
        assert rise(level) or len(level.window) < 10, "it does not come and go"
    assert first_rise([1.5] * 100, before) is None


def test_what_has_lasted_very_long_is_how_it_is() -> None:
    assert rise(fed([*falling(600), *[2.6] * 6000])) is None


def test_where_values_lie_about_zero_there_is_no_level() -> None:
    chance = random.Random(1)
    assert first_rise(chance.gauss(0.001, 0.02) for _ in range(3000)) is None


def test_the_pace_may_be_half_as_slow_again() -> None:
    level = fed([10.0] * 200, Level(share=0.5))
    assert first_rise([14.0] * 500, level) is None
    assert first_rise([16.0] * 500, level) is not None


def test_a_level_from_which_a_resume_began_is_the_one_to_compare_with() -> None:
    level = replace(renewed(fed(falling(600))), best=3.0)
    assert first_rise([2.9] * 100, level) is None


def test_a_series_of_zeros_has_no_level_that_it_could_leave() -> None:
    assert first_rise([0.0] * 100 + [1e-9] * 200) is None
