"""`watchdogd report`: the file is there, whole, with the right to be read where it is put."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.web.stage import home_with_past
from watchdogd.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from watchdogd.home.layout import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return home_with_past(tmp_path, time.time(), hours=5)


def test_in_home_it_is_as_private_as_home(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--home", str(home.path), "report"]) == 0
    file = home.path / "report.html"
    assert capsys.readouterr().out == f"{file}\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert "llama-7b" in file.read_text()


def test_elsewhere_it_may_be_read_as_the_umask_has_it(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "shown.html"
    file.write_text("old")
    assert main(["--home", str(home.path), "report", "-o", str(file), "--since", "1h"]) == 0
    assert file.stat().st_mode & 0o777 == 0o644
    assert file.read_text().endswith("</html>\n")
    assert main(["--home", str(home.path), "report", "-o", "-"]) == 0
    assert capsys.readouterr().out.rstrip().endswith("</html>")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["report", "-o", "/proc/nowhere/report.html"], 1, "choose another with -o"),
    ],
)
def test_what_cannot_be_is_one_line(
    home: Home, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--home", str(home.path), *words]) == code
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_before_the_first_round_the_page_is_there_and_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--home", str(tmp_path / "new"), "init"])
    capsys.readouterr()
    assert main(["--home", str(tmp_path / "new"), "report"]) == 0
    assert capsys.readouterr().err.count("\n") == 1
    page = (tmp_path / "new/report.html").read_text()
    assert "No run is watched" in page
    assert f"<p>watchdogd --home {tmp_path}/new watch JOB adopts one.</p>" in page
