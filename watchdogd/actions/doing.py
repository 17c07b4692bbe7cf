"""Carrying out one deed: the edge. Each doer has its own deadline and says in one line what came of it."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

from watchdogd.actions import evidence, jobactions
from watchdogd.actions.errand import Errand, Outcome, incident_as_json
from watchdogd.batch import live_job
from watchdogd.config import switch_places
from watchdogd.errors import WatchdogError
from watchdogd.home import switches
from watchdogd.stacks import stacktaking, stackwords
from watchdogd.stacks.stacktaking import Sampling
from watchdogd.system import command, umask

if TYPE_CHECKING:
    from collections.abc import Callable

EXEC_DEADLINE = 60.0
STACKS = Sampling(samples=3, every=2.0, deadline=40.0)


def do(errand: Errand) -> Outcome:
    """Carry it out. Never raises for what home, Slurm, a node or a program does."""
    try:
        return _DOERS[errand.deed.action.kind](errand)
    except WatchdogError as error:
        return Outcome(str(error), ok=False)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return Outcome(f"{where}{error.strerror or error}", ok=False)


def _stacks(errand: Errand) -> Outcome:
    run = jobactions.run_of(errand)
    live = live_job.locate(run, errand.users, errand.gpus)
    taken = stacktaking.take(str(errand.home.path), live, STACKS)
    text = "\n".join(stackwords.lines(taken.picture))
    if not (taken.picture.ranks or taken.picture.helpers):
        return Outcome("; ".join([*taken.notes, *text.splitlines()[:1]]), text, ok=False)
    notes = f" ({'; '.join(taken.notes)})" if taken.notes else ""
    summary = stackwords.summary(taken.picture) + notes
    try:
        return Outcome(f"{summary}; {evidence.put(errand, 'stacks.txt', text)}", text)
    except OSError as error:  # a full disk: what was seen is told all the same
        return Outcome(f"{summary}; not kept: {error.strerror or error}", text)


def _switch(kind: str) -> Callable[[Errand], Outcome]:
    def press(errand: Errand) -> Outcome:
        run = jobactions.run_of(errand)
        if kind == "kill":
            jobactions.spare(errand, run)
        switch = switch_places.find(str(errand.home.path), run.name, kind)
        touch = switches.my_signature(f"watchdogd, {errand.deed.trigger}: {errand.incident.summary}")
        pressed = switches.press(switch, touch)
        done = [f"{' and '.join(pressed.made)} is set"] if pressed.made else []
        done += [f"it was set already {pressed.before}"] if pressed.before and not done else []
        troubles = [*pressed.failed, *switches.unseen_by(switch, pressed)]
        return Outcome("; ".join([*done, *troubles]), ok=not troubles)

    return press


def _exec(errand: Errand) -> Outcome:
    """Run the configured words, without a shell; the incident as JSON on their standard input."""
    answer = command.ask(
        errand.deed.action.words,
        deadline=EXEC_DEADLINE,
        stdin=json.dumps(incident_as_json(errand)) + "\n",
        env=command.environment({"WATCHDOGD_HOME": str(errand.home.path)}),
        cwd=str(errand.home.path),
        umask=umask.sane(),
        output_limit=64 * 1024,
        ending=errand.ending,
    )
    if not answer.ok:
        return Outcome(_failure(answer), ok=False)
    said = answer.output.strip().splitlines()
    return Outcome(f"ended well after {answer.seconds:.1f} s" + (f": {said[-1]}" if said else ""))


def _failure(answer: command.Answer) -> str:
    """Return how a program ended, and what it said last, where all that it said is kept."""
    if answer.silent:
        return answer.complaint()
    code = answer.exit_code or 0
    ended = f"ended with exit code {code}" if code > 0 else f"ended by {signal.Signals(-code).name}"
    said = (answer.errors.strip() or ("" if answer.truncated else answer.output.strip())).splitlines()
    return f"{ended}: {said[-1].strip()}" if said else ended


_DOERS: dict[str, Callable[[Errand], Outcome]] = {
    "evidence": evidence.gather,
    "stacks": _stacks,
    "save-switch": _switch("save"),
    "kill-switch": _switch("kill"),
    "exec": _exec,
    "cancel": jobactions.cancel,
    "requeue": jobactions.requeue,
    "resubmit": jobactions.resubmit,
}
