"""nodes: people list, add and remove nodes under suspicion."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from watchdogd.cli import main

Says = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Says) -> Path:
    monkeypatch.setenv("WATCHDOGD_HOME", str(tmp_path / "home"))
    assert main(["init"]) == 0
    (tmp_path / "home/config.toml").write_text("[runs.glide]\n[runs.dive]\n")
    capsys.readouterr()
    return tmp_path / "home"


def said(capsys: Says, *words: str) -> str:
    assert main(["nodes", *words]) == 0
    return capsys.readouterr().out.strip()


def test_a_node_is_added_listed_and_removed(home: Path, capsys: Says) -> None:
    assert said(capsys) == "no node is under suspicion"
    assert said(capsys, "glide", "--exclude") == ""
    text = said(capsys, "glide", "--add", "n017", "--reason", "GPU 3 slow", "--for", "2h")
    assert text == "n017 is under suspicion for 2h: glide's next job leaves it out"
    said(capsys, "--add", "n3")
    assert said(capsys, "glide", "--exclude") == "n017,n3"
    assert said(capsys, "dive", "--exclude") == "n3"
    still = "n3 is under suspicion for every run: watchdogd nodes --remove n3"
    assert said(capsys, "glide", "--remove", "n3") == still
    table = said(capsys)
    assert "GPU 3 slow" in table
    assert [each["node"] for each in json.loads(said(capsys, "--json"))] == ["n3", "n017"]
    assert said(capsys, "--remove", "n017") == "n017 is no longer under suspicion"
    assert said(capsys, "--remove", "n017") == "n017 was not under suspicion"
    assert said(capsys, "--exclude") == "n3"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["glidr"], "glide"),
        (["--add", "n[1-2]"], "is no node's name"),
        (["--add", ""], "'' is no node's name"),
        (["--remove", ""], "'' is no node's name"),
        (["--add", "n1", "--for", "0s"], "needs a duration above zero"),
    ],
)
def test_a_wrong_word_gets_one_line(home: Path, capsys: Says, words: list[str], text: str) -> None:
    assert main(["nodes", *words]) != 0
    said = capsys.readouterr()
    assert text in said.err
    assert said.err.count("\n") == 1
