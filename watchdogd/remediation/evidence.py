"""evidence/INCIDENT/: what could be seen when an incident opened, bounded in size and age.

incident.json, queue.txt, log.txt, gpus.txt and dumps of PyTorch's Flight Recorder are collected here;
stacks.txt comes from the action `stacks`.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from watchdogd.errors import WatchdogError
from watchdogd.home.layout import Home
from watchdogd.parsers.gpu.models import Gpu
from watchdogd.parsers.logs import log_files
from watchdogd.plugin import Job, Status
from watchdogd.probe.node_answers import query_gpus
from watchdogd.remediation import flight_recorder
from watchdogd.remediation.flight_recorder import Analysis
from watchdogd.remediation.models import ActionOutcome, ActionTask, incident_as_json
from watchdogd.remediation.stall_inquiry import RunEvidence, look_at
from watchdogd.system.smallfile import open_plain
from watchdogd.units import format_size, local_time

FILE_LIMIT = 1 << 20
"""Bytes of one file of evidence (at most six), apart from dumps."""
LOGS, LOG_TAIL = 4, 128 * 1024
"""LOGS: how many of the newest log files are kept; LOG_TAIL: bytes from the end of each."""
FOLDERS = 2000
"""Incidents whose evidence is kept at most, even if it is recent."""
_GPU_DEADLINE = 30.0
_DUMPED_BEFORE = 3600.0
"""Dumps of a job that is gone belong to the incident if they are at most so many seconds older."""


def gather(task: ActionTask) -> ActionOutcome:
    """Write what can be collected, with a reason for what cannot. Raise OSError if home refuses."""
    put(task, "incident.json", json.dumps(incident_as_json(task), indent=1) + "\n")
    if task.run:
        put(task, "queue.txt", "\n".join(_queue(task)) + "\n")
    if task.log:
        put(task, "log.txt", "\n".join(_logs(task)) + "\n")
    job = next((job for job in task.queue if job.working), None)
    if task.run and task.gpus and job:
        seen = query_gpus(task.run, job, deadline=_GPU_DEADLINE, now=time.time())
        lines = [f"{node.name} {_gpu(gpu)}" for node in seen.nodes for gpu in node.readout.gpus]
        silent = [f"{node.name}: {node.trouble}" for node in seen.nodes if node.trouble]
        put(
            task,
            "gpus.txt",
            "\n".join([*filter(None, [seen.closed, seen.trouble]), *silent, *lines]) + "\n",
        )
    place = str(folder(task.home, task.incident.id))
    said = _flight_recorder(task) if task.run and task.incident.status is Status.CRITICAL else None
    if said is None:
        return ActionOutcome(place)
    return ActionOutcome(
        f"PyTorch's Flight Recorder: {said.mismatch}; {place}",
        said.text,
        short=f"{said.mismatch}, evidence saved",
    )


def _flight_recorder(task: ActionTask) -> Analysis | None:
    """Keep and analyse the dumps written since the job began; None if there are none."""
    job = next((job for job in task.queue if job.working), None)
    seen = look_at(task.run, task.queue) if task.run else RunEvidence()
    processes = [each for node in seen.nodes for each in node.processes]
    since = (job.started_at if job else None) or task.incident.began - _DUMPED_BEFORE
    dumps = flight_recorder.find(flight_recorder.prefixes(processes, task.recorder), since)
    if not dumps:
        return None
    found = flight_recorder.analyse(dumps, next((each.python for each in processes if each.python), ""))
    put(task, "flight-recorder.txt", flight_recorder.words(dumps, found))
    for dump, data in flight_recorder.contents(dumps):
        path = folder(task.home, task.incident.id) / f"flight-recorder.{dump.rank}"
        task.home.write(path, data.decode("utf-8", "surrogateescape"))
    return Analysis(found.mismatch, found.text)


def put(task: ActionTask, name: str, text: str) -> Path:
    """Write one file of an incident's evidence, cut to the limit. May raise OSError."""
    place = folder(task.home, task.incident.id)
    _make(place, task.home)
    data = text.encode("utf-8", "replace")
    if len(data) > FILE_LIMIT:
        text = data[:FILE_LIMIT].decode("utf-8", "ignore") + f"\n(cut off at {format_size(FILE_LIMIT)})\n"
    task.home.write(place / name, text)
    return place / name


def folder(home: Home, incident: int) -> Path:
    return home.evidence / str(incident)


def sweep(home: Home, keep: float, now: float) -> int:
    """Remove evidence older than `keep` seconds, and the oldest above FOLDERS; return how many folders."""
    with contextlib.suppress(OSError), os.scandir(home.evidence) as entries:
        found = sorted(_aged(entry) for entry in entries if entry.name.isdecimal())
        surplus = len(found) - FOLDERS
        old = [path for place, (at, path) in enumerate(found) if now - at > keep or place < surplus]
        return sum(map(_remove, old))
    return 0


def _aged(entry: os.DirEntry[str]) -> tuple[float, str]:
    return entry.stat(follow_symlinks=False).st_mtime, entry.path


def _remove(place: str) -> bool:
    """Remove a folder of ours with its files; never the target of a link, nor what we did not write."""
    try:
        for name in os.listdir(place):
            os.unlink(os.path.join(place, name))
        os.rmdir(place)
    except OSError:
        return False
    return True


def _make(place: Path, home: Home) -> None:
    home.make_folder(home.evidence)
    home.make_folder(place)
    if place.is_symlink() or not place.is_dir():
        raise WatchdogError(f"{place} is no folder: remove it")


def _queue(task: ActionTask) -> Iterator[str]:
    """Return the run's jobs as the round saw them."""
    yield f"# {task.run.name if task.run else ''} at {local_time(time.time())}"
    yield from (_job(job) for job in task.queue)
    if not task.queue:
        yield "no job of it is in the queue"


def _job(job: Job) -> str:
    times = (("submitted", job.submitted_at), ("started", job.started_at), ("ends", job.ends_at))
    words = [job.id, job.user, job.state, job.reason, job.partition, job.nodes]
    words += [f"{name} {local_time(at)}" for name, at in times if at is not None]
    return " ".join(word for word in words if word)


def _logs(task: ActionTask) -> Iterator[str]:
    """Return the end of each of the newest log files."""
    for file in log_files.find(task.log, task.written)[:LOGS]:
        yield f"# {file.path}, {format_size(file.size)}, written to {local_time(file.mtime)}"
        try:
            with open(open_plain(file.path, follow=True), "rb") as log:
                log.seek(max(file.size - LOG_TAIL, 0))
                yield log.read(LOG_TAIL).decode("utf-8", "replace")
        except OSError as error:
            yield f"cannot be read: {error.strerror}"


def _gpu(gpu: Gpu) -> str:
    cells = (
        (gpu.utilisation, "%"),
        (gpu.power_w, "W"),
        (gpu.temperature_c, "C"),
        (gpu.vram, "% of memory"),
    )
    figures = [f"{value:.0f} {unit}" for value, unit in cells if value is not None]
    return " ".join(filter(None, [gpu.label, *figures, gpu.uuid, gpu.trouble]))
