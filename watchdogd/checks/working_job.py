"""The run's working job, whose progress can be judged, or the reason why none can be; and signs of work.

The components of a het job (`123+0`, `123+1`) count as one job: `123`.

Signs of work come from outside the log: growing checkpoints, GPUs at working power, processor time. If a log
is silent, or reports nothing new, for longer than its limit, they hold the alarm back as long as they last,
but not for ever: in the end a person has to look. A sign against work does not shorten the limit; it is only
mentioned.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from watchdogd.batch.models import Ending, Job
from watchdogd.plugin import Sign, Status, Strength
from watchdogd.system.number import count
from watchdogd.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watchdogd.plugin import Job, Run, Snapshot


_Part = TypeVar("_Part", Job, Ending)
_PLAIN = frozenset({"COMPLETED", "CANCELLED"})


def as_owner(purpose: str, job: Job) -> str:
    """Return the sentence before a command that a job's owner may give: `To stop it (as alice):`."""
    return f"{purpose} (as {job.user}):" if job.user else f"{purpose}:"


def where(backend: str, job: Job) -> str:
    """Return where a command about a plain process must be typed: `, on ws1`; empty for a job."""
    return f", on {job.nodes}" if backend == "process" and job.nodes else ""


def merge_het_jobs(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return each het job once: its first live component, with the nodes of all components."""
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
    """Return each ended het job once, by its worst component; jobs of which a part still lives are left out.

    `jobs` are the live ones, as returned by `merge_het_jobs`.
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
    """Return job number and nodes of a het job; its id and raw id are those of its first component."""
    number = parts[0].id.partition("+")[0]
    nodes = dict.fromkeys(part.nodes for part in parts if part.nodes)
    return number, ",".join(nodes)


def _grouped(parts: Iterable[_Part]) -> list[list[_Part]]:
    """Group the components of each job; jobs and components keep their order."""
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
    """Time at which the run's job began to work (None: never seen), and until when it could not."""

    begun: float | None = None
    excused: float = 0.0

    @property
    def at(self) -> float:
        """Time since when progress is possible; 0 if no job was ever seen."""
        return max(self.begun or 0.0, self.excused)


@dataclass(frozen=True, slots=True)
class Working:
    """The job that runs; or `excuse`, why nothing is judged; or `blind`, why it is not known.

    If all three are empty, the check is not about a run and always judges. `absent`: the excuse is that the
    earlier job has ended or was started anew. `waits`: the id of a waiting job. `closed`: what ends an
    incident before it recovered, while the excuse holds. `beside`: ids of its other running jobs.
    """

    job: Job | None = None
    excuse: str = ""
    blind: str = ""
    absent: bool = False
    waits: str = ""
    closed: str = "its job ended"
    beside: tuple[str, ...] = ()

    def since(self, before: Since, now: float) -> Since:
        """Return since when progress is possible: the job's start, or the end of the last excuse.

        A start that is still to come says that a clock was set back: the one known before counts.
        """
        if self.job:
            start, known = self.job.started_at, now if before.begun is None else before.begun
            before = replace(before, begun=start if start and start <= now else known)
        return replace(before, excused=now) if self.excuse else before


def of(run: Run, snapshot: Snapshot) -> tuple[Job, ...]:
    """Return the run's live jobs; a plain process has the run's own name."""
    name = run.name if snapshot.backend == "process" else run.job_name
    return tuple(job for job in snapshot.of(name) if not job.ended)


def running(run: Run, snapshot: Snapshot) -> tuple[Job, ...]:
    """Return the run's running jobs, the latest started first."""
    return _running(of(run, snapshot))


def _running(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    found = [job for job in jobs if job.working]
    return tuple(sorted(found, key=lambda job: (job.started_at or 0.0, job.raw_id), reverse=True))


def working(run: Run | None, snapshot: Snapshot | None) -> Working:
    """Return the latest started of the run's running jobs; a het job is one job.

    A stopped plain process counts as running: nobody pauses one on purpose, so its silence is a hang.
    """
    if run is None or snapshot is None:
        return Working()
    if run.finished:  # what its job still does (an evaluation, an export) is no progress
        marked = f"marked finished by {run.finished}"
        return Working(excuse=marked, closed=f"it was {marked}")
    if snapshot.jobs is None:
        return Working(blind=snapshot.trouble or "the queue did not answer")
    jobs, noun = merge_het_jobs(of(run, snapshot)), snapshot.noun
    stopped = [job for job in jobs if snapshot.backend == "process" and job.state == "SUSPENDED"]
    works = (*_running(jobs), *stopped)
    if works:
        return Working(works[0], beside=tuple(job.id for job in works[1:]))
    if not jobs:
        return Working(excuse=f"no {noun} runs", absent=True, closed=f"its {noun} ended")
    job = jobs[0]
    if job.waiting:
        reason = f" ({job.reason})" if job.reason not in ("", "None") else ""
        return Working(excuse=f"job {job.id} waits{reason}", absent=True, waits=job.id)
    if job.strange:
        return Working(blind=f"{noun} {job.id} is in a state that this watchdogd does not know, {job.state}")
    doing = job.state.lower()
    return Working(excuse=f"{noun} {job.id} is {doing}", closed=f"its {noun} was {doing}")


LASTS = 600.0
"""Seconds for which a sign counts after it was last seen, since what follows a save takes time too."""
CEILING = 7200.0
"""Seconds of silence after which no sign holds a message back."""
WEAK, MOST = 2.0, 1800.0
"""With weak signs a log may be silent for so many times its limit, and at most so many seconds beyond it."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """Verdict on a log that stands longer than its limit, with all signs weighed.

    `status` is the result, `seconds` the time that was allowed, `words` the signs as a part of a sentence,
    strongest first. `held`: the signs hold the alarm back.
    """

    status: Status
    seconds: float
    words: tuple[str, ...] = ()

    @property
    def held(self) -> bool:
        """True if there is no alarm although the limit has passed."""
        return self.status is Status.OK


def weigh(signs: Iterable[Sign], since: float, limit: float, now: float) -> Weighed:
    """Judge a log that has stood still for `limit` seconds or longer.

    Strong signs hold the alarm back until CEILING (or twice the limit, if longer) and then make it a WARNING;
    weak ones until twice the limit. Only signs seen since the log stands still count.
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
    """Return True if a weak sign does not count.

    GPUs say more than processors, which may be busy waiting for them.
    """
    return sign.strength is Strength.WEAK and any(each.strength is Strength.AGAINST for each in fresh)


def _worded(sign: Sign, now: float) -> str:
    """Return a sign in words, with its time if it is not recent."""
    ago = now - sign.at
    return sign.what if ago < LASTS / 2 else f"{sign.what} ({format_duration(ago)} ago)"
