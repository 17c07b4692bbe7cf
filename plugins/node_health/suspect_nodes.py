"""Nodes that fail the jobs of a run: those to keep the next one off. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from watchdogd.batch import slurmtext
from watchdogd.batch.models import Ending

_OF_NODES = frozenset({"NODE_FAIL", "BOOT_FAIL"})
_FAILED = _OF_NODES | {"FAILED"}
_FINE = frozenset({"COMPLETED", "TIMEOUT"})
_KEPT, _KEPT_FOR = 200, 7 * 86400.0
"""Endings, and seconds, for which they are remembered."""


@dataclass(frozen=True, slots=True)
class JobAttempt:
    """End of an attempt: when, on which nodes, whether these are to blame, and how in words.

    `verdict`: 1 surely, 0 maybe, -1 cleared.
    """

    at: float
    nodes: tuple[str, ...]
    verdict: int
    how: str = ""


Attempts = dict[str, JobAttempt]


@dataclass(frozen=True, slots=True)
class SuspectNode:
    """Node on which more than one job failed, and none ended well since. `jobs` are those, in words."""

    node: str
    jobs: tuple[str, ...]


def add_endings(
    attempts: Attempts, endings: Sequence[Ending], broken: Collection[str], now: float
) -> Attempts:
    """Add what ended since; `broken` are nodes that are down, silent or drained now.

    A node failure is blamed on those of its nodes that are broken, where any is; every other failure may be
    due to any of its nodes.
    """
    known = {key: entry for key, entry in attempts.items() if now - entry.at < _KEPT_FOR}
    for ending in endings:
        key = f"{ending.raw_id}@{ending.ended_at or 0.0:.0f}"
        nodes = slurmtext.expand_hostlist(ending.nodes)
        if key in known or not nodes or ending.ended_at is None or now - ending.ended_at >= _KEPT_FOR:
            continue
        if ending.state in _FAILED:
            guilty = [node for node in nodes if node in broken] if ending.state in _OF_NODES else []
            sure = bool(guilty) or (len(nodes) == 1 and ending.state in _OF_NODES)
            blamed = tuple(guilty or nodes)
            known[key] = JobAttempt(ending.ended_at, blamed, int(sure), f"{ending.id} {ending.how}")
        elif ending.state in _FINE:
            known[key] = JobAttempt(ending.ended_at, tuple(nodes), -1)
    return dict(sorted(known.items(), key=lambda item: item[1].at)[-_KEPT:])


def suspect_nodes(attempts: Mapping[str, JobAttempt]) -> tuple[SuspectNode, ...]:
    """Return the nodes that failed more than one job.

    Where it may be any node of a job, they have to stand out: most of the nodes failing means that it is the
    job.
    """
    failed: dict[str, list[str]] = defaultdict(list)
    sure: dict[str, int] = defaultdict(int)
    seen: set[str] = set()
    for attempt in sorted(attempts.values(), key=lambda entry: entry.at):
        for node in attempt.nodes:
            seen.add(node)
            if attempt.verdict < 0:
                failed.pop(node, None)
                sure.pop(node, None)
            else:
                failed[node].append(attempt.how)
                sure[node] += attempt.verdict
    often = [node for node, jobs in failed.items() if len(jobs) > 1]
    stand_out = len(often) == 1 or 2 * len(often) <= len(seen)
    named = sorted(node for node in often if stand_out or sure[node] > 1)
    return tuple(SuspectNode(node, tuple(failed[node])) for node in named)
