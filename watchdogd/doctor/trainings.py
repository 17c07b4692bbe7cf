"""The runs' files: logs that match, switches that can be pressed, checkpoints that are found."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING

from watchdogd.doctor.finding import Finding, broken, fine, warning
from watchdogd.home.layout import absolute
from watchdogd.logs import obstacle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchdogd.config.targets import RunSection
    from watchdogd.doctor.scene import Scene
    from watchdogd.plugin import Run

TOPIC = "runs"


def look(scene: Scene) -> Iterator[Finding]:
    """Each run of the configuration; one line where nothing is wrong with it."""
    yield from _shared(scene)
    for run in scene.runs():
        section = scene.config.runs[run.name]
        found = [finding for finding in _run(scene, run, section) if finding is not None]
        yield from found or [fine(TOPIC, f"{run.name}: log, switches and checkpoints are in place")]


def _shared(scene: Scene) -> Iterator[Finding]:
    """The runs that read one log: what one of them writes hides that the other hangs."""
    readers: dict[str, list[str]] = {}
    for name, section in scene.config.runs.items():
        if section.log:
            readers.setdefault(absolute(scene.home, section.log), []).append(name)
    for log, names in readers.items():
        if len(names) > 1:
            mend = "set a log of its own under [runs.NAME] of each: submit with --output='%x-%j.out'"
            yield warning(TOPIC, f"{' and '.join(names)} read the same log, {log}: one can hide a hang", mend)


def _run(scene: Scene, run: Run, section: RunSection) -> Iterator[Finding | None]:
    key = f"under [runs.{run.name}]"
    if run.backend == "none":
        yield broken(TOPIC, f"{run.name}: no Slurm is here to ask for it", f"set pid_file or command {key}")
    if section.log:
        yield log_of(run.name, absolute(scene.home, section.log), key)
    else:
        yield warning(TOPIC, f"{run.name}: without its log a hang goes unseen", f"set log {key}")
    if section.checkpoints and not glob.glob(absolute(scene.home, section.checkpoints)):
        text = f"{run.name}: no checkpoint matches {section.checkpoints} (yet?)"
        yield warning(TOPIC, text, f"correct checkpoints {key}, if there should be some")
    folders = {os.path.dirname(path) for path in (run.kill_switch, run.save_switch)}
    if section.pulse:
        folders.add(os.path.dirname(absolute(scene.home, section.pulse)))
    for folder in sorted(folders):
        yield writable(run.name, folder)


def log_of(name: str, pattern: str, key: str) -> Finding | None:
    """What is wrong with a run's log, if anything; `key`: where it is configured."""
    found = [path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]
    instead = None if found else obstacle.find(pattern)
    if instead:
        return broken(TOPIC, f"{name}: {instead.what}", f"{instead.mend or 'correct log'} ({key})")
    if not found:
        return warning(TOPIC, f"{name}: no file matches {pattern} (yet?)", f"correct log {key}, if it should")
    unread = [path for path in found if not os.access(path, os.R_OK)]
    if unread:
        mend = f"have its owner run: chmod g+r {unread[0]}"
        return broken(TOPIC, f"{name}: {len(unread)} of its logs cannot be read: {unread[0]}", mend)
    return None


def writable(name: str, folder: str) -> Finding | None:
    """What is wrong with a folder in which files are to be made, if anything."""
    if not os.path.isdir(folder):
        return broken(TOPIC, f"{name}: there is no folder {folder} for its switches", f"mkdir -p {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        return broken(TOPIC, f"{name}: nothing can be written to {folder}", f"chmod u+wx {folder}")
    return None
