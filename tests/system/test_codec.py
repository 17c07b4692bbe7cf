"""What a check remembers comes back as it was, or not at all."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, make_dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdogd.system.codec import Codec, codec_of


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    at: float
    value: float


@dataclass(frozen=True, slots=True)
class Leaf:
    name: str
    size: int = 0


@dataclass(slots=True)
class Tree:
    leaves: list[Leaf] = field(default_factory=list)
    by_name: dict[str, Leaf] = field(default_factory=dict)
    by_number: dict[int, list[float]] = field(default_factory=dict)
    pair: tuple[str, float] | None = None
    points: tuple[Point, ...] = ()
    colour: Colour = Colour.RED
    best: Leaf | None = None
    old: bool = False
    height: float = 0.0


CODEC = codec_of(Tree)
LEAVES = st.builds(Leaf, st.text(), st.integers())
FLOATS = st.floats(allow_nan=False)
TREES = st.builds(
    Tree,
    st.lists(LEAVES),
    st.dictionaries(st.text(), LEAVES),
    st.dictionaries(st.integers(), st.lists(FLOATS)),
    st.none() | st.tuples(st.text(), FLOATS),
    st.lists(st.builds(Point, FLOATS, FLOATS)).map(tuple),
    st.sampled_from(Colour),
    st.none() | LEAVES,
    st.booleans(),
    FLOATS | st.integers(),
)
PLAIN = st.sampled_from([None, True, -1, 10**400, 1.5, float("inf"), "", "x", "1-0"])
JSON = st.recursive(
    PLAIN, lambda part: st.lists(part, max_size=3) | st.dictionaries(PLAIN.map(str), part), max_leaves=5
)


@given(TREES)
def test_what_was_dumped_comes_back(tree: Tree) -> None:
    assert CODEC.load(json.loads(json.dumps(CODEC.dump(tree)))) == tree


@given(TREES)
def test_a_copy_shares_nothing_that_can_be_changed(tree: Tree) -> None:
    before = CODEC.dump(tree)
    copy = CODEC.copy(tree)
    assert copy == tree
    copy.leaves.append(Leaf("new"))
    copy.by_number.setdefault(7, []).append(1.0)
    for numbers in copy.by_number.values():
        numbers.append(2.0)
    copy.height += 1.0
    assert CODEC.dump(tree) == before


@given(JSON)
def test_anything_else_is_none(kept: Any) -> None:
    assert CODEC.load(kept) is None
    assert CODEC.load([CODEC.form, kept]) is None


@given(TREES, st.integers(0, 8), JSON)
def test_a_part_that_is_damaged_spoils_nothing_but_the_whole(tree: Tree, place: int, damage: Any) -> None:
    form, plain = CODEC.dump(tree)
    plain[place] = damage
    found = CODEC.load([form, plain])
    assert found is None or CODEC.load(CODEC.dump(found)) == found


def test_a_class_of_another_version_or_with_other_fields_is_another() -> None:
    def made(version: int, *fields: tuple[str, type]) -> Codec[Any]:
        return Codec(make_dataclass("Made", fields, namespace={"VERSION": version}))

    codecs = [made(1, ("a", int)), made(2, ("a", int)), made(1, ("b", int)), made(1, ("a", float))]
    values = [codec.dump(codec.cls(3)) for codec in codecs]
    for number, codec in enumerate(codecs):
        assert [codec.load(value) is not None for value in values] == [each == number for each in range(4)]


@pytest.mark.parametrize("hint", [object, set[int], dict[float, int], "complex", int | str, type(None)])
def test_what_cannot_be_kept_is_refused(hint: Any) -> None:
    with pytest.raises(TypeError, match="cannot be remembered"):
        Codec(make_dataclass("Odd", [("odd", hint)]))


def test_a_class_with_no_fields_by_position_is_refused() -> None:
    with pytest.raises(TypeError, match="fields that are set by position"):
        Codec(make_dataclass("Odd", [("odd", int)], kw_only=True))
