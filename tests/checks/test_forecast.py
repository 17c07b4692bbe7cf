"""The forecast over whole signals: what keeps its level is never warned of, what fills is in good time."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.needs import QUICK
from watchdogd.checks.trend import filling_rate, time_to_full

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
GB, TB = 1e9, 1e12

Level = Callable[[float], float]
"""What is used at a time (seconds since the beginning)."""


@dataclass(frozen=True)
class Signal:
    """A level that is read `every` so many seconds, for `lasts`, on something that holds `size`."""

    name: str
    level: Level
    every: float
    lasts: float
    size: float
    within: float = 3 * DAY

    def points(self) -> list[tuple[float, float]]:
        return [(at, self.level(at)) for at in itertools.takewhile(lambda at: at < self.lasts, self._times())]

    def _times(self) -> Iterator[float]:
        return (number * self.every for number in itertools.count())

    def warnings(self, most: int = 120) -> Iterator[float]:
        """When it is warned of, looked at evenly, `most` times at most, and at every early moment."""
        points = self.points()
        step = max(len(points) // most, 1)
        for end in sorted({*range(1, min(40, len(points))), *range(1, len(points) + 1, step)}):
            seen = points[:end]
            free = self.size - seen[-1][1]
            left = time_to_full(free, filling_rate(seen, free), seen)
            if left is not None and left < self.within:
                yield seen[-1][0]


def teeth(period: float, height: float, base: float = 0.0, writes: float = 1.0) -> Level:
    """Written evenly over the share `writes` of each period, and deleted at its end."""
    return lambda at: base + height * min((at % period) / (writes * period), 1.0)


def kept(period: float, size: float, count: int, writes: float = 0.2) -> Level:
    """Checkpoints that take `writes` of a period to write; of more than `count` the oldest goes."""

    def level(at: float) -> float:
        done, now = divmod(at, period)
        return size * (min(done, count) + min(now / (writes * period), 1.0))

    return level


def bursts(seed: int, mean: float, rate: float, drop: float) -> Level:
    """Written steadily; at random times, `mean` apart, all but a random share below `drop` is deleted."""
    chance = random.Random(seed)
    ends, lows, at = [0.0], [0.0], 0.0
    while at < 40 * mean:
        at += mean * chance.uniform(0.6, 1.4)
        ends.append(at)
        lows.append(chance.uniform(0, drop) * rate * mean)

    def level(at: float) -> float:
        last = max(place for place, end in enumerate(ends) if end <= at)
        return lows[last] + rate * (at - ends[last])

    return level


def noise(seed: int, height: float) -> Level:
    return lambda at: height * random.Random(f"{seed} {at}").random()


def plus(*levels: Level) -> Level:
    return lambda at: sum(level(at) for level in levels)


def after(begin: float, level: Level) -> Level:
    return lambda at: level(at - begin) if at >= begin else 0.0


def flat(height: float) -> Level:
    return lambda _at: height


def to_plateau(height: float, pace: float) -> Level:
    return lambda at: height * (1 - math.exp(-at / pace))


def lagging(level: Level, by: float) -> Level:
    """Figures that are renewed every `by` seconds."""
    return lambda at: level(at // by * by)


def stairs(period: float, height: float, writes: float = 0.05) -> Level:
    return lambda at: height * (at // period + min((at % period) / (writes * period), 1.0))


def linear(rate: float, begin: float = 0.0) -> Level:
    return lambda at: max(at - begin, 0.0) * rate


HEALTHY = [
    Signal("each checkpoint replaces the one before", kept(40, 40e6, 1), 1, 900, 0.5 * GB),
    Signal(
        "each checkpoint replaces the one before, written slowly", kept(60, 40e6, 1, 0.9), 1, 900, 0.5 * GB
    ),
    Signal("five checkpoints are kept", kept(HOUR, 0.2 * TB, 5), MINUTE, 2 * DAY, 8 * TB),
    Signal(
        "2.3 TB every three hours, cleaned up each night",
        teeth(DAY, 18.4 * TB, 100 * TB),
        HOUR / 2,
        14 * DAY,
        250 * TB,
    ),
    Signal("log rotation", teeth(2 * HOUR, 8 * GB), MINUTE, DAY, 60 * GB),
    Signal("log rotation in seconds", teeth(30, 8e6, 20e6), 1, 600, 100e6),
    Signal("a cache that fills to a plateau", to_plateau(15 * GB, HOUR), MINUTE, DAY, 100 * GB),
    Signal(
        "a cache that slows down well below the end",
        to_plateau(40 * GB, 4 * HOUR),
        MINUTE,
        2 * DAY,
        100 * GB,
        6 * HOUR,
    ),
    Signal("deleted in bursts", bursts(3, HOUR, 5 * GB / HOUR, 0.3), MINUTE, DAY, 60 * GB),
    Signal("deleted in bursts, otherwise", bursts(8, 600, 2 * GB / HOUR, 0.5), 30, 6 * HOUR, 5 * GB),
    Signal("noise", plus(flat(50 * GB), noise(1, GB)), MINUTE, DAY, 100 * GB),
    Signal("noise upon teeth", plus(teeth(HOUR, 6 * GB), noise(2, GB)), MINUTE, DAY, 60 * GB),
    Signal("still", flat(50 * GB), MINUTE, DAY, 100 * GB),
    Signal("what shrinks", lambda at: 90 * GB - at * GB / HOUR, MINUTE, DAY, 100 * GB),
    Signal(
        "an evaluation each hour",
        lambda at: (20 + (12 if at % HOUR > 3000 else 0)) * GB,
        MINUTE,
        DAY,
        64 * GB,
        6 * HOUR,
    ),
    Signal("garbage is collected", teeth(600, 5 * GB, 20 * GB), MINUTE, DAY, 60 * GB, 6 * HOUR),
    Signal("two rhythms", plus(teeth(600, 2 * GB), teeth(4 * HOUR, 6 * GB)), MINUTE, 2 * DAY, 60 * GB),
    Signal("a calm week, then checkpoints", after(7 * DAY, kept(HOUR, 0.3 * TB, 2)), 600, 9 * DAY, 8 * TB),
    Signal(
        "a dataset is copied, then checkpoints",
        plus(lambda at: min(at / (10 * MINUTE), 1) * 10 * GB, after(HOUR, kept(600, 2 * GB, 1))),
        30,
        12 * HOUR,
        100 * GB,
        6 * HOUR,
    ),
    Signal("old figures of teeth", lagging(teeth(6 * HOUR, 3 * TB), HOUR / 2), MINUTE, 5 * DAY, 30 * TB),
    Signal("inodes come and go", lambda at: 1e6 + 10_000 * (int(at / MINUTE) % 15), MINUTE, DAY, 2e6),
]

HEALTHY += [
    Signal(
        "hourly checkpoints, cleaned up each night",
        plus(teeth(DAY, 6 * TB), kept(HOUR, TB, 1)),
        300,
        6 * DAY,
        60 * TB,
    ),
    Signal(
        "a dataset goes, then checkpoints",
        lambda at: 40 * TB if at < DAY else kept(HOUR, TB, 2)(at),
        300,
        4 * DAY,
        60 * TB,
    ),
]

FILLING = [
    Signal(
        "2.3 TB every three hours and nothing is deleted", stairs(3 * HOUR, 2.3 * TB), 600, 10 * DAY, 60 * TB
    ),
    Signal("stairs with little room", stairs(3 * HOUR, 2.3 * TB), 600, 10 * DAY, 25 * TB),
    Signal("steady, full in an hour", linear(100 * GB / HOUR), MINUTE, 2 * HOUR, 100 * GB),
    Signal("steady, full in minutes", linear(GB / MINUTE), 5, HOUR, 10 * GB),
    Signal("steady, full in a week", linear(10 * TB / DAY), 600, 14 * DAY, 70 * TB),
    Signal("a leak", plus(flat(20 * GB), linear(6 * GB / HOUR)), MINUTE, DAY, 60 * GB, 6 * HOUR),
    Signal(
        "a leak beneath garbage collection",
        plus(teeth(600, 3 * GB, 20 * GB), linear(4 * GB / HOUR)),
        MINUTE,
        DAY,
        60 * GB,
        6 * HOUR,
    ),
    Signal(
        "teeth whose lows climb", plus(teeth(HOUR, 6 * GB), linear(2 * GB / HOUR)), MINUTE, 3 * DAY, 60 * GB
    ),
    Signal("a calm week, then it fills", after(7 * DAY, linear(18 * TB / DAY)), 600, 14 * DAY, 60 * TB),
    Signal(
        "healthy teeth, then nothing is deleted any more",
        lambda at: teeth(HOUR, 5 * GB)(at) if at < DAY else 5 * GB / HOUR * (at - DAY),
        MINUTE,
        3 * DAY,
        100 * GB,
    ),
    Signal(
        "one large deletion on the way",
        lambda at: at * 10 * TB / DAY - (8 * TB if at > 2 * DAY else 0),
        600,
        12 * DAY,
        60 * TB,
    ),
    Signal("noise upon growth", plus(linear(5 * GB / HOUR), noise(5, 2 * GB)), MINUTE, 2 * DAY, 100 * GB),
    Signal("old figures of growth", lagging(linear(3 * TB / HOUR), HOUR / 2), MINUTE, 2 * DAY, 60 * TB),
    Signal("inodes, steadily", linear(50 / MINUTE), 10 * MINUTE, 14 * DAY, 500_000),
    Signal("faster and faster", lambda at: GB * (at / HOUR) ** 2, MINUTE, DAY, 100 * GB),
]
"""All of them are to be warned of while half of their way, from the beginning of the growth, is left."""
BEGUN = {"a calm week, then it fills": 7 * DAY, "healthy teeth, then nothing is deleted any more": DAY}


@pytest.mark.parametrize("signal", HEALTHY, ids=lambda each: each.name)
def test_what_keeps_its_level_is_never_warned_of(signal: Signal) -> None:
    assert list(signal.warnings(20 if QUICK else 120)) == []


@pytest.mark.parametrize("signal", FILLING, ids=lambda each: each.name)
def test_what_fills_is_warned_of_while_half_of_the_time_is_left(signal: Signal) -> None:
    full = next(at for at, level in signal.points() if level >= signal.size)
    begun = BEGUN.get(signal.name, 0.0)
    warned = next(at for at in signal.warnings() if at >= begun)
    assert warned <= max(begun + (full - begun) / 2, full - signal.within) + 0.02 * signal.lasts
