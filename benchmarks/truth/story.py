"""A training's life as its log tells it, and the forms of logs that are known to the benchmark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random


class Phase(StrEnum):
    """What a life is doing from here on."""

    START = "start"  # the job script: modules, environment, imports, rendezvous
    PREPARE = "preparation"  # data, downloads, compilation, loading of weights
    TRAIN = "training"
    EVALUATE = "evaluation"
    SAVE = "save"
    AFTER = "after the last step"  # exports, tests, plots, what the job script does next


Event = str | float | Phase
"""Text is written as it stands (with its line ends), a number passes so many seconds, a phase begins."""


@dataclass(slots=True)
class Life:
    """What a form may draw on: chance that repeats, and a loss that falls as losses do.

    `diverged`: from now on the loss is NaN.
    """

    random: Random
    diverged: bool = False

    def about(self, seconds: float, spread: float = 0.1) -> float:
        """A duration near `seconds`, never less than a third of it."""
        return max(self.random.gauss(seconds, spread * seconds), seconds / 3)

    def loss(self, done: float, first: float = 10.0, last: float = 2.0, noise: float = 0.02) -> float:
        """The loss where the share `done` (0 to 1) of the training is behind it."""
        if self.diverged:
            return math.nan
        return (last + (first - last) * math.exp(-6 * done)) * self.random.gauss(1.0, noise)


Telling = Callable[[Life], Iterator[Event]]


@dataclass(frozen=True, slots=True)
class Form:
    """One form of log. `name` is unique, `field` of work, `source` where the form was seen in public.

    `chatter`: lines that this job may go on to write while it hangs (`{n}` counts them, `{clock}` is a time
    of the day, `{seconds}` those since the hang), one each `chatter_every` seconds. `death`: what it says
    when it dies without ending. `tells_loss`: it prints `Life.loss`.
    """

    name: str
    field: str
    source: str
    tell: Telling
    chatter: tuple[str, ...]
    chatter_every: float
    death: str
    tells_loss: bool
    held: bool


@dataclass(slots=True)
class Forms:
    """The forms by name, in the order in which their modules were imported."""

    known: dict[str, Form] = field(default_factory=dict)

    def form(
        self,
        name: str,
        *,
        field: str,
        source: str,
        chatter: tuple[str, ...],
        chatter_every: float = 30.0,
        death: str = "",
        tells_loss: bool = False,
    ) -> Callable[[Telling], Telling]:
        """Register a generator of events as a form."""

        def register(tell: Telling) -> Telling:
            if name in self.known:
                raise ValueError(f"two forms are named {name}")
            held = ".held." in tell.__module__
            self.known[name] = Form(
                name, field, source, tell, chatter, chatter_every, death, tells_loss, held
            )
            return tell

        return register


FORMS = Forms()
form = FORMS.form
