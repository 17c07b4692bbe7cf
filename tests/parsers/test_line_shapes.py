"""What a shape says of a line is what the line says by itself, whatever line of that shape came first."""

from __future__ import annotations

import random
import re
from itertools import islice, product
from string import ascii_lowercase

import pytest

from tests.parsers.test_failures import CASES
from tests.parsers.test_progress import LINES
from watchdogd.parsers.logs import failures, line_shapes, measures, progress
from watchdogd.parsers.logs.line_shapes import KEPT, layout_of, shape_of
from watchdogd.parsers.logs.log_lines import LogLine
from watchdogd.parsers.logs.measures import Spots
from watchdogd.parsers.logs.progress_forms import WORK

ODD = (
    "tps: 5,012 | global batch size: 64 | per iteration (ms): 1,250.5 | skipped iterations: 3",
    "10000 samples/s: 1,012,345.5, response length: 812.5, step: 7, seconds: 2.5",
    "2026-02-03 10:11:12,345 [0:12] epoch 3 batch 12 of 90, loss 2.5, 1e-3, -7, 1e200, v3f9a77c0e1",
    "İteration 12 of Epoch 3: loss=0.0 'grad_norm': nan",
    " number of nan iterations:   0 | 12:34 | 1,234,567",
)


def others(line: str) -> list[str]:
    """Lines of the same shape with other digits."""
    chance = random.Random(line)
    return [re.sub(r"[0-9]", lambda _: chance.choice("0123456789"), line) for _ in range(20)]


def read(text: str, spots: Spots) -> list[str]:
    """All that a line measures; as words, for nan is no number that equals itself."""
    seconds = measures.seconds(text, spots)
    cost = measures.cost(text, spots, seconds)
    skipped, length = measures.skipped(text, spots), measures.length(text, spots)
    loss, name = measures.loss(text, spots), measures.loss_name(text, spots)
    return [str(each) for each in (seconds, cost, skipped, length, loss, name, spots.falls)]


@pytest.mark.parametrize("line", [*(text for text, *_ in LINES), *ODD])
def test_another_line_of_the_same_shape_tells_its_own_numbers(line: str) -> None:
    for text in others(line):
        found, own = shape_of(text), measures.spots_of(text)
        assert found.report(text) == progress.progress(text)
        assert found.layout.values(text) == line_shapes.layout_of(text).values(text)
        assert found.epoch == progress.epoch_spot(progress.lowered(text))
        if found.progress and found.progress.form.series == WORK:
            assert found.measures.loss is None  # it is no loss of the training
            own = own._replace(loss=None, falls=True)
        assert read(text, found.measures) == read(text, own)


@pytest.mark.parametrize(
    ("text", "number"), [("tps: 5,012", 1 / 5012), ("x 1,000 tps: 12,345.5", 1 / 12345.5)]
)
def test_a_rate_with_commas_is_one_number(text: str, number: float) -> None:
    assert measures.cost(text, measures.spots_of(text), None) == ("token", number)


@pytest.mark.parametrize("line", [text for text, _ in CASES])
def test_a_line_that_differs_in_its_digits_hides_no_cause(line: str) -> None:
    for text in [line, *others(line)]:
        found = failures.find([LogLine(text)])
        assert shape_of(text).fails or not found


def test_the_shapes_of_a_log_of_noise_do_not_pile_up() -> None:
    first = shape_of("iter 7: loss 2.5")
    for letters in islice(product(ascii_lowercase, repeat=4), 2 * KEPT):
        shape_of("".join(letters))
    assert len(line_shapes._shapes) <= KEPT
    again = shape_of("iter 9: loss 1.5")
    assert again is not first
    assert again == first
    assert again.report("iter 9: loss 1.5") == progress.ProgressReport("iter", 9.0)


def test_the_words_of_a_long_line_end_after_a_word() -> None:
    long = layout_of(
        " iteration 5/ 100 | elapsed time per iteration (ms): 412.7 | lm loss: 2.31 | grad norm: 0.4"
    )
    assert long.words == "iteration #/ # | elapsed time per iteration (ms): # | lm…"
    assert layout_of("x" * 90).words == "x" * 59 + "…"
    assert layout_of("short line").words == "short line"
