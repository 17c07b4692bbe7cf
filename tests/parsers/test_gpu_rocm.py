"""rocm-smi's output, from version 1.4 to 7.2: tables, blocks, JSON and CSV."""

from __future__ import annotations

import json

import pytest

from tests.parsers.gpu_samples import sample
from watchdogd.errors import UnreadableError
from watchdogd.parsers.gpu import rocm_smi
from watchdogd.parsers.gpu.models import Gpu, Readout


def test_concise_with_a_second_die_and_a_dead_card() -> None:
    first, second, dead = rocm_smi.read(sample("rocm-concise-node.txt")).gpus
    assert first == Gpu(
        0,
        utilisation=99.0,
        power_w=412.0,
        power_cap_w=560.0,
        temperature_c=61.0,
        clock_mhz=1650.0,
        vram_percent=88.0,
    )
    assert (second.power_w, second.temperature_c, second.trouble) == (None, 58.0, "")
    assert "no longer answers" in dead.trouble
    assert (dead.utilisation, dead.vram) == (None, None), "0 % of a dead card are no reading"


def test_a_table_that_is_cut_is_a_lower_bound() -> None:
    readout = rocm_smi.read(sample("rocm-concise-model.txt"))
    assert not readout.complete
    assert [(gpu.power_w, gpu.vram, gpu.utilisation) for gpu in readout.gpus] == [
        (603.0, 71.0, 96.0),
        (598.0, 71.0, 95.0),
    ]


def test_the_oldest_form_has_no_memory_and_tells_no_utilisation() -> None:
    first, second = rocm_smi.read(sample("rocm-concise-old.txt")).gpus
    assert (first.utilisation, first.power_w, first.vram, first.temperature_c) == (None, None, None, 62.0)
    assert (second.utilisation, second.power_w, second.power_cap_w) == (100.0, 171.5, 225.0)


def test_partitions_of_a_board_are_devices_of_one_board() -> None:
    readout = rocm_smi.read(sample("rocm-showhw.txt"))
    assert readout.counts == (2, 4)
    assert [gpu.partition for gpu in readout.gpus] == [0, 1, 0, 1]


def test_blocks_take_the_number_where_another_key_says_na() -> None:
    first, second, third = rocm_smi.read(sample("rocm-blocks.txt")).gpus
    assert (first.power_w, first.bus) == (341.0, "0000:C1:00.0")
    assert first.vram == pytest.approx(75.02, abs=0.01)
    assert (second.power_w, second.vram, second.trouble) == (None, 0.0, "")
    assert third.power_w == 96.5


def test_ras_counters_are_summed_over_the_blocks() -> None:
    first, second = rocm_smi.read(sample("rocm-ras.txt")).gpus
    assert first.ecc_uncorrectable == 3
    assert second.ecc_uncorrectable == 0


def test_json_after_a_warning() -> None:
    first, second = rocm_smi.read(sample("rocm-all.json")).gpus
    assert first == Gpu(
        0,
        uuid="0x51f0c2a9be7d3344",
        name="Arcturus GL-XL [Instinct MI100]",
        bus="0000:27:00.0",
        utilisation=93.0,
        power_w=187.0,
        power_cap_w=290.0,
        temperature_c=53.0,
        vram_used=30064771072,
        vram_total=34342961152,
    )
    assert second.trouble


def test_a_register_full_of_ones_is_no_reading() -> None:
    cells = {
        "GPU use (%)": "65535",
        "Current Socket Graphics Package Power (W)": "4294967295.0",
        "Average Graphics Package Power (W)": "211.0",
        "Temperature (Sensor junction) (C)": "65535.0",
        "VRAM Total Memory (B)": "68702699520",
        "VRAM Total Used Memory (B)": "18446744073709551615",
    }
    (gpu,) = rocm_smi.read(json.dumps({"card0": cells})).gpus
    assert (gpu.utilisation, gpu.power_w, gpu.temperature_c) == (None, 211.0, None)
    assert (gpu.vram_used, gpu.vram_total, gpu.vram) == (None, 68702699520, None)


def test_csv_by_the_names_of_its_columns() -> None:
    apu, card = rocm_smi.read(sample("rocm.csv")).gpus
    assert (apu.power_w, apu.vram_used, apu.vram) == (17.0, 511442944, None), "a carve-out is no memory"
    assert (card.power_w, card.utilisation) == (288.5, 97.0)
    assert card.vram == pytest.approx(50.0, abs=0.01)


@pytest.mark.parametrize(
    "text",
    [
        "ERROR:root:Driver not initialized (amdgpu not found in modules)\n",
        "\n\nWARNING: No AMD GPUs detected\n",
    ],
)
def test_no_driver_is_said_in_the_tools_words(text: str) -> None:
    assert rocm_smi.read(text) == Readout(absent=text.strip())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("WARNING: No JSON data to report\n", "No JSON data to report"),
        ('{"card0": {"GPU use (%)": "1",\n', "cut after"),
        ('{"card0": {"GPU use (%)" "1"}}\n', "broken at"),
        ('{"card0": {"GPU use (%)": 1' + "0" * 5000 + "}}\n", "cannot be read"),
        ("", "nothing"),
        ("GPU  Temp  AvgPwr  GPU%\n0    31.0c  5W\n", "0    31.0c  5W"),
        ("device,GPU use (%)\ncard0,1,2,3\n", "card0,1,2,3"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, line: str) -> None:
    with pytest.raises(UnreadableError, match="rocm-smi") as raised:
        rocm_smi.read(text)
    assert line in str(raised.value)


RAS = """
GPU[0]: \tRAS INFO
         Block       Status    Correctable Error  Uncorrectable Error
           UMC        ENABLED                  8                    5
          SDMA       DISABLED
           GFX        ENABLED                  1                    0
GPU[1]: \tRAS INFO
         Block       Status    Correctable Error  Uncorrectable Error
           UMC       DISABLED            3145680              3145680
            DF        ENABLED                  0                    2
"""


def test_a_block_of_ras_that_is_switched_off_counts_no_errors() -> None:
    first, second = rocm_smi.read('{"card0": {"GPU use (%)": "1"}, "card1": {"GPU use (%)": "2"}}' + RAS).gpus
    assert first.ecc_uncorrectable == 5
    assert second.ecc_uncorrectable == 2


def test_an_empty_table_is_no_gpu() -> None:
    line = "WARNING: No AMD GPUs specified"
    header = "Device  Node  Temp    Power  SCLK  Perf  PwrCap  VRAM%  GPU%"
    text = f"{line}\n=== ROCm System Management Interface ===\n{header}\n=== End of ROCm SMI Log ===\n"
    assert rocm_smi.read(text) == Readout(absent=line)


def test_of_a_traceback_the_last_line_says_why() -> None:
    text = "Traceback (most recent call last):\n  File 'rocm-smi', line 9\nOSError: no librocm_smi64.so.2\n"
    with pytest.raises(UnreadableError, match="OSError: no librocm_smi64"):
        rocm_smi.read(text)
