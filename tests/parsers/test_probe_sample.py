"""What the probe tells of memory and disks: written and read again, and what is none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from watchdogd.errors import UnreadableError
from watchdogd.parsers import probe_sample
from watchdogd.parsers.gpu.models import Gpu, Readout
from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.parsers.probe_sample import Disk, GpuSample, JobProcess, NodeMemory, Usage
from watchdogd.probe import node

MEMORY = NodeMemory("cgroup job_88", 4e9, 64e9, 42e9, (JobProcess(7, "python", 40e9),))
DISKS = {"/tmp": Disk(1e9, 2e9, 5.0, 10.0)}


def test_both_readers_take_what_they_know_from_one_sample() -> None:
    gpus = GpuSample("run-17", "88", GpuNode("node2", Readout((Gpu(0, utilisation=98.0),))))
    text = json.dumps(json.loads(probe_sample.gpus_json(gpus)) | probe_sample.usage_json(MEMORY, DISKS))
    assert probe_sample.read_gpus(text) == gpus
    assert probe_sample.read_usage(text) == Usage("run-17", "88", "node2", MEMORY, DISKS)


def test_a_sample_of_gpus_alone_tells_of_no_memory() -> None:
    assert probe_sample.read_usage('{"run": "a", "job": "1", "node": "n"}') == Usage("a", "1", "n")


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"run": "a", "job": "1", "node": "n", "memory": {"left": 1}}'),
        '{"run": "a", "job": "1", "node": "n", "disks": {"/tmp": []}}',
        '{"run": "a", "job": "1", "node": "n", "disks": {"/tmp": {"free": "much"}}}',
    ],
)
def test_what_is_no_sample(text: str) -> None:
    with pytest.raises(UnreadableError, match="no sample of a probe"):
        probe_sample.read_usage(text)


def test_stat_of_a_file_system_with_what_is_kept_for_root_and_of_none() -> None:
    assert probe_sample.read_stat("1000 400 350 4096 64 32\n") == Disk(350 * 4096, 950 * 4096, 32, 64)
    assert probe_sample.read_stat("10 1 1 512 0 0", read_only=True) == Disk(512, 5120, read_only=True)
    assert probe_sample.read_stat("stat: cannot read file system information for '/gone'") is None


def test_disks_of_this_node_and_what_is_wrong_with_them(tmp_path: Path) -> None:
    found = node.disks((str(tmp_path), f"{tmp_path}/gone"))
    seen = os.statvfs(tmp_path)
    assert found[str(tmp_path)].total == (seen.f_blocks - seen.f_bfree + seen.f_bavail) * seen.f_frsize
    assert found[f"{tmp_path}/gone"] == Disk(trouble="No such file or directory", errno=2)
    assert (
        probe_sample.read_usage(
            json.dumps({"run": "a", "job": "1", "node": "n", **probe_sample.usage_json(None, found)})
        ).disks
        == found
    )


def test_a_sample_of_an_older_probe_is_read() -> None:
    disk = '{"free": 1, "total": 2, "inodes": 0, "free_inodes": 0}'
    text = f'{{"run": "a", "job": "1", "node": "n", "disks": {{"/t": {disk}}}}}'
    assert probe_sample.read_usage(text).disks == {"/t": Disk(1.0, 2.0)}
