"""State of a round from which actions are decided: which incident requests which action."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event as Ending
from typing import Any

from watchdogd.batch.run_models import slurm_users
from watchdogd.checks import working_job
from watchdogd.config.target_models import RunSection
from watchdogd.daemon.registry.check_factory import Check, written
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.snapshots import Snapshots
from watchdogd.home import suspect_nodes
from watchdogd.home.layout import Home, absolute
from watchdogd.incidents import message_wording
from watchdogd.incidents.confirmation import agrees
from watchdogd.incidents.models import (
    SELF,
    AlertState,
    CheckState,
    EventKind,
    Incident,
    IncidentEvent,
    NextAction,
    Observation,
)
from watchdogd.plugin import SLOW, Result, Status
from watchdogd.remediation import job_actions, policy, stall_inquiry, suspects
from watchdogd.remediation.models import DONE, EVIDENCE, Action, ActionRecord, ActionTask, Exclusion
from watchdogd.remediation.policy import ActionRequest, Foreign
from watchdogd.remediation.stall_inquiry import StallInquiry

_REPORTS = frozenset({EventKind.OPENED, EventKind.WORSE, EventKind.NOTICE})


@dataclass(frozen=True, slots=True)
class RemediationContext:
    """Setup, alert state after the round, newest results by check, and snapshots."""

    home: Home
    setup: Setup
    alerts: AlertState
    latest: Mapping[str, Sequence[Observation]]
    snapshots: Snapshots

    @property
    def incidents(self) -> dict[int, Incident]:
        found = (state.incident for state in self.alerts.states.values())
        return {incident.id: incident for incident in found if incident}

    def cases(self, *, evidence: bool) -> Iterator[ActionRequest]:
        """Yield requests of reported incidents that nobody acknowledged, and for `evidence` of all."""
        checks = {check.name: check for check in self.setup.checks}
        for state in self.alerts.states.values():
            incident = state.incident
            if incident is None or incident.notified is None or incident.check == SELF:
                continue
            if evidence and incident.status is not Status.UNKNOWN:
                yield ActionRequest(incident.id, incident.run, "", (EVIDENCE,))
            if _free(state, incident) and incident.check in checks:
                yield from self._pulled(checks[incident.check], incident)

    def stalls(self, events: Iterable[IncidentEvent], now: float) -> Iterator[StallInquiry]:
        """Yield an inquiry for each event that is the first report of a stall or of a slow run."""
        checks = {check.name: check for check in self.setup.checks}
        for event in events:
            incident, check = event.incident, checks.get(event.check)
            if (
                event.quiet
                or incident is None
                or check is None
                or event.kind not in (EventKind.OPENED, EventKind.WORSE)
            ):
                continue
            said = self._last(check, incident)
            if (
                said
                and (said.trigger == "on_hang" or said.kind == SLOW)
                and event.run in self.setup.config.runs
            ):
                task = self.task(ActionRecord(incident.id, event.run, "on_hang", EVIDENCE, now), Ending())
                wanted = self.setup.config.runs[event.run].on_hang
                yield StallInquiry(event, said, task, any(_action(each).kind == "stacks" for each in wanted))

    def suspicions(self, events: Iterable[IncidentEvent]) -> Iterator[Callable[[], None]]:
        """Yield functions that list nodes accused by reported results; `stalls` covers stalls."""
        checks = {check.name: check for check in self.setup.checks}
        for event in events:
            check, section = checks.get(event.check), self.setup.config.runs.get(event.run)
            if event.kind not in _REPORTS or check is None or check.run is None or section is None:
                continue
            seen = [each.result for each in self.latest.get(check.name, ())]
            said = event.incident.summary if event.incident else event.summary
            result = next((each for each in seen if each.suspects and each.summary == said), None)
            if result and result.trigger != "on_hang":
                found, lasts = suspects.merge(result.suspects), _suspect_for(section)
                named = self.home, check.run, None, found, event.check, lasts
                yield partial(stall_inquiry.put_under_suspicion, *named)

    def task(self, record: ActionRecord, ending: Ending) -> ActionTask:
        """Return an action with all data that its handler needs."""
        config, incident = self.setup.config, self.incidents[record.incident]
        check = self.speaker(record.run)
        section = config.runs.get(record.run)
        if check is None or check.run is None or section is None:
            return ActionTask(record, incident, self.home, ending=ending)
        snapshot = self.snapshots.snapshot(check)
        return ActionTask(
            record=record,
            incident=incident,
            home=self.home,
            run=check.run,
            log=absolute(self.home, section.log) if section.log else "",
            written=written(config, self.home),
            gpus=section.gpus_per_node or 0,
            users=check.run.users or slurm_users(config),
            queue=(snapshot.jobs or ()) if snapshot else (),
            recorder=absolute(self.home, section.flight_recorder) if section.flight_recorder else "",
            suspect_for=_suspect_for(section),
            ending=ending,
        )

    def notice(
        self, records: Sequence[ActionRecord], details: str, now: float, coming: tuple[NextAction, ...] = ()
    ) -> IncidentEvent:
        """Return the report on actions, for the run's channels, in its incident's thread while it is open.

        `coming`: what is still to be done about it.
        """
        first = records[0]
        check = self.speaker(first.run)
        about = self.incidents.get(first.incident)
        target = first.run or (about.target if about else self.setup.config.daemon.name)
        told = sorted(records, key=lambda each: each.weight)
        job_name = check.run.job_name if check and check.run and check.run.backend == "slurm" else ""
        trigger = next((record.trigger for record in records if record.trigger), "")
        return IncidentEvent(
            EventKind.NOTICE,
            now,
            check.name if check else SELF,
            first.run,
            target,
            message_wording.outcome([each.said for each in told], trigger, first.incident, target, coming),
            details,
            about,
            label="ACTION",
            facts=(*_reason(about), *(each.deed for each in records)),
            advice=tuple(dict.fromkeys(way for each in _in_turn(told) for way in each.advice(job_name))),
            upcoming=coming,
        )

    def _pulled(self, check: Check, incident: Incident) -> Iterator[ActionRequest]:
        last = self._last(check, incident)
        if last is None or not last.trigger:
            return
        for name in self._runs(check):
            actions = tuple(map(_action, getattr(self.setup.config.runs[name], last.trigger)))
            if actions:
                speaker = self.speaker(name)
                process = bool(speaker and speaker.run and speaker.run.backend == "process")
                yield ActionRequest(incident.id, name, last.trigger, actions, self._foreign(name), process)

    def _foreign(self, run: str) -> Foreign | None:
        """Return the run's job if it is another user's, as far as the last snapshot shows."""
        check = self.speaker(run)
        snapshot = self.snapshots.snapshot(check) if check and check.run else None
        if check is None or check.run is None or snapshot is None:
            return None
        return job_actions.foreign(working_job.of(check.run, snapshot), check.run.backend)

    def _last(self, check: Check, incident: Incident) -> Result | None:
        seen = self.latest.get(check.name, ())
        return next((each.result for each in seen if each.result.subject == incident.subject), None)

    def _runs(self, check: Check) -> Iterable[str]:
        """Return the check's run, or the runs whose files are on its disk."""
        runs = self.setup.config.runs
        if check.run:
            return (check.run.name,) if check.run.name in runs else ()
        disk = str(check.parameters.get("path") or "")
        return [name for name, section in runs.items() if disk and policy.uses(disk, self._places(section))]

    def _places(self, section: RunSection) -> list[str]:
        named = (section.log, section.checkpoints, section.kill_switch, section.save_switch)
        return [absolute(self.home, place) for place in named if place]

    def speaker(self, run: str) -> Check | None:
        """Return the check that stands for a run in messages: the one on its jobs, if there is one."""
        own = [check for check in self.setup.checks if run and check.run_name == run]
        return next((check for check in own if check.entry.declared.jobs), own[0] if own else None)


def _reason(about: Incident | None) -> Iterator[str]:
    """Yield what was wrong, so that an action was taken, if that is still open."""
    if about is not None:
        yield f"because of: [{about.status.name}] {about.summary}"


def _in_turn(records: Sequence[ActionRecord]) -> list[ActionRecord]:
    """Return the records in the order in which their commands work.

    A switch that was pressed is cleared before a job is started by hand, which would stop at once.
    """
    starts = any(each.state != DONE and each.action.kind in ("requeue", "resubmit") for each in records)
    return sorted(records, key=lambda each: not (starts and each.state == DONE and each.stops_jobs))


def _free(state: CheckState, incident: Incident) -> bool:
    """Return whether a fault still lasts, and is not acknowledged, silenced or inhibited."""
    held = incident.acknowledged_by or incident.silent or incident.inhibited_by is not None
    return not held and state.hard is not Status.OK and agrees(state)


def _suspect_for(section: RunSection) -> float:
    """Return the seconds for which a suspect node is excluded from a run's jobs."""
    exclusions = (_action(each).exclusion for each in section.on_hang)
    return max((each.lasts for each in exclusions if each), default=suspect_nodes.DAY)


def _action(configured: Any) -> Action:
    if isinstance(configured, str):
        return Action(configured)
    if configured.exec is not None:
        return Action("exec", tuple(configured.exec))
    if configured.requeue is not None:
        limits = Exclusion(configured.requeue.max_excluded, configured.requeue.exclude_for)
        return Action("requeue", exclusion=limits)
    kind = "resubmit" if configured.resubmit is not None else "annotate"
    return Action(kind, (getattr(configured, kind),))
