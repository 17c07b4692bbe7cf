"""What a campaign does, and when: drawn from its seed alone, before it begins, so that it can be replayed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.chaos.journal import Fault, Truth
    from benchmarks.chaos.stage import Stage

REST = 50.0
"""Seconds from one truth of a target to the next: what comes and goes more often is flapping."""
PAUSE = 12.0
"""Seconds between two faults of one thing."""


@dataclass(frozen=True, slots=True)
class Act:
    """A kind of fault or truth: a generator that begins it, waits at its one yield, and ends it.

    `places` are the things of which it takes one to itself. `lasting` are seconds, at least and at most.
    """

    name: str
    modes: tuple[str, ...]
    places: tuple[str, ...]
    lasting: tuple[float, float]
    weight: float
    play: Callable[[Scene], Iterator[None]]
    note: Callable[[Step, float], Fault | Truth]
    truth: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One act in a campaign: `at` seconds after its beginning, for `lasting` seconds, on `place`."""

    at: float
    act: Act = field(repr=False)
    place: str
    lasting: float
    seed: int

    def line(self) -> str:
        return f"{self.at:6.1f} s for {self.lasting:5.1f} s: {self.act.name} ({self.place})"


@dataclass(frozen=True, slots=True)
class Scene:
    """A step while it is played; `chance` are its own dice: what else happens changes nothing of it."""

    stage: Stage
    step: Step
    note: Fault | Truth
    chance: random.Random

    @property
    def place(self) -> str:
        return self.step.place


def draw(seed: int, mode: str, minutes: float, acts: Sequence[Act]) -> list[Step]:
    """Return the steps of a campaign, in the order of time; a place is taken by one at a time."""
    chance = random.Random(f"{seed} {mode}")
    possible = [act for act in acts if mode in act.modes]
    steps: list[Step] = []
    for truth, pace in ((True, 3.0), (False, 10.0)):
        kinds = [act for act in possible if act.truth is truth]
        at, free = 2.0, dict.fromkeys((place for act in kinds for place in act.places), 0.0)
        while kinds and at < minutes * 60:
            act = chance.choices(kinds, [each.weight for each in kinds])[0]
            place = chance.choice(act.places)
            lasting = round(chance.uniform(*act.lasting), 1)
            if free[place] <= at:
                free[place] = at + max(lasting + PAUSE, REST if truth else 0.0)
                steps.append(Step(round(at, 1), act, place, lasting, chance.getrandbits(32)))
            at += chance.expovariate(1 / pace)
    return sorted(steps, key=lambda step: step.at)
