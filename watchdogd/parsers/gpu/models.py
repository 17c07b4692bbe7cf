"""One GPU as a tool describes it, and one answer of a tool. None means that the tool did not say (N/A)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

CARVE_OUT = 2 << 30
"""A GPU with less memory than this is an APU that uses a part of the machine's memory: full is normal
there."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, one partition of an AMD GPU, or one MIG device.

    Units: per cent (0 to 100), watts, degrees Celsius, MHz (of the compute units), bytes.

    `index`: the tool's number, None if only `bus` is known. `mig`: number of a MIG device in its GPU;
        `partition`: number of an AMD partition, which has an `index` of its own.
    `power_w`: may be the power of a whole socket, repeated on each of its partitions.
    `slowdown_c`: temperature at which this card slows itself down.
    `ecc_uncorrectable`: errors in the card's life if the tool knows them; `ecc_volatile`: since the driver
        was loaded (AMD counts only these).
    `throttled`: why it is slowed down now; power capping is left out, since every busy GPU is capped.
    `worn`: why its memory has no spare parts left. `recovery`: what the driver asks for (reset, reboot,
        drain p2p, drain and reset). `fabric`: state of its NVLink fabric. Empty if nothing is wrong.
    `trouble`: why the GPU cannot be used or read (lost, in error); its other values then mean nothing.
    `doubts`: single readings that the tool could not make. `inforom`: damage to its configuration memory.
    `pids`: processes on it, if the tool lists them.
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
    clock_mhz: float | None = None
    slowdown_c: float | None = None
    vram_used: int | None = None
    vram_total: int | None = None
    vram_percent: float | None = None
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
        """`gpu3`; for a MIG device `gpu3:1`; `gpu-0000:91:00.0` if only the bus is known."""
        if self.index is None:
            return f"gpu-{self.bus}" if self.bus else "gpu"
        return f"gpu{self.index}" if self.mig is None else f"gpu{self.index}:{self.mig}"

    @property
    def vram(self) -> float | None:
        """Used share of its memory in per cent; None if not known, or if the memory is a carve-out."""
        if self.vram_total is None:
            return self.vram_percent
        if self.vram_used is None or self.vram_total < CARVE_OUT:
            return None
        return 100.0 * self.vram_used / self.vram_total

    @property
    def mute(self) -> bool:
        """True if no sensor can be read: neither temperature nor power (0 counts as none) nor clock."""
        return self.temperature_c is None and not self.power_w and not self.clock_mhz

    @property
    def blank(self) -> bool:
        """True if the tool lists it without any live value: normal for all partitions but the first."""
        live = (self.utilisation, self.power_w, self.temperature_c, self.vram_used, self.vram_percent)
        return all(value is None for value in live) and not self.trouble


@dataclass(frozen=True, slots=True)
class Readout:
    """One answer of one tool about one machine.

    `absent` is the tool's own line if there is no driver or no GPU; then `gpus` is empty. `complete` is False
    if the answer was cut or the tool gave up at a GPU, so that more GPUs may exist.
    """

    gpus: tuple[Gpu, ...] = ()
    absent: str = ""
    complete: bool = True

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of boards, and of devices that a job can use; each partition and MIG device counts."""
        cut = {gpu.index for gpu in self.gpus if gpu.mig is not None}
        devices = [gpu for gpu in self.gpus if gpu.mig is not None or gpu.index not in cut]
        boards = {_board(gpu, number) for number, gpu in enumerate(self.gpus)} - {None}
        return len(boards), len(devices)


def _board(gpu: Gpu, number: int) -> object:
    """Return a key that all parts of a board share; None for a part that is counted with another one."""
    if gpu.partition is not None:
        return gpu.bus or (("first", number) if gpu.partition == 0 else None)
    return ("index", gpu.index) if gpu.index is not None else ("bus", gpu.bus)


def merged(first: Readout, second: Readout) -> Readout:
    """Merge two answers about one machine; what `first` does not say is taken from `second`."""
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
        missing.pop("trouble", None)  # the first, richer answer has live values
    return replace(gpu, **missing)
