"""Notices of the kill and save switches that people use: who did what, and what follows from it. Pure."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from watchdogd.incidents import message_wording
from watchdogd.incidents.models import SELF, EventKind, IncidentEvent
from watchdogd.plugin import UNWATCHED, Advice
from watchdogd.remediation.executor import unpolled_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from watchdogd.daemon.registry.check_factory import Check
    from watchdogd.home.inbox import Submission
    from watchdogd.plugin import Job


class RunNow(NamedTuple):
    """What is known of a run: its backend, its jobs (None: not known), if a Guard polls its switch."""

    backend: str = ""
    jobs: tuple[Job, ...] | None = None
    polled: bool = True

    @property
    def unpolled(self) -> tuple[Job, ...]:
        """Its running jobs, if no Guard was heard of that would obey."""
        return () if self.polled else self.working

    @property
    def working(self) -> tuple[Job, ...]:
        """Its running jobs."""
        return tuple(job for job in self.jobs or () if job.working)

    def named(self, jobs: Sequence[Job]) -> str:
        """Return `job 329`, `process 4711`, or `5 jobs`."""
        process = self.backend == "process"
        if len(jobs) == 1:
            return f"{'process' if process else 'job'} {jobs[0].id}"
        return f"{len(jobs)} {'processes' if process else 'jobs'}"


def touch_events(
    submissions: Iterable[Submission],
    speaker: Callable[[str], Check | None],
    now: float,
    stops: Mapping[str, str] | None = None,
    run_now: Callable[[str, str], RunNow] = lambda _run, _kind: RunNow(),
) -> Iterator[IncidentEvent]:
    """Yield a notice for each switch that people touched, on the channels of its run.

    Switches pressed by watchdogd are reported as its actions. `stops`: what was said of each run that had
    been stopped by its switch. `run_now`: what is known of a run, for a kind of switch.
    """
    touched: dict[tuple[str, str], list[Submission]] = {}
    for submission in submissions:
        if submission.kind == "touch" and not submission.automatic:
            touched.setdefault((submission.run, submission.switch), []).append(submission)
    for (run, switch), touches in touched.items():
        check, cleared, known = speaker(run), touches[-1].cleared, run_now(run, switch)
        stopped = (stops or {}).get(run, "") if switch == "kill" and cleared else ""
        advice, facts = [], [f"before: {stopped}" if stopped else ""]
        if not cleared:
            clear = f"watchdogd {switch}-switch {shlex.quote(run)} --clear"
            advice = [Advice("To take it back:", clear)]
            if switch == "kill":
                advice = [*unpolled_ends(known.backend, known.unpolled), *advice]
            elif not known.unpolled:
                facts = ["its training loop saves a checkpoint and goes on"]
            if known.unpolled:
                facts = ["nothing obeys it but what runs under watchdogd guard"]
        then = (
            "no checkpoint is saved for it"
            if switch == "save"
            else _without_stop(known, stopped=bool(stopped))
        )
        words = message_wording.switched(touches, polled=not known.unpolled, then=then)
        yield IncidentEvent(
            EventKind.NOTICE,
            now,
            check.name if check else SELF,
            run,
            run,
            words,
            facts=tuple(filter(None, facts)),
            advice=tuple(advice),
        )


def _without_stop(known: RunNow, *, stopped: bool) -> str:
    """Return what is so of a run once its kill switch is cleared; `stopped`: it had stopped the run."""
    if known.working:
        return f"{known.named(known.working)} run{'s' * (len(known.working) == 1)} on"
    if known.jobs:
        return f"{known.named(known.jobs)} may start"
    return UNWATCHED if stopped and known.jobs is not None else ""
