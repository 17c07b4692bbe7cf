"""What lies in home where something else belongs."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.history.values import NOW, alerts, close_all, incident, new_home, opened, standing
from watchdogd.cli import main
from watchdogd.cli.status import read
from watchdogd.history.models import Record
from watchdogd.home.layout import FOLDERS, Home, misplaced, restore_folders
from watchdogd.home.lease import Lease, lease_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return new_home(tmp_path)


def test_a_home_as_it_is_made_holds_none(home: Home) -> None:
    assert misplaced(home) == ()


@pytest.mark.parametrize("name", [*sorted({*FOLDERS} - {"inbox"}), ".lease", ".outbox"])
def test_a_file_in_the_place_of_a_folder(home: Home, name: str) -> None:
    place = home.path / name
    shutil.rmtree(place, ignore_errors=True)
    place.touch()
    told = f"{place} is no folder, and a folder belongs there: mv {place} {place}.aside"
    assert misplaced(home) == (told,)


@pytest.mark.parametrize("name", ["status.json", ".config.good.toml", ".id"])
def test_a_folder_or_a_pipe_in_the_place_of_a_file(home: Home, name: str) -> None:
    place = home.path / name
    place.mkdir()
    assert misplaced(home) == (f"{place} is a folder, and a file belongs there: mv {place} {place}.aside",)
    place.rmdir()
    os.mkfifo(place)
    assert misplaced(home) == (
        f"{place} is no plain file, and a file belongs there: mv {place} {place}.aside",
    )


def test_links_are_not_followed(home: Home) -> None:
    home.logs.rmdir()
    home.logs.symlink_to("/nowhere")
    assert misplaced(home) == ()


def test_folders_that_are_missing_are_made_anew_where_home_is_there(home: Home) -> None:
    shutil.rmtree(home.switches)
    home.inbox.rmdir()
    assert restore_folders(home) == ("switches", "inbox")
    assert home.inbox.stat().st_mode & 0o777 == 0o700
    assert restore_folders(home) == ()
    home.inbox.rmdir()
    home.config.unlink()
    assert restore_folders(home) == ()
    assert not home.inbox.exists()


@pytest.fixture
def watching(home: Home) -> Home:
    """A daemon (this process) acts for it; its history knows an incident, and status.json is a folder."""
    assert Lease(home).acquire() is None
    opened(home).record(Record(at=NOW, alerts=alerts(standing(about=incident(17)))))
    close_all()
    home.status.mkdir()
    return home


def test_status_tells_what_is_in_the_place_of_its_file_and_asks_the_history(
    watching: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = read(watching)
    assert picture["alive"] is False  # its last round was long ago
    assert [each["id"] for each in picture["incidents"]] == [17]
    assert picture["troubles"] == [*misplaced(watching)]
    assert main(["--home", str(watching.path), "status"]) == 3
    shown = " ".join(capsys.readouterr().out.split())
    assert "is a folder, and a file belongs there" in shown
    assert "nothing is watched yet" not in shown


def test_status_of_what_cannot_be_known_is_no_ok(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert Lease(home).acquire() is None
    home.status.mkdir()
    assert main(["--home", str(home.path), "status", "--nagios"]) == 1
    line = capsys.readouterr().out
    assert line.startswith("watchdogd WARNING - alive")
    assert misplaced(home)[0] in line
    home.status.rmdir()
    home.status.write_text("[")
    assert main(["--home", str(home.path), "status", "--json"]) == 1
    assert "status.json cannot be read" in capsys.readouterr().out


def test_status_where_the_lease_is_a_file(home: Home) -> None:
    lease_folder(home).touch()
    picture = read(home)
    assert (picture["alive"], picture["troubles"]) == (False, [*misplaced(home)])
