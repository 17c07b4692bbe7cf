"""Numbers in foreign text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdogd.system.number import count, real, whole

ODD: list[object] = [
    "²",
    "١٢",
    "1_000",
    "nan",
    "inf",
    "-",
    "",
    " ",
    "0x1",
    "1e",
    "1.2.3",
    "9" * 5000,
    None,
    True,
    [],
    {},
]


@pytest.mark.parametrize("text", [*ODD, "1.5", math.nan, math.inf, 1e300, 10**400, "1e5"])
def test_what_is_no_whole_number(text: object) -> None:
    assert whole(text) is None
    assert count(text) is None


@pytest.mark.parametrize("text", [*ODD, math.nan, math.inf, 10**400, "1e99999", "9" * 400 + ".0"])
def test_what_is_no_finite_number(text: object) -> None:
    assert real(text) is None


def test_numbers() -> None:
    assert [whole(" 12 "), whole("-7"), whole(12.0), whole("+3")] == [12, -7, 12, 3]
    assert [count("12"), count("-0"), count("-7"), count(-7), count("+3")] == [12, None, None, None, None]
    assert [real("1.5"), real(".5"), real("-2e-3"), real("7."), real(3)] == [1.5, 0.5, -0.002, 7.0, 3.0]


@given(st.one_of(st.text(), st.floats(), st.integers(), st.from_regex(r"[-+0-9.eE²]{0,30}")))
def test_nothing_leaves_and_everything_is_finite(text: object) -> None:
    assert math.isfinite(whole(text) or 0)
    assert math.isfinite(real(text) or 0)
