"""Ticks leave a mark: by it status knows whether they still come."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchdogd.home import markers
from watchdogd.home.layout import Home

NOW = 1_800_000_000.0


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


def test_ticks_are_overdue_by_their_own_rhythm(home: Home) -> None:
    assert markers.tick_overdue_at(markers.last_ticks(home)) == 0
    markers.mark_tick(home, NOW)
    assert markers.tick_overdue_at(markers.last_ticks(home)) == NOW + 1.5 * markers.UNKNOWN_INTERVAL + 60
    for number in range(1, 20):
        markers.mark_tick(home, NOW + 300 * number)
    assert len(markers.last_ticks(home)) == 7
    assert markers.tick_overdue_at(markers.last_ticks(home)) == NOW + 300 * 19 + 450 + 60


def test_a_tick_by_hand_or_a_night_without_any_changes_no_rhythm() -> None:
    by_hand = (NOW, NOW + 300, NOW + 340, NOW + 600, NOW + 900)
    a_night = (NOW, NOW + 300, NOW + 600, NOW + 36_600, NOW + 36_900)
    assert [markers.tick_interval(by_hand), markers.tick_interval(a_night)] == [280, 300]


def test_a_clock_that_was_set_back_begins_anew(home: Home) -> None:
    markers.mark_tick(home, NOW)
    markers.mark_tick(home, NOW - 7200)
    assert markers.last_ticks(home) == (NOW - 7200,)


@pytest.mark.parametrize("text", ["", "[", "{}", '["x"]', "[null]"])
def test_garbage_is_no_mark(home: Home, text: str) -> None:
    markers.mark_tick(home, NOW)
    (home.path / ".ticks").write_text(text)
    assert markers.last_ticks(home) == ()
    markers.remove_ticks(home)
    markers.remove_ticks(home)
    assert not (home.path / ".ticks").exists()
