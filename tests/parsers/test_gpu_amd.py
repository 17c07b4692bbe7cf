"""amd-smi's output, from version 24 to 27: JSON, indented text, and the table of monitor."""

from __future__ import annotations

import json

import pytest

from tests.parsers.gpu_samples import sample
from watchdogd.errors import UnreadableError
from watchdogd.parsers.gpu import amd_smi, rocm_smi
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


def test_metric_as_text_with_wrapped_lists() -> None:
    first, second = amd_smi.read(sample("amd-metric.txt")).gpus
    assert (first.utilisation, first.power_w, first.temperature_c) == (41.0, 233.0, 69.0)
    assert first.ecc_uncorrectable == 3
    assert first.throttled == ("hbm thermal", "throttled")
    assert second.blank


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


BOXES = """+------------------------------------------------------------------------------+
| AMD-SMI 26.2.0+0123abcd      amdgpu version: 6.16.13  ROCm version: 7.1.1    |
| Platform: Linux Baremetal                                                    |
|-------------------------------------+----------------------------------------|
| BDF                        GPU-Name | Mem-Uti   Temp   UEC       Power-Usage |
| GPU  HIP-ID  OAM-ID  Partition-Mode | GFX-Uti    Fan               Mem-Usage |
|=====================================+========================================|
| 0000:0b:00.0    AMD Instinct MI325X | 31 %     63 °C   0          801/1000 W |
|   0       0       3        SPX/NPS1 | 97 %       N/A        201111/262128 MB |
|-------------------------------------+----------------------------------------|
| 0000:2b:00.0 AMD Radeon RX 7900 XTX | 29 %     93 °C   2           280/327 W |
|   1       1     N/A             N/A | 100 %   51.76            7608/24560 MB |
|-------------------------------------+----------------------------------------|
| 0000:c2:00.0    AMD Radeon Graphics | N/A        N/A   0             N/A/0 W |
|   2       2     N/A             N/A | N/A        N/A           35103/65536 MB |
+-------------------------------------+----------------------------------------+
| Processes:                                                                   |
|  GPU        PID  Process Name          GTT_MEM  VRAM_MEM  MEM_USAGE     CU % |
|==============================================================================|
|    0      15222  python3.11            19.6 MB   33.1 GB    33.9 GB  304     |
+------------------------------------------------------------------------------+
"""


def test_its_own_table() -> None:
    first, second, silent = amd_smi.read(BOXES).gpus
    assert first == Gpu(
        0,
        name="AMD Instinct MI325X",
        bus="0000:0b:00.0",
        utilisation=97.0,
        power_w=801.0,
        power_cap_w=1000.0,
        temperature_c=63.0,
        vram_used=201111 * MIB,
        vram_total=262128 * MIB,
        ecc_uncorrectable=0,
        ecc_volatile=0,
    )
    assert (second.utilisation, second.temperature_c, second.ecc_volatile) == (100.0, 93.0, 2)
    assert (silent.utilisation, silent.power_w, silent.vram_used) == (None, None, 35103 * MIB)


def test_csv_of_metric_while_watched() -> None:
    text = (
        "'CTRL' + 'C' to stop watching output:\n"
        "timestamp,gpu,gfx_activity,vcn_activity,socket_power,throttle_status,edge,hotspot,mem,"
        "total_uncorrectable_count,total_vram,used_vram\n"
        "1795800000,0,3,\"['N/A', 'N/A']\",131,UNTHROTTLED,N/A,41,33,0,196592,284\n"
        "1795800001,0,95,\"['N/A', 'N/A']\",688,THROTTLED,N/A,88,61,4,196592,150001\n"
        "1795800001,1,N/A,\"['N/A', 'N/A']\",N/A,UNTHROTTLED,N/A,N/A,N/A,0,196592,284\n"
    )
    first, second = amd_smi.read(text).gpus
    assert (first.utilisation, first.power_w, first.temperature_c, first.ecc_volatile) == (
        95.0,
        688.0,
        88.0,
        4,
    )
    assert (first.vram_used, first.throttled) == (150001 * MIB, ("throttled",))
    assert (second.utilisation, second.vram_used) == (None, 284 * MIB)


def test_csv_of_monitor_and_of_list() -> None:
    (gpu,) = amd_smi.read(
        "gpu,xcp,power_usage,hotspot_temperature,gfx,vram_used,vram_total\n3,0,640,71,96,150,196592\n"
    ).gpus
    assert (gpu.label, gpu.power_w, gpu.temperature_c, gpu.utilisation) == ("gpu3", 640.0, 71.0, 96.0)
    text = "gpu,gpu_bdf,gpu_uuid,kfd_id\n0,0000:0b:00.0,0aff74a1-0000-1000-80b1-000000000000,311\n"
    assert amd_smi.read(text).gpus == (
        Gpu(0, uuid="0aff74a1-0000-1000-80b1-000000000000", bus="0000:0b:00.0"),
    )


def test_csv_of_what_throttles() -> None:
    cool, hot = amd_smi.read(
        "gpu,xcp,accumulation_counter,prochot_violation_status,socket_thermal_violation_status,ppt_violation_status\n"
        "0,0,8112004,NOT ACTIVE,NOT ACTIVE,ACTIVE\n1,0,8112007,NOT ACTIVE,ACTIVE,ACTIVE\n"
    ).gpus
    assert (cool.throttled, hot.throttled) == ((), ("socket thermal",))


def test_monitor_of_an_apu_that_works_in_the_machines_memory() -> None:
    text = "GPU  XCP  POWER   GPU_T   GFX%       GTT_USAGE\n  0    0   449 W   67 °C   92 %  100.5/376.7 GB\n"
    (gpu,) = amd_smi.read(text).gpus
    assert (gpu.power_w, gpu.vram_total, gpu.vram_used) == (449.0, round(376.7 * 2**30), round(100.5 * 2**30))


def test_the_option_that_prints_as_rocm_smi_does() -> None:
    text = sample("rocm-concise-node.txt")
    assert amd_smi.read(text) == rocm_smi.read(text)
    assert amd_smi.read(text).gpus


def test_pages_of_memory_beyond_what_the_maker_allows() -> None:
    text = "GPU: 0\n    RAS:\n        BAD_PAGE_THRESHOLD: 128\n        BAD_PAGE_THRESHOLD_EXCEEDED: {}\n"
    assert amd_smi.read(text.format("True")).gpus[0].worn == "more bad pages of memory than its maker allows"
    assert amd_smi.read(text.format("N/A")).gpus[0].worn == ""


def test_counters_of_memory_that_sleeps_count_no_errors() -> None:
    document = [{"gpu": 0, "ecc": {"total_uncorrectable_count": 2097120}, "usage": {"gfx_activity": 3}}]
    assert amd_smi.read(json.dumps(document)).gpus[0].ecc_volatile is None
