"""One GPU as its tool shows it, and one answer of a tool. None is what the tool did not say (N/A)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

CARVE_OUT = 2 << 30
"""Below this a GPU's own memory is what an APU carves out of the machine's: full is its normal state."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, or one partition of one.

    `index` is the tool's number; None where only `bus` is known. `mig` is the number of a MIG device in its
    GPU, `partition` that of an AMD partition (which has an index of its own). Percents from 0 to 100, watts,
    degrees Celsius, MHz (of its compute units), bytes. `power_w` may be that of a whole socket, repeated on
    each of its partitions.
    `ecc_uncorrectable` counts the card's life where the tool knows it, `ecc_volatile` since the driver was
    loaded, where that is told (all of AMD's counters are). `slowdown_c` is where this card slows itself down.
    `throttled` are the reasons that slow it down now, power capping excepted, which is how a busy GPU works.
    `worn` says why its memory has no spare parts left. `recovery` is what the driver asks for (reset,
    reboot, drain p2p, drain and reset), `fabric` how its way to the other GPUs stands where that is not well;
    all of them empty where all is well.

    `trouble`: why the GPU cannot be used, or told of: lost, in error. Its other values then mean nothing.
    `doubts`: single readings that the tool could not make. `inforom`: what is wrong with its own memory of
    itself, or empty. `pids` are the processes on it, where the tool names them.
    """

    index: int | None = None
    mig: int | None = None
    partition: int | None = None
    uuid: str = ""
    name: str = ""
    bus: str = ""
    utilisation: float | None = None
    power_w: float | None = None
    power_cap_w: float | None = None
    temperature_c: float | None = None
    memory_temperature_c: float | None = None
    clock_mhz: float | None = None
    slowdown_c: float | None = None
    vram_used: int | None = None
    vram_total: int | None = None
    vram_percent: float | None = None
    ecc_correctable: int | None = None
    ecc_uncorrectable: int | None = None
    ecc_volatile: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    worn: str = ""
    recovery: str = ""
    fabric: str = ""
    throttled: tuple[str, ...] = ()
    trouble: str = ""
    doubts: tuple[str, ...] = ()
    inforom: str = ""
    pids: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """`gpu3`, `gpu3:1` of a MIG device, `gpu-0000:91:00.0` where only the bus is known."""
        if self.index is None:
            return f"gpu-{self.bus}" if self.bus else "gpu"
        return f"gpu{self.index}" if self.mig is None else f"gpu{self.index}:{self.mig}"

    @property
    def vram(self) -> float | None:
        """Per cent of its memory in use; None where that is not known, or a carve-out."""
        if self.vram_total is None:
            return self.vram_percent
        if self.vram_used is None or self.vram_total < CARVE_OUT:
            return None
        return 100.0 * self.vram_used / self.vram_total

    @property
    def mute(self) -> bool:
        """True where no sensor of it can be read, neither temperature, power (0 is none) nor clock."""
        return self.temperature_c is None and not self.power_w and not self.clock_mhz

    @property
    def blank(self) -> bool:
        """True where the tool lists it and tells nothing that lives: normal of partitions but the first."""
        live = (self.utilisation, self.power_w, self.temperature_c, self.vram_used, self.vram_percent)
        return all(value is None for value in live) and not self.trouble


@dataclass(frozen=True, slots=True)
class Readout:
    """One answer of one tool about one machine.

    `absent`: the tool's own line where there is no driver, or no GPU; then `gpus` is empty. `complete` is
    False where the answer was cut, or the tool gave up at a GPU: there may be more.
    """

    gpus: tuple[Gpu, ...] = ()
    absent: str = ""
    complete: bool = True

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of boards and of devices that a job can use: partitions and MIG devices count each."""
        cut = {gpu.index for gpu in self.gpus if gpu.mig is not None}
        devices = [gpu for gpu in self.gpus if gpu.mig is not None or gpu.index not in cut]
        boards = {_board(gpu, number) for number, gpu in enumerate(self.gpus)} - {None}
        return len(boards), len(devices)


def _board(gpu: Gpu, number: int) -> object:
    """Return what all parts of a board have in common; None for a part that is counted elsewhere."""
    if gpu.partition is not None:
        return gpu.bus or (("first", number) if gpu.partition == 0 else None)
    return ("index", gpu.index) if gpu.index is not None else ("bus", gpu.bus)


def merged(first: Readout, second: Readout) -> Readout:
    """Two answers about one machine as one: what `first` does not say is taken from `second`."""
    known = {_key(gpu): gpu for gpu in second.gpus}
    both = [_filled(gpu, known.pop(_key(gpu))) if _key(gpu) in known else gpu for gpu in first.gpus]
    gpus = (*both, *known.values())
    return Readout(gpus, "" if gpus else first.absent or second.absent, first.complete and second.complete)


def _key(gpu: Gpu) -> tuple[object, ...]:
    return (gpu.index, gpu.mig) if gpu.index is not None else ("bus", gpu.bus)


def _filled(gpu: Gpu, other: Gpu) -> Gpu:
    empty = (None, "", ())
    missing = {
        field.name: getattr(other, field.name)
        for field in fields(Gpu)
        if getattr(gpu, field.name) in empty and getattr(other, field.name) not in empty
    }
    if gpu.utilisation is not None or gpu.power_w is not None:
        missing.pop("trouble", None)  # the first, richer answer had its live values
    return replace(gpu, **missing)
