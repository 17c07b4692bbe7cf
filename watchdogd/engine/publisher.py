"""Files that are put where others look, beside the rounds: the page, and numbers for Prometheus."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from watchdogd.errors import WatchdogError
from watchdogd.home.layout import absolute
from watchdogd.system import command, umask
from watchdogd.system.bounded import BoundedIO
from watchdogd.system.clock import fresh
from watchdogd.system.smallfile import STATUS_LIMIT, parse_json, read_plain, replace_file
from watchdogd.web.metrics import metrics_text

if TYPE_CHECKING:
    from watchdogd.engine.setup import Setup
    from watchdogd.home.layout import Home

DEADLINE = 300.0
"""Seconds that making the page may take; it is made by a process of its own."""
READABLE = 0o644
"""node_exporter is another user."""


class Publisher:
    """Writes the files of `[report]` and `[prometheus]`; a place that hangs holds up nothing else."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._places: dict[str, BoundedIO] = {}

    def publish(self, setup: Setup, now: float) -> str:
        """Write what is due; returns what failed, in one line, or nothing."""
        return "; ".join(filter(None, (self._report(setup, now), self._textfile(setup))))

    def close(self) -> None:
        """Let go of the places."""
        for place in self._places.values():
            place.close()

    def _at(self, path: str) -> BoundedIO:
        if path not in self._places:
            self._places[path] = BoundedIO(path)
        return self._places[path]

    def _report(self, setup: Setup, now: float) -> str:
        section = setup.config.report
        if section is None:
            return ""
        path = absolute(self._home, section.path)
        try:
            written = self._at(path).attempt(partial(_written, path))
        except (WatchdogError, OSError) as error:
            return f"the page cannot be written: {error}"
        if fresh(written, now, section.every):
            return ""
        argv = (sys.executable, "-P", "-m", "watchdogd", "report", "--home", str(self._home.path), "-o", path)
        answer = command.ask(argv, deadline=DEADLINE, umask=umask.users())
        return "" if answer.ok else answer.complaint("watchdogd")

    def _textfile(self, setup: Setup) -> str:
        section = setup.config.prometheus
        if section is None:
            return ""
        path = absolute(self._home, section.textfile)
        try:
            text = metrics_text(
                {**parse_json(read_plain(self._home.status, limit=STATUS_LIMIT)), "alive": True}
            )
            self._at(path).attempt(partial(replace_file, path, text, READABLE))
        except (WatchdogError, OSError, ValueError) as error:
            return f"{path} cannot be written: {error}"
        return ""


def _written(path: str) -> float:
    """Return when the file was; before all time where there is none."""
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return float("-inf")
