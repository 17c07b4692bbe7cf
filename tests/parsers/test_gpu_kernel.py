"""The drivers' reports in the kernel log."""

from __future__ import annotations

import subprocess
from datetime import datetime

import pytest

from tests.parsers.gpu_samples import sample
from watchdogd.parsers.gpu import kernel_log


def test_each_event_once_and_none_of_the_application_or_of_switches() -> None:
    timeout, fault, fallen, lost = kernel_log.read(sample("kernel.txt"))
    assert (timeout.bus, timeout.xid, timeout.fatal) == ("0000:1b:00", 119, True)
    assert timeout.at == datetime.fromisoformat("2026-11-28T07:02:10.1+00:00").timestamp()
    assert (fault.bus, fault.xid, fault.fatal) == ("000d:43:00", 31, False)
    assert (fallen.bus, fallen.xid, fallen.fatal, fallen.at) == ("0000:b3:00", None, True, None)
    assert (lost.bus, lost.xid) == ("0000:91:00", 79)


def test_dates_of_dmesg_are_local() -> None:
    (event,) = kernel_log.read("[Sun Feb  8 16:24:18 2026] NVRM: Xid (PCI:0000:9b:00): 48, pid=1, DBE\n")
    assert event.at == datetime(2026, 2, 8, 16, 24, 18).astimezone().timestamp()
    assert event.text == "Xid 48: pid=1, DBE"


@pytest.mark.parametrize("offset", ["+00:00", "-05:00", "+12:45", "-0330", "Z"])
def test_dates_of_dmesg_have_the_offset_of_their_node(offset: str) -> None:
    (event,) = kernel_log.read(
        f"2026-02-08T16:24:18,250000{offset} NVRM: Xid (PCI:0000:9b:00): 48, pid=1, DBE\n"
    )
    assert event.at == datetime.fromisoformat(f"2026-02-08T16:24:18.25{offset}").timestamp()


def test_a_line_that_other_tools_wrapped() -> None:
    line = (
        "node-066 | ERROR: nhc: check_gpu_xid: [ 3606.83] NVRM: Xid (PCI:0002:00:00): 119, pid=67769, Timeout"
    )
    (event,) = kernel_log.read(line)
    assert (event.bus, event.xid) == ("0002:00:00", 119)


def test_buses_are_written_in_two_widths() -> None:
    (event,) = kernel_log.read("[ 1.0] NVRM: Xid (PCI:0000:9b:00): 79, x\n")
    assert event.speaks_of("00000000:9B:00.0")
    assert not event.speaks_of("00000000:9C:00.0")
    assert not event.speaks_of("")


@pytest.mark.parametrize(
    ("said", "fatal"),
    [
        ("154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", True),
        ("154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", False),
        ("154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)", None),
        ("145, RLW_RXPIPE Nonfatal XC0 i0 Link 07 (0x00000003)", False),
        ("149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6)", True),
        ("157, pid=1, no spare rows", True),
        ("121, C2C Link corrected errors", None),
        ("63, Row Remapper: New row (0x4c1) marked for remapping, reset gpu to activate.", False),
    ],
)
def test_what_an_xid_means_may_stand_in_its_text(said: str, fatal: bool | None) -> None:
    events = kernel_log.read(f"[ 7.25] NVRM: Xid (PCI:0000:3a:00): {said}\n")
    assert [event.fatal for event in events] == ([] if fatal is None else [fatal])


def test_an_xid_of_an_old_driver_names_no_pci() -> None:
    (event,) = kernel_log.read("[ 7.25] NVRM: Xid (0000:3a:00): 79, GPU has fallen off the bus.\n")
    assert (event.bus, event.xid) == ("0000:3a:00", 79)


@pytest.mark.parametrize("indent", ["", "[  7.25] ", "           "])
def test_a_gpu_off_the_bus_in_three_lines(indent: str) -> None:
    text = (
        "[  7.25] NVRM: The NVIDIA GPU 0000:3a:00.0\n"
        f"{indent}NVRM: (PCI ID: 10de:2330) installed in this system has\n"
        f"{indent}NVRM: fallen off the bus and is not responding to commands.\n"
    )
    (event,) = kernel_log.read(text)
    assert (event.bus, event.xid, event.text) == ("0000:3a:00", None, "it has fallen off the bus")


def test_reports_of_amds_driver() -> None:
    text = """[ 8.1] amdgpu 0000:1c:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!
[ 8.2] amdgpu 0000:1c:00.0: {1}1 correctable hardware errors detected in umc block
[ 8.2] amdgpu 0000:1c:00.0: {1}3 uncorrectable hardware errors detected in umc block
[ 8.3] amdgpu 0000:1c:00.0: amdgpu: GPU reset begin!
[ 8.9] amdgpu 0000:1c:00.0: amdgpu: GPU reset(2) failed
[ 9.0] amdgpu 0000:2c:00.0: amdgpu: socket: 4, 2 new uncorrectable hardware errors detected in gfx block
[ 9.0] amdgpu 0000:3c:00.0: amdgpu: device lost from bus!
[ 9.1] amdgpu 0000:4c:00.0: amdgpu: 1048560 uncorrectable hardware errors detected in umc block
[ 9.1] amdgpu 0000:4c:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block
[ 9.1] amdgpu 0000:4c:00.0: amdgpu: no uncorrectable hardware errors detected in umc block
[ 9.1] amdgpu 0000:4c:00.0: amdgpu: ring comp_1.0.1 timeout, but soft recovered
[ 9.1] amdgpu 0000:5c:00.0: amdgpu: GPU reset begin!
[ 9.2] amdgpu 0000:5c:00.0: amdgpu: GPU reset succeeded, trying to resume
"""
    assert [(event.bus, event.text, event.fatal) for event in kernel_log.read(text)] == [
        ("0000:1c:00.0", "an uncorrectable error", True),
        ("0000:1c:00.0", "3 uncorrectable errors in umc", True),
        ("0000:1c:00.0", "it was reset", False),
        ("0000:1c:00.0", "its reset failed", True),
        ("0000:2c:00.0", "2 uncorrectable errors in gfx", True),
        ("0000:3c:00.0", "it has been lost from the bus", True),
        ("0000:5c:00.0", "it was reset", False),
    ]


NVIDIA_WITHOUT_XID = [
    ("nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned "
     "from status @ kernel_channel.c:3141", "", "Reset required [NV_ERR_RESET_REQUIRED]", True),
    ("GPU3 nvCheckOkFailedNoLog: Check failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F)",
     "", "GPU lost from the bus [NV_ERR_GPU_IS_LOST]", True),
    ("nvAssertOkFailedNoLog: Assertion failed: Failed to enable fabric [NV_ERR_NVLINK_FABRIC_FAILURE] (0x79)",
     "", "Failed to enable fabric [NV_ERR_NVLINK_FABRIC_FAILURE]", True),
    ("GPU 0000:0b:00.0: RmInitAdapter failed! (0x24:0x72:1568)", "0000:0b:00",
     "RmInitAdapter failed! (0x24:0x72:1568)", True),
    ("RmInitAdapter failed! (0x27:0x38:1193)", "", "RmInitAdapter failed! (0x27:0x38:1193)", True),
    ("GPU6 _kgspBootGspRm: (the GPU is likely in a bad state and may need to be reset)", "",
     "GPU is likely in a bad state and may need to be reset", True),
    ("Rate limiting GSP RPC error prints for GPU at PCI:0000:9b:00 (printing 1 of every 30).  The GPU likely "
     "needs to be reset.", "0000:9b:00", "GPU likely needs to be reset", True),
    ("GPU 0000:2a:00.0: GPU does not have the necessary power cables connected.", "0000:2a:00",
     "GPU does not have the necessary power cables connected", True),
    ("krcWatchdog_IMPL: RC watchdog: GPU is probably locked!  Notify Timeout Seconds: 7", "",
     "GPU is probably locked", False),
]  # fmt: skip
NVIDIA_HARMLESS = [
    "GPU at PCI:0000:9b:00: GPU-2c0d1f6e-7a31-4c55-9d0e-0123456789ab",
    "GPU 0000:9b:00.0: GPU serial number is 1650923004411.",
    "loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01  Release Build",
    "nvAssertOkFailedNoLog: Assertion failed: Invalid argument to call [NV_ERR_INVALID_ARGUMENT] (0x1F)",
    "nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from status",
    "nvAssertOkFailedNoLog: Assertion failed: Call timed out [NV_ERR_TIMEOUT] (0x00000065) returned from x",
    "GPU4 RPC history (CPU -> GSP):",
]
AMD_REPORTS = [
    ("amdgpu: GPU reset end with ret = -22", "its reset failed", True),
    ("amdgpu: GPU Recovery Failed: -19", "its reset failed", True),
    ("amdgpu: ASIC reset failed with error, -62 for drm dev, 0000:1c:00.0", "its reset failed", True),
    ("amdgpu: [drm] device wedged, needs recovery", "it is wedged and was not recovered", True),
    ("amdgpu: Fatal error during GPU init", "it could not be started", True),
    ("amdgpu: RAS records:130 exceeds threshold:128", "more bad pages of memory than its maker allows", True),
    ("amdgpu: MES might be in unrecoverable state, issue a GPU reset", "its queues do not answer", False),
    ("amdgpu: The cp might be in an unrecoverable state due to an unsuccessful queues preemption",
     "its queues do not answer", False),
]  # fmt: skip
AMD_HARMLESS = [
    "amdgpu: GPU reset end with ret = 0",
    "amdgpu: GPU reset(2) succeeded!",
    "amdgpu: [drm] device wedged, but recovered through reset",
    "amdgpu: SMU is resumed successfully!",
    "amdgpu: RAS: optional ras ta ucode is not available",
]


@pytest.mark.parametrize(("said", "bus", "text", "fatal"), NVIDIA_WITHOUT_XID)
def test_what_nvidias_driver_reports_without_an_xid(said: str, bus: str, text: str, fatal: bool) -> None:
    (event,) = kernel_log.read(f"[ 7.25] NVRM: {said}\n")
    assert (event.bus, event.xid, event.text, event.fatal) == (bus, None, text, fatal)


@pytest.mark.parametrize(("said", "text", "fatal"), AMD_REPORTS)
@pytest.mark.parametrize("bus", ["0000:1c:00.0", ""])
def test_what_amds_driver_reports(said: str, text: str, fatal: bool, bus: str) -> None:
    (event,) = kernel_log.read(f"[ 7.25] amdgpu{bus and ' '}{bus}: {said}\n")
    assert (event.bus, event.text, event.fatal) == (bus, text, fatal)


@pytest.mark.parametrize("line", [*(f"NVRM: {each}" for each in NVIDIA_HARMLESS),
                                  *(f"amdgpu 0000:1c:00.0: {each}" for each in AMD_HARMLESS)])  # fmt: skip
def test_what_says_nothing_bad(line: str) -> None:
    assert kernel_log.read(f"[ 7.25] {line}\n") == ()


def test_all_that_is_read_passes_the_probes_grep() -> None:
    nvidia = [f"NVRM: {said}" for said, *_ in NVIDIA_WITHOUT_XID]
    amd = [f"amdgpu 0000:1c:00.0: {said}" for said, *_ in AMD_REPORTS]
    wanted = f"NVRM.*({'|'.join(kernel_log.NVIDIA_MARKS)})|amdgpu.*({kernel_log.AMD_MARKS})"
    text = "\n".join([*nvidia, *amd]) + "\n"
    found = subprocess.run(["grep", "-E", wanted], input=text, capture_output=True, text=True, check=True)
    assert found.stdout == text


def test_a_report_that_comes_again_long_after_is_a_new_one() -> None:
    form = "2026-11-28T{},000000+00:00 NVRM: Xid (PCI:0000:1b:00): 119, {}\n"
    text = "".join(
        form.format(*each) for each in (("07:00:00", "old"), ("07:05:00", "more"), ("09:00:00", "new"))
    )
    (event,) = kernel_log.read(text)
    assert event.text == "Xid 119: new"
    (event,) = kernel_log.read(text.splitlines()[0] + "\n" + text.splitlines()[1] + "\n")
    assert event.text == "Xid 119: old"
    assert event.at is not None
    assert (event.since(event.at + 300.0), event.since(event.at + 301.0)) == (True, False)
