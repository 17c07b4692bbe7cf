"""The questions of `init --interactive`, beside tests/slurm/test_first_minutes.py: answers that are none."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from watchdogd.cli import main
from watchdogd.cli.setup.interview import Person, placed
from watchdogd.doctor.setup_wizard import Survey


def answering(monkeypatch: pytest.MonkeyPatch, *lines: str) -> Person:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    return Person()


@pytest.mark.parametrize(
    ("lines", "chosen"),
    [([""], "b"), (["1"], "a"), (["b"], "b"), (["0", "-1", "3", "c", "²", " 1 "], "a"), (["a"], "a")],
)
def test_one_of_some(lines: Sequence[str], chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answering(monkeypatch, *lines).choose("which", {"a": "first", "b": ""}, "b") == chosen


@pytest.mark.parametrize(
    ("lines", "chosen"),
    [
        ([""], ["a", "b", "c"]),
        (["ALL"], ["a", "b", "c"]),
        (["none"], []),
        (["3, 1 3"], ["a", "c"]),
        (["4", "a", "²", "1,", "2"], ["b"]),
    ],
)
def test_some_of_them(lines: Sequence[str], chosen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"a": "first", "b": "second", "c": "third"}
    assert answering(monkeypatch, *lines).several("which", options) == chosen


def test_nobody_is_asked_about_a_slurm_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Survey(slurm=True, slurm_trouble="sinfo: fatal: Could not establish a configuration source")
    assert placed(silent, answering(monkeypatch)) == silent


def test_an_input_that_ends_is_one_line_and_leaves_what_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    answering(monkeypatch)
    assert main(["--home", str(tmp_path / "home"), "init", "--interactive"]) == 64
    assert capsys.readouterr().err.count("\n") == 1
    assert "[daemon]" in (tmp_path / "home" / "config.toml").read_text()


def test_nobody_is_asked_where_json_is_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--home", str(tmp_path / "home"), "init", "--interactive", "--json"]) == 64
    assert "leave --json out" in capsys.readouterr().err
