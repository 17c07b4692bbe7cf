"""What may stand where a log should be, each told as what it is."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from watchdogd.doctor import watched
from watchdogd.plugins.log_staleness import log_paths


def told(pattern: Path | str, *written: str) -> str:
    return str(log_paths.find(str(pattern), written) or "")


def test_a_log_that_is_not_there_yet_is_none(tmp_path: Path) -> None:
    assert told(tmp_path / "main.log") == ""
    assert told(tmp_path / "main*.log") == ""


def test_a_folder_by_name_and_by_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    assert told(folder) == f"{folder} is a folder (set log to the files in it, as {folder}/*)"
    assert told(tmp_path / "lo*") == told(folder)


def test_what_cannot_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's name is short
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("ear")
        assert told("ear").startswith("ear is a socket (have the run write to a file")
    assert told("pipe").startswith("pipe is a FIFO, which only one can read (have the run")
    assert told("/dev/null").startswith("/dev/null is a device (have the run")


def test_links_folders_and_the_pulse(tmp_path: Path) -> None:
    link = tmp_path / "main.log"
    link.symlink_to(tmp_path / "gone")
    assert f"{link} is a link to {tmp_path}/gone, which is not there" in told(link)
    assert told(tmp_path / "none" / "*.log").startswith(f"there is no folder {tmp_path}/none (correct")
    (tmp_path / "file").write_text("x")
    assert "a file stands where a folder should be" in told(tmp_path / "file" / "*.log")
    assert "is what watchdogd itself writes" in told("/x/pulse.log", "/x/pulse.log")


def test_what_may_not_be_read_names_who_can_change_it(tmp_path: Path) -> None:
    file = tmp_path / "main.log"
    file.write_text("x")
    denied = PermissionError(errno.EACCES, "Permission denied", str(file))
    assert str(log_paths.refused(denied, "")) == (
        f"{file} cannot be read: Permission denied (have its owner run: chmod g+r {file})"
    )
    denied = PermissionError(errno.EACCES, "Permission denied", str(tmp_path))
    assert str(log_paths.refused(denied, "")).endswith(f"chmod g+rx {tmp_path})")
    assert log_paths.refused(OSError(errno.EIO, "Input/output error"), "/x").fix == ""


def test_doctor_tells_it_too(tmp_path: Path) -> None:
    found = watched.log_of("moe", str(tmp_path), "under [runs.moe]")
    assert found
    assert "is a folder" in found.text
    assert f"as {tmp_path}/* (under [runs.moe])" in found.fix
