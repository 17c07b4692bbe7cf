"""Screen of the demo: a line for each event, and on a terminal a live table below them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from watchdogd.demo.stage import PostedAlert, StageView
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
