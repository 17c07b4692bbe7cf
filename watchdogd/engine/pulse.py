"""The pulse of a run: a line of its status each round, appended to a file for people who tail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from watchdogd.batch import run_models
from watchdogd.engine.status import observation_json
from watchdogd.errors import WatchdogError
from watchdogd.home.layout import absolute
from watchdogd.notify.channels.statuslog import append
from watchdogd.plugin import Status
from watchdogd.system.bounded import BoundedIO
from watchdogd.system.text import one_line
from watchdogd.units import iso

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from watchdogd.engine.scene import Scene
    from watchdogd.home.layout import Home
    from watchdogd.plugin import Result

LENGTH = 500
"""Characters of a line, at most."""


class Pulse:
    """Writes the files of `[runs.NAME] pulse`; a place that hangs holds up nothing else."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._places: dict[str, BoundedIO] = {}

    def beat(self, scene: Scene, now: float) -> str:
        """Write a line to each run that has a pulse; returns what failed, in one line, or nothing."""
        wanted = {run: section.pulse for run, section in scene.setup.config.runs.items() if section.pulse}
        failed = (
            self._append(absolute(self._home, path), line(run, *_said(scene, run), now))
            for run, path in wanted.items()
        )
        return "; ".join(filter(None, failed))

    def close(self) -> None:
        """Let go of the places."""
        for place in self._places.values():
            place.close()

    def _append(self, path: str, text: str) -> str:
        if path not in self._places:
            self._places[path] = BoundedIO(path)
        try:
            self._places[path].attempt(partial(append, path, text, self._home))
        except OSError as error:
            return f"the pulse {path} cannot be written: {error.strerror}"
        except WatchdogError as error:
            return f"the pulse cannot be written: {error}"
        return ""


def line(run: str, state: str, results: Sequence[Result], now: float) -> str:
    """`TIME [STATUS] RUN: STATE; summaries`, as alerts have it: what is wrong, worst first, else all.

    UNKNOWN as long as no check has answered.
    """
    worst = max((result.status for result in results), key=_severity, default=Status.UNKNOWN)
    wrong = [result for result in results if result.status is not Status.OK]
    told = sorted(wrong, key=lambda result: -result.status.severity) or [
        result for result in results if not result.subject
    ]
    said = _joined(result.summary for result in told) or "no check has answered yet"
    does = f"{state}; " if state else ""
    return f"{iso(now)} {one_line(f'[{worst.name}] {run}: {does}{said}', LENGTH)}"


def _severity(status: Status) -> int:
    return status.severity


def _joined(summaries: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, summaries)))


def _said(scene: Scene, run: str) -> tuple[str, list[Result]]:
    """Return the run's state, and what its checks said last, in their order."""
    own = (check.name for check in scene.setup.checks if check.run_name == run)
    seen = [each for name in own for each in scene.latest.get(name, ())]
    return run_models.run_state(map(observation_json, seen)), [each.result for each in seen]
