"""Jobs of several dimensions in which one rank stops: whom what NCCL would say of them accuses.

Ranks compute in tensor and data parallel groups, whose operations NCCL counts, and hand results from stage to
stage of a pipeline, which it does not count. Some launch a few operations ahead.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

import pytest

from watchdogd.parsers import nccl_ras
from watchdogd.parsers.nccl_ras_reports import Communicator, RasMember, RasReport
from watchdogd.probe.node_ranks import NodeRanks, RankProcess
from watchdogd.remediation import accusations, suspects
from watchdogd.remediation.suspects import Suspicion

Group = tuple[Hashable, ...]


@dataclass
class Job:
    """Ranks of `tensor` x `data` x `stages`; what each does, and what it has launched in each group."""

    tensor: int
    data: int
    stages: int
    launched: dict[Group, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    @property
    def size(self) -> int:
        return self.tensor * self.data * self.stages

    def steps(self, rank: int) -> Iterator[Group]:
        """Three iterations of two batches, forward and backward."""
        lane, data, stage = (
            rank % self.tensor,
            rank // self.tensor % self.data,
            rank // self.tensor // self.data,
        )
        for _ in range(3):
            for _, way in [(batch, way) for batch in range(2) for way in (1, -1)]:
                if 0 <= stage - way < self.stages:
                    yield "handed", lane, data, min(stage, stage - way), way
                yield "AllReduce", data, stage
                yield "AllReduce", data, stage
                if 0 <= stage + way < self.stages:
                    yield "handed", lane, data, min(stage, stage + way), way
            yield "ReduceScatter", lane, stage
            yield ("Broadcast",)

    def hang(self, culprit: int, at: int, ahead: dict[int, int]) -> dict[Group, list[int]]:
        """Run until nobody gets on, and return the ranks of each group."""
        todo = {rank: list(self.steps(rank)) for rank in range(self.size)}
        groups: dict[Group, list[int]] = defaultdict(list)
        for rank, steps in todo.items():
            for group in dict.fromkeys(steps):
                groups[group].append(rank)
        todo[culprit] = todo[culprit][:at]
        done, open_ = Counter[int](), defaultdict[int, list[tuple[Group, int]]](list)
        moved = True
        while moved:
            moved = False
            for rank, steps in todo.items():
                while done[rank] < len(steps):
                    open_[rank] = [
                        (group, number)
                        for group, number in open_[rank]
                        if any(self.launched[group][each] <= number for each in groups[group])
                    ]
                    if len(open_[rank]) > ahead.get(rank, 0):
                        break
                    group = steps[done[rank]]
                    open_[rank].append((group, self.launched[group][rank]))
                    self.launched[group][rank] += 1
                    done[rank] += 1
                    moved = True
        return groups

    def report(self, groups: dict[Group, list[int]]) -> RasReport:
        """What RAS says: ranks are named where they are fewer than half."""
        found = []
        for group, ranks in groups.items():
            counts = {rank: self.launched[group][rank] for rank in ranks}
            alike, kind = Counter(counts.values()), str(group[0])
            if group[0] == "handed" or len(alike) < 2:
                continue
            named = [
                RasMember(place, f"192.0.2.{1 + rank // 8}", 100 + rank, rank % 8, {kind: counts[rank]})
                for place, rank in enumerate(ranks)
                if alike[counts[rank]] == 1 or 2 * alike[counts[rank]] < len(ranks)
            ]
            found.append(Communicator(str(group), len(ranks), tuple(named), (), {kind: alike}))
        return RasReport("2.28.9", tuple(found))


def judged(job: Job, report: RasReport) -> Suspicion:
    accused = nccl_ras.agreed([report, report])
    env = {"WORLD_SIZE": str(job.size)}
    nodes = [
        NodeRanks(
            f"n{at}",
            (f"192.0.2.{1 + at}",),
            tuple(RankProcess(100 + rank, rank, "S", (100 + rank,), "", env)
                  for rank in range(8 * at, min(8 * at + 8, job.size))),
            "2.28.9",
            accused,
        )
        for at in range(-(-job.size // 8))
    ]  # fmt: skip
    return suspects.merge(accusations.of_nodes(nodes, []))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "shape",
    [(1, 2, 1), (1, 8, 1), (8, 1, 1), (2, 4, 1), (8, 4, 1), (1, 2, 2), (1, 4, 4), (2, 2, 2), (4, 2, 2)],
)
def test_who_is_named_for_sure_is_who_stopped(shape: tuple[int, int, int], seed: int) -> None:
    chance, job = random.Random(f"{shape} {seed}"), Job(*shape)
    culprit = chance.randrange(job.size)
    at = chance.randrange(len(list(job.steps(culprit))))
    ahead = {rank: 3 for rank in range(job.size) if seed % 3 == 2 and chance.random() < 0.3}
    found = judged(job, job.report(job.hang(culprit, at, ahead)))
    named = {each.rank for each in found.culprits}
    assert not found.sure or named == {culprit}
    if job.stages == 1 and not ahead:
        assert named == {culprit}
    assert job.stages > 1 or culprit in named
