"""Actions as values: as configured, as recorded from begin to outcome, as a task with all that it needs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from threading import Event
from typing import Any

from watchdogd.home import suspect_nodes
from watchdogd.home.layout import Home
from watchdogd.incidents.message_wording import ActionWords
from watchdogd.incidents.models import Incident, NextAction
from watchdogd.plugin import Advice, Job, Run
from watchdogd.units import iso

HARMLESS = frozenset({"evidence", "stacks", "save-switch", "annotate"})
"""Kinds that may be done twice if a crash leaves open whether they were done; all others at most once."""
BEGUN, DONE, FAILED, SKIPPED, LOST = "begun", "done", "failed", "skipped", "lost"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Limits on excluding suspect nodes: how many at most, and for how many seconds each."""

    most: int = suspect_nodes.MOST
    lasts: float = suspect_nodes.DAY


@dataclass(frozen=True, slots=True)
class Action:
    """One entry of `on_hang` and the like.

    `kind`: stacks, save-switch, kill-switch, cancel, requeue, hold, cancel-pending, exec, annotate or
        resubmit;
        or evidence, which needs no configuration.
    `words`: the command of `exec`, the script of `resubmit`, the Python of `annotate`.
    `exclusion`: of a requeue that excludes suspect nodes.
    """

    kind: str
    words: tuple[str, ...] = ()
    exclusion: Exclusion | None = None

    @property
    def label(self) -> str:
        """Return its name for people; limits are counted by it."""
        return " ".join((self.kind, *self.words))

    @property
    def name(self) -> str:
        """Return its name in a failure: `requeue`, or the program that ran."""
        if self.kind == "exec":
            return os.path.basename(self.words[0])
        return _NAMES.get(self.kind, self.kind)

    def next(self, *, process: bool = False) -> NextAction:
        """Return it as what watchdogd will do; `process`: about a plain process, which is no job."""
        about = os.path.basename(self.words[0]) if self.words else ""
        words = "end its process" if process and self.kind == "cancel" else _WILL.get(self.kind, self.label)
        return NextAction(self.kind, words.format(about))

    @property
    def harmless(self) -> bool:
        """Return True if doing it twice is better than not at all."""
        return self.kind in HARMLESS


EVIDENCE = Action("evidence")
_NAMES = {"annotate": "note in the tracker", "save-switch": "save switch", "kill-switch": "kill switch"}
_WILL = {
    "stacks": "take stacks", "requeue": "requeue its job", "cancel": "cancel its job",
    "hold": "hold its waiting jobs", "cancel-pending": "cancel its waiting jobs",
    "kill-switch": "press the kill switch", "save-switch": "press the save switch",
    "exec": "run {}", "resubmit": "submit {}", "annotate": "note it in the tracker",
}  # fmt: skip
"""What watchdogd will do, by kind; `{}` stands for the program or script."""

_DEEDS = {
    "requeue": "it was requeued", "cancel": "it was cancelled",
    "resubmit": "a new job was submitted", "hold": "its waiting jobs were held",
    "cancel-pending": "its waiting jobs were cancelled",
    "kill-switch": "the kill switch was pressed", "save-switch": "the save switch was pressed",
}  # fmt: skip
"""What each kind of action does, as it is said where nobody knows whether it was done."""


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """One action for one incident and run: recorded before it is done, and again with its outcome.

    `trigger`: the key that asked for it (`on_hang`), empty for evidence. Times: seconds since the epoch.
    `state`: `begun`, `done`, `failed`, `skipped` (never begun, and why) or `lost` (not known whether done).
    `short`: the outcome in a first line. `why`: the reason of a failure. `by_hand`: the command that does it.
    `then`: what a person can do after it, first of all to take it back. `owed`: it was not reported yet.
    """

    incident: int
    run: str
    trigger: str
    action: Action
    at: float
    state: str = BEGUN
    outcome: str = ""
    ended_at: float | None = None
    short: str = ""
    owed: bool = False
    why: str = ""
    by_hand: str = ""
    then: tuple[Advice, ...] = ()

    @property
    def key(self) -> tuple[int, str, str]:
        """Return the identity of an action, which is done only once."""
        return self.incident, self.run, self.action.label

    @property
    def ended(self) -> bool:
        return self.state != BEGUN

    @property
    def stops_jobs(self) -> bool:
        """Return True for a kill switch: while it is set, each job of the run stops as it starts."""
        return self.action.kind == "kill-switch"

    @property
    def ends_job(self) -> bool:
        """Return True if it ended the run's job, or may have."""
        return self.action.kind in ("cancel", "requeue") and self.state in (BEGUN, DONE, LOST)

    @property
    def weight(self) -> tuple[bool, bool]:
        """Sort key of outcomes, the heaviest first: failures, and among those the ones that change a job."""
        return self.state == DONE, self.action.harmless

    @property
    def said(self) -> ActionWords:
        """Return its outcome in a first line: `job 5 requeued`, `requeue FAILED: access denied`."""
        kind = self.action.kind
        if self.state == LOST:
            return ActionWords(f"not known whether {_DEEDS.get(kind, f'{self.action.label} was done')}")
        if self.short:
            return ActionWords(self.short, self.why)
        if self.action == EVIDENCE and self.state == DONE:
            return ActionWords("evidence saved")
        verdict = {DONE: "done", FAILED: "FAILED", SKIPPED: "not done"}
        return ActionWords(f"{self.action.name} {verdict.get(self.state, 'begun')}", self.why or self.outcome)

    def advice(self, job_name: str) -> tuple[Advice, ...]:
        """Return the way back of what was done, and what to do if it was not done, or may not have been."""
        if self.then or self.state not in (FAILED, SKIPPED, LOST):
            return self.then
        undone = self._undone(job_name)
        return (undone,) if undone else ()

    def _undone(self, job_name: str) -> Advice | None:
        sentence = f"To do it by hand ({self.action.name}):"
        if self.by_hand:
            return Advice(sentence, self.by_hand)
        if self.action.kind in ("kill-switch", "save-switch"):
            return Advice(sentence, f"watchdogd {self.action.kind} {shlex.quote(self.run)}")
        if self.action.kind == "annotate" and self.state == FAILED:
            return Advice("The run is not affected: correct that for the next incident.")
        if self.action.kind == "exec":
            return Advice("To run it by hand:", shlex.join(self.action.words))
        if self.action.kind == "resubmit":
            return Advice("To submit it by hand:", f"sbatch {shlex.quote(self.action.words[0])}")
        if self.action.harmless or not job_name:
            return None
        first = (
            "To see whether it was done:" if self.state == LOST else "Before you do it by hand, see its jobs:"
        )
        return Advice(first, f"squeue --name={shlex.quote(job_name)}")

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> ActionRecord:
        """Read what `as_json` returned. Raise KeyError, TypeError or ValueError for anything else."""
        said = kept["action"]
        exclusion = Exclusion(**said["exclusion"]) if said.get("exclusion") else None
        action = Action(str(said["kind"]), tuple(map(str, said["words"])), exclusion)
        then = tuple(Advice(**each) for each in kept.get("then", ()))
        return cls(**{**kept, "action": action, "then": then})

    @property
    def deed(self) -> str:
        """Return what came of it, where its incident is named above: `requeue: job 5 is requeued`."""
        verdict = {FAILED: " FAILED", SKIPPED: " not done", LOST: " may have been done or not"}
        label = self.action.kind if self.action.kind == "resubmit" else self.action.label
        return f"{label}{verdict.get(self.state, '')}: {self.outcome or 'under way'}"

    def __str__(self) -> str:
        """Return `requeue for incident 12 (on_hang): job 501 is requeued`."""
        why = f" ({self.trigger})" if self.trigger else ""
        verdict = {FAILED: " failed", SKIPPED: " was not done", LOST: " may have been done or not"}
        return f"{self.action.label} for incident {self.incident}{why}{verdict.get(self.state, '')}: " + (
            self.outcome or "under way"
        )


@dataclass(frozen=True, slots=True)
class ActionTask:
    """An action with all that it needs.

    `run`: None for an incident without a run. `log`: the run's log; `written`: files that watchdogd writes.
    `users`: users whose jobs count. `queue`: the run's jobs as the round saw them.
    `gpus`: number on each node, 0 if not configured. `recorder`: configured beginning of the paths of Flight
        Recorder's dumps. `suspect_for`: seconds for which a suspect node is excluded.
    `ending`: set when watchdogd ends and does not wait any longer.
    """

    record: ActionRecord
    incident: Incident
    home: Home
    run: Run | None = None
    log: str = ""
    written: tuple[str, ...] = ()
    gpus: int = 0
    users: frozenset[str] = field(default_factory=frozenset)
    queue: tuple[Job, ...] = ()
    recorder: str = ""
    suspect_for: float = suspect_nodes.DAY
    ending: Event = field(default_factory=Event)


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """Outcome in one line, with further lines of evidence; `ok` is False for a failure.

    `short`: the outcome in a first line (`job 5 requeued`), by default `text`. For a failure, `why` is the
    reason in a few words and `by_hand` the command that does it. `then`: what a person can do after it, first
    of all to take it back.
    """

    text: str
    details: str = ""
    ok: bool = True
    short: str = ""
    why: str = ""
    by_hand: str = ""
    then: tuple[Advice, ...] = ()


def incident_as_json(task: ActionTask) -> dict[str, Any]:
    """Return the incident as JSON, with its details, the trigger, and the path of the evidence."""
    incident = task.incident
    return {
        "id": incident.id,
        "run": task.run.name if task.run else incident.run,
        "check": incident.check,
        "target": incident.target,
        "subject": incident.subject,
        "status": incident.status.name,
        "state": incident.state,
        "opened_at": iso(incident.opened_at),
        "resolved_at": None if incident.resolved_at is None else iso(incident.resolved_at),
        "summary": incident.summary,
        "facts": list(incident.facts),
        "advice": [{"sentence": each.sentence, "command": each.command} for each in incident.advice],
        "details": incident.details,
        "trigger": task.record.trigger or None,
        "evidence": str(task.home.evidence / str(incident.id)),
    }
