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
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from watchdogd.home.inbox import TEXT_LIMIT
from watchdogd.home.inbox_submit import submit
from watchdogd.home.touchfile import one_line
from watchdogd.incidents.models import SELF, EventKind, IncidentEvent
from watchdogd.remediation import evidence
from watchdogd.remediation.executor import LATE, Executor, do
from watchdogd.remediation.models import BEGUN, DONE, EVIDENCE, FAILED, LOST, ActionRecord
from watchdogd.remediation.policy import ActionLimits, decide, forget

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from watchdogd.daemon.remediation_context import RemediationContext
    from watchdogd.home.inbox import Submission
    from watchdogd.home.layout import Home
    from watchdogd.remediation.models import ActionTask

KEPT = f"{SELF}/actions"
"""The name under which the deeds are kept among what the checks remember."""

log = logging.getLogger(__name__)


class Remediation:
    """Memory of the deeds, and what orders and reports them.

    `kept` is what was remembered, as JSON text. `dry`: nothing is done, what would be is reported; `certain`:
    see Rules.
    """

    def __init__(self, home: Home, kept: str, *, dry: bool, certain: bool) -> None:
        self._home = home
        self._dry = dry
        self._certain = certain
        self._deeds = tuple(_remembered(json.loads(kept)))
        self._fresh: list[ActionTask] = []
        self._crew = Executor(do)
        self._ending = threading.Event()

    @property
    def busy(self) -> bool:
        """Return whether something is under way, or waits to be told."""
        return self._crew.busy

    def step(
        self,
        scene: RemediationContext,
        events: Iterable[IncidentEvent],
        papers: Sequence[Submission],
        now: float,
        *,
        ordering: bool = True,
    ) -> tuple[tuple[IncidentEvent, ...], dict[str, str]]:
        """Return the round's events with what is to be reported of deeds, and what is to be kept with it.

        `ordering`: new deeds may be ordered; `begin` then has to follow.
        """
        before = self._deeds
        told = [*self._reported(now), *self._handed_in(papers), *self._lost(now)]
        self._deeds = forget(self._deeds, frozenset(scene.incidents), now)
        if ordering:
            told += self._order(scene, now)
        events = tuple(self._with_deeds(event, told) for event in events)
        spoken = {event.incident.id: event.run for event in events if event.incident and _speaks(event)}
        notices = tuple(
            scene.notice(deed, details, now)
            for deed, details in told
            if (deed.action != EVIDENCE or details) and spoken.get(deed.incident) != deed.run
        )
        kept = json.dumps({"deeds": [each.as_json() for each in self._deeds]})
        return events + notices, {} if self._deeds == before else {KEPT: kept}

    def begin(self, *, stored: bool) -> None:
        """Begin what was ordered, once the round is stored. What is not harmless waits where it is not."""
        for errand in self._fresh:
            if stored or errand.deed.action.harmless:
                self._crew.begin(errand)
            else:
                log.info("%s waits until the history can be written", errand.deed)
                self._deeds = tuple(deed for deed in self._deeds if deed.key != errand.deed.key)
        self._fresh = []

    def wait(self, patience: float) -> bool:
        """Return whether outcomes come within `patience` seconds; `step` then takes them in."""
        return patience > 0 and self._crew.wait(patience)

    def end(self) -> None:
        """Wait no longer: a program that still runs is ended, and its outcome told."""
        self._ending.set()

    def hand_over(self) -> None:
        """Leave in the inbox what came of our deeds, since somebody else acts now."""
        for report in self._crew.reports():
            deed, text = report.deed, report.outcome.text
            state = DONE if report.outcome.ok else FAILED
            with contextlib.suppress(OSError):  # then the other one tells that it is not known
                submit(
                    str(self._home.inbox), "deed", str(deed.incident), run=deed.run,
                    incident=deed.incident, action=deed.action.label, state=state, outcome=text,
                )  # fmt: skip

    # ------------------------------------------------------------------ what came of deeds

    def _reported(self, now: float) -> Iterator[tuple[ActionRecord, str]]:
        for deed, outcome in self._crew.reports():
            yield self._end(deed.key, DONE if outcome.ok else FAILED, outcome.text, now), outcome.details

    def _handed_in(self, papers: Iterable[Submission]) -> Iterator[tuple[ActionRecord, str]]:
        """Yield the ends of deeds that an earlier daemon began and reported through the inbox."""
        for paper in papers:
            for deed in self._deeds if paper.kind == "deed" else ():
                if not deed.ended and paper.deed == (
                    deed.incident,
                    deed.run,
                    one_line(deed.action.label, TEXT_LIMIT),
                ):
                    state = DONE if paper.said.get("state") == DONE else FAILED
                    yield self._end(deed.key, state, paper.outcome, paper.at), ""

    def _lost(self, now: float) -> Iterator[tuple[ActionRecord, str]]:
        """Settle deeds begun by a daemon that is gone: what is harmless is done again, the rest is told."""
        for deed in self._deeds:
            if deed.ended or self._crew.has(deed) or abs(now - deed.at) <= LATE:
                continue
            if deed.action.harmless:
                self._deeds = tuple(each for each in self._deeds if each is not deed)
            else:
                text = "watchdogd ended while it did this: look yourself, it is not done again"
                yield self._end(deed.key, LOST, text, now), ""

    def _end(self, key: tuple[int, str, str], state: str, outcome: str, now: float) -> ActionRecord:
        (deed,) = (each for each in self._deeds if each.key == key)
        ended = replace(deed, state=state, outcome=" ".join(outcome.split()), ended_at=now)
        self._deeds = tuple(ended if each.key == key else each for each in self._deeds)
        log.info("%s", f"{ended.run}: {ended}" if ended.run else ended)
        return ended

    # ------------------------------------------------------------------ what is to be done

    def _order(self, scene: RemediationContext, now: float) -> list[tuple[ActionRecord, str]]:
        """Order what is due; returns what was skipped, to be told."""
        config = scene.setup.config
        rules = ActionLimits(config.actions.max_per_day, config.actions.dry_run or self._dry, self._certain)
        cases = list(scene.cases(evidence=not self._dry))
        fresh = decide(cases, self._deeds, rules, now, self._crew.room)
        self._deeds += tuple(fresh)
        self._fresh = [scene.errand(deed, self._ending) for deed in fresh if not deed.ended]
        return [(deed, "") for deed in fresh if deed.ended]

    def _with_deeds(self, event: IncidentEvent, told: Iterable[tuple[ActionRecord, str]]) -> IncidentEvent:
        """Say what was done about an incident, and where its evidence lies, known before it is written.

        Of deeds that are `told` only now, with no notice of their own then, the details too.
        """
        if event.incident is None or event.quiet:
            return event
        about = [deed for deed in self._deeds if deed.incident == event.incident.id]
        places = [
            f"evidence: {evidence.folder(self._home, deed.incident)}"
            for deed in about
            if deed.action == EVIDENCE and deed.state in (BEGUN, DONE)
        ]
        done = tuple(str(deed) for deed in about if deed.action != EVIDENCE and deed.ended)
        news = [text for deed, text in told if deed in about and deed.run == event.run and _speaks(event)]
        return replace(
            event,
            details="\n\n".join(filter(None, [event.details, *news])),
            notes=(*event.notes, *places),
            done=(*event.done, *done),
        )


def _speaks(event: IncidentEvent) -> bool:
    """Return whether it reaches those who would get a notice about the same incident."""
    return not event.quiet and event.kind not in (EventKind.NOTICE, EventKind.ESCALATION)


def _remembered(kept: Mapping[str, Any]) -> Iterator[ActionRecord]:
    for each in kept.get("deeds", ()):
        try:
            yield ActionRecord.from_json(each)
        except (KeyError, TypeError, ValueError, AttributeError):
            log.warning("a deed in the history cannot be read: %s", str(each)[:200])
