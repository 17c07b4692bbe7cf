"""nvidia-smi's output: the table, -q, CSV, -L, and the lines with which it gives up."""

from __future__ import annotations

# ruff: noqa: E501 - tools' lines stand as they are printed
import pytest

from tests.parsers.gpu_samples import sample
from watchdogd.errors import UnreadableError
from watchdogd.parsers.gpu import nvidia_smi
from watchdogd.parsers.gpu.models import Gpu, Readout

MIB = 1 << 20
UUIDS = [f"GPU-0c5e77aa-1111-4222-8333-00000000000{number}" for number in range(4)]


def test_table_with_lost_and_half_dead_gpus() -> None:
    waiting, stale, dead, fan = nvidia_smi.read(sample("nvidia-table.txt")).gpus
    assert waiting == Gpu(
        0,
        name="NVIDIA H100 80GB HBM3",
        bus="00000000:1B:00.0",
        utilisation=100.0,
        power_w=122.0,
        power_cap_w=700.0,
        temperature_c=38.0,
        vram_used=60123 * MIB,
        vram_total=81559 * MIB,
        ecc_volatile=0,
    )
    assert (stale.trouble, stale.temperature_c) == ("ERR!", 51.0), "its temperature is an old one"
    assert dead.trouble == "ERR!"
    assert (fan.trouble, fan.doubts, fan.utilisation, fan.ecc_volatile) == ("", ("fan: ERR!",), 77.0, 4)


def test_table_of_a_power_meter_that_fails_and_of_a_gpu_on_no_bus() -> None:
    text = (
        "|   0  NVIDIA L40S                    On  |   00000000:C3:00.0 Off |                    1 |\n"
        "| N/A   48C    P0    Unknown Error / 350W |   20119MiB /  46068MiB |     63%   E. Process |\n"
        "|   1  Thor (nvgpu)                  N/A  | N/A              N/A |                  N/A |\n"
        "| N/A   N/A  N/A               N/A /  N/A | Not Supported        |     N/A          N/A |\n"
    )
    meter, built_in = nvidia_smi.read(text).gpus
    assert (meter.temperature_c, meter.power_w, meter.power_cap_w) == (48.0, None, 350.0)
    assert (meter.utilisation, meter.vram_used, meter.ecc_volatile) == (63.0, 20119 * MIB, 1)
    assert built_in == Gpu(1, name="Thor (nvgpu)")


def test_table_of_mig_devices() -> None:
    readout = nvidia_smi.read(sample("nvidia-table-mig.txt"))
    whole, first, second = readout.gpus
    assert readout.counts == (1, 2)
    assert (whole.utilisation, whole.trouble, whole.ecc_volatile) == (None, "", None)
    assert (first.label, first.vram_used) == ("gpu0:0", 14366 * MIB)
    assert (second.label, second.ecc_volatile) == ("gpu0:1", 1)


def test_q() -> None:
    readout = nvidia_smi.read(sample("nvidia-q.txt"))
    assert not readout.complete, "three are attached, two are told of"
    first, lost = readout.gpus
    assert first == Gpu(
        0,
        uuid="GPU-0c5e77aa-1111-4222-8333-444455556666",
        name="NVIDIA A100-SXM4-80GB",
        bus="00000000:1B:00.0",
        utilisation=83.0,
        power_w=318.77,
        power_cap_w=400.0,
        temperature_c=78.0,
        slowdown_c=92.0,
        vram_used=40960 * MIB,
        vram_total=81920 * MIB,
        ecc_uncorrectable=7,
        ecc_volatile=2,
        remap_pending=True,
        remap_failed=False,
        throttled=("hw slowdown", "hw thermal slowdown"),
    )
    assert lost.trouble == "GPU is lost"
    assert (lost.ecc_uncorrectable, lost.remap_pending, lost.uuid[-4:]) == (2, True, "9999")


@pytest.mark.parametrize(
    ("lines", "recovery", "fabric"),
    [
        (
            "    GPU Recovery Action : None\n    Fabric\n        State : Completed\n        Status : Success",
            "",
            "",
        ),
        ("    GPU Recovery Action : N/A\n    Fabric\n        State : N/A\n        Status : N/A", "", ""),
        ("    GPU Recovery Action : Drain P2P", "drain p2p", ""),
        ("    GPU Recovery Action : Reset", "reset", ""),
        ("    GPU Reset Status\n        Reset Required : Yes", "reset", ""),
        (
            "    GPU Reset Status\n        Reset Required : No\n        Drain and Reset Recommended : Yes",
            "drain and reset",
            "",
        ),
        (
            "    GPU Reset Status\n        Reset Required : Requested functionality has been deprecated\n"
            "        Drain and Reset Recommended : Requested functionality has been deprecated\n"
            "    GPU Recovery Action : Reboot",
            "reboot",
            "",
        ),
        ("    Fabric\n        State : Completed\n        Status : Failed", "", "failed"),
        ("    Fabric\n        State : In Progress\n        Status : N/A", "", "in progress"),
    ],
)
def test_what_the_driver_asks_for_and_how_the_fabric_stands(lines: str, recovery: str, fabric: str) -> None:
    (gpu,) = nvidia_smi.read(f"Attached GPUs : 1\nGPU 00000000:1B:00.0\n{lines}\n").gpus
    assert (gpu.recovery, gpu.fabric) == (recovery, fabric)


def test_csv_with_header_and_units() -> None:
    text = (
        "uuid, name, utilization.gpu [%], memory.used [MiB], pci.bus_id, serial, index, remapped_rows.pending,"
        " clocks_event_reasons.hw_slowdown\n"
        f"{UUIDS[1]}, NVIDIA L4, 38 %, 575 MiB, 00000000:01:00.0, [N/A], 1, Yes, Active\n"
        f"{UUIDS[0]}, NVIDIA L4, [N/A], 12 MiB, 00000000:02:00.0, [N/A], 0, No, Not Active\n"
    )
    first, second = nvidia_smi.read(text).gpus
    assert (first.index, first.uuid, first.utilisation, first.vram_used) == (1, UUIDS[1], 38.0, 575 * MIB)
    assert (first.remap_pending, first.throttled) == (True, ("hw slowdown",))
    assert (second.index, second.utilisation, second.remap_pending, second.throttled) == (0, None, False, ())


def test_csv_without_header_by_the_fields_asked_for() -> None:
    asked = ("name", "uuid", "power.draw", "temperature.gpu", "utilization.gpu", "memory.used", "memory.free")
    text = (
        f"Tesla V100, {UUIDS[0]}, 66.92, 33, 13, 445, 32055\nTesla V100, {UUIDS[1]}, 48.1, 31, 0, 5, 32495\n"
    )
    first, second = nvidia_smi.read(text, asked).gpus
    assert (first.power_w, first.temperature_c, first.utilisation) == (66.92, 33.0, 13.0)
    assert (first.vram_total, second.index) == (32500 * MIB, 1)


def test_csv_without_header_by_the_looks_of_its_cells() -> None:
    text = (
        f"0, RTX A6000, {UUIDS[0]}, [Unknown Error], [Unknown Error], [Unknown Error], 300.00 W, 6 MiB, 49140 MiB\n"
        f"1, RTX A6000, {UUIDS[1]}, 32, [Unknown Error], 25.02 W, 300.00 W, 7 MiB, 49140 MiB\n"
        f"2, RTX A6000, {UUIDS[2]}, 34, 55 %,[Unknown Error], 300.00 W, 8 MiB, 49140 MiB\n"
    )
    dead, doubtful, other = nvidia_smi.read(text, ("index", "uuid")).gpus
    assert dead.trouble == "Unknown Error"
    assert (doubtful.trouble, doubtful.doubts) == ("", ("utilization.gpu: Unknown Error",))
    assert (doubtful.temperature_c, doubtful.power_w, doubtful.power_cap_w) == (32.0, 25.02, 300.0)
    assert (other.utilisation, other.vram_used, other.vram_total) == (55.0, 8 * MIB, 49140 * MIB)


def test_of_several_samples_the_last_counts() -> None:
    text = (
        "timestamp, index, temperature.gpu, utilization.gpu [%], fan.speed [%]\n"
        "2026/11/28 08:09:00.110, 0, 65, 97 %, 75 %\n"
        "2026/11/28 08:09:15.114, 0, [GPU is lost], [GPU is lost], [GPU is lost]\n"
    )
    (gpu,) = nvidia_smi.read(text).gpus
    assert (gpu.trouble, gpu.utilisation) == ("GPU is lost", None)
    asked = ("utilization.gpu", "utilization.encoder")
    (gpu,) = nvidia_smi.read("12, 0\n[Unknown Error], [Unknown Error]\n", asked).gpus
    assert gpu.trouble == "Unknown Error"


@pytest.mark.parametrize("cell", ["N/A", "[N/A]", "[Not Supported]"])
def test_one_column_that_is_not_told(cell: str) -> None:
    assert nvidia_smi.read(f"{cell}\n", ("temperature.memory",)).gpus == (Gpu(0),)


@pytest.mark.parametrize(
    ("line", "gpu"),
    [
        (
            "Unable to determine the device handle for GPU 0000:91:00.0: GPU is lost.  Reboot the system",
            Gpu(bus="0000:91:00.0", trouble="GPU is lost.  Reboot the system"),
        ),
        ("Unable to determine the device handle for GPU1: Unknown Error", Gpu(1, trouble="Unknown Error")),
        (
            "Unable to determine the device handle for GPU2: 0000:34:00.0: Unknown Error",
            Gpu(2, bus="0000:34:00.0", trouble="Unknown Error"),
        ),
        (
            "Unable to determine the device handle for GPU0000:C1:00.0: Unknown Error",
            Gpu(bus="0000:C1:00.0", trouble="Unknown Error"),
        ),
    ],
)
def test_a_gpu_off_the_bus_may_hide_others(line: str, gpu: Gpu) -> None:
    assert nvidia_smi.read(line + "\n") == Readout((gpu,), complete=False)


def test_a_gpu_off_the_bus_before_the_table() -> None:
    line = "Unable to determine the device handle for GPU7: 0000:34:00.0: Unknown Error\n"
    readout = nvidia_smi.read(line + sample("nvidia-table.txt"))
    assert [gpu.index for gpu in readout.gpus] == [7, 0, 1, 2, 3]
    assert not readout.complete


@pytest.mark.parametrize(
    "line",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that it runs.",
        "No devices were found",
    ],
)
def test_no_driver_is_said_in_the_tools_words(line: str) -> None:
    assert nvidia_smi.read(line + "\n\n") == Readout(absent=line)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\n", "version mismatch"),
        ("Failed to initialize NVML: Unknown Error\n", "NVML: Unknown Error"),
        ('Field "memory.junk" is not a valid field to query.\n\n', "memory.junk"),
        (f"gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n{UUIDS[0]}, 4, /a, b, 8 MiB\n", "processes"),
        ("index, utilization.gpu [%]\n0, 5 %, 7\n", "0, 5 %, 7"),
        (f"0, {UUIDS[0]}, NVIDIA L4, 100, 0, 1947, 124.09, 38\n", "124.09, 38"),
        ("Segmentation fault\n", "Segmentation fault"),
        ("", "nothing"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, line: str) -> None:
    with pytest.raises(UnreadableError, match="nvidia-smi") as raised:
        nvidia_smi.read(text)
    assert line in str(raised.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("        Channel Repair Pending                 : Yes", "pending"),
        ("        TPC Repair Pending                     : Yes", "pending"),
        ("        Channel Repair Pending                 : No", ""),
        ("        Unrepairable Memory                    : Yes", "memory that cannot be repaired"),
        ("        Unrepairable Memory                    : N/A", ""),
        (
            "        Aggregate\n            SRAM Threshold Exceeded : Yes",
            "more SRAM errors than its maker allows",
        ),
        ("        Aggregate\n            SRAM Threshold Exceeded : No", ""),
    ],
)
def test_repairs_and_spare_memory_of_the_newest_drivers(line: str, words: str) -> None:
    text = f"GPU 00000000:2A:00.0\n    Remapped Rows\n        Pending  : No\n    ECC Errors\n{line}\n"
    (gpu,) = nvidia_smi.read(text).gpus
    assert gpu.worn == ("" if words == "pending" else words)
    assert gpu.remap_pending == (words == "pending")


@pytest.mark.parametrize(
    ("lines", "fabric"),
    [
        ("Summary : Healthy\nBandwidth : Full\nRoute Unhealthy : False\nIncorrect Configuration : None", ""),
        ("Summary : Limited Capacity\nBandwidth : Degraded", "limited capacity, bandwidth degraded"),
        ("Bandwidth : N/A\nRoute Unhealthy : True", "route unhealthy"),
        ("Access Timeout Recovery : True\nPartition Assigned : True", "access timeout recovery"),
        ("Incorrect Configuration : Not All GPUs", "incorrect configuration not all gpus"),
    ],
)
def test_the_health_of_the_fabric(lines: str, fabric: str) -> None:
    told = "".join(f"            {line}\n" for line in lines.split("\n"))
    text = "GPU 00000000:2A:00.0\n    Fabric\n        State : Completed\n        Status : Success\n        Health\n"
    assert nvidia_smi.read(text + told).gpus[0].fabric == fabric


def test_where_it_slows_down_by_the_distance_to_its_limit() -> None:
    text = (
        "GPU 00000000:2A:00.0\n    Temperature\n        GPU Current Temp    : 61 C\n        GPU T.Limit Temp    : 25 C\n"
        "        GPU Shutdown T.Limit Temp : -8 C\n        GPU Slowdown T.Limit Temp : -3 C\n"
    )
    assert nvidia_smi.read(text).gpus[0].slowdown_c == 89.0


def test_whose_processes_are_on_a_gpu() -> None:
    """The number stands beside what is told of the process, not above it."""
    processes = "".join(
        f"        GPU instance ID : N/A\n        Process ID : {pid}\n            Type : C\n"
        for pid in (4711, 4712)
    )
    said = f"GPU 00000000:2A:00.0\n    Processes\n{processes}    Capabilities\n        EGM : disabled\n"
    idle = "GPU 00000000:3D:00.0\n    Processes : None\n"
    assert [gpu.pids for gpu in nvidia_smi.read(said + idle).gpus] == [(4711, 4712), ()]


def test_a_gpu_that_is_not_in_ready_state() -> None:
    text = (
        "GPU 00000000:2A:00.0\n    GPU Reset Status\n        Reset Required : Yes\n    Utilization\n        GPU : Unknown Error\n"
        "    Power Readings\n        Power Draw : System is not in ready state\n"
    )
    (gpu,) = nvidia_smi.read(text).gpus
    assert (gpu.recovery, gpu.trouble) == ("reset", "Unknown Error")


def test_mig_devices_of_q() -> None:
    part = (
        "    MIG Device\n        Index                 : {}\n        ECC Errors\n            Volatile\n"
        "                SRAM Uncorrectable : {}\n        FB Memory Usage\n            Total : 19968 MiB\n            Used : {} MiB\n"
    )
    whole = "    FB Memory Usage\n        Total : 81920 MiB\n        Used : 9001 MiB\n    Utilization\n        GPU : N/A\n"
    readout = nvidia_smi.read(
        "GPU 00000000:2A:00.0\n" + part.format(0, 0, 17) + part.format(1, 2, 8984) + whole
    )
    gpu, first, second = readout.gpus
    assert readout.counts == (1, 2)
    assert (gpu.vram_used, gpu.utilisation, gpu.trouble) == (9001 * MIB, None, "")
    assert (first.label, first.vram_used, first.ecc_volatile) == ("gpu0:0", 17 * MIB, 0)
    assert (second.label, second.vram_used, second.ecc_volatile) == ("gpu0:1", 8984 * MIB, 2)


def test_all_gpus_need_a_reset() -> None:
    readout = nvidia_smi.read("NVML: GPU requires reset\n")
    assert (readout.gpus, readout.complete) == ((Gpu(trouble="GPU requires reset"),), False)


def test_csv_of_remapped_rows() -> None:
    text = "gpu_bus_id, remapped_rows.correctable, remapped_rows.pending, remapped_rows.failure\n"
    first, second = nvidia_smi.read(text + "00000000:1A:00.0, 0, 1, 0\n00000000:2A:00.0, 3, No, Yes\n").gpus
    assert (first.bus, first.remap_pending, first.remap_failed) == ("00000000:1A:00.0", True, False)
    assert (second.remap_pending, second.remap_failed) == (False, True)


def test_csv_with_the_bits_of_what_slows_a_gpu_down() -> None:
    text = "index, clocks_event_reasons.active, ecc.errors.uncorrected.volatile.dram, ecc.errors.uncorrected.volatile.sram\n"
    hot, capped = nvidia_smi.read(
        text + "0, 0x0000000000000068, 2, 1\n1, 0x0000000000000004, 0, [N/A]\n"
    ).gpus
    assert hot.throttled == ("hw slowdown", "sw thermal slowdown", "hw thermal slowdown")
    assert (hot.ecc_volatile, capped.throttled, capped.ecc_volatile) == (3, (), 0)
