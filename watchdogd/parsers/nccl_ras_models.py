"""One answer of NCCL's RAS: its communicators, and what their ranks launched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RasMember:
    """One rank of a communicator, or (`rank` None) a process.

    `gpu` is as nvidia-smi counts it, `host` an address; what is not told is None or empty. `counts`:
    operations launched, by kind. `dead`: given up.
    """

    rank: int | None
    host: str = ""
    pid: int | None = None
    gpu: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict, compare=False)
    dead: bool = False

    @property
    def process(self) -> tuple[str, int | None, int | None] | None:
        """Host, process and GPU, the same in all communicators; None where they are not known."""
        return (self.host, self.pid, self.gpu) if self.pid is not None else None


@dataclass(frozen=True, slots=True)
class Communicator:
    """One communicator and what its members launched.

    `size` is None where it is not told. `launched`: how many ranks launched how many operations, by kind.
    `absent` did not answer. `states`: how many ranks are in which, `odd` those whose state is told. `errors`:
    what ranks reported.
    """

    name: str
    size: int | None = None
    members: tuple[RasMember, ...] = ()
    absent: tuple[RasMember, ...] = ()
    launched: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    states: Mapping[str, int] = field(default_factory=dict)
    odd: tuple[tuple[RasMember, str], ...] = ()
    errors: tuple[tuple[RasMember, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RasReport:
    """One answer. `absent` are processes that did not answer; `timeouts`: how often RAS waited in vain.

    `gpus` is how many the job has, as far as its processes know of one another; 0 where it is not told.
    """

    version: str = ""
    communicators: tuple[Communicator, ...] = ()
    absent: tuple[RasMember, ...] = ()
    timeouts: int = 0
    gpus: int = 0

    @property
    def even(self) -> bool:
        """True if all ranks answer and have launched the same."""
        return not self.absent and not any(
            each.absent or each.errors or any(len(ranks) > 1 for ranks in each.launched.values())
            for each in self.communicators
        )

    @property
    def counts(self) -> tuple[tuple[str, str, tuple[tuple[int, int], ...]], ...]:
        """Numbers of operations: a later answer differs where anything was launched meanwhile."""
        return tuple(
            (each.name, kind, tuple(sorted(ranks.items())))
            for each in self.communicators
            for kind, ranks in sorted(each.launched.items())
        )
