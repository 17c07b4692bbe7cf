"""Home: where it is, with which rights, and how its files are replaced."""

from __future__ import annotations

import grp
import os
import subprocess
import sys
from pathlib import Path

import pytest

from watchdogd.errors import HomeError
from watchdogd.home.layout import FOLDERS, Home


def test_home_is_the_option_else_the_variable_else_in_ones_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WATCHDOGD_HOME", raising=False)
    assert Home.find().path == tmp_path / ".watchdogd"
    monkeypatch.setenv("WATCHDOGD_HOME", str(tmp_path / "b"))
    assert Home.find().path == tmp_path / "b"
    assert Home.find(str(tmp_path / "c")).path == tmp_path / "c"
    monkeypatch.chdir(tmp_path)
    assert Home.find("d/../e").path == tmp_path / "e"
    with pytest.raises(HomeError, match=f"watchdogd --home {tmp_path}/none init"):
        Home.existing(str(tmp_path / "none"))
    assert Home.find().command("start") == "watchdogd start"
    assert Home.find("a b").command("start") == f"watchdogd --home '{tmp_path}/a b' start"


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000])
def test_rights_do_not_depend_on_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        home = Home(tmp_path / "home")
        home.make()
        home.write(home.config, "a = 1\n")
    finally:
        os.umask(before)
    assert {(home.path / name).stat().st_mode & 0o7777 for name in FOLDERS} == {0o700}
    assert home.config.stat().st_mode & 0o7777 == 0o600
    assert home.group is None


@pytest.mark.root
def test_who_watches_is_whose_daemon_told_last_else_who_made_home(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert home.watcher == os.geteuid()
    home.make()
    os.chown(home.path, 4711, -1)
    assert home.watcher == 4711
    home.status.write_text("{}")
    os.chown(home.status, 4712, -1)
    assert home.watcher == 4712


@pytest.mark.root
def test_a_home_of_a_group_is_open_to_it_alone(tmp_path: Path) -> None:
    gid = grp.getgrnam("games").gr_gid
    home = Home(tmp_path / "home")
    home.make(gid)
    home.write(home.config, "")
    assert (home.path.stat().st_mode & 0o7777, home.path.stat().st_gid) == (0o2770, gid)
    assert (home.config.stat().st_mode & 0o7777, home.config.stat().st_gid) == (0o660, gid)
    private = Home(tmp_path / "private")
    private.make()
    private.write(private.config, "")
    private.share("games")
    assert (private.path.stat().st_mode & 0o7777, private.group) == (0o2770, gid)
    assert private.config.stat().st_mode & 0o7777 == 0o660
    with pytest.raises(HomeError, match="no Unix group"):
        private.share("no-such-group")


def test_a_file_is_replaced_whole_and_a_link_is_not_followed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "status.json").symlink_to(victim)
    home.write(home.status, "new")
    assert (victim.read_text(), home.status.read_text(), home.status.is_symlink()) == ("mine", "new", False)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        home.write(tmp_path / "folder", "x")
    assert {path.name for path in tmp_path.iterdir()} == {"victim", "status.json", "folder"}


def test_what_is_made_gets_homes_rights_and_what_is_there_keeps_its_own(tmp_path: Path) -> None:
    home = Home(tmp_path)
    new, known, file = tmp_path / "new", tmp_path / "known", tmp_path / "file"
    known.mkdir()
    known.chmod(0o755)
    file.write_text("kept")
    for path in (new, known, file):
        home.make_folder(path)
    for path in (tmp_path / "empty", file):
        home.make_file(path)
    assert ((tmp_path / "empty").stat().st_mode & 0o7777, (tmp_path / "empty").read_text()) == (0o600, "")
    assert (new.stat().st_mode & 0o7777, known.stat().st_mode & 0o7777) == (0o700, 0o755)
    assert file.read_text() == "kept"
    with pytest.raises(FileNotFoundError):
        home.make_folder(tmp_path / "moved away" / "new")


def test_the_mark_of_a_home_stays(tmp_path: Path) -> None:
    assert Home(tmp_path).id == Home(tmp_path).id
    assert len(Home(tmp_path).id) == 12


def test_all_who_ask_at_one_moment_for_the_mark_get_the_same(tmp_path: Path) -> None:
    """Else two starts of a new home would not find each other's links."""
    Home(tmp_path / "home").make()
    asked = (
        f"import pathlib, watchdogd.home.layout as home; print(home.Home(pathlib.Path('{tmp_path}/home')).id)"
    )
    argv = [sys.executable, "-c", asked]
    asking = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    assert len({process.communicate(timeout=240)[0] for process in asking}) == 1
