"""amd-smi's output, from version 24 to 27: JSON, indented text, and the table of monitor."""

from __future__ import annotations

import pytest

from tests.readers.gpu_samples import sample
from watchdogd.errors import UnreadableError
from watchdogd.readers.gpu import amd
from watchdogd.readers.gpu.gpu import Gpu, Readout, merged

MIB, GIB = 1 << 20, 1 << 30


def test_metric_json_of_rocm_7_after_a_warning() -> None:
    first, apu, silent = amd.read(sample("amd-metric.json")).gpus
    assert first == Gpu(
        0,
        utilisation=88.0,
        power_w=641.0,
        temperature_c=66.0,
        memory_temperature_c=51.0,
        vram_used=98296 * MIB,
        vram_total=196592 * MIB,
        ecc_correctable=12,
        ecc_uncorrectable=0,
        throttled=("socket thermal",),
    ), "power capping is how a busy GPU works"
    assert apu.vram == 25.0, "an APU works in the machine's memory"
    assert silent.blank
    assert not silent.trouble


def test_static_adds_what_metric_does_not_say() -> None:
    both = merged(amd.read(sample("amd-metric.json")), amd.read(sample("amd-static.json")))
    assert len(both.gpus) == 3
    first = both.gpus[0]
    assert (first.uuid, first.name, first.bus) == ("0x5A11CE", "AMD Instinct MI300X", "0000:05:00.0")
    assert (first.power_cap_w, first.slowdown_c, first.utilisation) == (750.0, 100.0, 88.0)


def test_metric_as_text_with_wrapped_lists() -> None:
    first, second = amd.read(sample("amd-metric.txt")).gpus
    assert (first.utilisation, first.power_w, first.temperature_c) == (41.0, 233.0, 69.0)
    assert (first.ecc_correctable, first.ecc_uncorrectable) == (5, 3)
    assert first.throttled == ("hbm thermal", "throttled")
    assert second.blank


def test_monitor_of_partitions() -> None:
    readout = amd.read(sample("amd-monitor-xcp.txt"))
    assert readout.counts == (2, 4)
    assert [gpu.power_w for gpu in readout.gpus] == [402.0, None, 398.0, None]
    assert readout.gpus[1].vram == 25.0
    assert not any(gpu.trouble for gpu in readout.gpus), "no sensor is normal of a partition"


def test_monitor_with_counters_and_processes_below() -> None:
    (gpu,) = amd.read(sample("amd-monitor-ecc.txt")).gpus
    assert (gpu.utilisation, gpu.power_w, gpu.temperature_c) == (87.0, 131.0, 97.0)
    assert (gpu.ecc_correctable, gpu.ecc_uncorrectable, gpu.vram_used) == (17, 3, 12003 * MIB)


def test_monitor_of_violations() -> None:
    quiet, hot, unsupported = amd.read(sample("amd-monitor-violation.txt")).gpus
    assert (quiet.throttled, unsupported.throttled) == ((), ())
    assert hot.throttled == ("thermal", "hbm thermal")


def test_of_several_documents_the_last_counts() -> None:
    (gpu,) = amd.read(sample("amd-watch.json")).gpus
    assert (gpu.utilisation, gpu.vram_used, gpu.vram) == (76.0, 32 * GIB, 50.0)


def test_no_driver_is_said_in_the_tools_words() -> None:
    line = "ERROR:root:Unable to get devices, driver not initialized (amdgpu not found in modules)"
    assert amd.read(f"{line}\nERROR:root:Unable to detect any GPU devices\n") == Readout(absent=line)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Can not find a device: GPU '77' Error code: -3\n", "GPU '77'"),
        ('[\n  {"gpu": 0, "usage": "N/A",\n', "cut after"),
        ('[\n  {"gpu": 0,\n   "links": [1,],\n  },\n]\n', "broken at"),
        ('{"gpu": {"GPU use (%)": 1' + "0" * 5000 + "}}\n", "cannot be read"),
        ('[{"gpu": 0, "process_list": []}]', "lists processes"),
        ("GPU  POWER  GFX%\n  0  12 W\n", "0  12 W"),
        ("", "nothing"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, line: str) -> None:
    with pytest.raises(UnreadableError, match="amd-smi") as raised:
        amd.read(text)
    assert line in str(raised.value)
