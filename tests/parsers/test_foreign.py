"""Foreign text that breaks off, is mixed up, or holds hostile numbers: readers let out only their errors."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import re
import time
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers.foreign import READERS
from tests.parsers.fuzz import kept
from watchdogd.errors import WatchdogError

NUMBERS = ("²", "١", "-1", "", "nan", "Infinity", "-", "1e999", "9" * 25, "9" * 400, "9" * 5000, "0" * 5000)
PIECES = (
    *("\0", "\r", "\x1b[31m", "\x85", "\u2028", "\ud800", "€", "|", ":", ",", '"', "=", "%", "::::", "//["),
    *("[" * 2000, '{"a":' * 2000, "<a>" * 2000, " " * 300, "\n" * 50, "N/A", "{}", "[]", "null"),
)


def strained(text: str, chance: random.Random) -> str:
    """The text with some of its numbers, cells and ends replaced."""
    for _ in range(chance.randint(1, 3)):
        spots = [match.span() for match in re.finditer(r"\d+(?:\.\d+)?", text)]
        kind = chance.randrange(5)
        if kind <= 1 and spots:
            begin, end = chance.choice(spots)
            text = text[:begin] + chance.choice(NUMBERS) + text[end:]
        elif kind == 2:
            text = text[: chance.randrange(len(text) + 1)]
        elif kind == 3:
            spot = chance.randrange(len(text) + 1)
            text = text[:spot] + chance.choice(PIECES) + text[spot:]
        else:
            lines = text.splitlines(keepends=True)
            chance.shuffle(lines)
            text = "".join(lines[: chance.randint(1, len(lines))]) if lines else text
    return text


@pytest.mark.parametrize("name", READERS)
def test_a_reader_understands_its_sample(name: str) -> None:
    read, sample = READERS[name]
    read(sample)


def floats(value: object) -> Iterator[float]:
    """All floats in what a reader found."""
    if isinstance(value, float):
        yield value
    elif dataclasses.is_dataclass(value):
        yield from (each for one in dataclasses.fields(value) for each in floats(getattr(value, one.name)))
    elif isinstance(value, Mapping):
        yield from (each for one in value.values() for each in floats(one))
    elif isinstance(value, tuple | list):
        yield from (each for one in value for each in floats(one))


def complaint(name: str, text: str) -> str | None:
    """What a reader says of a text that it refuses, None where it takes it; anything else leaves it."""
    try:
        found = READERS[name][0](text)
    except WatchdogError as error:
        return str(error)
    if name not in ENDLESS:
        assert all(map(math.isfinite, floats(found)))
    return None


ENDLESS = ("beat", "tables of a Guard")
"""Readers that hand on NaN and infinity: a loss may be that, and so has TOML them."""


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_a_reader_lets_out_its_own_errors_alone(name: str, seed: int) -> None:
    assert complaint(name, strained(READERS[name][1], random.Random(seed))) != ""


@pytest.mark.attack("break a reader off")
@pytest.mark.parametrize(
    ("name", "text"), kept(), ids=[f"{number} {name}" for number, (name, _) in enumerate(kept())]
)
def test_what_once_broke_a_reader_breaks_none(name: str, text: str) -> None:
    assert complaint(name, text) != ""


BLANKS = 20_000
"""Of these a pattern whose time grows as the square of a text's length makes half a minute and more."""


@pytest.mark.parametrize("blank", ["\n", " ", " \n", "import ", "import\n", "0_UUI"])
@pytest.mark.parametrize("name", READERS)
def test_nothing_that_comes_again_and_again_takes_long(name: str, blank: str) -> None:
    began = time.process_time()
    assert complaint(name, READERS[name][1] + blank * (BLANKS // len(blank)) + "\0") != ""
    assert time.process_time() - began < 5.0


@pytest.mark.parametrize(
    "name", [name for name in READERS if name not in ("quota pattern", "hours of a site")]
)  # a user's own pattern
def test_a_number_without_end_takes_no_time_without_end(name: str) -> None:
    _, sample = READERS[name]
    spots = [match.span() for match in re.finditer(r"\d+", sample)]
    for begin, end in spots[:: len(spots) // 6 + 1]:
        for tail in ("", ":0"):
            began = time.process_time()
            assert complaint(name, f"{sample[:begin]}{'0' * 20_000}{tail}{sample[end:]}") != ""
            assert time.process_time() - began < 1.0


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
JSON = [name for name, (_, sample) in READERS.items() if re.match(r"\s*(?:\{|\[[\[{\"])", sample)]


@pytest.mark.parametrize("name", JSON)
@settings(max_examples=25)
@given(value=VALUES, place=st.integers(0, 50))
def test_json_of_wrong_types_is_no_surprise(name: str, value: object, place: int) -> None:
    document, _ = json.JSONDecoder().raw_decode(READERS[name][1].strip())
    assert complaint(name, json.dumps(_replaced(document, value, [place]))) != ""


def _replaced(document: object, value: object, left: list[int]) -> object:
    """The document with its n-th value replaced."""
    left[0] -= 1
    if left[0] < 0:
        left[0] = 1 << 30
        return value
    if isinstance(document, dict):
        return {key: _replaced(inner, value, left) for key, inner in document.items()}
    if isinstance(document, list):
        return [_replaced(inner, value, left) for inner in document]
    return document
