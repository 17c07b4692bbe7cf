"""What a shape says of a line is what the line says by itself, whatever line of that shape came first."""

from __future__ import annotations

import math
import random
import re

import pytest

from tests.readers.test_trainlog import LINES
from watchdogd.readers import measures, trainlog
from watchdogd.readers.shape import KEPT, shape_of
from watchdogd.readers.trainforms import WORK


@pytest.mark.parametrize("line", [text for text, *_ in LINES])
def test_another_line_of_the_same_shape_tells_its_own_numbers(line: str) -> None:
    chance = random.Random(line)
    for _ in range(20):
        text = re.sub(r"[0-9]", lambda _: chance.choice("0123456789"), line)
        shape = shape_of(text)
        assert shape.report(text) == trainlog.progress(text)
        told, wanted = (measures.loss(text, spots) for spots in (shape.measures, measures.spots_of(text)))
        if shape.progress and shape.progress.form.series == WORK:
            assert told is None  # it is no loss of the training
            continue
        assert told == wanted or (math.isnan(told or 0.0) and math.isnan(wanted or 0.0))


def test_the_shapes_of_a_log_of_noise_do_not_pile_up() -> None:
    first = shape_of("iter 7: loss 2.5")
    for number in range(2 * KEPT):
        shape_of("x" * number)
    again = shape_of("iter 9: loss 1.5")
    assert again is not first
    assert again == first
    assert again.report("iter 9: loss 1.5") == trainlog.Report("iter", 9.0)
