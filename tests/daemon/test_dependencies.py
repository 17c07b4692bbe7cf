"""What checks rest on, and when it is asked whether that holds."""

import errno
import os
from pathlib import Path

import pytest

from watchdogd.batch.models import Snapshot
from watchdogd.config.models import Config
from watchdogd.daemon import dependencies
from watchdogd.daemon.dependencies import Dependency, Probes, placed, queue_result, touch
from watchdogd.daemon.registry.check_factory import Check, build
from watchdogd.daemon.registry.plugin_registry import discover
from watchdogd.daemon.setup import Setup
from watchdogd.home.layout import Home
from watchdogd.plugin import Status
from watchdogd.system.smallfile import check_answers

NOW = 1_790_000_000.0
SCRATCH = Dependency("watchdogd/files:/scratch", "/scratch", ("/scratch/logs",), ("a/log_staleness",))
GROUNDS = {SCRATCH.name: SCRATCH}


@pytest.fixture
def checks(tmp_path: Path) -> tuple[Check, ...]:
    (tmp_path / "link").symlink_to("/proc/self")
    config = Config.model_validate(
        {
            "runs": {"a": {"backend": "slurm", "log": "/proc/1/log*.txt"}},
            "disks": {"d": {"path": str(tmp_path / "link")}},
        }
    )
    home = Home(tmp_path)
    return build(config, discover(home), home, "slurm")


def test_checks_follow_the_batch_system_and_the_file_systems_of_their_paths(
    checks: tuple[Check, ...],
) -> None:
    found, files, _ = placed(checks)
    follows = {check.name: check.follows for check in found}
    assert follows["a/log_staleness"] == ("a/job_liveness", "watchdogd/slurm", "watchdogd/files:/proc")
    assert follows["d/disk_quota"] == ("watchdogd/files:/proc",)
    assert "watchdogd/slurm" in follows["a/job_liveness"]
    assert {"a/log_staleness", "d/disk_quota"} <= set(files["watchdogd/files:/proc"].checks)
    assert "/proc/1" in files["watchdogd/files:/proc"].folders


def test_what_is_mounted_later_is_a_ground_of_its_own_and_what_was_told_of_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mount(*points: str) -> None:
        lines = [f"{n} 0 0:{n} / {point} rw - tmpfs tmpfs rw" for n, point in enumerate(("/", *points))]
        monkeypatch.setattr(dependencies, "mount_table", lambda: "\n".join(lines))

    def follows(setup: Setup) -> tuple[str, ...]:
        return next(check.follows for check in setup.checks if check.name == "d/disk_quota")

    mount()
    config = Config.model_validate({"disks": {"d": {"path": str(tmp_path / "scratch")}}})
    first = Setup.of(config, Home(tmp_path))
    assert first.remounted(()) is first
    mount(str(tmp_path))
    name = f"watchdogd/files:{tmp_path}"
    later = first.remounted(())
    assert follows(later) == later.policies["d/disk_quota"].follows == (name,)
    assert later.policies[name].blinds
    assert name in later.routes
    assert "watchdogd/files:/" not in later.policies
    mount()
    assert set(later.remounted(()).files) == {"watchdogd/files:/"}
    kept = later.remounted({name})
    assert set(kept.files) == {"watchdogd/files:/", name}
    assert follows(kept) == ("watchdogd/files:/",)
    assert {name, "watchdogd/files:/"} <= set(kept.policies) & set(kept.routes)


def test_a_file_system_is_asked_where_a_check_is_late_and_once_an_interval() -> None:
    probes = Probes()
    assert probes.calls(GROUNDS, (), (), 60.0, NOW) == []
    probes.note("a/log_staleness", late=True)
    [call] = probes.calls(GROUNDS, (), (), 60.0, NOW)
    assert call.key == SCRATCH.name
    assert probes.calls(GROUNDS, (), (), 60.0, NOW + 1) == []
    assert probes.calls(GROUNDS, (), {SCRATCH.name}, 60.0, NOW + 60) == []
    probes.note("a/log_staleness", late=False)
    assert probes.calls(GROUNDS, (), (), 60.0, NOW + 60) == []
    assert len(probes.calls(GROUNDS, {SCRATCH.name}, (), 60.0, NOW + 60)) == 1


def test_a_late_check_is_a_doubt_until_the_file_system_has_answered_or_not() -> None:
    probes = Probes()
    assert probes.doubt(SCRATCH, 60.0, NOW) is None
    probes.note("a/log_staleness", late=True)
    doubt = probes.doubt(SCRATCH, 60.0, NOW)
    assert doubt is not None
    assert doubt.status is Status.UNKNOWN
    assert probes.explains("a/log_staleness", GROUNDS)
    silent = probes.result(SCRATCH, answered=False, host="node5")
    assert (silent.status, silent.summary) == (
        Status.CRITICAL,
        "file system does not answer on node5: /scratch",
    )
    assert "cannot be watched meanwhile: a" in silent.facts
    assert probes.doubt(SCRATCH, 60.0, NOW) is None
    assert probes.result(SCRATCH, answered=True, host="node5").status is Status.OK
    assert not probes.explains("a/log_staleness", GROUNDS)


def test_a_file_system_that_answered_in_the_last_rounds_is_not_doubted_again() -> None:
    probes = Probes()
    for at in (NOW, NOW + 60):  # what a check looks for there is missing, each time
        probes.note("a/log_staleness", late=True)
        assert len(probes.calls(GROUNDS, (), (), 60.0, at)) == 1
        probes.result(SCRATCH, answered=True, host="node5")
        assert probes.doubt(SCRATCH, 60.0, at + 60) is None
    assert probes.doubt(SCRATCH, 60.0, NOW + 3600) is not None


def test_a_no_is_an_answer(tmp_path: Path) -> None:
    assert touch([str(tmp_path), str(tmp_path / "nowhere"), f"/proc/{os.getpid()}/fd"]) == ""


def test_who_has_no_answer_from_any_folder_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = {"/gone/a": errno.ESTALE, "/gone/b": errno.ENOTCONN}

    def stat(path: str) -> os.stat_result:
        if path in gone:
            raise OSError(gone[path], os.strerror(gone[path]))
        return real(path)

    real = os.stat
    monkeypatch.setattr(os, "stat", stat)
    assert touch(["/gone/a", "/gone/b"]) == "/gone/a: Stale file handle"
    assert touch(["/gone/a", str(tmp_path)]) == ""
    with pytest.raises(OSError, match="not connected"):
        check_answers("/gone/b/main_log*.txt")
    check_answers("/nowhere/main_log*.txt")
    said = Probes().result(SCRATCH, answered=True, host="node5", trouble="/gone/a: Stale file handle")
    assert "/gone/a: Stale file handle" in said.facts


def test_a_silent_batch_system_is_unknown_and_one_that_answers_is_ok() -> None:
    said = queue_result(
        Snapshot(NOW, trouble="squeue did not answer within 30 s"),
        ["a/job_liveness", "a/gpu_health", "cron.daily/tidy"],
    )
    assert said.facts == (
        "squeue did not answer within 30 s",
        "cannot be watched meanwhile: a, cron.daily/tidy",
    )
    assert said.status is Status.UNKNOWN
    assert said.summary == "Slurm does not answer, no run can be watched"
    assert queue_result(Snapshot(NOW, jobs=())).status is Status.OK
