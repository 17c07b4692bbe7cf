"""Nodes under suspicion: who leaves which out, and for how long."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from watchdogd.errors import UsageError
from watchdogd.home import suspect_nodes
from watchdogd.home.layout import Home

HOUR = 3600.0


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


def names(home: Home, run: str, after: float = 0.0, most: int | None = suspect_nodes.MOST) -> set[str]:
    return set(suspect_nodes.excluded(home, run, time.time() + after, most))


def test_a_suspicion_holds_for_its_run_and_for_its_time(home: Home) -> None:
    suspect_nodes.add(home, "n017", "glide", "incident 3", HOUR, by_hand=False)
    assert (names(home, "glide"), names(home, "dive")) == ({"n017"}, set())
    assert names(home, "glide", after=HOUR + 1) == set()
    (found,) = suspect_nodes.listed(home)
    assert (found.reason, found.by_hand) == ("incident 3", False)


def test_watchdogd_leaves_out_the_newest_few_and_people_as_many_as_they_like(home: Home) -> None:
    for number in range(4):
        suspect_nodes.add(home, f"n{number}", "glide", "", HOUR, by_hand=False)
    for number in range(3):
        suspect_nodes.add(home, f"bad{number}", "", "broken fan", None, by_hand=True)
    assert names(home, "glide") == {"n2", "n3", "bad0", "bad1", "bad2"}
    assert len(names(home, "glide", most=None)) == 7
    assert names(home, "dive", after=1e9) == {"bad0", "bad1", "bad2"}


def test_what_a_person_wrote_stays_where_watchdogd_suspects_the_node_too(home: Home) -> None:
    suspect_nodes.add(home, "n017", "glide", "broken fan", None, by_hand=True)
    suspect_nodes.add(home, "n017", "glide", "incident 3", HOUR, by_hand=False)
    (found,) = suspect_nodes.listed(home)
    assert (found.reason, found.by_hand, names(home, "glide", after=1e9)) == ("broken fan", True, {"n017"})
    suspect_nodes.remove(home, "n017")
    suspect_nodes.add(home, "n017", "glide", "incident 3", HOUR, by_hand=False)
    assert (names(home, "glide"), names(home, "glide", after=HOUR + 1)) == ({"n017"}, set())


def test_a_node_that_is_removed_is_left_out_no_more_but_still_known(home: Home) -> None:
    suspect_nodes.add(home, "n017", "glide", "", HOUR, by_hand=False)
    suspect_nodes.add(home, "n017", "", "", None, by_hand=True)
    assert suspect_nodes.remove(home, "n017", "dive") == 0
    assert suspect_nodes.remove(home, "n017") == 2
    assert suspect_nodes.remove(home, "n017") == 0
    assert names(home, "glide") == set()
    assert {each.node for each in suspect_nodes.listed(home)} == {"n017"}


def test_what_ended_long_ago_is_forgotten(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    suspect_nodes.add(home, "n017", "glide", "", HOUR, by_hand=False)
    later = time.time() + 40 * suspect_nodes.DAY
    monkeypatch.setattr(time, "time", lambda: later)
    assert suspect_nodes.listed(home) == ()
    assert list(home.nodes.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["", "no words", "[1]", '{"node": "n9"}', '{"node": "n1", "run": "", "until": "x"}']
)
def test_a_file_that_says_something_else_is_no_suspicion(home: Home, text: str) -> None:
    (home.nodes / "n1").write_text(text)
    (home.nodes / "a folder").mkdir()
    assert suspect_nodes.listed(home) == ()


@pytest.mark.parametrize("name", ["", "-x", "n1,n2", "n[1-3]", "../n1", "n1 n2", "n\n1"])
def test_what_is_no_nodes_name_is_refused(home: Home, name: str) -> None:
    with pytest.raises(UsageError, match="is no node's name"):
        suspect_nodes.add(home, name, "", "", None, by_hand=True)
