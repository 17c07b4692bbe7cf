"""Charts in the terminal: what is drawn for what was measured."""

from __future__ import annotations

import json
import time
from math import nan
from typing import TYPE_CHECKING

import pytest

from tests.web.evening import NOW, gathered
from watchdogd.cli import main
from watchdogd.cli.history import HEIGHT, chart, columns_of, label_of
from watchdogd.home.layout import Home

if TYPE_CHECKING:
    from pathlib import Path


def test_a_run_is_plotted_as_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = gathered(tmp_path)
    home = Home(tmp_path / "home")
    home.write(home.status, json.dumps(content.status))
    monkeypatch.setattr(time, "time", lambda: NOW)
    assert main(["--home", str(home.path), "history", "glide-xl", "--plot", "--since", "4d"]) == 0
    lines = capsys.readouterr().out.splitlines()
    charts = next(run.charts for run in content.runs if run.name == "glide-xl")
    heads = [line for line in lines if line.endswith(" at last")]
    assert sorted(head.split(": ")[1] for head in heads) == sorted(each.title for each in charts)
    assert "glide-xl: loss: 2.03 at last" in heads
    assert len(lines) == len(charts) * (HEIGHT + 2)


def test_a_line_that_rises_fills_more_and_more() -> None:
    points = [(float(at), at * 1e9) for at in range(100)]
    lines = chart("scratch used", "B", points, 0.0, 100.0, 80)
    assert len(lines) == HEIGHT + 2
    assert max(map(len, lines)) <= 80
    assert lines[0] == "scratch used: 99 GB at last"
    assert lines[1].startswith("   100 GB ┤")
    assert lines[HEIGHT].startswith("      0 B ┤")
    filled = [line.count("█") for line in lines[1 : HEIGHT + 1]]
    assert filled == sorted(filled)
    assert lines[1].endswith("▇")  # 99 of 100
    assert lines[HEIGHT][11] == "▁"


def test_holes_are_blank_and_what_is_no_number_is_left_out() -> None:
    assert columns_of([(0.5, 1.0), (3.5, nan)], 0.0, 4.0, 4) == [1.0, None, None, None]
    assert columns_of([(0.5, 1.0), (2.5, 3.0)], 0.0, 4.0, 4) == [1.0, 1.0, 3.0, None]
    steady = [(float(at), 1.0) for at in (0, 1, 2, 3, 90, 91, 92)]
    assert columns_of(steady, 0.0, 100.0, 100)[50] is None
    assert columns_of([(1.0, 2.0), (1.2, 4.0)], 0.0, 2.0, 1) == [3.0]


def test_nothing_and_always_the_same() -> None:
    assert chart("x", "", [], 0.0, 1.0, 80) == ["x: nothing was measured"]
    lines = chart("x", "%", [(0.0, 5.0), (1.0, 5.0)], 0.0, 1.0, 40)
    assert (lines[1].split()[0], lines[HEIGHT].split()[0]) == ("6", "4")


@pytest.mark.parametrize(
    ("low", "high", "unit"),
    [
        (80.91e9, 80.94e9, "B"),
        (0.0, 0.0, ""),
        (0.0, 5e-324, ""),
        (-1e299, 1e299, "B"),
        (1e17, 1e17 + 64, "s"),
        (1.97, 2.0, ""),
        (-3.0, 250.0, "W"),
        (3600.0, 3601.0, "s"),
        (7e-9, 7e-9, ""),
    ],
)
def test_the_ends_of_the_axis_read_differently_and_hold_all_values(
    low: float, high: float, unit: str
) -> None:
    lines = chart("x", unit, [(0.0, low), (1.0, high)], 0.0, 1.0, 40)
    ends = [lines[at].partition("┤")[0].strip() for at in (1, HEIGHT)]
    assert ends[0] != ends[1]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2.5e12, "B", "2.5 TB"),
        (90.0, "s", "1m30s"),
        (0.25, "s", "0.25 s"),
        (97.41, "%", "97.41 %"),
        (3e9, "", "3 G"),
        (548_500, "", "548,500"),
        (1.35e6, "", "1.35 M"),
        (1e20, "", "1e+20"),
    ],
)
def test_labels(value: float, unit: str, text: str) -> None:
    assert label_of(value, unit) == text
