"""The round: start what is due, take in what came, judge it, store it. One direction, no way back."""

from __future__ import annotations

import errno
import json
import logging
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from watchdogd import incidents
from watchdogd.engine import handout, status
from watchdogd.engine.call import Call
from watchdogd.engine.changes import Changes
from watchdogd.engine.crontab import is_dropin
from watchdogd.engine.due import due, next_due
from watchdogd.engine.intake import Intake
from watchdogd.engine.ledger import Ledger
from watchdogd.engine.looks import Looks
from watchdogd.engine.setup import SELF, SELF_SUBJECTS
from watchdogd.engine.trends import with_trends
from watchdogd.errors import WatchdogError
from watchdogd.history.record import Record
from watchdogd.incident import Event, Kind, Observation
from watchdogd.notify.message import compose
from watchdogd.place import file_name
from watchdogd.plugin import History, Result, Status, notice, unknown
from watchdogd.units import format_duration, iso

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from watchdogd.engine.call import Reply
    from watchdogd.engine.catalog import Source
    from watchdogd.engine.checks import Check
    from watchdogd.engine.patient import Patient
    from watchdogd.engine.setup import Setup
    from watchdogd.engine.storage import Storage
    from watchdogd.engine.workers import Workers
    from watchdogd.history.record import Gap, Past
    from watchdogd.home import Home
    from watchdogd.inbox import Paper
    from watchdogd.notify.notification import Notification

SETTLE = 5.0
"""Seconds that a round waits for its checks; what comes later is judged by the next one."""
LINGER = 1.0
"""Seconds until the next round where checks are still out."""

ROOM = 16_384
"""Bytes to whose multiples status.json is filled up, so that it can be overwritten where home is full."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Round:
    """What one round saw and decided."""

    at: float
    observations: tuple[Observation, ...]
    events: tuple[Event, ...]
    notifications: tuple[Notification, ...]


class Engine:
    """What a daemon knows between rounds. Everything that it decides is decided by pure functions.

    `dry`: it judges, but takes in, records and publishes nothing. `troubles` are the daemon's own, by
    subject of SELF_SUBJECTS: whoever finds one writes it here (empty: none), and the next round judges it
    as it judges any check. `link` and `gaps` are shown by `status`.
    """

    def __init__(
        self,
        home: Home,
        setup: Setup,
        past: Past,
        *,
        workers: Workers,
        patient: Patient,
        storage: Storage,
        dry: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.home = home
        self.setup = setup
        self.book = past.book
        self.troubles = dict.fromkeys(SELF_SUBJECTS, "")
        self.link: dict[str, Any] | None = None
        self.gaps: tuple[Gap, ...] = ()
        self._memories = dict(past.memories)
        self._started = dict(past.started)
        self._workers = workers
        self._patient = patient
        self._ledger = Ledger(storage.record)
        self._storage = storage
        self._dry = dry
        self._clock = clock
        self._looks = Looks()
        self._held: list[Check] = []
        self._out: dict[str, Check] = {}
        self._latest: dict[str, tuple[Observation, ...]] = {}
        self._intake = Intake(home, patient)
        self._changes = Changes(home, patient, self.troubles)
        self._forgotten: dict[str, float] = {}
        self._new_gaps: tuple[Gap, ...] = ()
        self._untold: tuple[Result, ...] = ()

    # ------------------------------------------------------------------ the round

    def round(self, *, everything: bool = False, may_act: Callable[[], bool] = lambda: True) -> Round | None:
        """One round: what is due, and what came late. None, and nothing done, where `may_act` says no.

        `everything`: wait until all checks have answered.
        """
        now = self._clock()
        papers = [] if self._dry else self._intake.take()
        self.troubles["inbox"] = self._intake.trouble
        forgotten, self._forgotten = self._forgotten, {}
        started = forgotten | self._start(now)
        observations, memories = self._gather(None if everything else SETTLE)
        memories = {name: self._memories[name] for name in forgotten if name in self._memories} | memories
        judged_at = self._clock()
        observations += self._of_itself(judged_at)
        if not may_act():
            return None
        self.book, events = incidents.advance(
            self.book,
            observations,
            self.setup.policies,
            judged_at,
            orders=tuple(order for paper in papers for order in paper.orders),
            silent=self.setup.maintenance,
        )
        events = with_trends(
            [self._with_log(event) for event in events], self.setup.checks, self._storage.series
        )
        events += tuple(_touch_event(paper, judged_at) for paper in papers if paper.kind == "touch")
        notifications = tuple(compose(events, self.setup.routes, self.setup.rules, judged_at))
        self._keep(
            Record(
                at=judged_at,
                observations=observations,
                book=self.book,
                events=events,
                notifications=notifications,
                memories=memories,
                started=started,
                gaps=self._new_gaps,
                touches=tuple(paper.line for paper in papers),
            ),
        )
        return Round(judged_at, observations, events, notifications)

    def rehearse(self) -> Round:
        """A round of everything that confirms at once, and of which nothing stays."""
        self._start(self._clock())
        observations, _ = self._gather(None)
        now = self._clock()
        hasty = {name: replace(policy, confirm=1) for name, policy in self.setup.policies.items()}
        _, events = incidents.advance(self.book, observations, hasty, now, silent=self.setup.maintenance)
        notifications = tuple(compose(events, self.setup.routes, self.setup.rules, now))
        return Round(now, observations, events, notifications)

    def observe(self) -> tuple[Observation, ...]:
        """Run every check that is due and wait for it; judges, records and sends nothing."""
        self._start(self._clock())
        return self._gather(None)[0]

    def next_wake(self) -> float:
        """When the next round should be (seconds since the epoch): reminders want one each interval, too."""
        now = self._clock()
        interval = self.setup.config.daemon.interval
        soonest = min(next_due(self.setup.checks, self._started, now), now + interval)
        return min(soonest, now + LINGER) if self._workers.busy else soonest

    def tell_gap(self, gap: Gap, *, told: bool) -> None:
        """Nobody watched for a while: recorded with the next round, and told where `told`."""
        self._new_gaps += (gap,)
        self.gaps += (gap,)
        if told:
            lasted = format_duration(gap.end - gap.begin)
            text = f"nobody watched for {lasted}, from {iso(gap.begin)} to {iso(gap.end)}: {gap.reason}"
            self.tell(text)

    def tell(self, text: str) -> None:
        """Something to be told once that is no standing trouble."""
        self._untold += (notice(text),)

    def close(self) -> None:
        """Let go of what only the engine itself uses."""
        self._changes.close()

    # ------------------------------------------------------------------ starting checks

    def _start(self, now: float) -> dict[str, float]:
        """Submit what is due; returns the times of the starts."""
        outstanding = self._workers.outstanding | {*self._out}
        ready = due(self.setup.checks, self._started, outstanding, now, self._hasty())
        marks = self._finished_marks()
        over = {check.run_name for check in self.setup.checks if file_name(check.run_name) in marks}
        self._workers.submit(self._looks.calls(ready, self.setup.checks, self.setup.config, now, over))
        self._out |= {check.name: check for check in ready}
        waiting = [check for check in ready if self._looks.waits(check)]
        self._held += waiting
        self._submit([check for check in ready if check not in waiting], marks)
        started = {check.name: now for check in ready}
        self._started |= started
        return started

    def _hasty(self) -> dict[str, float]:
        """Slow checks whose newest result wants confirming: they are looked at each interval."""
        return {
            standing.check: self.setup.config.daemon.interval
            for standing in self.book.standings.values()
            if standing.status is not standing.settled
        }

    def _submit(self, checks: Sequence[Check], marks: dict[str, str]) -> None:
        self._workers.submit([self._call(check, marks) for check in checks])

    def _call(self, check: Check, marks: dict[str, str]) -> Call:
        wants = check.entry.wants
        injected: dict[str, Any] = {}
        if "run" in wants:
            run = check.run
            injected["run"] = run and replace(run, finished=marks.get(file_name(run.name), ""))
        if "snapshot" in wants:
            injected["snapshot"] = self._looks.snapshot(check)
        if "history" in wants:
            injected["history"] = self._history(check)
        if "now" in wants:
            injected["now"] = self._clock()
        injected["memory"] = self._memories.get(check.name, {})
        return Call(
            check.name, check.entry.source, check.parameters, injected, check.timeout, check.entry.foreign
        )

    def _history(self, check: Check) -> History:
        if not check.entry.remembers:
            return History()
        try:
            return History(self._storage.series(check.name, self._clock() - check.entry.remembers))
        except WatchdogError as error:
            log.info("history of %s cannot be read: %s", check.name, error)
            return History()

    def _finished_marks(self) -> dict[str, str]:
        try:
            return self._patient.attempt(partial(handout.finished, self.home))
        except (WatchdogError, OSError) as error:
            self.troubles["home"] = f"{self.home.switches} cannot be read: {error}"
            return {}

    # ------------------------------------------------------------------ taking in what came

    def _gather(self, patience: float | None) -> tuple[tuple[Observation, ...], dict[str, dict[str, Any]]]:
        """Observations and changed memories of all replies that come within `patience` seconds."""
        end = time.monotonic() + (patience if patience is not None else float("inf"))
        observations: list[Observation] = []
        memories: dict[str, dict[str, Any]] = {}
        while self._workers.busy and (left := end - time.monotonic()) > 0:
            for reply in self._workers.collect(min(left, 60.0)):
                if self._looks.take(reply, self._clock()):
                    ready = [check for check in self._held if not self._looks.waits(check)]
                    self._held = [check for check in self._held if check not in ready]
                    self._submit(ready, self._finished_marks())
                else:
                    observations += self._observed(reply, memories)
        self._memories |= memories
        stuck = self._workers.stuck
        self.troubles["workers"] = (
            f"{len(stuck)} checks hang in the kernel and cannot be killed: "
            + ", ".join(sorted({held.key for held in stuck})[:5])
            if stuck
            else ""
        )
        return tuple(observations), memories

    def _observed(self, reply: Reply, memories: dict[str, dict[str, Any]]) -> list[Observation]:
        check = self._out.pop(reply.key, None)
        if check is None:
            return []
        if reply.memory is not None:
            memories[check.name] = reply.memory
        results: list[Result] = (
            [unknown(f"the check {reply.trouble}")] if reply.trouble else list(reply.value)
        )
        now = self._clock()
        seen = [Observation(check.name, check.run_name, check.target, result, now) for result in results]
        self._latest[check.name] = tuple(seen)
        return seen

    def _with_log(self, event: Event) -> Event:
        """What the log said last goes into the message that tells that a job is over."""
        if not event.check.endswith("/job_liveness") or event.kind not in (Kind.OPENED, Kind.WORSE):
            return event
        seen = self._latest.get(f"{event.run}/log_staleness", ())
        said = [each.result.details for each in seen if not each.result.subject and each.result.details]
        return replace(event, details="\n".join([event.details, *said]).strip()) if said else event

    def _of_itself(self, now: float) -> tuple[Observation, ...]:
        """The daemon's own troubles, as results of a check of its own."""
        target = self.setup.config.daemon.name
        results = [
            Result(Status.CRITICAL if text else Status.OK, text or f"{subject} is fine", subject=subject)
            for subject, text in self.troubles.items()
        ]
        results += self._untold
        self._untold = ()
        return tuple(Observation(SELF, "", target, result, now) for result in results)

    # ------------------------------------------------------------------ leaving it behind

    def _keep(self, record: Record) -> None:
        """Store the round; papers go once what came of them is stored, so that none is lost."""
        if self._dry:
            return
        self._ledger.keep(record)
        self.troubles["history"] = self._ledger.trouble
        if not self._ledger.trouble:
            self._new_gaps = ()
        try:
            if not self._ledger.trouble:
                self._intake.settle()
            self._patient.attempt(partial(self._publish, record.at))
        except (WatchdogError, OSError) as error:
            self.troubles["home"] = f"home cannot be written: {error}"

    def _publish(self, now: float) -> None:
        """Replace status.json; where home is full, overwrite it in place."""
        known = {check.name for check in self.setup.checks}
        picture = status.snapshot(
            self.book,
            {name: seen for name, seen in self._latest.items() if name in known},
            now=now,
            link=self.link,
            gaps=self.gaps,
            every=min((check.every for check in self.setup.checks), default=3600.0),
            troubles=[text for text in self.troubles.values() if text],
        )
        try:
            text = json.dumps(picture)
            self.home.write(self.home.status, text.ljust(len(text) + ROOM - len(text) % ROOM))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            if not self.home.overwrite(self.home.status, json.dumps(picture)):
                self.home.overwrite(self.home.status, json.dumps(picture | {"checks": []}))

    # ------------------------------------------------------------------ what people change

    def reload(self) -> bool:
        """Take up what people changed; True where config.toml did, so that channels may be others."""
        self.troubles["home"] = ""
        before, self.setup = self.setup, self._changes.config(self.setup)
        changed = self.setup is not before
        dropped = {check.name: check.entry.source for check in self.setup.dropped}
        self.setup = self._changes.dropins(self.setup)
        self._forget(dropped)
        return changed

    def _forget(self, before: dict[str, Source]) -> None:
        """Drop-ins that are gone, or run otherwise now, count as new when they are seen again."""
        after = {check.name: check.entry.source for check in self.setup.dropped}
        for name, at in self._started.items():
            if at and is_dropin(name) and name not in after:
                self._forgotten[name] = 0.0
                self._memories[name] = {}
            elif name in before and before[name] != after.get(name):
                self._forgotten[name] = 0.0
        self._started |= self._forgotten


def _touch_event(paper: Paper, now: float) -> Event:
    """A pressed switch or a mark, told on the run's channels."""
    run = paper.run
    return Event(Kind.NOTICE, now, f"{run}/job_liveness", run, run, paper.line)
