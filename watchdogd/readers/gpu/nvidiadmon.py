"""`nvidia-smi dmon`: a header, its units, and a line for each GPU and sample; the header comes again.

# gpu    pwr  gtemp  mtemp     sm    mem     fb  dbecc
# Idx      W      C      C      %      %     MB   errs
    0    276     60     66     99     40  60452      0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.errors import UnreadableError
from watchdogd.readers.gpu import rules, value
from watchdogd.readers.gpu.gpu import Gpu, Readout
from watchdogd.system.number import count

if TYPE_CHECKING:
    from collections.abc import Sequence

_RULES = (
    rules.rule("utilisation", value.number, "sm"),
    rules.rule("power_w", value.number, "pwr"),
    rules.rule("temperature_c", value.number, "gtemp", "temp"),
    rules.rule("memory_temperature_c", value.number, "mtemp"),
    rules.rule("vram_used", value.mebibytes, "fb"),
    rules.rule("ecc_correctable", value.count, "sbecc"),
    rules.rule("ecc_uncorrectable", value.count, "dbecc"),
)


def fits(lines: Sequence[str]) -> bool:
    """Whether a header of this form is there."""
    return any(_header(line) for line in lines)


def read(lines: Sequence[str]) -> Readout:
    """The last sample of each GPU. UnreadableError, with the line, where one does not fit its header."""
    found: dict[int, Gpu] = {}
    names: list[str] = []
    for line in lines:
        if header := _header(line):
            names = header
        elif names and line[:1] == " " and (cells := line.split()):
            if len(cells) != len(names):
                raise UnreadableError(f"a line of nvidia-smi dmon does not fit its header: '{line.strip()}'")
            facts = dict(zip(names, cells, strict=True))
            index = count(facts["gpu"])
            if index is None:
                raise UnreadableError(f"a line of nvidia-smi dmon names no GPU: '{line.strip()[:200]}'")
            slow = ("thermal",) if value.yes(facts.get("tviol", "")) else ()
            found[index] = rules.gpu(facts, _RULES, index=index, throttled=slow)
    return Readout(tuple(found[index] for index in sorted(found)))


def _header(line: str) -> list[str]:
    """The names of its columns, or none. UnreadableError where it is that of pmon, which lists processes."""
    names = line.removeprefix("#").lower().split() if line.startswith("#") else []
    if "gpu" in names and "pid" in names:
        raise UnreadableError("nvidia-smi lists processes here, not GPUs")
    return names if "gpu" in names else []
