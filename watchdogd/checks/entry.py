"""Whether a check can look at the nodes of a run's job at all, and what it says where it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.plugin import Result, notice, ok, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from watchdogd.plugin import Job, Snapshot


def barred(snapshot: Snapshot, jobs: Sequence[Job]) -> Result | None:
    """Why there is nothing to look at, where it is so: nobody knows the queue, or none of `jobs` runs."""
    if snapshot.jobs is None:
        return unknown(f"whether the run's job lives cannot be found out: {snapshot.trouble}")
    return None if jobs else ok("not judged: no job runs")


def closed(what: str, why: str, *, told: bool) -> Iterator[Result]:
    """There is no way in, which is told once: `told` says whether it was."""
    yield ok(f"not judged: {why}")
    if not told:
        yield notice(f"{what} cannot be watched: {why}", label="WARNING")
