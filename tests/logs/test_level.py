"""A level that rises and stays is seen; spikes, drops and scatter are not."""

from __future__ import annotations

import math
import random

import pytest

from watchdogd.logs.level import WINDOW, Level, renew, rise, take


def fed(*values: float, state: Level | None = None) -> Level:
    state = state or Level()
    for value in values:
        state = take(state, value)
    return state


def falling(count: int) -> list[float]:
    scatter = random.Random(7)
    return [2.0 + 8.0 * math.exp(-step / 60) + scatter.gauss(0, 0.04) for step in range(count)]


def test_a_falling_loss_never_rises() -> None:
    state = Level()
    for value in falling(2000):
        state = take(state, value)
        assert rise(state) is None


@pytest.mark.parametrize("length", [1, 5, 10])
def test_a_spike_that_comes_back_is_none(length: int) -> None:
    state = fed(*falling(600))
    for value in [9.0] * length + [2.0] * 100:
        state = take(state, value)
        assert rise(state) is None


def test_a_loss_that_stays_out_is_one() -> None:
    state = fed(*falling(600), *[2.6] * WINDOW)
    found = rise(state)
    assert found
    assert found.level == pytest.approx(2.6)
    assert found.best == pytest.approx(2.0, abs=0.03)
    assert rise(fed(*[1.9] * WINDOW, state=state)) is None


def test_a_loss_that_creeps_is_one() -> None:
    assert rise(fed(*falling(600), *[2.0 + 0.002 * step for step in range(150)]))


def test_a_jump_at_a_resume_is_one_and_a_drop_is_none() -> None:
    before = renew(fed(*falling(600)))
    assert rise(before) is None
    assert rise(fed(*[2.5] * WINDOW, state=before))
    assert rise(fed(*[1.5] * WINDOW, state=before)) is None


def test_what_has_lasted_very_long_is_how_it_is() -> None:
    assert rise(fed(*falling(600), *[2.6] * 6000)) is None
