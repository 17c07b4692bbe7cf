"""What the probe tells of memory and disks: written and read again, and what is none."""

from __future__ import annotations

import json

import pytest

from watchdogd.errors import UnreadableError
from watchdogd.readers import sample, usage
from watchdogd.readers.gpu.gpu import Gpu, Readout
from watchdogd.readers.gpu.probe import Node
from watchdogd.readers.sample import Sample
from watchdogd.readers.usage import Disk, Memory, Process, Usage

MEMORY = Memory("cgroup job_88", 4e9, 64e9, 42e9, (Process(7, "python", 40e9),))
DISKS = {"/tmp": Disk(1e9, 2e9, 5.0, 10.0)}


def test_both_readers_take_what_they_know_from_one_sample() -> None:
    gpus = Sample("run-17", "88", Node("node2", Readout((Gpu(0, utilisation=98.0),))))
    text = json.dumps(json.loads(sample.dump(gpus)) | usage.as_json(MEMORY, DISKS))
    assert sample.read(text) == gpus
    assert usage.read(text) == Usage("run-17", "88", "node2", MEMORY, DISKS)


def test_a_sample_of_gpus_alone_tells_of_no_memory() -> None:
    assert usage.read('{"run": "a", "job": "1", "node": "n"}') == Usage("a", "1", "n")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"run": "a", "job": "1", "node": "n", "memory": {"left": 1}}']
)
def test_what_is_no_sample(text: str) -> None:
    with pytest.raises(UnreadableError, match="no sample of a probe"):
        usage.read(text)


def test_stat_of_file_systems_with_and_without_inodes_and_names_with_spaces() -> None:
    text = (
        "1000 400 4096 64 32 /tmp\n"
        "stat: cannot read file system information for '/gone': No such file or directory\n"
        "10 1 512 0 0 /a b\n"
    )
    assert usage.read_stat(text) == {
        "/tmp": Disk(400 * 4096, 1000 * 4096, 32, 64),
        "/a b": Disk(512, 5120),
    }
