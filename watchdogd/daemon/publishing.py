"""Files written for other programs: the HTML page, metrics for Prometheus, each run's status line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial

from watchdogd.batch import run_models
from watchdogd.daemon.remediation_context import RemediationContext
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.status_file import observation_json
from watchdogd.daemon.trouble import Trouble, joined
from watchdogd.errors import WatchdogError
from watchdogd.home.layout import Home, absolute
from watchdogd.notify.channels.statuslog import append
from watchdogd.plugin import Result, Status
from watchdogd.system import command, umask
from watchdogd.system.bounded_io import BoundedIO
from watchdogd.system.smallfile import MISSHAPEN, STATUS_LIMIT, parse_json, read_plain, replace_file
from watchdogd.system.text import one_line
from watchdogd.system.times import fresh
from watchdogd.units import local_time
from watchdogd.web.columns import STATE_WORDS
from watchdogd.web.metrics import metrics_text

DEADLINE = 300.0
"""Seconds for making the page, in a process of its own."""
READABLE = 0o644
"""Permissions of the metrics file: node_exporter runs as another user."""


class _Places:
    """Base of writers to arbitrary paths, each with its own BoundedIO: one that hangs delays no other."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._places: dict[str, BoundedIO] = {}

    def close(self) -> None:
        for place in self._places.values():
            place.close()

    def _at(self, path: str) -> BoundedIO:
        if path not in self._places:
            self._places[path] = BoundedIO(path)
        return self._places[path]


class Publisher(_Places):
    """Writer of the files of `[report]` and `[prometheus]`."""

    def publish(self, setup: Setup, now: float) -> str:
        """Write files that are due; return what failed, in one line, or empty."""
        return joined((self._report(setup, now), self._textfile(setup)))

    def _report(self, setup: Setup, now: float) -> str:
        section = setup.config.report
        if section is None:
            return ""
        path = absolute(self._home, section.path)
        try:
            written = self._at(path).attempt(partial(_written, path))
        except (WatchdogError, OSError) as error:
            return _unwritten(f"the page {path}", error, path)
        if fresh(written, now, section.every):
            return ""
        argv = (sys.executable, "-P", "-m", "watchdogd", "report", "--home", str(self._home.path), "-o", path)
        answer = command.ask(argv, deadline=DEADLINE, umask=umask.users())
        return "" if answer.ok else Trouble(f"the page is not written: {answer.complaint('watchdogd')}")

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
        except (WatchdogError, OSError) as error:
            return _unwritten(path, error, path)
        except MISSHAPEN:
            return f"{path} cannot be written: {self._home.status} holds what no round writes"
        return ""


def _unwritten(what: str, error: Exception, path: str) -> Trouble:
    """Return that a file cannot be written, and why; what helps is about its folder."""
    why = getattr(error, "strerror", None) or error
    return Trouble.of(f"{what} cannot be written: {why}", error, os.path.dirname(path) or path)


def _written(path: str) -> float:
    """Return a file's modification time; minus infinity where it does not exist."""
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return float("-inf")


LENGTH = 500
"""Maximum characters of a line."""


class StatusLines(_Places):
    """Writer of the `pulse` files of runs."""

    def beat(self, context: RemediationContext, now: float) -> str:
        """Append a line to each run's `pulse` file; return what failed, in one line, or empty."""
        wanted = {run: section.pulse for run, section in context.setup.config.runs.items() if section.pulse}
        failed = (
            self._append(absolute(self._home, path), line(run, *_said(context, run), now))
            for run, path in wanted.items()
        )
        return joined(failed)

    def _append(self, path: str, text: str) -> str:
        try:
            self._at(path).attempt(partial(append, path, text, self._home))
        except OSError as error:
            return Trouble.of(f"the pulse file {path} is not updated: {error.strerror}", error, path)
        except WatchdogError as error:
            return f"a pulse file is not updated: {error}"
        return ""


def line(run: str, state: str, results: Sequence[Result], now: float) -> str:
    """Return `TIME [STATUS] RUN: STATE; summaries`: faults, worst first, or else all summaries.

    UNKNOWN as long as no check has answered.
    """
    worst = max((each.status for each in results), key=lambda each: each.severity, default=Status.UNKNOWN)
    wrong = [result for result in results if result.status is not Status.OK]
    shown = sorted(wrong, key=lambda result: -result.status.severity)
    shown = shown or [result for result in results if not result.subject]
    said = "; ".join(dict.fromkeys(filter(None, (each.summary for each in shown))))
    said = said or "no check has answered yet"
    does = f"{STATE_WORDS.get(state, state)}; " if state else ""
    return f"{local_time(now)} {one_line(f'[{worst.name}] {run}: {does}{said}', LENGTH)}"


def _said(context: RemediationContext, run: str) -> tuple[str, list[Result]]:
    """Return the run's state, and the newest results of its checks in order."""
    own = (check.name for check in context.setup.checks if check.run_name == run)
    seen = [each for name in own for each in context.latest.get(name, ())]
    return run_models.run_state(map(observation_json, seen)), [each.result for each in seen]
