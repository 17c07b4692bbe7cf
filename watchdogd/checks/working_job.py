"""Job of a run that works just now, so that its progress can be judged, or why none can.

The components of a het job (`123+0`, `123+1`) count as the one job that they are: `123`.

Also evidence from outside a log, and what it adds to the patience with it: a log that is silent, or tells
nothing new, for longer than its limit is held against signs that checks saw elsewhere: checkpoints that grow,
GPUs at the power of work, processor time. They hold the alarm back as long as they last, but not for ever:
then a person is to look. What speaks against work shortens nothing; it is named.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from watchdogd.batch.endings import Ending
from watchdogd.batch.models import Job
from watchdogd.plugin import Sign, Status, Strength
from watchdogd.system.number import count
from watchdogd.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watchdogd.plugin import Job, Run, Snapshot


_Part = TypeVar("_Part", Job, Ending)
_PLAIN = frozenset({"COMPLETED", "CANCELLED"})


def merge_het_jobs(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return each het job once: as its first component that lives, with the nodes of all."""
    found = []
    for parts in _grouped(jobs):
        first = parts[0]
        if "+" in first.id:
            count = sum(part.node_count for part in parts)
            number, nodes = _whole(parts)
            first = dataclasses.replace(first, id=number, raw_id=number, nodes=nodes, node_count=count)
        found.append(first)
    return tuple(found)


def merge_het_ends(endings: Iterable[Ending], jobs: Iterable[Job]) -> tuple[Ending, ...]:
    """Return each het job once, as its worst component ended, and none of one that lives in part.

    `jobs` are the living, as `merge_het_jobs` gives them.
    """
    alive = {job.id for job in jobs}
    found = []
    for parts in _grouped(endings):
        first = parts[0]
        if "+" in first.id:
            worst = min(parts, key=lambda part: (part.well, part.state in _PLAIN))
            number, nodes = _whole(parts)
            first = dataclasses.replace(worst, id=number, raw_id=number, nodes=nodes)
            if first.id in alive:
                continue
        found.append(first)
    return tuple(found)


def _whole(parts: list[Job] | list[Ending]) -> tuple[str, str]:
    """Return number and nodes of the whole, whose id and raw id are that of its first component."""
    number = parts[0].id.partition("+")[0]
    nodes = dict.fromkeys(part.nodes for part in parts if part.nodes)
    return number, ",".join(nodes)


def _grouped(parts: Iterable[_Part]) -> list[list[_Part]]:
    """Group the components of each job, in their order; the groups in the order of their first."""
    groups: dict[tuple[str, float], list[_Part]] = {}
    for index, part in enumerate(parts):
        number, plus, _ = part.id.partition("+")
        key = (number, part.submitted_at or 0.0) if plus else ("", float(index))
        groups.setdefault(key, []).append(part)
    return [
        sorted(group, key=lambda part: count(part.id.partition("+")[2]) or 0) for group in groups.values()
    ]


@dataclass(frozen=True, slots=True)
class Since:
    """Time since when a job works (None: none was ever seen), and until when it could not."""

    begun: float | None = None
    excused: float = 0.0

    @property
    def at(self) -> float:
        """Time since when there could be progress; 0 where no job was ever seen."""
        return max(self.begun or 0.0, self.excused)


@dataclass(frozen=True, slots=True)
class Working:
    """Job that runs; or `excuse`, why nothing is to be judged; or `blind`, why nobody knows.

    None of the three: the check speaks of no run, and is judged at all times. `absent`: the excuse is that
    the job which worked before does not live any more, or lives anew. `waits`: the id of one that waits.
    """

    job: Job | None = None
    excuse: str = ""
    blind: str = ""
    absent: bool = False
    waits: str = ""

    def since(self, before: Since, now: float) -> Since:
        """Return since when there could be progress: the job's start, or the end of what excused it."""
        if self.job:
            begun = self.job.started_at or (now if before.begun is None else before.begun)
            before = replace(before, begun=begun)
        return replace(before, excused=now) if self.excuse else before


def of(run: Run, snapshot: Snapshot) -> tuple[Job, ...]:
    """Return the living jobs of a run; a plain process goes by the run's own name."""
    name = run.name if snapshot.backend == "process" else run.job_name
    return tuple(job for job in snapshot.of(name) if not job.ended)


def running(run: Run, snapshot: Snapshot) -> tuple[Job, ...]:
    """Return the running jobs of a run, the one that started last first."""
    return _running(of(run, snapshot))


def _running(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    found = [job for job in jobs if job.working]
    return tuple(sorted(found, key=lambda job: (job.started_at or 0.0, job.raw_id), reverse=True))


def working(run: Run | None, snapshot: Snapshot | None) -> Working:
    """Return of several running jobs the one that started last; a het job is one job.

    A plain process that is stopped counts as running: nobody pauses one on purpose; its silence is a hang.
    """
    if run is None or snapshot is None:
        return Working()
    if run.finished:  # what its job does still (an evaluation, an export) tells no progress
        return Working(excuse=f"marked finished by {run.finished}")
    if snapshot.jobs is None:
        return Working(blind=snapshot.trouble or "the queue did not answer")
    jobs = merge_het_jobs(of(run, snapshot))
    stopped = [job for job in jobs if snapshot.backend == "process" and job.state == "SUSPENDED"]
    works = next(iter((*_running(jobs), *stopped)), None)
    if works:
        return Working(works)
    if not jobs:
        return Working(excuse="no job runs", absent=True)
    job = jobs[0]
    if job.waiting:
        reason = f" ({job.reason})" if job.reason not in ("", "None") else ""
        return Working(excuse=f"job {job.id} waits{reason}", absent=True, waits=job.id)
    if job.strange:
        return Working(blind=f"job {job.id} is in a state that this watchdogd does not know, {job.state}")
    return Working(excuse=f"job {job.id} is {job.state.lower()}")


LASTS = 600.0
"""Seconds for which a sign counts after it was seen last: what follows a save takes its time, too."""
CEILING = 7200.0
"""Seconds without a word of the log after which nothing holds a message back."""
WEAK, MOST = 2.0, 1800.0
"""Multiple of its limit for which a log may be silent with weak signs, and seconds beyond it at most."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """Outcome of all signs together for a log that stands longer than its limit.

    `status`: what it comes to; `seconds`: the patience that it was held against; `words`: the signs, the
    strongest first, as they stand in a sentence, and `held`: whether they hold the alarm back.
    """

    status: Status
    seconds: float
    words: tuple[str, ...] = ()

    @property
    def held(self) -> bool:
        """True if there is no alarm, though the limit has passed."""
        return self.status is Status.OK


def weigh(signs: Iterable[Sign], since: float, limit: float, now: float) -> Weighed:
    """Judge a log that has stood since then, for `limit` seconds or longer.

    Strong signs hold the alarm back until CEILING (twice the limit where that is longer), and make a WARNING
    of it then; weak ones until twice the limit. Only what was seen since it stands counts.
    """
    seen = sorted((each for each in signs if since < each.at <= now), key=lambda each: -each.strength)
    fresh = [each for each in seen if now - each.at < LASTS]
    works = [each for each in fresh if each.strength > 0 and not _belied(each, fresh)]
    words = tuple(_worded(each, now) for each in seen)
    if not works:
        return Weighed(Status.CRITICAL, limit, words)
    strong = works[0].strength is Strength.STRONG
    seconds = max(CEILING, 2 * limit) if strong else min(WEAK * limit, limit + MOST)
    if now - since < seconds:
        return Weighed(Status.OK, seconds, words)
    return Weighed(Status.WARNING if strong else Status.CRITICAL, seconds, words)


def _belied(sign: Sign, fresh: Sequence[Sign]) -> bool:
    """Return True if a weak sign counts for nothing.

    GPUs say more than the processors of what waits for them.
    """
    return sign.strength is Strength.WEAK and any(each.strength is Strength.AGAINST for each in fresh)


def _worded(sign: Sign, now: float) -> str:
    """Put a sign in words, with its time where that was not just now."""
    ago = now - sign.at
    return sign.what if ago < LASTS / 2 else f"{sign.what} ({format_duration(ago)} ago)"
