"""node_disks: disks of a run's nodes that fill, vanish, turn read-only, and the ways in."""

from __future__ import annotations

import errno
import json
import os
import pwd
import time
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.words import text_of
from watchdogd.batch.models import Job, Snapshot
from watchdogd.checks.free_space import FreeSpaceLimits
from watchdogd.parsers.probe_sample import Disk, Usage
from watchdogd.parsers.quota.models import BYTES, INODES
from watchdogd.plugin import Amount, Plugin, Result, Run, Status
from watchdogd.plugins.node_disks.check import judge, node_disks

DISKS: Plugin = node_disks
ME = pwd.getpwuid(os.getuid()).pw_name
GB = 1e9
FINE = Disk(60 * GB, 100 * GB, 900, 1000)
WISHES = {BYTES: FreeSpaceLimits(), INODES: FreeSpaceLimits()}


def told(**disks: Disk) -> dict[str, Result]:
    nodes = {node: Usage("run-17", "88", node, None, {"/tmp": disk}) for node, disk in disks.items()}
    return {result.subject: result for result in judge(nodes, ("/tmp",), WISHES)}


def test_all_is_well_in_one_line() -> None:
    seen = told(node2=FINE, node3=Disk(40 * GB, 100 * GB))
    assert set(seen) == {""}
    assert seen[""].status is Status.OK
    assert seen[""].summary == "2 nodes, least is left on node3:/tmp: 40 GB of 100 GB free (40 %)"


@pytest.mark.parametrize(
    ("disk", "subject", "status", "why"),
    [
        (
            Disk(8 * GB, 100 * GB),
            "node3:/tmp",
            Status.WARNING,
            "node3:/tmp: 8 GB of 100 GB free (8 %)\nwarned below 10 GB",
        ),
        (Disk(0, 100 * GB), "node3:/tmp", Status.CRITICAL, "node3:/tmp: 0 B of 100 GB free (0 %)\nfull"),
        (
            Disk(50 * GB, 100 * GB, 3, 1000),
            "node3:/tmp inodes",
            Status.CRITICAL,
            "3 of 1,000 inodes free (0.3 %)",
        ),
        (
            Disk(50 * GB, 100 * GB, read_only=True),
            "node3:/tmp",
            Status.CRITICAL,
            "read-only, nothing can be written",
        ),
        (
            Disk(trouble="kein Verzeichnis", errno=errno.ENOENT),
            "node3:/tmp",
            Status.CRITICAL,
            "node3:/tmp: missing (kein Verzeichnis)",
        ),
        (Disk(trouble="stat: permission denied did not answer"), "node3:/tmp", Status.CRITICAL, "does not"),
        (
            Disk(trouble="verboten", errno=errno.EACCES),
            "node3:/tmp",
            Status.UNKNOWN,
            "permission denied for ",
        ),
    ],
)
def test_what_is_wrong_is_told_of_its_node_alone(disk: Disk, subject: str, status: Status, why: str) -> None:
    seen = told(node2=FINE, node3=disk)
    assert set(seen) == {"", subject}
    assert seen[subject].status is status
    assert why in text_of(seen[subject])


def rounds(folder: Path, memory: dict[str, Any], disks: dict[str, Any], owner: str = ME) -> dict[str, Result]:
    told = {"run": "run-17", "job": "88", "node": "node2", "disks": disks}
    (folder / "run-17.sample.node2.1.json").write_text(json.dumps(told))
    job = Job("88", "88", "tr11", owner, "RUNNING", nodes="node2", started_at=1.0)
    run = Run("run-17", "tr11", inbox=str(folder))
    given = {"run": run, "snapshot": Snapshot(0.0, (job,)), "memory": memory, "now": time.time()}
    wanted = {"node_disks": ("/tmp",), "warn_free": Amount(share=0.2)}
    return {result.subject: result for result in DISKS.results(wanted, given) if not result.notice}


def test_samples_are_read_and_what_is_mended_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no srun: only samples can tell
    memory: dict[str, Any] = {}
    tight = rounds(tmp_path, memory, {"/tmp": {"free": 15.0, "total": 100.0, "free_inodes": 0, "inodes": 0}})
    assert tight["node2:/tmp"].status is Status.WARNING
    fine = rounds(tmp_path, memory, {"/tmp": {"free": 50.0, "total": 100.0, "free_inodes": 0, "inodes": 0}})
    assert {subject: each.status for subject, each in fine.items()} == {
        "": Status.OK,
        "node2:/tmp": Status.OK,
    }
    other = rounds(tmp_path, memory, {"/scratch": {"free": 50.0, "total": 100.0}})
    assert list(other) == [""]
    assert "no node of job 88 could be asked: srun cannot be run" in text_of(other[""])


def test_a_colleagues_probe_that_looks_elsewhere_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "run-17.sample.node2.1.json"
    path.touch()
    other = pwd.getpwnam("nobody")
    if os.geteuid() == 0:
        os.chown(path, other.pw_uid, -1)
    seen = rounds(tmp_path, {}, {"/scratch": {"free": 50.0, "total": 100.0}}, other.pw_name)
    if os.geteuid() == 0:
        assert seen["node2:/tmp"].status is Status.UNKNOWN
        assert "not looked at by the probe" in text_of(seen["node2:/tmp"])
    else:
        assert "not judged" in text_of(seen[""])
