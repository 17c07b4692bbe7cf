"""Executor of actions, beside the rounds: threads of its own, which are never waited for.

A free thread takes the next task, so that actions continue even if no further thread can be started. Threads
end with the process: one that hangs in a file system or the kernel is left behind, and its action reported as
late. Each handler has its own deadline and reports its result in one line.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from watchdogd.batch import commands, live_job
from watchdogd.batch.models import PAUSED_STATES
from watchdogd.checks.working_job import as_owner, where
from watchdogd.config import switch_places
from watchdogd.errors import Problem, WatchdogError
from watchdogd.home import switches
from watchdogd.integrations import experiment_trackers
from watchdogd.plugin import Advice, Job, Status
from watchdogd.remediation import evidence, job_actions
from watchdogd.remediation.models import ActionOutcome, ActionRecord, ActionTask, incident_as_json
from watchdogd.stacks import stack_collection, stack_summary
from watchdogd.stacks.stack_collection import Sampling
from watchdogd.stacks.stack_folding import Process
from watchdogd.system import command, startup, umask
from watchdogd.system.smallfile import parse_json
from watchdogd.system.text import one_line, split_lines

ROOM = 4
"""Actions at a time."""
LATE = 180.0
"""Seconds after which an action is given up, far above any handler's own deadline."""

log = logging.getLogger(__name__)


class ActionReport(NamedTuple):
    record: ActionRecord
    outcome: ActionOutcome


class Executor:
    """Executor of tasks by `do`, and collector of their outcomes."""

    def __init__(self, do: Callable[[ActionTask], ActionOutcome]) -> None:
        self._do = do
        self._tasks: queue.SimpleQueue[ActionTask] = queue.SimpleQueue()
        self._reports: queue.SimpleQueue[ActionReport] = queue.SimpleQueue()
        self._free = threading.Semaphore(0)
        self._came: list[ActionReport] = []
        self._since: dict[tuple[int, str, str], tuple[ActionRecord, float]] = {}

    @property
    def room(self) -> int:
        """Return how many more tasks may be started now."""
        return max(ROOM - len(self._since), 0)

    @property
    def busy(self) -> bool:
        """Return True if outcomes are still to come or to be collected."""
        return bool(self._since)

    def begin(self, task: ActionTask) -> None:
        """Start a task; if no thread can be started, that is its outcome."""
        self._since[task.record.key] = task.record, time.monotonic()
        if not self._free.acquire(blocking=False):
            try:
                threading.Thread(target=self._work, name="action", daemon=True).start()
            except RuntimeError:
                outcome = ActionOutcome(f"it could not be started: {startup.NO_THREAD}", ok=False)
                self._reports.put(ActionReport(task.record, outcome))
                return
        self._tasks.put(task)

    def has(self, record: ActionRecord) -> bool:
        return record.key in self._since

    def wait(self, patience: float) -> bool:
        """Return True if there is an outcome to collect within `patience` seconds."""
        if not self._since:
            return False
        with contextlib.suppress(queue.Empty):
            self._came.append(self._reports.get(timeout=patience))
        return bool(self._came)

    def reports(self) -> list[ActionReport]:
        """Return the outcomes since the last call, and the tasks that are given up."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._came.append(self._reports.get_nowait())
        came, self._came = self._came, []
        # An outcome that is no longer expected was given up before it came.
        found = [report for report in came if self._since.pop(report.record.key, None)]
        return found + self._late()

    def _late(self) -> list[ActionReport]:
        now = time.monotonic()
        late = [record for record, since in self._since.values() if now - since > LATE]
        for record in late:
            del self._since[record.key]
        return [
            ActionReport(record, ActionOutcome(f"it did not end within {LATE:.0f} s", ok=False))
            for record in late
        ]

    def _work(self) -> None:
        while True:
            self._carry_out(self._tasks.get())
            self._free.release()

    def _carry_out(self, task: ActionTask) -> None:
        try:
            outcome = self._do(task)
        except Exception as error:  # an internal error must not look like an action that never ends
            log.exception("%s broke off", task.record)
            outcome = ActionOutcome(f"it broke off: {type(error).__name__}: {error}", ok=False)
        self._reports.put(ActionReport(task.record, outcome))


EXEC_DEADLINE = 60.0
ANNOTATE_DEADLINE = 120.0
"""Seconds for the trackers' libraries, which take half a minute to load on a busy machine."""
STACKS = Sampling(samples=3, every=2.0, deadline=40.0)


def do(task: ActionTask) -> ActionOutcome:
    """Carry out a task. Never raise because of home, Slurm, a node or a program."""
    try:
        return _DOERS[task.record.action.kind](task)
    except WatchdogError as error:
        return ActionOutcome(str(error), ok=False)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return ActionOutcome(f"{where}{error.strerror or error}", ok=False)


def _stacks(task: ActionTask) -> ActionOutcome:
    run = job_actions.run_of(task)
    live = live_job.locate(run, task.users, task.gpus)
    taken = stack_collection.take(str(task.home.path), live, STACKS)
    text = "\n".join(stack_summary.lines(taken.folded))
    if not (taken.folded.ranks or taken.folded.helpers):
        note = taken.notes[0] if taken.notes else "no process was found"
        why = stack_summary.unreadable(taken.folded) or (note.what if isinstance(note, Problem) else note)
        said = "; ".join([*taken.notes, *split_lines(text)[:1]])
        then = (Advice.of(note),) if isinstance(note, Problem) and note.fix else _woken(taken.folded.stopped)
        return ActionOutcome(said, text, ok=False, short="no stacks", why=why, then=then)
    notes = f" ({'; '.join(taken.notes)})" if taken.notes else ""
    summary = stack_summary.summary(taken.folded) + notes
    try:
        kept = str(evidence.put(task, "stacks.txt", text))
    except OSError as error:  # a full disk: report what was seen nevertheless
        kept = f"not kept: {error.strerror or error}"
    below = "\n".join(split_lines(text)[1:]).strip("\n")  # the first line is the summary
    return ActionOutcome(f"{summary}; {kept}", below, short="stacks taken")


def _woken(stopped: Sequence[Process]) -> tuple[Advice, ...]:
    """Return how to let the stopped processes of the first node go on, whose stacks can be taken then."""
    if not stopped:
        return ()
    node = stopped[0].node
    pids = [str(each.pid) for each in stopped if each.node == node]
    them = "it" if len(pids) == 1 else "them"
    return (Advice(f"To let {them} go on, on {node}:", f"kill -CONT {' '.join(pids)}"),)


def _switch(kind: str) -> Callable[[ActionTask], ActionOutcome]:
    def press(task: ActionTask) -> ActionOutcome:
        run = job_actions.run_of(task)
        if kind == "kill":
            job_actions.spare(task, run)
        switch = switch_places.find(str(task.home.path), run.name, kind)
        reason = f"{task.record.trigger}, incident {task.incident.id}"
        touch = switches.my_signature(reason, automatic=True)
        pressed = switches.press(switch, touch)
        done = [f"{' and '.join(pressed.made)} is set"] if pressed.made else []
        done += [f"it was set already {pressed.before}"] if pressed.before and not done else []
        troubles = [*pressed.failed, *switches.unseen_by(switch, pressed)]
        unheard = switches.unpolled(switch._replace(end=""))
        done += [unheard] if unheard else []
        said = "; ".join([*done, *troubles])
        short = f"{switch.name} pressed by watchdogd" if pressed.made else f"{switch.name} was set already"
        short += ", but no Guard of it was heard of" if unheard else ""
        if troubles:
            return ActionOutcome(said, ok=False, short=f"{short}, but {troubles[0]}")
        ends = unpolled_ends(run.backend, task.queue) if unheard and kind == "kill" else ()
        asleep = () if unheard else _woken_first(kind, run.name, run.backend, task.queue)
        if asleep:
            return ActionOutcome(said, short=f"{short}, but it is suspended", then=asleep)
        return ActionOutcome(said, short=short, then=(*ends, _cleared(kind, run.name, run.backend)))

    return press


def _woken_first(kind: str, run: str, backend: str, jobs: Iterable[Job]) -> tuple[Advice, ...]:
    """Return how to wake suspended jobs, which obey no switch before, or to let them train on."""
    does = "saves and stops" if kind == "kill" else "saves"
    by = "" if backend == "process" else " (by the cluster's administrators)"
    resume = commands.of(backend).resume
    wakes = [
        Advice(
            f"It is suspended, and {does} only once it is woken{by}{where(backend, job)}:",
            resume.format(id=job.id if backend == "process" else shlex.quote(job.handle)),
        )
        for job in jobs
        if job.state in PAUSED_STATES
    ]
    back = _cleared(kind, run, backend)
    if kind == "kill":
        back = replace(back, sentence="To let it train on, clear the switch before you wake it:")
    return (*wakes, back) if wakes else ()


def unpolled_ends(backend: str, jobs: Iterable[Job]) -> tuple[Advice, ...]:
    """Return how to end jobs in which no Guard polls the kill switch."""
    end = commands.of(backend).end
    return tuple(
        Advice(
            as_owner(f"To end it without the switch{where(backend, job)}", job),
            end.format(id=job.id if backend == "process" else shlex.quote(job.handle)),
            "cancel",
        )
        for job in jobs
        if job.working
    )


def _cleared(kind: str, run: str, backend: str = "slurm") -> Advice:
    """Return how to take back that a switch was pressed."""
    again = "To let it run again:" if backend == "process" else "To let its jobs run again:"
    back = again if kind == "kill" else "To take it back:"
    return Advice(back, f"watchdogd {kind}-switch {shlex.quote(run)} --clear")


def _exec(task: ActionTask) -> ActionOutcome:
    """Run the configured command without a shell, with the incident as JSON on its standard input."""
    answer = command.ask(
        task.record.action.words,
        deadline=EXEC_DEADLINE,
        stdin=json.dumps(incident_as_json(task)) + "\n",
        env=command.environment({"WATCHDOGD_HOME": str(task.home.path)}),
        cwd=str(task.home.path),
        umask=umask.sane(),
        output_limit=64 * 1024,
        ending=task.ending,
    )
    name = os.path.basename(task.record.action.words[0])
    if not answer.ok:
        return ActionOutcome(_failure(answer), ok=False)
    said = split_lines(answer.output.strip())
    text = f"ended after {answer.seconds:.1f} s" + (f": {said[-1]}" if said else "")
    return ActionOutcome(text, short=f"{name} ran")


_LEVELS = {Status.CRITICAL: "ERROR", Status.WARNING: "WARN"}


def _annotate(task: ActionTask) -> ActionOutcome:
    """Add a note to the experiment trackers beside the run's log, by the Python that has them."""
    found = experiment_trackers.trackers(task.log) if task.log else ()
    if not found:
        return ActionOutcome("no files of W&B, MLflow or TensorBoard lie beside the run's log", ok=False)
    incident = task.incident
    note = {
        "title": f"[{incident.status.name}] {incident.target}: {incident.summary}",
        "text": "\n".join([*incident.facts, incident.details]).strip() or incident.summary,
        "level": _LEVELS.get(incident.status, "INFO"),
        "incident": incident.id,
        "trackers": [tracker._asdict() for tracker in found],
    }
    program = os.path.join(os.path.dirname(experiment_trackers.__file__), "tracker_notes.py")
    answer = command.ask(
        [*task.record.action.words, program],
        deadline=ANNOTATE_DEADLINE,
        stdin=json.dumps(note),
        cwd=str(task.home.path),
        umask=umask.sane(),
        output_limit=64 * 1024,
        ending=task.ending,
    )
    noted = read_notes(answer.output)
    said = [f"{each.tracker}: {each.said}" for each in noted]
    if not answer.ok:
        said.append(_failure(answer))
    good = [each.tracker for each in noted if each.ok]
    return ActionOutcome(
        "; ".join(said),
        ok=answer.ok and len(good) == len(found),
        short=f"noted in {', '.join(good)}" if good else "",
    )


class TrackerNote(NamedTuple):
    """What became of the note in one tracker."""

    tracker: str
    said: str
    ok: bool


def read_notes(output: str) -> list[TrackerNote]:
    """Read what tracker_notes.py printed; lines of the trackers' libraries among it are left out."""
    found = []
    for line in split_lines(output):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            said = parse_json(line)
            tracker, outcome = one_line(str(said["name"])), one_line(str(said["said"]))
            found.append(TrackerNote(tracker, outcome, said["ok"] is True))
    return found


def _failure(answer: command.Answer) -> str:
    """Return how a program ended, its last output, and where all of its output is kept."""
    if answer.silent:
        return answer.complaint()
    code = answer.exit_code or 0
    ended = f"ended with exit code {code}" if code > 0 else f"ended by {signal.Signals(-code).name}"
    said = split_lines(answer.errors.strip() or ("" if answer.truncated else answer.output.strip()))
    return f"{ended}: {said[-1].strip()}" if said else ended


_DOERS: dict[str, Callable[[ActionTask], ActionOutcome]] = {
    "evidence": evidence.gather,
    "stacks": _stacks,
    "save-switch": _switch("save"),
    "kill-switch": _switch("kill"),
    "exec": _exec,
    "annotate": _annotate,
    "cancel": job_actions.cancel,
    "requeue": job_actions.requeue,
    "hold": job_actions.hold,
    "cancel-pending": job_actions.cancel_pending,
    "resubmit": job_actions.resubmit,
}
