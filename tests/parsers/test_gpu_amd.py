"""amd-smi's output, from version 24 to 27: JSON, and the table of monitor."""

from __future__ import annotations

import json

import pytest

from tests.parsers.gpu_samples import sample
from watchdogd.errors import UnreadableError
from watchdogd.parsers.gpu import amd_smi
from watchdogd.parsers.gpu.models import Gpu, Readout, merged

MIB, GIB = 1 << 20, 1 << 30


def test_metric_json_of_rocm_7_after_a_warning() -> None:
    first, apu, silent = amd_smi.read(sample("amd-metric.json")).gpus
    assert first == Gpu(
        0,
        utilisation=88.0,
        power_w=641.0,
        temperature_c=66.0,
        vram_used=98296 * MIB,
        vram_total=196592 * MIB,
        ecc_uncorrectable=0,
        ecc_volatile=0,
        throttled=("socket thermal",),
    ), "power capping is how a busy GPU works"
    assert apu.vram == 25.0, "an APU works in the machine's memory"
    assert silent.blank
    assert not silent.trouble


def test_static_adds_what_metric_does_not_say() -> None:
    both = merged(amd_smi.read(sample("amd-metric.json")), amd_smi.read(sample("amd-static.json")))
    assert len(both.gpus) == 3
    first = both.gpus[0]
    assert (first.uuid, first.name, first.bus) == ("0x5A11CE", "AMD Instinct MI300X", "0000:05:00.0")
    assert (first.power_cap_w, first.slowdown_c, first.utilisation) == (750.0, 100.0, 88.0)


def test_monitor_of_partitions() -> None:
    readout = amd_smi.read(sample("amd-monitor-xcp.txt"))
    assert readout.counts == (2, 4)
    assert [gpu.power_w for gpu in readout.gpus] == [402.0, None, 398.0, None]
    assert readout.gpus[1].vram == 25.0
    assert not any(gpu.trouble for gpu in readout.gpus), "no sensor is normal of a partition"


def test_monitor_with_counters_and_processes_below() -> None:
    (gpu,) = amd_smi.read(sample("amd-monitor-ecc.txt")).gpus
    assert (gpu.utilisation, gpu.power_w, gpu.temperature_c) == (87.0, 131.0, 97.0)
    assert (gpu.ecc_uncorrectable, gpu.vram_used) == (3, 12003 * MIB)


def test_monitor_of_violations() -> None:
    quiet, hot, unsupported = amd_smi.read(sample("amd-monitor-violation.txt")).gpus
    assert (quiet.throttled, unsupported.throttled) == ((), ())
    assert hot.throttled == ("thermal", "hbm thermal")


def test_of_several_documents_the_last_counts() -> None:
    (gpu,) = amd_smi.read(sample("amd-watch.json")).gpus
    assert (gpu.utilisation, gpu.vram_used, gpu.vram) == (76.0, 32 * GIB, 50.0)


def test_no_driver_is_said_in_the_tools_words() -> None:
    line = "ERROR:root:Unable to get devices, driver not initialized (amdgpu not found in modules)"
    assert amd_smi.read(f"{line}\nERROR:root:Unable to detect any GPU devices\n") == Readout(absent=line)


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
        amd_smi.read(text)
    assert line in str(raised.value)


def test_monitor_of_an_apu_that_works_in_the_machines_memory() -> None:
    text = "GPU  XCP  POWER   GPU_T   GFX%       GTT_USAGE\n  0    0   449 W   67 °C   92 %  100.5/376.7 GB\n"
    (gpu,) = amd_smi.read(text).gpus
    assert (gpu.power_w, gpu.vram_total, gpu.vram_used) == (449.0, round(376.7 * 2**30), round(100.5 * 2**30))


def test_pages_of_memory_beyond_what_the_maker_allows() -> None:
    for said, worn in (("True", "more bad pages of memory than its maker allows"), ("N/A", "")):
        document = [{"gpu": 0, "ras": {"bad_page_threshold": 128, "bad_page_threshold_exceeded": said}}]
        assert amd_smi.read(json.dumps(document)).gpus[0].worn == worn


def test_counters_of_memory_that_sleeps_count_no_errors() -> None:
    document = [{"gpu": 0, "ecc": {"total_uncorrectable_count": 2097120}, "usage": {"gfx_activity": 3}}]
    assert amd_smi.read(json.dumps(document)).gpus[0].ecc_volatile is None
