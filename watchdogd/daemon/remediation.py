"""Actions that watchdogd takes by itself: ordered and recorded in one round, reported in a later one.

A round never waits for an action. What is begun is stored with the round that decided it, before it is done;
where it cannot be stored, only what is harmless is done. So nothing that ends a job is done twice, whatever
ends the daemon: what a crash leaves open is told as that.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

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
from watchdogd.remediation.policy import ActionLimits, ActionRequest, decide, forget, pending
from watchdogd.units import iso

KEPT = f"{SELF}/actions"
"""The name under which the actions are kept among what the checks remember."""

log = logging.getLogger(__name__)


class Remediation:
    """Memory of the actions, and what orders and reports them.

    `kept` is what was remembered, as JSON text. `dry`: nothing is done, what would be is reported; `certain`:
    see Rules.
    """

    def __init__(self, home: Home, kept: str, *, dry: bool, certain: bool) -> None:
        self._home = home
        self._dry = dry
        self._certain = certain
        self._records = tuple(_remembered(json.loads(kept)))
        self._details: dict[tuple[int, str, str], str] = {}
        self._fresh: list[ActionTask] = []
        self._deferred: set[tuple[int, str, str]] = set()
        """Keys of what was ordered last and could not begin: nobody waits for its outcome."""
        self.pending: list[dict[str, Any]] = []
        """What is under way or to come, as status.json has it."""
        self._executor = Executor(do)
        self._ending = threading.Event()

    @property
    def busy(self) -> bool:
        """Return whether something is under way, or waits to be told."""
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
        """Return the round's events with what is to be reported of actions, and what is to be kept with it.

        `ordering`: new actions may be ordered; `begin` then has to follow.
        """
        before = self._records
        self._take_reports(now)
        self._take_submissions(submissions)
        self._settle_lost(now)
        self._records = forget(self._records, frozenset(context.incidents), now)
        cases = list(context.cases(evidence=not self._dry)) if ordering else []
        if ordering:
            self._order(context, cases, now)
        events = tuple(self._with_records(event, cases) for event in events)
        mentioned = {(event.incident.id, event.run) for event in events if event.incident and _speaks(event)}
        notices = tuple(self._outcomes(context, mentioned, now))
        kept = json.dumps({"deeds": [each.as_json() for each in self._records]})
        return events + notices, {} if self._records == before else {KEPT: kept}

    def begin(self, *, stored: bool) -> None:
        """Begin what was ordered, once the round is stored. What is not harmless waits where it is not."""
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
        """Return whether outcomes come within `patience` seconds; `step` then takes them in."""
        return patience > 0 and self._executor.wait(patience)

    def end(self) -> None:
        """Wait no longer: a program that still runs is ended, and its outcome told."""
        self._ending.set()

    def hand_over(self) -> None:
        """Leave in the inbox what came of our actions, since somebody else acts now."""
        for report in self._executor.reports():
            record, text = report.record, report.outcome.text
            state = DONE if report.outcome.ok else FAILED
            with contextlib.suppress(OSError):  # then the other one tells that it is not known
                submit(
                    str(self._home.inbox), "deed", str(record.incident), run=record.run,
                    incident=record.incident, action=record.action.label, state=state, outcome=text,
                )  # fmt: skip

    # ------------------------------------------------------------------ what came of actions

    def _take_reports(self, now: float) -> None:
        for record, outcome in self._executor.reports():
            state = DONE if outcome.ok else FAILED
            self._details[record.key] = outcome.details
            self._end(record, state, outcome.text, now, outcome)

    def _take_submissions(self, submissions: Iterable[Submission]) -> None:
        """Take in the ends of actions that an earlier daemon began and reported through the inbox."""
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
        """Settle actions begun by a daemon that is gone: what is harmless is done again, the rest is told."""
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
            owed=record.action != EVIDENCE or bool(self._details.get(record.key)),
        )
        self._records = tuple(ended if each.key == ended.key else each for each in self._records)
        log.info("%s", f"{ended.run}: {ended}" if ended.run else ended)

    def _outcomes(
        self, context: RemediationContext, mentioned: Collection[tuple[int, str]], now: float
    ) -> Iterator[IncidentEvent]:
        """Report what came of all that was done about an incident in one message, once nothing goes on.

        What is `mentioned` of in this round anyway has it in that message.
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
                yield context.notice(records, "\n\n".join(details), now)
        for key in heard:
            self._details.pop(key, None)

    # ------------------------------------------------------------------ what is to be done

    def _order(self, context: RemediationContext, cases: Sequence[ActionRequest], now: float) -> None:
        """Order what is due; what is skipped is to be reported as well."""
        config = context.setup.config
        rules = ActionLimits(config.actions.max_per_day, config.actions.dry_run or self._dry, self._certain)
        fresh = decide(cases, self._records, rules, now, self._executor.room)
        self._records += tuple(
            replace(record, owed=record.ended and record.action != EVIDENCE) for record in fresh
        )
        self._fresh = [context.task(record, self._ending) for record in fresh if not record.ended]
        self.pending = [
            {
                "incident": case.incident,
                "run": case.run,
                "trigger": case.trigger,
                "action": action.label,
                "will": action.next.words,
                "began": None if began is None else iso(began),
            }
            for case, action, began in pending(cases, self._records)
        ]

    def _with_records(self, event: IncidentEvent, cases: Sequence[ActionRequest]) -> IncidentEvent:
        """Say what was done about an incident, what is next, and where its evidence lies.

        Of actions that nobody heard of yet, with no notice of their own then, the details too.
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
        mine = [case for case in cases if case.incident == event.incident.id]
        return replace(
            event,
            details="\n\n".join(filter(None, [event.details, *news])),
            notes=(*event.notes, *places),
            done=(*event.done, *done),
            upcoming=tuple(dict.fromkeys(action.next for _, action, _ in pending(mine, self._records))),
        )


def _speaks(event: IncidentEvent) -> bool:
    """Return whether it reaches those who would get a notice about the same incident."""
    told = (EventKind.NOTICE, EventKind.ESCALATION, EventKind.ACKNOWLEDGED)
    return not event.quiet and event.kind not in told


def _remembered(kept: Mapping[str, Any]) -> Iterator[ActionRecord]:
    for each in kept.get("deeds", ()):
        try:
            yield ActionRecord.from_json(each)
        except (KeyError, TypeError, ValueError, AttributeError):
            log.warning("an action in the history cannot be read: %s", str(each)[:200])
