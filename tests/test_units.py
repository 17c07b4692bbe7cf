"""Durations, sizes and shares as people write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdogd.errors import UnitError
from watchdogd.units import (
    Amount,
    finite,
    format_duration,
    format_size,
    iso,
    parse_amount,
    parse_duration,
    parse_rate,
    parse_share,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("2h", 7200),
        ("3d", 259200),
        ("1h30m", 5400),
        ("1w", 604800),
        (45, 45),
        ("0.5s", 0.5),
    ],
)
def test_durations_are_read(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m5", "5 apples", "-3m", None, True, "1h-3m", [], -1])
def test_what_is_no_duration_is_refused_with_an_example(text: object) -> None:
    with pytest.raises(UnitError, match="write it as 90s"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=10**7))
def test_a_duration_survives_writing_within_its_smallest_shown_unit(seconds: int) -> None:
    shown = parse_duration(format_duration(seconds))
    assert shown <= seconds
    assert seconds - shown < (3600 if seconds >= 86400 else 60)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2TB", 2 * 10**12),
        ("500GiB", 500 * 2**30),
        ("18.4TB", 18_400_000_000_000),
        ("1k", 1000),
        ("12", 12),
        (7, 7),
        ("3 MiB", 3 * 2**20),
    ],
)
def test_sizes_are_read(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "TB", "2XB", "-2TB", "10%", True, None])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(UnitError, match="write it as"):
        parse_size(text)


def test_an_amount_is_a_size_or_a_share() -> None:
    assert parse_amount("10TB").of(5) == 10**13
    assert parse_amount("10%").of(500) == 50
    assert parse_amount("500000") == Amount(absolute=500000)
    assert str(parse_amount("2.5%")) == "2.5%"
    with pytest.raises(UnitError, match="percentage"):
        parse_amount("much")


def test_shares_and_rates() -> None:
    assert parse_share("80%") == 0.8
    assert parse_rate("86.4TB/d") == 10**9
    for wrong in ("80", "120%", "x%"):
        with pytest.raises(UnitError):
            parse_share(wrong)
    with pytest.raises(UnitError, match="writing rate"):
        parse_rate("18TB")


def test_sizes_are_written_with_three_figures() -> None:
    assert [format_size(n) for n in (0, 999, 18_400_000_000_000, 999_600)] == [
        "0 B",
        "999 B",
        "18.4 TB",
        "1 MB",
    ]


@pytest.mark.parametrize("text", ["99999999999d", "36526d", "9" * 400 + "h", 1e17, math.inf, 10**400])
def test_a_duration_ends_within_the_calendar(text: object) -> None:
    with pytest.raises(UnitError, match="longer than 100 years"):
        parse_duration(text)


@pytest.mark.parametrize(("time", "year"), [(8.6e18, "9999"), (math.inf, "9999"), (-8.6e18, "0001")])
def test_a_time_beyond_the_calendar_is_written_as_its_end(time: float, year: str) -> None:
    assert iso(time).startswith(year)


def test_times_are_iso_with_an_offset() -> None:
    assert iso(0)[-6] in "+-"


def test_json_has_no_nan_and_no_infinity() -> None:
    assert [finite(value) for value in (float("nan"), float("inf"), float("-inf"))] == [None, None, None]
    assert [finite(value) for value in (1.5, 7, 0.0, None)] == [1.5, 7, 0.0, None]
