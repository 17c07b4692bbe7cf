"""What is mounted is read again only where it changed, and then it is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from watchdogd.system.mounts import MountTable, mount_at


def test_a_mount_shows_at_once_and_nothing_is_read_where_nothing_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = MountTable()
    first = table.text()
    assert str(tmp_path) not in first
    monkeypatch.setattr("builtins.open", None)
    assert table.text() == first
    monkeypatch.undo()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], check=True)
    try:
        assert f" {tmp_path} rw" in table.text()
        subprocess.run(["mount", "-o", "remount,ro", tmp_path], check=True)
        assert f" {tmp_path} ro" in table.text()
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert str(tmp_path) not in table.text()


def test_a_mount_whose_name_is_no_utf8_is_found_through_a_link(tmp_path: Path) -> None:
    place = Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9"))
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True)
    try:
        found = mount_at(str(tmp_path / "link"))
    finally:
        subprocess.run(["umount", place], check=True)
    assert found is not None
    assert (found.point, found.type) == (str(place), "tmpfs")


def test_a_file_that_cannot_tell_of_changes_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "mountinfo"
    table = MountTable(str(file))
    assert table.text() == ""
    file.write_text("one\n")
    assert table.text() == "one\n"
    file.write_text("another\n")
    assert table.text() == "another\n"
