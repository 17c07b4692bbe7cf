"""Story of the demo: the steps, and the alert that each one waits for."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from watchdogd.demo import disk
from watchdogd.demo.screen import Screen
from watchdogd.demo.stage import BrokenError, PostedAlert, Stage, StageView
from watchdogd.demo.toy_training import RUN
from watchdogd.errors import WatchdogError
from watchdogd.parsers.quota.models import BYTES, INODES
from watchdogd.plugin import STOPPED

QUIET = 4.0
"""Seconds without any fault or message that count as healthy."""
PATIENCE = 60.0
"""Seconds that a step may take; on an idle machine it takes ten at most."""
READING = 3.0
"""Seconds between two steps, for the reader."""
LOOK = 0.2


class UnseenError(WatchdogError):
    """A step failed: the text says which, and what was awaited."""


@dataclass(frozen=True, slots=True)
class DemoStep:
    """Step: `act` does it and returns lines to show; then `seen` is called until it returns True.

    `awaited` describes what `seen` looks for in the alerts since the step began and in the present view.
    `proof` picks lines to show afterwards.
    """

    caption: str
    awaited: str
    act: Callable[[Stage], Sequence[str]]
    seen: Callable[[Sequence[PostedAlert], StageView], bool]
    proof: Callable[[Sequence[PostedAlert], StageView], Sequence[str]] = lambda _alerts, _view: ()


def alerted(
    status: str, target: str, subject: str = ""
) -> Callable[[Sequence[PostedAlert], StageView], bool]:
    """Return a test for an alert of this status and target that names this subject."""
    return lambda alerts, _view: any(
        (alert.status, alert.target) == (status, target) and subject in alert.subjects for alert in alerts
    )


def healthy(alerts: Sequence[PostedAlert], view: StageView) -> bool:
    """Return whether all checks have been OK for a while, and no alert came."""
    return not alerts and view.fine_for >= QUIET


def hung(alerts: Sequence[PostedAlert], view: StageView) -> bool:
    """Return whether the hang is reported with the last lines of the log."""
    shown = {line for alert in alerts for line in alert.evidence}
    return alerted("CRITICAL", RUN)(alerts, view) and not shown.isdisjoint(view.log)


def stopped(alerts: Sequence[PostedAlert], view: StageView) -> bool:
    """Return whether the training saved and exited well, and is reported as stopped on request."""
    saved = any(line.startswith("saved ") for line in view.log)
    known = any(seen.get("kind") == STOPPED for seen in view.status.get("checks", ()))
    return saved and view.exit_code == 0 and known and alerted("WARNING", RUN)(alerts, view)


def evidence(alerts: Sequence[PostedAlert], _view: StageView) -> Sequence[str]:
    """Return the end of the log as in the message."""
    critical = next(alert for alert in alerts if alert.status == "CRITICAL")
    return critical.evidence[-4:]


def last_words(_alerts: Sequence[PostedAlert], view: StageView) -> Sequence[str]:
    return view.log[-1:]


def _hang(stage: Stage) -> Sequence[str]:
    worker = stage.worker
    worker.suspend()
    return [f"kill -STOP {worker.pid}"]


def _go_on(stage: Stage) -> Sequence[str]:
    worker = stage.worker
    worker.send_signal(signal.SIGCONT)
    return [f"kill -CONT {worker.pid}"]


def _on_disk(act: Callable[..., None], shown: str) -> Callable[[Stage], Sequence[str]]:
    def do(stage: Stage) -> Sequence[str]:
        act(stage.scratch)
        return [shown]

    return do


def _switch(stage: Stage) -> Sequence[str]:
    reason = "wrong learning rate"
    answer = stage.verb("kill-switch", RUN, "--reason", reason)
    return [f'watchdogd kill-switch {RUN} --reason "{reason}"', answer]


STEPS = (
    DemoStep(
        "All is well: the training trains, the disk has room.",
        "every check OK, and no message at all",
        lambda _stage: (),
        healthy,
    ),
    DemoStep(
        "The training hangs: its process lives, but its worker stands still.",
        f"[CRITICAL] {RUN}, with the last lines of its log",
        _hang,
        hung,
        evidence,
    ),
    DemoStep("It goes on.", f"[RESOLVED] {RUN}", _go_on, alerted("RESOLVED", RUN)),
    DemoStep(
        "The disk fills up: a core dump takes what room there was.",
        "[CRITICAL] scratch, naming the bytes",
        _on_disk(disk.fill_bytes, "a core dump is written to scratch/"),
        alerted("CRITICAL", "scratch", BYTES),
    ),
    DemoStep(
        "It is removed.",
        "[RESOLVED] scratch",
        _on_disk(disk.free_bytes, "rm scratch/core.4711"),
        alerted("RESOLVED", "scratch", BYTES),
    ),
    DemoStep(
        "Now small files use up its inodes, though there is room in bytes.",
        "[CRITICAL] scratch, naming the inodes",
        _on_disk(disk.fill_inodes, "a package cache is unpacked in scratch/"),
        alerted("CRITICAL", "scratch", INODES),
    ),
    DemoStep(
        "They are removed.",
        "[RESOLVED] scratch",
        _on_disk(disk.free_inodes, "rm -r scratch/cache"),
        alerted("RESOLVED", "scratch", INODES),
    ),
    DemoStep(
        "A colleague, who may not cancel the job, stops it with the kill switch.",
        f"its last checkpoint, its end, and [WARNING] {RUN}: stopped on request",
        _switch,
        stopped,
        last_words,
    ),
)


def play(stage: Stage, screen: Screen, pause: Callable[[float], None]) -> None:
    """Play all steps in order. UnseenError where one fails.

    `pause` waits for so many seconds, and may raise to end the demo.
    """
    for number, step in enumerate(STEPS, 1):
        screen.begin(number, len(STEPS), step.caption, step.awaited)
        try:
            _play(stage, step, screen, pause)
        except (BrokenError, TimeoutError) as error:
            raise UnseenError(
                f"step {number} of {len(STEPS)} was not seen ({step.awaited}): {error}"
            ) from None


def _play(stage: Stage, step: DemoStep, screen: Screen, pause: Callable[[float], None]) -> None:
    """Play one step. TimeoutError where its result does not come."""
    begin = time.monotonic()
    before = len(stage.look().alerts)
    screen.done(step.act(stage))
    while True:
        view = stage.look()
        screen.show(view)
        alerts = view.alerts[before:]
        if step.seen(alerts, view):
            break
        if time.monotonic() - begin > PATIENCE:
            raise TimeoutError(f"waited {PATIENCE:g} s in vain")
        pause(LOOK)
    screen.seen(time.monotonic() - begin, step.proof(alerts, view))
    _rest(stage, screen, pause)


def _rest(stage: Stage, screen: Screen, pause: Callable[[float], None]) -> None:
    """Give time to read, while the screen stays live."""
    end = time.monotonic() + READING
    while time.monotonic() < end:
        pause(LOOK)
        screen.show(stage.look())
