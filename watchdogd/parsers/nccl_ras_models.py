"""A report of NCCL's RAS: communicators, and what their ranks have launched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RasMember:
    """One rank of a communicator; or, if `rank` is None, a process.

    `host` is an address, `gpu` the number that nvidia-smi gives it; None or empty if not reported. `counts`
    is the number of launched operations by kind. `dead`: RAS has given the process up.
    """

    rank: int | None
    host: str = ""
    pid: int | None = None
    gpu: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict, compare=False)
    dead: bool = False

    @property
    def process(self) -> tuple[str, int | None, int | None] | None:
        """Host, process id and GPU: the same in all communicators. None if not known."""
        return (self.host, self.pid, self.gpu) if self.pid is not None else None


@dataclass(frozen=True, slots=True)
class Communicator:
    """One communicator, and what its members have launched.

    `size` is None if not reported. `launched` maps each kind of operation to how many ranks have launched how
    many. `absent` are the ranks that did not answer. `states` counts the ranks in each state; `odd` lists
    those whose state is reported one by one. `errors` are the errors that ranks reported.
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
    """One report. `absent` are the processes that did not answer.

    `gpus` is the number of GPUs of the job, as far as its processes know of one another; 0 if not reported.
    """

    version: str = ""
    communicators: tuple[Communicator, ...] = ()
    absent: tuple[RasMember, ...] = ()
    gpus: int = 0

    @property
    def even(self) -> bool:
        """True if all ranks answer, without errors, and have launched the same."""
        return not self.absent and not any(
            each.absent or each.errors or any(len(ranks) > 1 for ranks in each.launched.values())
            for each in self.communicators
        )

    @property
    def counts(self) -> tuple[tuple[str, str, tuple[tuple[int, int], ...]], ...]:
        """All counts of operations: two reports differ here if anything was launched in between."""
        return tuple(
            (each.name, kind, tuple(sorted(ranks.items())))
            for each in self.communicators
            for kind, ranks in sorted(each.launched.items())
        )
