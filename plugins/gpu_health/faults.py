"""Faults of single GPUs and of a node's GPUs, worst first. Pure.

Not all GPUs have sensors: partitions and MIG devices leave them to their board, and the second die of an
MI250X leaves power to the first. So each GPU is compared with others of its kind, and with its own past.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from watchdogd.parsers.gpu.kernel_log import DriverEvent
from watchdogd.parsers.gpu.models import Gpu
from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.plugin import Status
from watchdogd.plugins.gpu_health.activity import QUIET, NamedGpu

_AT_ONCE = ("reset", "reboot", "gpu reset", "node reboot")
"""Actions that a driver asks for if a GPU cannot go on; others may wait until the job ends."""


@dataclass(frozen=True, slots=True)
class GpuLimits:
    """Thresholds: per cent of memory, degrees Celsius, watts, GPUs of each node. None: not judged.

    Without `temperature_warn`, the temperature counts at which the card slows itself down by its own account.
    """

    gpus_per_node: int | None = None
    vram_warn: float | None = None
    vram_crit: float | None = None
    temperature_warn: float | None = None
    temperature_crit: float | None = None
    power_warn: float | None = None
    power_crit: float | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """Fault in a few words. `lasting`: the card or node itself is bad, in other jobs too."""

    status: Status
    text: str
    lasting: bool = False


def gpu_faults(
    gpu: Gpu, limits: GpuLimits, risen: int = 0, events: tuple[DriverEvent, ...] = (), mute: str = ""
) -> list[Fault]:
    """Return the faults of one GPU, worst first.

    `risen`: new uncorrectable errors since it was first seen in this job. `mute`: why it is a fault that none
    of its sensors can be read (see without_sensors), or empty.
    """
    found = [*_broken(gpu, events), *_memory(gpu, risen), *_hot(gpu, limits)]
    found += _above(gpu.vram, limits.vram_warn, limits.vram_crit, "memory {:.0f} % full, limit {:g} %")
    found += _sensor_fault(gpu, mute)
    found += _above(gpu.power_w, limits.power_warn, limits.power_crit, "draws {:.0f} W, limit {:g} W")
    if gpu.blank and not found and not gpu.partition and gpu.vram_total is None:
        found.append(Fault(Status.UNKNOWN, "its tool tells nothing of it"))
    return sorted(found, key=lambda fault: -fault.status.severity)


def _broken(gpu: Gpu, events: tuple[DriverEvent, ...]) -> Iterator[Fault]:
    if gpu.trouble:
        yield Fault(Status.CRITICAL, f"it cannot be used: {gpu.trouble}", lasting=True)
    for event in events:
        status = Status.CRITICAL if event.fatal else Status.WARNING
        yield Fault(status, f"its driver reports: {event.text}", lasting=event.fatal)
    if gpu.recovery:
        now = gpu.recovery in _AT_ONCE
        yield Fault(Status.CRITICAL if now else Status.WARNING, f"its driver asks for: {gpu.recovery}", now)
    if gpu.fabric:
        yield Fault(Status.WARNING, f"its NVLink fabric is not well: {gpu.fabric}")
    for doubt in gpu.doubts:
        yield Fault(Status.WARNING, f"a reading fails ({doubt})")
    if gpu.inforom:
        yield Fault(Status.WARNING, gpu.inforom)
    if gpu.throttled:
        yield Fault(Status.WARNING, f"it slows itself down: {', '.join(gpu.throttled)}")


def _sensor_fault(gpu: Gpu, why: str) -> Iterator[Fault]:
    """Report unreadable sensors; for a GPU that works nevertheless, this is all that is wrong."""
    if why:
        works = gpu.utilisation is not None and gpu.utilisation > QUIET
        line = f"neither temperature, power nor clock can be read of it {why}"
        yield Fault(Status.WARNING if works else Status.CRITICAL, line, lasting=not works)


def driver_fault(events: tuple[DriverEvent, ...]) -> Fault | None:
    """Return what a node's drivers report without naming a GPU, as a fault of the node.

    None if a broken GPU is named too, since it then belongs to that GPU.
    """
    unnamed = [event for event in events if not event.bus]
    if not unnamed or any(event.bus and event.fatal for event in events):
        return None
    fatal = [event for event in unnamed if event.fatal]
    status = Status.CRITICAL if fatal else Status.WARNING
    return Fault(status, f"its driver reports: {(fatal or unnamed)[0].text}", lasting=bool(fatal))


def _memory(gpu: Gpu, risen: int) -> Iterator[Fault]:
    """Report uncorrectable memory errors; a counter of the card's whole life alarms only when it rises."""
    if gpu.remap_failed:
        yield Fault(Status.CRITICAL, "a memory row could not be remapped: the card is worn out", lasting=True)
    if gpu.worn:
        yield Fault(Status.CRITICAL, f"the card is worn out: {gpu.worn}", lasting=True)
    if risen:
        errors = "error" if risen == 1 else "errors"
        yield Fault(Status.CRITICAL, f"{risen} uncorrectable ECC {errors} in this job", lasting=True)
    elif gpu.ecc_volatile:
        errors = "error" if gpu.ecc_volatile == 1 else "errors"
        line = f"{gpu.ecc_volatile} uncorrectable ECC {errors} since its driver was loaded"
        yield Fault(Status.WARNING, line)
    if gpu.remap_pending:
        yield Fault(Status.WARNING, "memory is to be remapped: the GPU needs a reset after this job")


def _hot(gpu: Gpu, limits: GpuLimits) -> Iterator[Fault]:
    now, warn = gpu.temperature_c, limits.temperature_warn
    faults = list(_above(now, warn, limits.temperature_crit, "{:g} °C hot, limit {:g} °C"))
    if not faults and warn is None:
        faults += _above(now, gpu.slowdown_c, None, "{:g} °C hot, slows down at {:g} °C")
    yield from faults


def _above(now: float | None, warn: float | None, crit: float | None, words: str) -> Iterator[Fault]:
    """Report a figure above its limits.

    `words` has placeholders for the figure and for the limit that it exceeds.
    """
    if now is None:
        return
    if crit is not None and now >= crit:
        yield Fault(Status.CRITICAL, words.format(now, crit))
    elif warn is not None and now >= warn:
        yield Fault(Status.WARNING, words.format(now, warn))


def node_fault(node: GpuNode, limits: GpuLimits, known: tuple[str, ...] = ()) -> Fault | None:
    """Return the fault of a whole node; `known` are labels of GPUs that it had before in this job."""
    if node.trouble:
        return Fault(Status.UNKNOWN, f"its GPUs cannot be read: {node.trouble}")
    wanted = limits.gpus_per_node
    if node.readout.absent:
        line = f"no GPU is usable on it: {node.readout.absent}"
        return Fault(Status.CRITICAL if wanted else Status.UNKNOWN, line)
    labels = {gpu.label for gpu in node.readout.gpus}
    gone = [label for label in known if label not in labels]
    named = f"{', '.join(gone[:8])} {'is' if len(gone) == 1 else 'are'} gone" if gone else ""
    found = set(node.readout.counts)
    if wanted is None or wanted in found or min(found) > wanted:
        lost = bool(gone) and node.readout.complete and wanted is None
        return Fault(Status.CRITICAL, named, lasting=True) if lost else None
    if not node.readout.complete:
        return Fault(
            Status.UNKNOWN, f"its tool's answer ends after {max(found)} of {wanted} GPUs: there may be more"
        )
    left = (
        f"{max(found)} of {wanted} GPUs are left"
        if named
        else f"only {max(found)} of {wanted} GPUs are there"
    )
    return Fault(Status.CRITICAL, ", ".join(filter(None, [named, left])), lasting=True)


_TWO_DIES = re.compile(r"MI2[0-9]{2}|Aldebaran", re.IGNORECASE)
"""Names of boards with two GPUs, the second of which has an odd number."""


def without_sensors(gpus: Sequence[NamedGpu], before: Collection[str]) -> dict[str, str]:
    """Return for each GPU why it is a fault that no sensor can be read; `before`: those once readable."""
    read = [each.gpu for each in gpus if not each.gpu.mute and not each.gpu.trouble]
    return dict(_mute(gpus, read, before))


def _mute(
    gpus: Sequence[NamedGpu], read: Sequence[Gpu], before: Collection[str]
) -> Iterator[tuple[str, str]]:
    for name, gpu in ((each.name, each.gpu) for each in gpus):
        if not gpu.mute or gpu.trouble:
            continue
        others = any(_alike(gpu, other) for other in read)
        if name in before:
            yield name, f"any more{', as of the others' if others else ''}"
        elif others and not gpu.blank:  # nothing at all is reported: that is a fault of its own
            yield name, "as of the others"


def _alike(gpu: Gpu, other: Gpu) -> bool:
    """Return True if `gpu` should have the same sensors as `other`."""
    same = (gpu.mig is None, gpu.partition or 0) == (other.mig is None, other.partition or 0)
    if not same or (gpu.name and other.name and gpu.name != other.name):
        return False
    return not _may_be_second_die(gpu) or _odd(other)


def _may_be_second_die(gpu: Gpu) -> bool:
    return _odd(gpu) and (not gpu.name or _TWO_DIES.search(gpu.name) is not None)


def _odd(gpu: Gpu) -> bool:
    return gpu.index is not None and gpu.index % 2 == 1
