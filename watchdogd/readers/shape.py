"""Lines of one shape say the same things in the same places: what stands where is found out once for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from watchdogd.readers import measures, trainlog
from watchdogd.readers.trainforms import WORK

if TYPE_CHECKING:
    from watchdogd.readers.trainlog import Report, Spot, Vocabulary

KEPT = 2000
"""Shapes that are remembered."""
_ONE_DIGIT = bytes.maketrans(b"123456789", b"000000000")
_shapes: dict[bytes, Shape] = {}


class Shape(NamedTuple):
    """Where lines that differ in their digits alone tell of progress and of a loss."""

    progress: Spot | None
    loss: int | None
    falls: bool = True

    def report(self, text: str) -> Report | None:
        """How far a line of this shape says that the training is."""
        return trainlog.reported(text, self.progress) if self.progress else None

    def loss_of(self, text: str) -> float | None:
        """The loss that a line of this shape tells."""
        return measures.loss_at(text, self.loss)


def shape_of(text: str, known: Vocabulary = trainlog.ANYTHING) -> Shape:
    """The shape of a line, of whose text `known` tells what may stand in it."""
    key = text.encode().translate(_ONE_DIGIT)
    found = _shapes.get(key)
    if found is None:
        if len(_shapes) >= KEPT:
            _shapes.clear()
        spot = trainlog.spot_of(text, known)
        evaluated = spot is not None and spot.form.series == WORK
        loss = None if evaluated else measures.loss_spot(text)
        found = _shapes[key] = Shape(spot, loss, loss is None or measures.falls(text))
    return found
