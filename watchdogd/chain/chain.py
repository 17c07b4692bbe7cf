"""Chain, seen from one of its links: it keeps exactly one successor, recognised by its comment."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import Any

from watchdogd.batch import slurm
from watchdogd.batch.models import Job
from watchdogd.chain import link_script, live_links, shutdown
from watchdogd.chain.live_links import SuccessionPlan, decide
from watchdogd.config.models import Config
from watchdogd.daemon.trouble import Trouble, joined, trouble
from watchdogd.errors import SlurmError, SlurmSilentError, WatchdogError
from watchdogd.home import markers
from watchdogd.home.layout import Home
from watchdogd.system import command
from watchdogd.system.times import LONGEST_WALLTIME, walltime_margin
from watchdogd.units import format_duration, local_time

ENVIRONMENT = "WATCHDOGD_LINK"
"""Variable set by a link's script: the mode (`daemon` or `tick`)."""
TELL_AFTER = 120.0
"""Seconds without a successor after which that is reported; sooner near the link's end."""
SOON = 900.0
_CALM, _QUICK, _LET_GO = 300.0, 15.0, 10.0
_UNKNOWN_WALLTIME = 86400.0
"""Walltime of a link, in seconds, until the queue has shown it."""

log = logging.getLogger(__name__)


class Chain:
    """Link in which this process runs. Only the lease's holder, or the next one, calls `step`."""

    def __init__(self, home: Home, config: Config, job_id: str, mode: str = "daemon") -> None:
        self.job_id = job_id
        self.mode = mode
        self._home = home
        self._config = config
        self._me: Job | None = None
        self._successor: Job | None = None
        self._successor_id = self._unseen = ""
        self._submissions = 0
        self._next_look = 0.0
        self._bare_since: float | None = None
        self._trouble = ""
        self._submitting = False
        self._failures = 0
        self._shortened = False

    @classmethod
    def of_this_job(cls, home: Home, config: Config) -> Chain | None:
        """Return the chain if this process is one of its links."""
        mode, job_id = os.environ.get(ENVIRONMENT, ""), os.environ.get("SLURM_JOB_ID", "")
        if not mode or not job_id:
            return None
        return cls(home, config, job_id, "tick" if mode == "tick" else "daemon")

    @property
    def successor(self) -> str:
        """Return the successor's job id at the last query of the queue, or empty."""
        return self._successor.raw_id if self._successor else ""

    def is_followed(self, job_id: str) -> bool:
        """Return whether the waiting successor follows another link, by its dependency."""
        return bool(job_id) and job_id != self.job_id and f":{job_id}" in self._dependency

    @property
    def _dependency(self) -> str:
        return self._successor.dependency if self._successor else ""

    def step(self, now: float) -> list[str]:
        """Ensure that there is one successor; return problems with it, a line each.

        Slurm is asked every five minutes, or sooner where there is something to do. Takes about 90 seconds at
        most where Slurm hangs, and never raises because of Slurm.
        """
        if not self.due(now) or self.stopped():
            return self.troubles(now)
        try:
            plan = self._plan(now)
            self._act(plan, now)
            self._failures, self._trouble = 0, ""
            calm = plan.submit is None and not plan.cancel
            self._next_look = now + (self._interval(now) if calm else _later(self._submissions))
        except (WatchdogError, OSError) as error:
            self._failures += 1
            self._trouble = Trouble.of(str(error), error, self._home.path)
            self._next_look = now + min(_later(self._failures), self._interval(now))
            log.warning("the chain: %s", error)
        if self._successor:
            self._bare_since = None
        elif self._bare_since is None or self._bare_since > now:  # the clock may have been set back
            self._bare_since = now
        return self.troubles(now)

    def due(self, now: float) -> bool:
        """Return whether `step` has something to do; also after the clock was set back."""
        return not now < self._next_look <= now + _CALM

    def hurry(self) -> None:
        """Query the queue at the next step, as the link's end is near (Slurm's signal)."""
        self._next_look = 0.0

    def stopped(self) -> bool:
        """Return whether the watchdog was stopped for good, so that this link must end.

        False where home cannot be read.
        """
        try:
            return markers.is_stopped(self._home)
        except OSError:
            return False

    def wind_up(self) -> None:
        """Cancel the other links where the watchdog was stopped; called at the end of a link."""
        if not self.stopped():
            return
        try:
            shutdown.cancel(self._home, [job for job in self._others() if job.raw_id != self.job_id])
        except (SlurmError, OSError) as error:
            log.warning("it is stopped, but other jobs of it may be queued still: %s", error)

    def _others(self) -> tuple[Job, ...]:
        stay = markers.jobs_go_on(self._home)
        return (
            live_links.queued_links(self._mark()) if stay else live_links.links_and_dropin_jobs(self._mark())
        )

    def let_go(self) -> None:
        """Remove the successor's dependency where this link ends early.

        The dependency is not fulfilled while Slurm requeues this link, which takes two minutes (tested with
        22.05), nor before its epilogue has ended. Failures are ignored.
        """
        if self.mode == "daemon" and self._successor_id:
            argv = ("scontrol", "update", f"JobId={self._successor_id}", "Dependency=")
            answer = command.ask(argv, deadline=_LET_GO)
            log.info("the successor is let go: %s", "done" if answer.ok else answer.complaint())

    def as_json(self) -> dict[str, Any]:
        """Return the link for `status --json`."""
        mine = live_links.as_json(self._me) if self._me else {"job_id": self.job_id}
        successor = live_links.as_json(self._successor) if self._successor else None
        if self._unseen:  # until the next query of the queue
            successor = {"job_id": self._unseen, "state": "PENDING", "reason": "just submitted"}
        return {**mine, "mode": self.mode, "successor": successor}

    def _mark(self) -> str:
        return link_script.mark_of(self._home)

    def _plan(self, now: float) -> SuccessionPlan:
        living = live_links.queued_links(self._mark())
        self._me = next((each for each in living if each.raw_id == self.job_id), self._me)
        every = link_script.tick_every(self._config) if self.mode == "tick" else 0.0
        plan = decide(living, self.job_id, now, every=every)
        if plan.unseen and live_links.is_unknown(self.job_id):
            plan = decide(living, self.job_id, now, lost=True, every=every)
        if plan.unseen:
            raise SlurmSilentError(f"squeue does not show this link, job {self.job_id}")
        if plan.successor and not self._shortened and live_links.is_in_the_way(plan.successor):
            self._shortened = True  # the next one is submitted with the maintenance in mind
            plan = SuccessionPlan(cancel=(*plan.cancel, plan.successor.raw_id))
        self._successor = plan.successor
        self._successor_id = self.successor or self._successor_id
        self._unseen = ""
        return plan

    def _act(self, plan: SuccessionPlan, now: float) -> None:
        if plan.cancel:
            log.info("links too many: cancelling %s", ", ".join(plan.cancel))
            slurm.scancel(plan.cancel)
        if plan.submit is not None and not self.stopped():
            with contextlib.suppress(OSError):
                link_script.prepare_log(self._home)
            job_id = self._submit(self._form(now), plan.submit)
            self._submissions += 1
            self._successor_id = self._unseen = job_id
            log.info("successor submitted: job %s", job_id)
            if self.stopped():  # `stop` wins every race
                slurm.scancel([job_id])
                self._unseen = ""

    def _submit(self, form: link_script.LinkJob, options: tuple[str, ...]) -> str:
        self._submitting = True
        try:
            return slurm.sbatch(form.sbatch_options(*options), form.script(), form.environment())
        finally:
            self._submitting = False

    def _form(self, now: float) -> link_script.LinkJob:
        wish, walltime = link_script.remembered(self._home)
        walltime = walltime or self._limit or LONGEST_WALLTIME
        return link_script.link_job(self._home, self._config, wish, walltime, self._shortest(walltime, now))

    def _shortest(self, walltime: float, now: float) -> float:
        """Return what Slurm may shorten the successor to, which starts with this link's margin left."""
        if self._shortened:
            return live_links.LEAST if walltime > live_links.LEAST else 0.0
        mine = self._limit or walltime
        left = self.left(now) - walltime_margin(mine)
        return live_links.shortest(walltime, now + (left if 0 < left < mine else 0.0))

    def left(self, now: float) -> float:
        """Return seconds until this link ends; infinite before the first query of the queue."""
        return self._me.ends_at - now if self._me and self._me.ends_at else float("inf")

    @property
    def _limit(self) -> float | None:
        return self._me.time_limit if self._me else None

    def _interval(self, now: float) -> float:
        """Return seconds until the next query while all is well: fewer towards the link's end."""
        walltime = self._limit or _UNKNOWN_WALLTIME
        near = self.left(now) < 2 * walltime_margin(walltime)
        return max(min(_CALM, walltime / 20, 60.0 if near else _CALM), _QUICK)

    def troubles(self, now: float) -> list[str]:
        """Return the problems found at the last query, a line each."""
        left = self.left(now)
        ends = f"this one ends at {local_time(now + left)}, in {format_duration(left)}" if left < 1e9 else ""
        successor = self._successor
        why = self._unfollowed(now, left) if successor is None else self._held_up(successor, left)
        if why:
            return [joined((why, ends))]
        if successor and successor.waiting and left < walltime_margin(self._limit or _UNKNOWN_WALLTIME) / 3:
            reason = successor.reason or "no reason given"
            return [f"the successor, job {successor.raw_id}, still waits ({reason}); {ends}: a gap is near"]
        return []

    def _unfollowed(self, now: float, left: float) -> str:
        """Return why there is no successor, once that has lasted long enough to be a problem; else empty."""
        if self._bare_since is None or now - self._bare_since < self._patience(left):
            return ""
        asked = "sbatch is asked for one, and has not answered yet" if self._submitting else ""
        why = self._trouble or asked or "it was submitted, but is not in the queue"
        return trouble(why).about("the next watchdog job is not queued: ")

    def _held_up(self, successor: Job, left: float) -> str:
        """Return why the successor will not start or, near the end, what it waits for; else empty."""
        never = live_links.blocked(successor)
        near = left < walltime_margin(self._limit or _UNKNOWN_WALLTIME)
        return never or (live_links.limited(successor) if near else "")

    def _patience(self, left: float) -> float:
        """Return seconds for which a missing successor is no problem.

        A new one shows only at the next query, and a tick's link is too short to complain of each.
        """
        if left > SOON:
            return TELL_AFTER
        return 0.0 if self._trouble else 2 * _QUICK


def _later(times: int) -> float:
    """Return seconds to wait after this many attempts: 15, 30, 60 ... 300."""
    return min(_QUICK * 2.0 ** min(max(times - 1, 0), 8), _CALM)
