"""State of gpu_health between rounds: counters and faults by GPU, and how long each lasts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from watchdogd.checks.node_checks import NodeCheckState, smoothed
from watchdogd.parsers.gpu.models import Gpu
from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.plugin import Sign
from watchdogd.units import local_time

_KEPT = 4000
"""GPUs whose counters are kept."""
_BAD_FOR = 30 * 86400.0
"""Seconds for which a GPU's fault is remembered."""
_NEW = 0.25
"""Weight of the newest reading in a GPU's usual power."""
_REST = 300.0
"""Seconds until a node that was silent twice in a row is asked again, since hanging processes would pile
up."""


@dataclass(frozen=True, slots=True)
class BadGpu:
    """GPU that was bad: its name then, its fault, when, and in which job."""

    name: str
    what: str
    at: float
    job: str


@dataclass(frozen=True, slots=True)
class SilentNode:
    """Node that did not answer: how many times in a row, when it was last asked, and why."""

    times: int
    at: float
    why: str


@dataclass(slots=True)
class GpuHealthState(NodeCheckState):
    """State of the GPUs, by key (the UUID if known).

    `counters`: last values; `rises`: their increase in this job; `bad`: GPUs with lasting faults.
    `recovering`: subjects that were not OK (see node_checks.recoveries). `labels`: GPUs of each node.
    `used`: GPUs that worked, `power`: watts that each drew then; `read`: GPUs whose sensors could be read.
    `usual_w`: mean watts of a GPU while the run reports progress; `sign`: sign of work in the last look.
    """

    job: str = ""
    started: float = 0.0
    since: float = 0.0
    labels: dict[str, list[str]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    counters: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    rises: dict[str, int] = field(default_factory=dict)
    bad: dict[str, BadGpu] = field(default_factory=dict)
    used: list[str] = field(default_factory=list)
    power: dict[str, float] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)
    usual_w: float = 0.0
    sign: Sign | None = None
    hung_since: float | None = None
    idle_since: dict[str, float] = field(default_factory=dict)
    silent: dict[str, SilentNode] = field(default_factory=dict)

    def begin(self, job: str, started: float, now: float) -> None:
        """Forget what belonged to another job or attempt; counters and faults stay with their GPUs."""
        self.bad = {key: entry for key, entry in self.bad.items() if now - entry.at < _BAD_FOR}
        if (job, started) != (self.job, self.started):
            self.job, self.started, self.since, self.hung_since = job, started, now, None
            for each in (self.labels, self.keys, self.rises, self.power, self.idle_since, self.silent):
                each.clear()
            self.used, self.read, self.usual_w, self.sign = [], [], 0.0, None

    # Nodes that do not answer

    def heard(self, nodes: Sequence[GpuNode], now: float) -> None:
        """Count how many times in a row each node did not answer."""
        for node in nodes:
            if node.trouble:
                before = self.silent.get(node.name)
                self.silent[node.name] = SilentNode(before.times + 1 if before else 1, now, node.trouble)
            else:
                self.silent.pop(node.name, None)

    def resting(self, now: float) -> frozenset[str]:
        """Return the nodes that are not asked in this round."""
        return frozenset(
            name for name, mute in self.silent.items() if mute.times >= 2 and now - mute.at < _REST
        )

    def unheard(self, nodes: Iterable[GpuNode]) -> list[GpuNode]:
        """Return silent nodes that were not asked this time, with their last state."""
        asked = {node.name for node in nodes}
        return [
            GpuNode(name, trouble=f"{mute.why} (last asked {local_time(mute.at)})")
            for name, mute in self.silent.items()
            if name not in asked
        ]

    # GPUs

    def key(self, node: str, gpu: Gpu) -> str:
        """Return the key of a GPU: its UUID, as known now or earlier; else its place."""
        place = f"{node}/{gpu.label}"
        if gpu.uuid:
            self.keys[place] = gpu.uuid
        return self.keys.get(place, place)

    def seen(self, node: GpuNode) -> None:
        """Remember the node's GPUs and their counters, and by how much these rose since the last look."""
        labels = [gpu.label for gpu in node.readout.gpus if gpu.index is not None]
        self.labels[node.name] = list(dict.fromkeys([*self.labels.get(node.name, []), *labels]))
        for gpu in node.readout.gpus:
            key, now = self.key(node.name, gpu), (gpu.ecc_uncorrectable, gpu.ecc_volatile)
            pairs = list(zip(self.counters.pop(key, (None, None)), now, strict=True))
            rise = max(
                (last - first for first, last in pairs if first is not None and last is not None), default=0
            )
            if rise > 0:
                self.rises[key] = self.rises.get(key, 0) + rise
            first, second = (before if last is None else last for before, last in pairs)
            self.counters[key] = (first, second)
        self.counters = dict(list(self.counters.items())[-_KEPT:])

    def remember(self, key: str, name: str, what: str, now: float) -> None:
        """Remember a bad GPU, to recognise it in other jobs."""
        self.bad[key] = BadGpu(name, what, now, self.job)

    def recall(self, key: str, name: str, now: float, until: float) -> str:
        """Return in words that it was bad in an earlier job; empty once it has worked for `until` seconds."""
        entry = self.bad.get(key)
        if entry is None or entry.job == self.job:
            return ""
        if now - self.since > until:
            del self.bad[key]
            return ""
        where = f", then {entry.name}," if entry.name != name else ""
        return f"this GPU{where} was bad in job {entry.job} at {local_time(entry.at)}: {entry.what}"

    # How long

    def worked(self, names: Iterable[str], drawn: Mapping[str, float]) -> None:
        """Remember GPUs that work, with smoothed watts of those at full utilisation."""
        self.used = sorted({*self.used, *names})
        for name, watts in drawn.items():
            self.power[name] = smoothed(self.power.get(name), watts, _NEW)

    def rest(self) -> None:
        """Note that GPUs may stand still now: their idle time counts from the next look."""
        self.hung_since = None
        self.idle_since.clear()

    def idle(self, names: Sequence[str], now: float) -> dict[str, float]:
        """Return since when each of these GPUs has been idle."""
        self.idle_since = {name: min(self.idle_since.get(name, now), now) for name in names}
        return self.idle_since
