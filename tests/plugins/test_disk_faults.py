"""disk_quota and what df hides: real file systems that are full, frozen, read-only, over quota or hung."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.faults import mounts
from tests.plugins.words import text_of
from tests.waiting import wait_until
from watchdogd.plugin import History, Result, Status
from watchdogd.plugins.disk_quota import path_state, write_program
from watchdogd.plugins.disk_quota.check import disk_quota

NOW = 1_800_000_000.0
NOBODY = pwd.getpwnam("nobody").pw_uid


def look(
    path: Path, memory: dict[str, Any] | None = None, now: float = NOW, **wanted: Any
) -> dict[str, Result]:
    given = {"memory": {} if memory is None else memory, "history": History(), "now": now}
    return {result.subject: result for result in disk_quota.results({"path": str(path), **wanted}, given)}


def write(path: Path, memory: dict[str, Any] | None = None, **wanted: Any) -> Result:
    return look(path, memory, write_probe=True, **wanted)["write"]


def ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounts.ext4(tmp_path / "scratch") as point:
        yield point


def test_a_test_file_is_written_and_nothing_of_it_stays(disk: Path) -> None:
    before = sorted(disk.iterdir())
    result = write(disk)
    assert result.status is Status.OK, result.summary
    assert 0 < result.metrics["write_time"].value < 20
    assert sorted(disk.iterdir()) == before
    assert "write" not in look(disk)


def test_a_full_and_a_read_only_disk_take_no_file(disk: Path) -> None:
    subprocess.run(["dd", "if=/dev/zero", f"of={disk}/checkpoint", "bs=4k"], check=False, capture_output=True)
    os.sync()
    assert write(disk).status is Status.CRITICAL
    assert "could not be written: No space left on device (ENOSPC)" in text_of(write(disk))
    (disk / "checkpoint").unlink()
    assert write(disk).status is Status.OK
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert "could not be created: Read-only file system (EROFS)" in text_of(write(disk))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what hung was left behind
def test_a_frozen_disk_hangs_is_told_and_tried_once_until_it_answers(disk: Path) -> None:
    memory: dict[str, Any] = {}
    subprocess.run(["fsfreeze", "-f", str(disk)], check=True)
    try:
        first = write(disk, memory, write_within=1.0)
        second = look(disk, memory, NOW + 90, write_probe=True, write_within=1.0)["write"]
        hanging = [
            each for each in psutil.process_iter(["cmdline"]) if str(disk) in (each.info["cmdline"] or [])
        ]
    finally:
        subprocess.run(["fsfreeze", "-u", str(disk)], check=True)
    assert (first.status, second.status) == (Status.CRITICAL, Status.CRITICAL)
    assert "writes have not ended for 90s" in text_of(second)
    assert len(hanging) == 1
    wait_until(lambda: ended(hanging[0]), 30, "the one that hung has ended")
    assert write(disk, memory).status is Status.OK
    assert not Path(write_program.path_in(str(disk))).exists()


def test_who_may_not_write_there_knows_nothing(disk: Path) -> None:
    disk.chmod(0o700)
    words = [
        "setpriv",
        f"--reuid={NOBODY}",
        "--clear-groups",
        sys.executable,
        write_program.__file__,
        str(disk),
    ]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert said == "created 13\n"


def test_nothing_that_lies_in_its_way_is_written_into(tmp_path: Path) -> None:
    victim, trap = tmp_path / "victim", Path(write_program.path_in(str(tmp_path)))
    victim.write_text("mine")
    for lay in (trap.hardlink_to, trap.symlink_to):
        lay(victim)
        assert (write_program.probe(str(tmp_path)), victim.read_text()) == ("ok", "mine")
    assert list(tmp_path.iterdir()) == [victim]


def test_in_a_sticky_folder_a_strangers_file_is_no_fault_of_the_disk() -> None:
    with tempfile.TemporaryDirectory(prefix="watchdogd-sticky.", dir="/tmp") as folder:
        Path(folder).chmod(0o1777)
        trap = Path(write_program.path_in(folder).removesuffix(f".{os.geteuid()}") + f".{NOBODY}")
        trap.write_text("root's")
        words = ["setpriv", f"--reuid={NOBODY}", "--clear-groups", sys.executable, "-", folder]
        source = Path(write_program.__file__).read_text()
        said = subprocess.run(words, check=True, capture_output=True, text=True, input=source).stdout
        assert (said, trap.read_text()) == ("ok\n", "root's")


def test_a_path_that_does_not_answer_is_critical_and_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path_state, "DEADLINE", 0.5)
    memory: dict[str, Any] = {}
    with mounts.hung(tmp_path / "hung") as point:
        first, second = look(point, memory)[""], look(point, memory, NOW + 60)[""]
    assert (first.status, second.status) == (Status.CRITICAL, Status.CRITICAL)
    assert f"\n{point}\n" in text_of(first)
    assert "has not answered for 1m on" in text_of(second)
