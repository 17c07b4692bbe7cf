"""Error counters of a node's links: InfiniBand (and RoCE), and NVLink.

Only a growing counter is suspicious: counters hold errors of months, such as those of a pulled cable.
NVLink's take a second to read, so they are read once, and prove nothing.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from watchdogd.system import command
from watchdogd.system.number import count
from watchdogd.system.text import split_lines

_PORTS = "/sys/class/infiniband"
_COUNTED = re.compile(
    r"symbol_error|link_error_recovery|link_downed|port_rcv_errors|local_link_integrity_errors"
    r"|excessive_buffer_overrun_errors|roce_(?:adp|slow)_retrans|packet_seq_err|local_ack_timeout_err"
)
_GPU = re.compile(r"GPU (\d+):")
_LINK = re.compile(r"\s*(?:GPU \d+, )?Link (\d+): (.*\bErrors?\b.*?): (\d+)\s*")


def of_ports(ports: str = _PORTS) -> dict[str, int]:
    """Return error counts by port and error; unreadable ports are left out."""
    found = {}
    for path in Path(ports).glob("*/ports/*/*counters/*"):
        device, _, port, _, name = path.parts[-5:]
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if _COUNTED.fullmatch(name) and (number := count(path.read_text())) is not None:
                found[f"{device} port {port}, {name}"] = number
    return found


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return the growth of counters that are in both readings."""
    return {name: after[name] - seen for name, seen in before.items() if after.get(name, 0) > seen}


def of_nvlink(seconds: float) -> dict[str, int]:
    """Return nonzero error counts since the driver was loaded, by link and error."""
    if not shutil.which("nvidia-smi"):
        return {}
    return read_nvlink(command.ask(("nvidia-smi", "nvlink", "-e"), deadline=seconds).output)


def read_nvlink(text: str) -> dict[str, int]:
    """Parse `nvidia-smi nvlink -e`: `GPU 0: ...`, and below it `Link 0: Replay Errors: 0`."""
    gpu, found = "", {}
    for line in split_lines(text):
        if match := _GPU.match(line):
            gpu = match[1]
        if (match := _LINK.match(line)) and (number := count(match[3])):
            found[f"GPU {gpu} NVLink {match[1]}, {match[2]}"] = number
    return found
