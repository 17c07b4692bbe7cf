"""disk_quota on real tmpfs mounts, and its judging on plain values."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.memory import memory_of
from tests.plugins.words import text_of
from watchdogd.checks import free_space
from watchdogd.checks.checkpoint_inventory import Cadence
from watchdogd.checks.free_space import FreeSpaceLimits
from watchdogd.parsers.quota.models import BYTES, INODES, StorageLimit
from watchdogd.plugin import Amount, History, Result, Status, remembered
from watchdogd.plugins.disk_quota import checkpoint_room, path_state, quota_sources, write_test
from watchdogd.plugins.disk_quota.check import DiskState, _read_before, disk_quota
from watchdogd.plugins.disk_quota.du import DuProcess, DuState
from watchdogd.plugins.disk_quota.top_users import TopUsers
from watchdogd.system.smallfile import host_name

MB = 1_000_000
NOW = 1_800_000_000.0
root = pytest.mark.root


def kept(memory: dict[str, Any]) -> DiskState:
    return remembered(DiskState, memory) or DiskState()


def look(path: Path | str, memory: dict[str, Any] | None = None, **wanted: Any) -> dict[str, Result]:
    history, now = wanted.pop("history", History()), wanted.pop("now", NOW)
    injected = {"memory": {} if memory is None else memory, "history": history, "now": now}
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
    assert f"16.8 MB of 16.8 MB free (100 %)\n{disk}\n" in text_of(seen["bytes"])


@pytest.mark.root
@root
def test_filled_by_bytes_is_critical_for_bytes_alone(disk: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        (disk / "checkpoint").write_bytes(b"x" * (17 * MB))
    seen = look(disk)
    assert seen["bytes"].status is Status.CRITICAL
    assert "0 B of 16.8 MB free (0 %)\n" in text_of(seen["bytes"])
    assert "full" in seen["bytes"].facts
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
    assert "23 of 1,024 inodes free (2.25 %)\n" in text_of(seen["inodes"])
    assert "critical below 51 inodes" in seen["inodes"].facts
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
    assert "0 B of 8.39 MB usable free" in text_of(result)
    assert look(disk, usable=0.5)["inodes"].metrics["total"].value == 1024


@pytest.mark.root
@root
def test_an_unmounted_disk_is_told_and_so_is_its_return(disk: Path) -> None:
    memory: dict[str, Any] = {}
    assert look(disk, memory)[""].status is Status.OK
    subprocess.run(["umount", str(disk)], check=True)
    seen = look(disk, memory)
    assert set(seen) == {""}
    assert seen[""].status is Status.CRITICAL
    assert "not mounted any more" in text_of(seen[""])
    assert "tmpfs scratch" in text_of(seen[""])
    assert look(disk, memory)[""].status is Status.CRITICAL
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "scratch", str(disk)], check=True)
    assert look(disk, memory)[""].status is Status.OK
    assert look(disk, memory)["bytes"].status is Status.OK


@root
def test_another_file_system_at_the_same_place_is_told_for_a_day(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory: dict[str, Any] = {}
    assert look(disk, memory)[""].status is Status.OK
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "other", str(disk)], check=True)
    seen = look(disk, memory)
    assert seen[""].status is Status.CRITICAL
    assert f"it was tmpfs scratch at {disk}\nnow tmpfs other is mounted at {disk}" in text_of(seen[""])
    assert seen["bytes"].metrics["total"].value == 8 * 1024**2
    elsewhere = dict(memory)
    assert look(disk, memory, now=NOW + 86400)[""].status is Status.OK
    assert look(disk, memory)[""].status is Status.OK
    subprocess.run(["umount", str(disk)], check=True)
    assert look(disk, elsewhere)[""].status is Status.OK
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "other", str(disk)], check=True)
    monkeypatch.setattr("platform.node", lambda: "another-machine")
    assert look(disk, elsewhere)[""].status is Status.OK
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.root
@root
def test_a_read_only_disk_is_told(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert look(disk)[""].status is Status.CRITICAL
    assert "read-only on" in text_of(look(disk)[""])


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
    assert f"missing on {os.uname().nodename}\n{tmp_path}/nowhere\n" in text_of(result)


def test_a_file_system_without_a_size_is_unknown() -> None:
    result = look("/proc")["bytes"]
    assert result.status is Status.UNKNOWN
    assert "reports no size" in text_of(result)


def filling(start: float, per_hour: float, hours: int) -> tuple[tuple[float, float], ...]:
    return tuple((NOW - (hours - n) * 3600, start + n * per_hour) for n in range(hours))


def test_the_forecast_warns_in_time(tmp_path: Path) -> None:
    used = look(tmp_path)["bytes"].metrics["used"].value
    free = look(tmp_path)["bytes"].metrics["free"].value
    per_hour = free / 36
    history = History({("bytes", "used"): filling(used - 12 * per_hour, per_hour, 12)})
    result = look(tmp_path, history=history, full_within=3 * 86400, warn_free=Amount(absolute=0))["bytes"]
    assert result.status is Status.WARNING
    assert "full in about 1d1" in text_of(result)
    assert "warned within 3d" in text_of(result)
    calm = look(tmp_path, history=history, full_within=3600, warn_free=Amount(absolute=0))["bytes"]
    assert calm.status is Status.OK
    assert calm.metrics["full_in"].value == pytest.approx(36 * 3600, rel=0.05)


def test_how_fast_it_fills_is_worked_out_seldom_and_anew_where_the_clock_was_set_back(tmp_path: Path) -> None:
    used, memory = look(tmp_path)["bytes"].metrics["used"].value, dict[str, Any]()

    def rate(per_hour: float, now: float) -> float:
        past = [(at - NOW + now, level) for at, level in filling(used - 12 * per_hour, per_hour, 12)]
        look(tmp_path, memory, history=History({("bytes", "used"): past}), now=now)
        return float(kept(memory).rates["bytes file system"][1] or 0.0) * 3600

    first = rate(10e9, NOW)
    assert first == pytest.approx(10e9, rel=0.2)
    assert rate(40e9, NOW + 60) == first
    assert rate(40e9, NOW + 6 * 3600) == pytest.approx(40e9, rel=0.2)
    assert rate(10e9, NOW - 3600) == pytest.approx(10e9, rel=0.2)


def test_where_no_thread_can_be_started_nothing_is_said_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    seen = look(tmp_path)[""]
    assert seen.status is Status.UNKNOWN
    assert f"{tmp_path} cannot be asked" in text_of(seen)


def test_a_known_writing_rate_needs_no_history(tmp_path: Path) -> None:
    free = look(tmp_path)["bytes"].metrics["free"].value
    result = look(tmp_path, growth=free / 7200, warn_free=Amount(absolute=0))["bytes"]
    assert "full in about 2h" in text_of(result) or "full in about 1h59m" in text_of(result)


def tool(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota tool of our own, first on PATH."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    if str(folder) not in os.environ["PATH"].split(":"):
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


LFS = r"""
case "$1 $2" in
"project -d") echo "  77001 P $3" ;;
"df "*) printf 'UUID 1K-blocks Used Available Use%% Mounted on\n'
        printf 'ark-OST0000_UUID  1000  500  500  50%% /ark[OST:0]\n'
        printf 'ark-OST0001_UUID  1000  %s  /ark[OST:1]\n' "$(cat "$STATE/ost")" ;;
"quota -p") echo "Disk quotas for prj $3 (pid $3):"
        echo "  Filesystem kbytes quota limit grace files quota limit grace"
        echo "$4"; cat "$STATE/project" ;;
"quota "*) echo "Disk quotas for usr $3 (uid 1):"
        echo "  Filesystem kbytes quota limit grace files quota limit grace"
        echo "  $4 1000 0 0 - 5 0 0 -" ;;
esac
"""


@pytest.fixture
def lustre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lfs whose project quota and second OST are as the returned folder says."""
    tool(tmp_path, "lfs", LFS, monkeypatch)
    monkeypatch.setenv("STATE", str(tmp_path))
    (tmp_path / "ost").write_text("500 500 50%")
    (tmp_path / "project").write_text("   5000 9000 10000 - 10 0 1000 -\n")
    return tmp_path


def test_the_tightest_of_file_system_and_all_quotas_is_judged(lustre: Path) -> None:
    seen = look(lustre, quota="lustre", warn_free=Amount(share=0.0001))
    assert {subject: result.status for subject, result in seen.items()} == dict.fromkeys(
        ("", "quota", "targets", "bytes", "inodes"), Status.OK
    )
    (lustre / "project").write_text("   9800* 9000 10000 6d - 10 0 1000 -\n".replace(" - 10", " 10"))
    result = look(lustre, quota="lustre")["bytes"]
    assert result.status is Status.CRITICAL
    assert "205 kB of 10.2 MB free (2 %), quota of project 77001\n" in text_of(result)
    assert "critical below 512 kB" in result.facts
    assert "quota of user" in result.details
    (lustre / "project").write_text("   100 9000 10000 - 999 0 1000 -\n")
    assert look(lustre, quota="lustre")["inodes"].status is Status.CRITICAL


@pytest.mark.parametrize(
    ("line", "status", "why"),
    [
        ("5000* 4000 100000 6d 10 0 0 -", Status.WARNING, "above the soft limit, grace 6d"),
        ("5000* 4000 100000 none 10 0 0 -", Status.CRITICAL, "its grace period is over"),
        ("100000* 0 100000 - 10 0 0 -", Status.CRITICAL, "full"),
    ],
)
def test_soft_limits_and_graces(lustre: Path, line: str, status: Status, why: str) -> None:
    (lustre / "project").write_text(f"   {line}\n")
    result = look(lustre, quota="lustre", warn_free=Amount(share=0.0001))["bytes"]
    assert result.status is status
    assert why in text_of(result)


def test_a_single_full_target_is_told(lustre: Path) -> None:
    (lustre / "ost").write_text("970 30 97%")
    result = look(lustre, quota="lustre")["targets"]
    assert result.status is Status.WARNING
    assert "1 of 2 storage targets nearly full, ark-OST0001 has 3 % free" in text_of(result)
    (lustre / "ost").write_text("1000 0 100%")
    assert look(lustre, quota="lustre")["targets"].status is Status.CRITICAL


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        ({"warn_free": Amount(share=0.2)}, Status.WARNING),
        ({"warn_free": Amount(share=0.5), "crit_free": Amount(share=0.2)}, Status.CRITICAL),
        ({"crit_free": Amount(share=0.2)}, Status.CRITICAL),
        ({"warn_free": Amount(share=0.02)}, Status.OK),
        ({"warn_free": Amount(absolute=10)}, Status.OK),
    ],
)
def test_a_single_target_is_held_against_the_percentages_of_the_disk(
    lustre: Path, wanted: dict[str, Any], status: Status
) -> None:
    (lustre / "ost").write_text("880 120 88%")
    assert look(lustre, quota="lustre", **wanted)["targets"].status is status


def test_a_target_without_figures_and_one_without_inodes_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = """case "$1 $2" in
"df -i") printf 'UUID Inodes IUsed IFree IUse%% Mounted on\\nark-MDT0001_UUID 100 98 2 98%% /a[MDT:1]\\n' ;;
"df "*) printf 'UUID 1K-blocks Used Available Use%% Mounted on\\n'
        printf 'ark-OST0000_UUID 1000 500 500 50%% /ark[OST:0]\\nOST000b   : inactive device\\n' ;;
*) echo 'Disk quotas for usr z (uid 2): none' ;;
esac"""
    tool(tmp_path, "lfs", script, monkeypatch)
    seen = look(tmp_path, quota="lustre")
    assert seen["target inodes"].status is Status.WARNING
    assert "ark-MDT0001 has 2 % of its inodes free" in text_of(seen["target inodes"])
    assert "no figures of 1 of them" in text_of(seen["targets"])
    assert "OST000b" in seen["targets"].details


BARE = """echo "Disk quotas for usr z (uid 1):"
echo "  Filesystem kbytes quota limit grace files quota limit grace"
"""


def test_a_report_without_a_row_is_no_quota_that_could_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path, "lfs", BARE, monkeypatch)
    seen = look(tmp_path, quota="lustre")["quota"]
    assert seen.status is Status.UNKNOWN
    assert "no quota is shown under 'Disk quotas for usr z (uid 1)" in text_of(seen)
    project = f'case "$1 $2" in "quota -u") {BARE};; quota*) {BARE} echo "/ark 5 0 9 - 1 0 0 -";; esac'
    tool(tmp_path, "lfs", project, monkeypatch)
    seen = look(tmp_path, quota="lustre")["quota"]
    assert seen.status is Status.OK
    assert "could be read, no quota is shown under 'Disk quotas for usr z (uid 1)'" in text_of(seen)


DOUBT = 'Some errors happened when getting quota info. The data in "[]" is inaccurate.'


@pytest.mark.parametrize("stream", ["", " >&2"])
def test_figures_that_lustre_calls_inaccurate_are_not_taken_for_the_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    tool(tmp_path, "lfs", f"{BARE} echo '/ark [8500] 0 9000 - 1 0 0 -'; echo '{DOUBT}'{stream}", monkeypatch)
    seen = look(tmp_path, quota="lustre")
    assert seen["quota"].status is Status.UNKNOWN
    assert "are inaccurate: lfs quota could not ask every storage target" in text_of(seen["quota"])
    assert "inaccurate" in text_of(seen["bytes"])


TABLES = """cat <<'END'
Name Path        Used(G) (%) Used SLIMIT(G) H-LIMIT(G) Used_Inodes SLIMIT HLIMIT Usage_State
ines /onyx/home  61.40   95       50        65         4100        100000 200000 SOFT_EXCEEDED
Block Limits                                          |     File Limits
Filesystem type  blocks  quota  limit  in_doubt grace | files   quota   limit in_doubt grace
jobtmp     USR        0     1T    12T         0  none |     1 1000000 2000000        0  none
END
"""


def test_a_command_that_prints_several_tables_and_is_half_read_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path, "myquota", TABLES, monkeypatch)
    seen = look(tmp_path, quota={"command": ["myquota"]})
    assert seen["quota"].status is Status.UNKNOWN
    assert "was read only in part, not understood: 'ines /onyx/home" in text_of(seen["quota"])
    assert "jobtmp" not in seen["bytes"].details + seen["bytes"].summary


@root
def test_another_file_systems_row_is_not_judged_for_this_disk(
    disk: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    head = BARE.replace("echo", "echo ", 1)
    tool(
        tmp_path,
        "myquota",
        f"{head}echo '/srv/else 5 0 9 - 1 0 0 -'; echo '{disk} 995 0 1000 - 1 0 0 -'",
        monkeypatch,
    )
    seen = look(disk, quota={"command": ["myquota"]})
    assert seen["quota"].status is Status.OK
    assert (seen["bytes"].status, "20.5 kB" not in seen["bytes"].details) == (Status.CRITICAL, True)
    tool(
        tmp_path,
        "myquota",
        f"{head}echo '/srv/else 995 0 1000 - 1 0 0 -'; echo '/proc 5 0 1000 - 1 0 0 -'",
        monkeypatch,
    )
    seen = look(disk, quota={"command": ["myquota"]})
    assert seen["quota"].status is Status.UNKNOWN
    assert "speaks of /proc, /srv/else and not of scratch at" in text_of(seen["quota"])
    assert seen["bytes"].status is Status.OK


def test_a_tool_that_cannot_be_read_is_unknown_and_the_rest_is_judged(lustre: Path) -> None:
    (lustre / "project").write_text("   gibberish in three\n")
    seen = look(lustre, quota="lustre")
    assert seen["quota"].status is Status.UNKNOWN
    assert "gibberish in three" in text_of(seen["quota"])
    assert seen["bytes"].metrics["total"].value > 0


def test_a_tool_that_is_missing_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    seen = look(tmp_path, quota="gpfs")
    assert seen["quota"].status is Status.UNKNOWN
    assert "mmlsquota cannot be run: No such file or directory" in text_of(seen["quota"])


def test_a_command_of_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, "myquota", """echo '{"used_bytes": 990, "limit_bytes": 1000}'""", monkeypatch)
    result = look(tmp_path, quota={"command": ["myquota"]})["bytes"]
    assert result.status is Status.CRITICAL
    assert "10 B of 1 kB free (1 %), quota by myquota" in text_of(result)
    tool(tmp_path, "myquota", "echo 'home 4.4G/10G 99K/100K'", monkeypatch)
    pattern = r"home (?P<used>\S+)/(?P<limit>\S+) (?P<files>\S+)/(?P<files_limit>\S+)"
    result = look(tmp_path, quota={"command": ["myquota"], "pattern": pattern})["inodes"]
    assert result.status is Status.CRITICAL
    assert "1,000 of 100,000 inodes free (1 %)" in text_of(result)
    seen = look(tmp_path, quota={"command": ["myquota"]})
    assert "printed no JSON" in text_of(seen["quota"])
    tool(tmp_path, "myquota", "true", monkeypatch)
    seen = look(tmp_path, quota={"command": ["myquota"]})
    assert seen["quota"].status is Status.UNKNOWN
    assert seen["quota"].summary.endswith("'myquota' cannot be read: it printed nothing")


def test_du_counts_in_the_background_one_at_a_time_and_for_later_processes(tmp_path: Path) -> None:
    """The memory is all that a later process knows of it."""
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    memory: dict[str, Any] = {}
    look(tmp_path, memory, quota="du")
    begun = kept(memory).counted.runs
    assert begun
    deadline = time.monotonic() + 30
    while not kept(memory).counted.found and time.monotonic() < deadline:
        time.sleep(0.05)
        memory = json.loads(json.dumps(memory))
        seen = look(tmp_path, memory, quota="du")
        assert kept(memory).counted.runs in (begun, None)
    assert kept(memory).counted.found["inodes"] == 2, "du did not end within 30 s"
    assert re.search(r"\b10\S* kB used, no limit, counted by du 0s ago", seen["bytes"].details)
    assert not Path(begun.file).exists()


def test_a_count_that_was_killed_is_told_and_begun_anew(tmp_path: Path) -> None:
    memory = memory_of(DiskState(counted=DuState(runs=DuProcess(2**22 + 1, host_name(), "/nowhere", NOW))))
    assert "du ended before it had counted" in text_of(look(tmp_path, memory, quota="du")["quota"])
    assert kept(memory).counted == DuState(at=NOW)


REPQUOTA = """cat <<'END'
*** Report for user quotas on device /dev/sdq1
Block grace time: 7days; Inode grace time: 7days
                        Block limits                File limits
User            used    soft    hard  grace    used  soft  hard  grace
----------------------------------------------------------------------
root      --      40       0       0      0      4     0     0      0
carol     --  102400       0       0      0    840     0     0      0
END
echo "dave      --  $(cat "$STATE/dave")       0       0      0    10     0     0      0"
"""


def test_who_filled_it_is_named_with_what_came_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, "repquota", REPQUOTA, monkeypatch)
    tool(tmp_path, "quota", "true", monkeypatch)
    monkeypatch.setenv("STATE", str(tmp_path))
    (tmp_path / "dave").write_text("51200")
    memory: dict[str, Any] = {}
    tight = {"warn_free": Amount(share=1.0), "crit_free": Amount(absolute=0), "quota": "posix"}
    first = text_of(look(tmp_path, memory, **tight)["bytes"])
    assert "most is held by carol (105 MB), dave (52.4 MB), root (41 kB)" in first
    before = kept(memory)
    asked = replace(before.holders, asked=before.holders.asked - 1000)
    memory = memory_of(replace(before, holders=asked))
    (tmp_path / "dave").write_text("251200")
    later = text_of(look(tmp_path, memory, **tight)["bytes"])
    assert "dave (257 MB, 205 MB of it since 15 Jan " in later
    calm = {"warn_free": Amount(absolute=0), "warn_inodes_free": Amount(absolute=0), "quota": "posix"}
    assert "most is held" not in text_of(look(tmp_path, memory, **calm)["bytes"])
    assert kept(memory).holders == TopUsers()


def test_a_tool_that_refuses_to_tell_who_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = "echo asked >>$STATE/log; echo 'repquota: Cannot open: Permission denied' >&2; exit 1"
    tool(tmp_path, "repquota", refusal, monkeypatch)
    tool(tmp_path, "quota", "true", monkeypatch)
    monkeypatch.setenv("STATE", str(tmp_path))
    memory: dict[str, Any] = {}
    for _ in range(3):
        seen = look(tmp_path, memory, warn_free=Amount(share=1.0), quota="posix")
        assert "most is held" not in text_of(seen["bytes"])
    assert (tmp_path / "log").read_text() == "asked\n"


@pytest.mark.parametrize(
    ("limit", "wish", "status"),
    [
        (StorageLimit(BYTES, "q", used=120, soft=100, grace="6days"), FreeSpaceLimits(), Status.WARNING),
        (StorageLimit(BYTES, "q", used=96, soft=100), FreeSpaceLimits(), Status.WARNING),
        (StorageLimit(BYTES, "q", used=120, soft=100, expired=True), FreeSpaceLimits(), Status.CRITICAL),
        (
            StorageLimit(BYTES, "q", used=120, soft=100),
            FreeSpaceLimits(crit=Amount(share=0.01)),
            Status.CRITICAL,
        ),
        (
            StorageLimit(BYTES, "q", used=120, soft=100, hard=1000, grace="6days"),
            FreeSpaceLimits(),
            Status.WARNING,
        ),
        (
            StorageLimit(BYTES, "q", used=100, soft=100, hard=1000, grace="6days"),
            FreeSpaceLimits(),
            Status.WARNING,
        ),
        (
            StorageLimit(BYTES, "q", used=1001, soft=100, hard=1000, grace="6days"),
            FreeSpaceLimits(),
            Status.CRITICAL,
        ),
        (StorageLimit(BYTES, "q", used=60, soft=100, hard=1000), FreeSpaceLimits(), Status.OK),
        (
            StorageLimit(BYTES, "q", used=85, hard=100),
            FreeSpaceLimits(warn_used=Amount(share=0.8)),
            Status.WARNING,
        ),
        (
            StorageLimit(BYTES, "q", used=75, hard=100),
            FreeSpaceLimits(warn_used=Amount(share=0.8)),
            Status.OK,
        ),
        (
            StorageLimit(BYTES, "q", used=60, hard=100),
            FreeSpaceLimits(crit_used=Amount(absolute=50)),
            Status.CRITICAL,
        ),
        (
            StorageLimit(BYTES, "q", used=60, hard=100),
            FreeSpaceLimits(crit_used=Amount(absolute=500)),
            Status.OK,
        ),
        (
            StorageLimit(BYTES, "q", used=60, hard=100),
            FreeSpaceLimits(Amount(share=0.5), None, Amount(share=0.9)),
            Status.WARNING,
        ),
        (StorageLimit(INODES, "q", used=60), FreeSpaceLimits(Amount(absolute=9_000_000_000)), Status.OK),
    ],
)
def test_soft_and_hard_limits(limit: StorageLimit, wish: FreeSpaceLimits, status: Status) -> None:
    assert free_space.judge(limit, wish).status is status


OFF = """
case "$1 $2" in
"quota -g") echo "group quotas are not enabled." >&2; exit 1 ;;
"quota "*) echo "Disk quotas for usr $3 (uid 1):"
        echo "  Filesystem kbytes quota limit grace files quota limit grace"
        echo "  $4 1000 0 0 - 5 0 0 -" ;;
esac
"""


def test_a_kind_of_quota_that_is_switched_off_is_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path, "lfs", OFF, monkeypatch)
    assert look(tmp_path, quota="lustre")["quota"].status is Status.OK


REFUSING = """case "$1$2" in
quota-{}) echo "Disk quotas for x y (uid 1):"; echo "Permission denied." >&2; exit 1;;
quota*) echo "Disk quotas for usr z (uid 2): none";;
esac
"""


def test_a_tool_that_refuses_all_of_its_answers_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path, "lfs", REFUSING.format("?"), monkeypatch)
    seen = look(tmp_path, quota="lustre")["quota"]
    assert seen.status is Status.UNKNOWN
    assert "Permission denied." in text_of(seen)
    tool(tmp_path, "lfs", REFUSING.format("g"), monkeypatch)
    assert look(tmp_path, quota="lustre")["quota"].status is Status.OK


NFS_QUOTA = """cat "$STATE/said"
[ -s "$STATE/error" ] && cat "$STATE/error" >&2 && exit 1
exit 0
"""
ROWS = """Disk quotas for user carol (uid 7):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
{}    990   0  1000  0    5    0    0    0
"""
REFUSED = "quota: error while getting quota from filer:/home for carol (id 7): Connection refused"


@root
def test_quota_over_nfs_that_does_not_answer_or_names_the_server_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = tmp_path / "home"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "filer:/home", str(point)], check=True)
    tool(tmp_path, "quota", NFS_QUOTA, monkeypatch)
    monkeypatch.setenv("STATE", str(tmp_path))
    said, error = tmp_path / "said", tmp_path / "error"
    try:
        said.write_text(ROWS.format("filer.example.org:/home"))
        assert look(point, quota="posix")["bytes"].status is Status.CRITICAL
        error.write_text(f"{REFUSED}\n")
        for text in ("", ROWS.format("other:/work")):
            said.write_text(text)
            seen = look(point, quota="posix")["quota"]
            assert seen.status is Status.UNKNOWN
            assert "Connection refused" in text_of(seen)
    finally:
        subprocess.run(["umount", "-l", str(point)], check=False, capture_output=True)


def test_an_nfs_server_that_did_know_quotas_is_missed_and_another_is_not() -> None:
    known = quota_sources.Quotas((StorageLimit(BYTES, "quota of user carol", 1, 2),))
    silent = quota_sources.Quotas(trouble="Connection refused")
    state = DiskState()
    assert not _read_before(silent, state)
    assert _read_before(known, state)
    assert _read_before(silent, state)


def test_beegfs_8_is_asked_where_the_old_tool_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = '{"name":"carol","type":"user","pool":"","space":"99GiB/100GiB","inode":"1/∞"}'
    tool(tmp_path, "beegfs", f"echo '{line}'", monkeypatch)
    result = look(tmp_path, quota="beegfs")["bytes"]
    assert result.status is Status.CRITICAL
    assert "1.07 GB of 107 GB free (1 %), quota of user carol" in text_of(result)


def test_each_of_several_limits_has_a_forecast_of_its_own(lustre: Path) -> None:
    """The file system is as it was for days, the quota of the project fills."""
    (lustre / "project").write_text("   500000 0 1000000 - 10 0 0 -\n")
    seen = look(lustre, quota="lustre")["bytes"]
    level = float(os.statvfs(lustre).f_blocks)
    flat = tuple((at, level + number % 2) for number, (at, _) in enumerate(filling(0, 0, 24)))
    past = {
        ("bytes", "used by file system"): flat,
        ("bytes", "used by quota of project 77001"): filling(512e6 - 24 * 20e6, 20e6, 24),
    }
    assert {name for _, name in past} < set(seen.metrics)
    wanted: dict[str, Any] = {"full_within": 2 * 86400.0, "warn_free": Amount(absolute=0)}
    result = look(lustre, quota="lustre", history=History(past), **wanted)["bytes"]
    assert result.status is Status.WARNING
    assert "512 MB of 1.02 GB free (50 %), quota of project 77001, full in about 1d1h" in text_of(result)


def test_old_figures_of_a_tool_are_dated_and_very_old_ones_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for age, status in ((2400, Status.OK), (2 * 86400, Status.UNKNOWN)):
        said = f'{{"used_bytes": 800, "limit_bytes": 1000, "updated_at": {NOW - age:.0f}}}'
        tool(tmp_path, "myquota", f"echo '{said}'", monkeypatch)
        seen = look(tmp_path, quota={"command": ["myquota"]}, warn_free=Amount(absolute=300))
        assert seen["quota"].status is status
        assert f"figures of {'40m' if age == 2400 else '2d'} ago" in text_of(seen["bytes"])
    assert "figures are 2d old" in text_of(seen["quota"])


def test_room_is_told_in_checkpoints(tmp_path: Path) -> None:
    here = time.time()
    for number in range(4):
        folder = tmp_path / f"global_step{number}"
        folder.mkdir()
        (folder / "weights").write_bytes(b"x" * 1000)
        for path in (folder / "weights", folder):
            os.utime(path, (here - 3600 * (4 - number),) * 2)
    given = {"path": str(tmp_path), "checkpoints": (f"{tmp_path}/global_step*",)}
    injected = {"memory": {}, "history": History(), "now": here}
    [bytes_] = [each for each in disk_quota.results(given, injected) if each.subject == "bytes"]
    assert "more checkpoints of 1 kB (one every 1h)" in text_of(bytes_)
    assert (
        checkpoint_room.describe_room(Cadence(2.3e12, 10800.0), 9.9e12)
        == "room for 4 more checkpoints of 2.3 TB (one every 3h)"
    )


def test_what_fstab_has_and_is_not_mounted_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fstab").write_text(f"mgs@tcp:/ark {tmp_path} lustre flock 0 0\n")
    monkeypatch.setattr(path_state, "_FSTAB", str(tmp_path / "fstab"))
    memory: dict[str, Any] = {}
    seen = look(tmp_path, memory)
    assert (set(seen), seen[""].status) == ({""}, Status.CRITICAL)
    assert f"/etc/fstab has lustre mgs@tcp:/ark at {tmp_path}\nwhat is written there" in text_of(seen[""])
    monkeypatch.setattr(path_state, "_FSTAB", "/nowhere")
    assert look(tmp_path, memory)[""].status is Status.OK


def test_a_full_disk_that_takes_no_file_names_who_holds_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, *given: Any) -> Result:
        return write_test._failed(path, path, "written", errno.ENOSPC, given[-1])

    monkeypatch.setattr(write_test, "write_test", full)
    memory = memory_of(DiskState(holders=TopUsers({BYTES: {"carol": 100.0 * MB}}, asked=NOW)))
    seen = look(tmp_path, memory, quota="statvfs", crit_free=Amount(share=1.0), write_probe=True)
    assert [str(seen[each].advice[0].sentence)[:40] for each in (BYTES, "write")] == [
        "Make room: most is held by carol (100 MB"
    ] * 2
