"""disk_quota on real tmpfs mounts, and its judging on plain values."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from watchdogd.plugins.disk_quota import disk_quota

from watchdogd.plugin import Amount, History, Result, Status

MB = 1_000_000
NOW = 1_800_000_000.0
root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


def look(path: Path | str, memory: dict[str, Any] | None = None, **wanted: Any) -> dict[str, Result]:
    history = wanted.pop("history", History())
    injected = {"memory": {} if memory is None else memory, "history": history, "now": NOW}
    return {result.subject: result for result in disk_quota.results({"path": str(path), **wanted}, injected)}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 16 MiB with 1,024 inodes."""
    point = tmp_path / "scratch"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,nr_inodes=1k", "scratch", str(point)], check=True)
    yield point
    subprocess.run(["umount", "-l", str(point)], check=False, capture_output=True)


@pytest.mark.root
@root
def test_a_fresh_disk_is_fine_and_counted(disk: Path) -> None:
    seen = look(disk)
    assert {subject: result.status for subject, result in seen.items()} == {
        "": Status.OK,
        "bytes": Status.OK,
        "inodes": Status.OK,
    }
    bytes_ = seen["bytes"].metrics
    assert bytes_["total"].value == 16 * 1024**2
    assert bytes_["free"].value == bytes_["total"].value - bytes_["used"].value
    assert (bytes_["free"].unit, seen["inodes"].metrics["free"].unit) == ("B", "")
    assert bytes_["free"].warn == pytest.approx(0.1 * 16 * 1024**2)
    assert seen["inodes"].metrics["total"].value == 1024
    assert f"{disk}: 16.8 MB of 16.8 MB free (100 %)" in seen["bytes"].summary


@pytest.mark.root
@root
def test_filled_by_bytes_is_critical_for_bytes_alone(disk: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        (disk / "checkpoint").write_bytes(b"x" * (17 * MB))
    seen = look(disk)
    assert seen["bytes"].status is Status.CRITICAL
    assert "0 B of 16.8 MB free (0 %), full" in seen["bytes"].summary
    assert seen["inodes"].status is Status.OK
    (disk / "checkpoint").unlink()
    assert look(disk)["bytes"].status is Status.OK


@pytest.mark.root
@root
def test_filled_by_inodes_is_critical_for_inodes_alone(disk: Path) -> None:
    for number in range(1000):
        (disk / f"{number}").touch()
    seen = look(disk)
    assert seen["inodes"].status is Status.CRITICAL
    assert "23 of 1,024 inodes free, critical below 51 inodes" in seen["inodes"].summary
    assert seen["bytes"].status is Status.OK


@pytest.mark.root
@root
def test_own_thresholds_as_sizes_shares_and_numbers(disk: Path) -> None:
    (disk / "half").write_bytes(b"x" * (8 * MB))
    assert look(disk, warn_free=Amount(absolute=9 * MB))["bytes"].status is Status.WARNING
    assert look(disk, crit_free=Amount(share=0.6))["bytes"].status is Status.CRITICAL
    assert look(disk, warn_free=Amount(share=0.5))["bytes"].status is Status.OK
    assert look(disk, warn_inodes_free=Amount(absolute=2000))["inodes"].status is Status.WARNING


@pytest.mark.root
@root
def test_usable_share_counts_as_the_whole(disk: Path) -> None:
    (disk / "half").write_bytes(b"x" * (8 * 1024**2))
    result = look(disk, usable=0.5)["bytes"]
    assert result.status is Status.CRITICAL
    assert "0 B of 8.39 MB usable free" in result.summary


@pytest.mark.root
@root
def test_an_unmounted_disk_is_told_and_so_is_its_return(disk: Path) -> None:
    memory: dict[str, Any] = {}
    assert look(disk, memory)[""].status is Status.OK
    subprocess.run(["umount", str(disk)], check=True)
    seen = look(disk, memory)
    assert set(seen) == {""}
    assert seen[""].status is Status.CRITICAL
    assert "is not mounted any more" in seen[""].summary
    assert "tmpfs scratch" in seen[""].summary
    assert look(disk, memory)[""].status is Status.CRITICAL
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "scratch", str(disk)], check=True)
    assert look(disk, memory)[""].status is Status.OK
    assert look(disk, memory)["bytes"].status is Status.OK


@pytest.mark.root
@root
def test_a_read_only_disk_is_told(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert look(disk)[""].status is Status.CRITICAL
    assert "mounted read-only" in look(disk)[""].summary


@pytest.mark.root
@root
def test_a_file_system_without_inode_table_is_fine(tmp_path: Path) -> None:
    point = tmp_path / "endless"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,nr_inodes=0", "endless", str(point)], check=True)
    try:
        assert set(look(point)) == {"", "bytes"}
    finally:
        subprocess.run(["umount", str(point)], check=True)


def test_a_missing_path_is_critical(tmp_path: Path) -> None:
    result = look(tmp_path / "nowhere")[""]
    assert result.status is Status.CRITICAL
    assert f"{tmp_path}/nowhere is missing" in result.summary


def test_a_file_system_without_a_size_is_unknown() -> None:
    result = look("/proc")["bytes"]
    assert result.status is Status.UNKNOWN
    assert "reports no size" in result.summary


def filling(start: float, per_hour: float, hours: int) -> tuple[tuple[float, float], ...]:
    return tuple((NOW - (hours - n) * 3600, start + n * per_hour) for n in range(hours))


def test_the_forecast_warns_in_time(tmp_path: Path) -> None:
    used = look(tmp_path)["bytes"].metrics["used"].value
    free = look(tmp_path)["bytes"].metrics["free"].value
    per_hour = free / 36
    history = History({("bytes", "used"): filling(used - 12 * per_hour, per_hour, 12)})
    result = look(tmp_path, history=history, full_within=3 * 86400, warn_free=Amount(absolute=0))["bytes"]
    assert result.status is Status.WARNING
    assert "full in about 1d1" in result.summary
    assert "warned within 3d" in result.summary
    calm = look(tmp_path, history=history, full_within=3600, warn_free=Amount(absolute=0))["bytes"]
    assert calm.status is Status.OK
    assert calm.metrics["full_in"].value == pytest.approx(36 * 3600, rel=0.05)


def test_a_known_writing_rate_needs_no_history(tmp_path: Path) -> None:
    free = look(tmp_path)["bytes"].metrics["free"].value
    result = look(tmp_path, growth=free / 7200, warn_free=Amount(absolute=0))["bytes"]
    assert "full in about 2h" in result.summary or "full in about 1h59m" in result.summary
