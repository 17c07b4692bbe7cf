"""The NVIDIA driver's reports in the kernel log."""

from __future__ import annotations

from datetime import datetime

from tests.readers.gpu_samples import sample
from watchdogd.readers.gpu import kernel


def test_each_event_once_and_none_of_the_application_or_of_switches() -> None:
    timeout, fault, fallen, lost = kernel.read(sample("kernel.txt"))
    assert (timeout.bus, timeout.xid, timeout.fatal) == ("0000:1b:00", 119, True)
    assert timeout.at == datetime.fromisoformat("2026-11-28T07:02:10.1+00:00").timestamp()
    assert (fault.bus, fault.xid, fault.fatal) == ("000d:43:00", 31, False)
    assert (fallen.bus, fallen.xid, fallen.fatal, fallen.at) == ("0000:b3:00", None, True, None)
    assert (lost.bus, lost.xid) == ("0000:91:00", 79)


def test_dates_of_dmesg_are_local() -> None:
    (event,) = kernel.read("[Sun Feb  8 16:24:18 2026] NVRM: Xid (PCI:0000:9b:00): 48, pid=1, DBE\n")
    assert event.at == datetime(2026, 2, 8, 16, 24, 18).astimezone().timestamp()
    assert event.text == "Xid 48: pid=1, DBE"


def test_a_line_that_other_tools_wrapped() -> None:
    line = (
        "node-066 | ERROR: nhc: check_gpu_xid: [ 3606.83] NVRM: Xid (PCI:0002:00:00): 119, pid=67769, Timeout"
    )
    (event,) = kernel.read(line)
    assert (event.bus, event.xid) == ("0002:00:00", 119)


def test_buses_are_written_in_two_widths() -> None:
    (event,) = kernel.read("[ 1.0] NVRM: Xid (PCI:0000:9b:00): 79, x\n")
    assert event.speaks_of("00000000:9B:00.0")
    assert not event.speaks_of("00000000:9C:00.0")
    assert not event.speaks_of("")
