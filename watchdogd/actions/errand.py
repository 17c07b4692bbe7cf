"""A deed with all that its doer needs to know, so that it can be handed to a thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

from watchdogd.units import iso

if TYPE_CHECKING:
    from watchdogd.actions.deed import Deed
    from watchdogd.home.layout import Home
    from watchdogd.incidents.models import Incident
    from watchdogd.plugin import Job, Run


@dataclass(frozen=True, slots=True)
class Errand:
    """`run` is None for an incident of no run. `log` is its log, `written` by watchdogd, and none of it.

    `users` are those whose jobs count, `queue` the run's jobs as the round saw them, `gpus` how many each
    node has, 0 where it is not configured, `recorder` what its dumps of PyTorch's Flight Recorder begin with,
    where that is configured. `ending` is set when watchdogd ends and waits no longer.
    """

    deed: Deed
    incident: Incident
    home: Home
    run: Run | None = None
    log: str = ""
    written: tuple[str, ...] = ()
    gpus: int = 0
    users: frozenset[str] = field(default_factory=frozenset)
    queue: tuple[Job, ...] = ()
    recorder: str = ""
    ending: Event = field(default_factory=Event)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome in one line, with further lines of evidence; `ok` is False where it failed."""

    text: str
    details: str = ""
    ok: bool = True


def incident_as_json(errand: Errand) -> dict[str, Any]:
    """Describe the incident as JSON: with its details, the trigger, and where the evidence is."""
    incident = errand.incident
    return {
        "id": incident.id,
        "run": errand.run.name if errand.run else incident.run,
        "check": incident.check,
        "target": incident.target,
        "subject": incident.subject,
        "status": incident.status.name,
        "state": incident.state,
        "opened_at": iso(incident.opened_at),
        "resolved_at": None if incident.resolved_at is None else iso(incident.resolved_at),
        "summary": incident.summary,
        "details": incident.details,
        "trigger": errand.deed.trigger or None,
        "evidence": str(errand.home.evidence / str(incident.id)),
    }
