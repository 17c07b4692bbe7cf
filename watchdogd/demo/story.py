"""Story of the demo: its steps, the alert that each one waits for, and the screen that shows both."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from watchdogd.demo import disk
from watchdogd.demo.stage import BrokenError, PostedAlert, Stage, StageView
from watchdogd.demo.toy_training import RUN
from watchdogd.errors import WatchdogError
from watchdogd.parsers.quota.models import BYTES, INODES
from watchdogd.plugin import STOPPED
from watchdogd.system.text import one_line

STYLES = {
    "CRITICAL": "bold red",
    "WARNING": "yellow",
    "UNKNOWN": "magenta",
    "RESOLVED": "bold green",
    "ACTION": "bold cyan",
    "INFO": "cyan",
    "OK": "green",
}


LEFT = 8
"""Columns of the left margin: a step's number, a prompt, the time of day."""
NAME = 20
"""Columns of a table row's name."""


class Screen:
    """Lines on `console` and, on a terminal with a movable cursor, a live table below them.

    `home` is left out of paths in the table.
    """

    def __init__(self, console: Console, home: str) -> None:
        self._console = console
        self._home = home
        self._begin = time.monotonic()
        self._shown = 0
        moves = console.file.isatty() and not console.is_dumb_terminal
        self._live = Live(console=console, auto_refresh=False, transient=True) if moves else None

    def __enter__(self) -> Screen:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def say(self, text: str) -> None:
        self._console.print(Text(text))

    def begin(self, number: int, of: int, caption: str, awaited: str) -> None:
        self._console.print()
        self._row(f"{number} of {of}", Text(caption, "bold"))
        self._row("", Text(f"waits for {awaited}", "dim"))

    def done(self, lines: Sequence[str]) -> None:
        """Show what was done: the command, and its output."""
        for index, text in enumerate(lines):
            self._row("" if index else "$", Text(text, "cyan"))

    def show(self, view: StageView) -> None:
        """Show new alerts, and the present table."""
        for alert in view.alerts[self._shown :]:
            self._row(alert.clock, _headline(alert))
        self._shown = len(view.alerts)
        if self._live:
            self._live.update(self._table(view), refresh=True)

    def seen(self, seconds: float, proof: Sequence[str]) -> None:
        """Show that a step has succeeded, and the lines that prove it."""
        for text in proof:
            self._row("", Text(f"| {text.strip()}", "dim"))
        self._row("", Text(f"seen after {seconds:.1f} s", "green"))

    def _row(self, left: str, text: Text) -> None:
        """Print text that keeps its indentation where it wraps."""
        for line in text.wrap(self._console, self._console.width - LEFT - 1):
            line.rstrip()
            self._console.print(Text.assemble(left.rjust(LEFT), " ", line))
            left = ""

    def _table(self, view: StageView) -> Group:
        """Return the table of each check's last result."""
        rows = Table(box=None, padding=(0, 1, 0, 0), show_header=False, expand=True)
        rows.add_column(width=NAME, no_wrap=True)
        rows.add_column(width=LEFT)
        plain = self._console.options.ascii_only
        rows.add_column(no_wrap=True, overflow="crop" if plain else "ellipsis", ratio=1)
        for seen in sorted(view.status["checks"], key=lambda seen: seen["run"] is None):
            name = f"{seen['target']} {seen['subject'] or seen['check'].rpartition('/')[2]}"
            summary = one_line(seen["summary"].replace(f"{self._home}/", ""))
            rows.add_row(name, Text(seen["status"], STYLES.get(seen["status"], "")), Text(summary))
        state = f"{time.monotonic() - self._begin:.0f} s" if rows.rows else "the daemon is starting"
        return Group("", Rule(f"what watchdogd sees: {state}", style="dim", align="left"), rows)


def _headline(alert: PostedAlert) -> Text:
    """Return the first line of a message, its status coloured."""
    line = Text(alert.headline)
    line.stylize(STYLES.get(alert.status, ""), 0, len(f"[{alert.status}]"))
    return line


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
