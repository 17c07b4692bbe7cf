"""Remediation: actions on incidents, begun in one round and reported in a later one.

A round never waits for an action. An action is recorded in the history before it begins; where that fails,
only harmless ones begin. So no action that ends a job is done twice, whatever ends the daemon: one that a
crash interrupted is reported as lost.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from watchdogd.batch.run_models import JobDeed
from watchdogd.daemon.remediation_context import RemediationContext
from watchdogd.home.inbox import TEXT_LIMIT, Submission
from watchdogd.home.inbox_submit import submit
from watchdogd.home.layout import Home
from watchdogd.home.touchfile import one_line
from watchdogd.incidents.models import SELF, EventKind, IncidentEvent
from watchdogd.remediation import evidence
from watchdogd.remediation.executor import LATE, Executor, do
from watchdogd.remediation.models import (
    BEGUN,
    DONE,
    EVIDENCE,
    FAILED,
    LOST,
    ActionOutcome,
    ActionRecord,
    ActionTask,
)
from watchdogd.remediation.policy import (
    ActionLimits,
    ActionRequest,
    PendingAction,
    decide,
    forget,
    pending,
)
from watchdogd.units import iso

KEPT = f"{SELF}/actions"
"""Name under which action records are stored among the checks' memories."""

log = logging.getLogger(__name__)


class Remediation:
    """Action records of all incidents, and the orders and reports of a round.

    `kept`: the stored records, as JSON. `dry`: actions are reported, not done; `certain`: see ActionLimits.
    """

    def __init__(self, home: Home, kept: str, *, dry: bool, certain: bool) -> None:
        self._home = home
        self._dry = dry
        self._certain = certain
        self._records = tuple(_remembered(json.loads(kept)))
        self._details: dict[tuple[int, str, str], str] = {}
        self._fresh: list[ActionTask] = []
        self._deferred: set[tuple[int, str, str]] = set()
        """Keys of actions that could not begin; no report waits for them."""
        self.pending: list[dict[str, Any]] = []
        """Actions under way or to come, as in status.json."""
        self._executor = Executor(do)
        self._ending = threading.Event()

    @property
    def busy(self) -> bool:
        """Return whether actions are under way or unreported."""
        return self._executor.busy

    def step(
        self,
        context: RemediationContext,
        events: Iterable[IncidentEvent],
        submissions: Sequence[Submission],
        now: float,
        *,
        ordering: bool = True,
    ) -> tuple[tuple[IncidentEvent, ...], dict[str, str]]:
        """Return the round's events with reports on actions, and the memory to store with the round.

        `ordering`: new actions may be ordered; `begin` must be called afterwards.
        """
        before = self._records
        self._take_reports(now)
        self._take_submissions(submissions)
        self._settle_lost(now)
        self._records = forget(self._records, frozenset(context.incidents), now)
        cases = list(context.cases(evidence=not self._dry)) if ordering else []
        if ordering:
            self._order(context, cases, now)
        rules = self._limits(context)
        coming = tuple(pending(cases, self._records, rules, now))
        self.pending = [_as_status(each, now) for each in coming if not each.refused]
        events = tuple(self._with_records(event, coming, now) for event in events)
        mentioned = {(event.incident.id, event.run) for event in events if event.incident and _speaks(event)}
        notices = tuple(self._outcomes(context, mentioned, coming, now))
        kept = json.dumps({"deeds": [each.as_json() for each in self._records]})
        return events + notices, {} if self._records == before else {KEPT: kept}

    def deeds(self, run: str) -> tuple[JobDeed, ...]:
        """Return what was done to the jobs of a run, or may have been, so that these ended."""
        return tuple(
            JobDeed(record.action.kind, record.incident, record.at, record.trigger)
            for record in self._records
            if record.run == run and record.ends_job
        )

    def begin(self, *, stored: bool) -> None:
        """Begin the ordered actions once the round is stored; otherwise only the harmless ones."""
        self._deferred.clear()
        for task in self._fresh:
            if stored or task.record.action.harmless:
                self._executor.begin(task)
            else:
                log.info("%s waits until the history can be written", task.record)
                self._deferred.add(task.record.key)
                self._records = tuple(record for record in self._records if record.key != task.record.key)
        self._fresh = []

    def wait(self, patience: float) -> bool:
        """Return whether an action ends within `patience` seconds; call `step` then."""
        return patience > 0 and self._executor.wait(patience)

    def end(self) -> None:
        """Kill programs that are still running; their outcome is reported."""
        self._ending.set()

    def hand_over(self) -> None:
        """Submit the outcomes of actions to the inbox, for the daemon that has the lease now."""
        for report in self._executor.reports():
            record, text = report.record, report.outcome.text
            state = DONE if report.outcome.ok else FAILED
            with contextlib.suppress(OSError):  # the other daemon then reports them as lost
                submit(
                    str(self._home.inbox), "deed", str(record.incident), run=record.run,
                    incident=record.incident, action=record.action.label, state=state, outcome=text,
                )  # fmt: skip

    def _take_reports(self, now: float) -> None:
        for record, outcome in self._executor.reports():
            state = DONE if outcome.ok else FAILED
            self._details[record.key] = outcome.details
            self._end(record, state, outcome.text, now, outcome)

    def _take_submissions(self, submissions: Iterable[Submission]) -> None:
        """Record the outcomes that an earlier daemon submitted through the inbox."""
        for submission in submissions:
            for record in self._records if submission.kind == "deed" else ():
                if not record.ended and submission.record == (
                    record.incident,
                    record.run,
                    one_line(record.action.label, TEXT_LIMIT),
                ):
                    state = DONE if submission.said.get("state") == DONE else FAILED
                    self._end(record, state, submission.outcome, submission.at)

    def _settle_lost(self, now: float) -> None:
        """Settle actions of a daemon that is gone: harmless ones are done again, others reported as lost."""
        for record in self._records:
            if record.ended or self._executor.has(record) or abs(now - record.at) <= LATE:
                continue
            if record.action.harmless:
                self._records = tuple(each for each in self._records if each is not record)
            else:
                text = "watchdogd ended while it did this, and does not do it again"
                self._end(record, LOST, text, now)

    def _end(
        self, record: ActionRecord, state: str, outcome: str, now: float, said: ActionOutcome | None = None
    ) -> None:
        said = said or ActionOutcome(outcome)
        ended = replace(
            record,
            state=state,
            outcome=" ".join(outcome.split()),
            ended_at=now,
            short=" ".join(said.short.split()),
            why=" ".join(said.why.split()),
            by_hand=said.by_hand,
            then=said.then,
            owed=record.action != EVIDENCE or bool(self._details.get(record.key)),
        )
        self._records = tuple(ended if each.key == ended.key else each for each in self._records)
        log.info("%s", f"{ended.run}: {ended}" if ended.run else ended)

    def _outcomes(
        self,
        context: RemediationContext,
        mentioned: Collection[tuple[int, str]],
        coming: Sequence[PendingAction],
        now: float,
    ) -> Iterator[IncidentEvent]:
        """Yield one notice for all actions on an incident, once none is under way, with what is to come.

        Actions whose incident is `mentioned` in another message of this round are reported there.
        """
        going_on = {
            (record.incident, record.run)
            for record in self._records
            if not record.ended and record.key not in self._deferred
        }
        owed: dict[tuple[int, str], list[ActionRecord]] = {}
        for record in self._records:
            about = (record.incident, record.run)
            if record.owed and (about in mentioned or about not in going_on):
                owed.setdefault(about, []).append(record)
        heard = {record.key for records in owed.values() for record in records}
        self._records = tuple(
            replace(record, owed=record.owed and record.key not in heard) for record in self._records
        )
        for about, records in owed.items():
            if about not in mentioned:
                details = [text for record in records if (text := self._details.get(record.key))]
                later = tuple(
                    each.next(now) for each in coming if about == (each.request.incident, each.request.run)
                )
                yield context.notice(records, "\n\n".join(details), now, later)
        for key in heard:
            self._details.pop(key, None)

    def _order(self, context: RemediationContext, cases: Sequence[ActionRequest], now: float) -> None:
        """Order the actions that are due now; skipped ones are reported as well."""
        fresh = decide(cases, self._records, self._limits(context), now, self._executor.room)
        self._records += tuple(
            replace(record, owed=record.ended and record.action != EVIDENCE and not record.then)
            for record in fresh  # of a job that is another user's the alert said what its owner can do
        )
        self._fresh = [context.task(record, self._ending) for record in fresh if not record.ended]

    def _limits(self, context: RemediationContext) -> ActionLimits:
        actions = context.setup.config.actions
        return ActionLimits(actions.max_per_day, actions.dry_run or self._dry, self._certain)

    def _with_records(
        self, event: IncidentEvent, coming: Iterable[PendingAction], now: float
    ) -> IncidentEvent:
        """Add to an event the actions done and upcoming, and the folder of its evidence.

        Details of unreported actions, and the way back, are added if the event goes to those who would get
        their notice.
        """
        if event.incident is None or event.quiet or event.calm:
            return event
        about = [record for record in self._records if record.incident == event.incident.id]
        places = [
            f"evidence: {evidence.folder(self._home, record.incident)}"
            for record in about
            if record.action == EVIDENCE and record.state in (BEGUN, DONE)
        ]
        done = tuple(record.deed for record in about if record.action != EVIDENCE and record.ended)
        news = [self._details.get(record.key, "") for record in about if record.owed and _speaks(event)]
        mine = [each.next(now) for each in coming if each.request.incident == event.incident.id]
        ways = [way for record in about if record.owed and _speaks(event) for way in record.advice("")]
        return replace(
            event,
            details="\n\n".join(filter(None, [event.details, *news])),
            notes=(*event.notes, *places),
            done=(*event.done, *done),
            advice=(*event.advice, *ways),
            upcoming=tuple(dict.fromkeys(mine)),
        )


def _as_status(each: PendingAction, now: float) -> dict[str, Any]:
    """Return an action under way or to come, as in status.json."""
    return {
        "incident": each.request.incident,
        "run": each.request.run,
        "trigger": each.request.trigger,
        "action": each.action.label,
        "will": str(each.next(now)),
        "began": None if each.began is None else iso(each.began),
    }


def _speaks(event: IncidentEvent) -> bool:
    """Return whether it is sent to the recipients of a notice on the same incident."""
    told = (EventKind.NOTICE, EventKind.ESCALATION, EventKind.ACKNOWLEDGED)
    return not event.quiet and event.kind not in told


def _remembered(kept: Mapping[str, Any]) -> Iterator[ActionRecord]:
    for each in kept.get("deeds", ()):
        try:
            yield ActionRecord.from_json(each)
        except (KeyError, TypeError, ValueError, AttributeError):
            log.warning("an action in the history cannot be read: %s", str(each)[:200])
