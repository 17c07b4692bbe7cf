"""`nvidia-smi -q -x`: what `-q` tells, as XML (nvsmi_device v10 to v13), under the names of `-q`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from watchdogd.errors import UnreadableError
from watchdogd.readers.gpu import nvidiaq, value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchdogd.readers.gpu.gpu import Readout

_DOCUMENT = re.compile(r"<nvidia_smi_log\b.*?(?:</nvidia_smi_log>|\Z)", re.DOTALL)
_REASON = re.compile(r"clocks_(?:throttle|event)_reason_(\w+)")
_NAMES = {
    "uuid": "gpu uuid",
    "gpu_util": "gpu",
    "gpu_temp": "gpu current temp",
    "gpu_temp_slow_threshold": "gpu slowdown temp",
    "gpu_temp_tlimit": "gpu t.limit temp",
    "gpu_temp_slow_tlimit_threshold": "gpu slowdown t.limit temp",
    "memory_temp": "memory current temp",
    "instant_power_draw": "instantaneous power draw",
    "remapped_row_pending": "pending",
    "remapped_row_failure": "remapping failure occurred",
    "pending_retirement": "pending page blacklist",
    "pending_blacklist": "pending page blacklist",
}
"""What is not called like the line of `-q` with underscores for blanks."""


def fits(text: str) -> bool:
    """Whether this is the form of -x."""
    return "<nvidia_smi_log" in text


def read(text: str) -> Readout:
    """Its GPUs; of several documents (-l) the last counts. UnreadableError where it is cut, or broken."""
    document = _DOCUMENT.findall(text)[-1]
    try:
        log = ET.fromstring(document)  # noqa: S314 - begins behind the DOCTYPE, so it can define no entities
    except (ET.ParseError, ValueError) as error:
        last = document.rstrip().rpartition("\n")[2].strip()[:200]
        raise UnreadableError(f"nvidia-smi's XML is cut or broken ({error}) at its end '{last}'") from None
    trees = [(gpu.get("id", ""), dict(_facts(gpu))) for gpu in log.iter("gpu")]
    attached = value.count(log.findtext("attached_gpus", "")) or 0
    return nvidiaq.of_trees(trees, attached)


def _facts(element: ET.Element, above: str = "") -> Iterator[tuple[str, str]]:
    """`ecc errors/volatile/dram uncorrectable`, `0`; MIG devices are numbered."""
    parts = 0
    for inner in element:
        if inner.tag == "mig_devices":
            yield from _facts(inner, above)
            continue
        name = _NAMES.get(inner.tag) or _REASON.sub(r"\1", inner.tag).replace("_", " ").lower()
        if inner.tag == "mig_device":
            name, parts = f"mig device {parts}", parts + 1
        if len(inner):
            yield from _facts(inner, f"{above}{name}/")
        elif cell := (inner.text or "").strip():
            yield above + name, cell
