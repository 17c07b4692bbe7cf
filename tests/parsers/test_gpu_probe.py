"""What a probe prints: several tools' answers in frames; and the samples that a job's own probe leaves."""

from __future__ import annotations

import pytest

from tests.parsers.gpu_samples import sample
from watchdogd.errors import UnreadableError
from watchdogd.parsers import probe_sample as samples
from watchdogd.parsers.gpu import node_script, nvidia_smi
from watchdogd.parsers.gpu.models import Gpu, Readout
from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.parsers.probe_sample import GpuSample

NO_DRIVER = "ERROR:root:Driver not initialized (amdgpu not found in modules)\n"


def framed(*answers: tuple[str, str, int | None]) -> str:
    """A probe's output of node7."""
    parts = ["@@ node node7\n"]
    for asked, text, code in answers:
        parts += [f"@@ run {asked}\n", text, "" if code is None else f"\n@@ exit {code}\n"]
    return "".join(parts)


def test_the_first_tool_that_tells_of_gpus_counts() -> None:
    node = node_script.read(
        framed(
            ("nvidia-smi -q", sample("nvidia-q.txt"), 0),
            ("sh -c dmesg", sample("kernel.txt"), 0),
            ("rocm-smi --showuniqueid --json", NO_DRIVER, 0),
        )
    )
    assert (node.name, node.trouble, len(node.readout.gpus), len(node.events)) == ("node7", "", 2, 4)


def test_an_exit_code_says_nothing_of_what_was_printed() -> None:
    node = node_script.read(framed(("amd-smi metric --json", sample("amd-metric.json"), 2)))
    assert [gpu.utilisation for gpu in node.readout.gpus] == [88.0, 3.0, None]


def test_two_answers_of_a_tool_are_put_together() -> None:
    node = node_script.read(
        framed(
            ("rocm-smi --showuniqueid --json", sample("rocm-all.json"), 0),
            ("rocm-smi --showrasinfo", sample("rocm-ras.txt"), 2),
        )
    )
    first, second = node.readout.gpus
    assert (first.utilisation, first.ecc_uncorrectable, second.ecc_uncorrectable) == (93.0, 3, 0)


@pytest.mark.parametrize("code", [124, 137, None])
def test_a_tool_that_hangs(code: int | None) -> None:
    node = node_script.read(framed(("rocm-smi --json", NO_DRIVER, 0), ("nvidia-smi -q", "half an ans", code)))
    assert "nvidia-smi hangs" in node.trouble
    assert not node.readout.gpus


def test_no_driver_and_no_tool() -> None:
    assert node_script.read(framed(("rocm-smi --json", NO_DRIVER, 0))).readout.absent == NO_DRIVER.strip()
    assert "no nvidia-smi, amd-smi or rocm-smi" in node_script.read(framed()).trouble


def test_what_cannot_be_read_is_quoted() -> None:
    node = node_script.read(framed(("nvidia-smi", "Failed to initialize NVML: Unknown Error\n", 255)))
    assert "Failed to initialize NVML: Unknown Error" in node.trouble


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        (
            "Failed to initialize NVML: Driver/library version mismatch",
            "reboot the node, or load the new module",
        ),
        ("Failed to initialize NVML: Unknown Error", "start it again"),
        ("Failed to initialize NVML: Insufficient Permissions", "give the user access"),
        ("who knows", "run nvidia-smi there by hand"),
    ],
)
def test_what_to_do_is_said_too(said: str, advice: str) -> None:
    node = node_script.read(f"@@ node n1\n@@ run nvidia-smi -q\n{said}\n@@ exit 9\n")
    assert said in node.trouble
    assert advice in node.trouble


def test_a_sample_is_read_as_it_was_written() -> None:
    node = GpuNode("node7", Readout(nvidia_smi.read(sample("nvidia-q.txt")).gpus, complete=False), "")
    written = GpuSample("run-17", "4711", node)
    assert samples.read_gpus(samples.gpus_json(written)) == written
    assert samples.read_gpus('{"kind": "sample", "run": "r", "job": "1", "memory": {}}') is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"gpus": {"list": [{"utilisation": "much"}], "absent": "", "complete": true, "trouble": ""}}',
        '{"gpus": {"list": [{"index": true}], "absent": "", "complete": true, "trouble": ""}}',
        '{"gpus": {"list": []}}',
    ],
)
def test_what_is_no_sample(text: str) -> None:
    with pytest.raises(UnreadableError, match="no sample"):
        samples.read_gpus(text)


def test_a_newer_sample_may_say_more() -> None:
    text = (
        '{"run": "r", "job": "1", "node": "n", "disks": [], "gpus": {"list": [{"index": 2, "colour": "red"}],'
        ' "absent": "", "complete": true, "trouble": ""}}'
    )
    read = samples.read_gpus(text)
    assert read is not None
    assert read.node.readout.gpus == (Gpu(2),)
