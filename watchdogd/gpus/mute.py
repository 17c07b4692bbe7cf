"""GPUs of which no sensor can be read, though those of their kind can be, or they could before. Pure.

Not all GPUs have sensors: partitions and MIG devices leave them to their board, and the second die of an
MI250X leaves power to the first. So each is held against its own kind, and against itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from watchdogd.gpus.together import Named
    from watchdogd.readers.gpu.gpu import Gpu

_TWO_DIES = re.compile(r"MI2[0-9]{2}|Aldebaran", re.IGNORECASE)
"""Names of boards that are two GPUs, of which the second has an odd number."""


def mute(gpus: Sequence[Named], before: Collection[str]) -> dict[str, str]:
    """By name of those that are: why that is a fault. `before`: names of those that were read in this job."""
    read = [each.gpu for each in gpus if not each.gpu.mute and not each.gpu.trouble]
    return dict(_mute(gpus, read, before))


def _mute(gpus: Sequence[Named], read: Sequence[Gpu], before: Collection[str]) -> Iterator[tuple[str, str]]:
    for name, gpu in ((each.name, each.gpu) for each in gpus):
        if not gpu.mute or gpu.trouble:
            continue
        others = any(_alike(gpu, other) for other in read)
        if name in before:
            yield name, f"any more{', as of the others' if others else ''}"
        elif others and not gpu.blank:  # of which nothing at all is told: that is said as such
            yield name, "as of the others"


def _alike(gpu: Gpu, other: Gpu) -> bool:
    """Whether what `other` has can be expected of `gpu`."""
    same = (gpu.mig is None, gpu.partition or 0) == (other.mig is None, other.partition or 0)
    if not same or (gpu.name and other.name and gpu.name != other.name):
        return False
    return not _may_be_second_die(gpu) or _odd(other)


def _may_be_second_die(gpu: Gpu) -> bool:
    return _odd(gpu) and (not gpu.name or _TWO_DIES.search(gpu.name) is not None)


def _odd(gpu: Gpu) -> bool:
    return gpu.index is not None and gpu.index % 2 == 1
