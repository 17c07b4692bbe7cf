"""Experiment trackers whose files lie beside a run's log: W&B, MLflow, TensorBoard, and their pages.

An address is taken from the log alone, and only where it ends in the very run whose files lie there: nothing
else knows under which server and account it was started.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HEAD, TAIL = 262_144, 65_536
"""Bytes of the log in which an address is looked for: trackers say it at the start, or at the end."""
MANY = 500
"""Entries of a folder, and matches of a pattern, that are looked at."""
NOTES = "watchdogd"
"""Folder of a TensorBoard's in which tracker_notes.py writes."""
_BELOW = ("", "tensorboard", "tb", "tb_logs", "runs", "logs", "lightning_logs")
"""Folders beside a log in which TensorBoard's files are usual."""
_ADDRESS = re.compile(r"https?://[^\s\"'<>\x00-\x1f]+")


class ExperimentTracker(NamedTuple):
    """A tracker's run: `url` is its page, or empty; then `command` shows it."""

    name: str
    place: str
    url: str = ""
    command: str = ""


def trackers(pattern: str) -> tuple[ExperimentTracker, ...]:
    """Return the trackers beside the newest log of a pattern. OSError, also where the file system hangs."""
    log = max(glob.glob(pattern)[:MANY], key=os.path.getmtime, default="")
    if not log:
        return ()
    said = _said(log)
    folders = dict.fromkeys((Path(log).parent, Path(log).parent.parent))
    found: dict[str, ExperimentTracker] = {}
    for folder in folders:
        for each in (*_wandb(folder, said), *_mlflow(folder, said), *_tensorboard(folder)):
            found.setdefault(each.name, each)
    return tuple(found.values())


def _said(log: str) -> str:
    with open(os.open(log, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # a pipe makes nobody wait
        head = file.read(HEAD)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - TAIL, len(head)))
        return (head + b"\n" + file.read(TAIL)).decode("utf-8", "replace")


def _page(said: str, ending: str) -> str:
    """Return the last address in a log that ends so."""
    found = (match[0].rstrip(".,;)") for match in _ADDRESS.finditer(said))
    return next((each for each in reversed(list(found)) if each.endswith(ending)), "")


def _wandb(folder: Path, said: str) -> Iterator[ExperimentTracker]:
    """Find `wandb/latest-run`, which leads to `run-DATE_TIME-ID`, or `offline-run-DATE_TIME-ID`."""
    latest = folder / "wandb" / "latest-run"
    if not latest.is_dir():
        return
    place = latest.resolve()
    name = place.name.rpartition("-")[2]
    url = _page(said, f"/runs/{name}") if name else ""
    command = f"wandb sync {shlex.quote(str(place))}" if place.name.startswith("offline-") else ""
    yield ExperimentTracker("W&B", str(place), url, command)


def _mlflow(folder: Path, said: str) -> Iterator[ExperimentTracker]:
    """Find the newest `mlruns/EXPERIMENT/RUN/meta.yaml`."""
    store = folder / "mlruns"
    metas = [Path(each) for each in glob.glob(f"{glob.escape(str(store))}/*/*/meta.yaml")[:MANY]]
    if not metas:
        return
    place = max(metas, key=lambda path: path.stat().st_mtime).parent
    url = _page(said, f"/#/experiments/{place.parent.name}/runs/{place.name}")
    yield ExperimentTracker(
        "MLflow", str(place), url, f"mlflow ui --backend-store-uri {shlex.quote(str(store))}"
    )


def _tensorboard(folder: Path) -> Iterator[ExperimentTracker]:
    """Find the newest `events.out.tfevents.*`."""
    events = [
        Path(each)
        for below in _BELOW
        for deeper in ("", "*/")
        for each in glob.glob(f"{glob.escape(str(folder / below))}/{deeper}events.out.tfevents.*")[:MANY]
        if Path(each).parent.name != NOTES  # what watchdogd wrote itself
    ]
    if events:
        place = max(events, key=lambda path: path.stat().st_mtime).parent
        yield ExperimentTracker(
            "TensorBoard", str(place), command=f"tensorboard --logdir {shlex.quote(str(place))}"
        )
