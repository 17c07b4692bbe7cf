"""What is mounted shows at once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from watchdogd.system.mounts import mount_at, mount_table


def test_a_mount_shows_at_once(tmp_path: Path) -> None:
    assert str(tmp_path) not in mount_table()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], check=True)
    try:
        assert f" {tmp_path} rw" in mount_table()
        subprocess.run(["mount", "-o", "remount,ro", tmp_path], check=True)
        assert f" {tmp_path} ro" in mount_table()
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert str(tmp_path) not in mount_table()


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


def test_without_the_kernels_table_nothing_is_known(tmp_path: Path) -> None:
    assert mount_table(str(tmp_path / "mountinfo")) == ""
