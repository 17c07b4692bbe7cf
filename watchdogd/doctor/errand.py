"""The same examination by a short job on the partition: from where the daemon will run."""

from __future__ import annotations

import contextlib
import secrets
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdogd.batch import scontrol, submit
from watchdogd.chain import link
from watchdogd.chain.links import queued
from watchdogd.doctor import sight
from watchdogd.doctor.finding import Finding, broken, from_json
from watchdogd.doctor.scene import ask
from watchdogd.errors import SlurmError, SlurmSilentError, WatchdogError
from watchdogd.system.document import document
from watchdogd.system.plainfile import read_plain

if TYPE_CHECKING:
    from pathlib import Path

    from watchdogd.doctor.scene import Scene

WALLTIME = 300.0
"""Seconds that the job asks for."""
_SEEN_LATE = 20.0
"""Seconds after which a node's file is on this one at the latest (NFS keeps attributes for a while)."""
_LOOK = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """What came back: the findings, and from where; `whole`: all that can be tried was tried there."""

    findings: tuple[Finding, ...]
    where: str
    whole: bool = True


def run(scene: Scene, patience: float) -> Report:
    """Submit it, wait `patience` seconds at most for its end, and read what it found. SlurmError where it is
    refused. Nothing of it is left behind, whatever happens."""
    token = secrets.token_hex(4)
    said, wrong = (scene.home.logs / f"doctor-{token}.{end}" for end in ("json", "err"))
    form = link.link_job(scene.home, scene.config, scene.wish, WALLTIME, 0.0)
    mark = f"{form.mark} doctor {token}"
    # not below home: where a node cannot open its output, a job ends before it could say anything
    unseen = ("--output=/dev/null", "--error=/dev/null")
    script = sight.script(scene.home.path, sys.executable, said, wrong, form.sbatch_options(*unseen))
    own = ("--job-name=watchdogd-doctor", f"--comment={mark}", *unseen)
    job_id = submit.sbatch(form.sbatch_options(*own), script, form.environment())
    try:
        node = _wait(mark, job_id, patience)
        code, host = _fate(job_id)
        node = node or host or "the node"
        lacks = tuple(sight.judge(code, node, scene.home.path, sys.executable))
        found = lacks or _read(said, wrong, job_id)
        return Report(found, f"job {job_id} on {node}", whole=not lacks)
    finally:
        with contextlib.suppress(SlurmError):
            submit.scancel([job_id])
        for path in (said, wrong):
            path.unlink(missing_ok=True)


def _fate(job_id: str) -> tuple[int, str]:
    """The job's exit code and node, as the controller remembers them for some minutes; 0 and none else."""
    shown = ask("scontrol", "show", "job", job_id).output
    return scontrol.exit_codes(shown).get(job_id, (0, 0))[0], scontrol.host(shown)


def _wait(mark: str, job_id: str, patience: float) -> str:
    """Its node once it is over. WatchdogError where it does not end in time."""
    until, node, reason, silent = time.monotonic() + patience, "", "", 0
    while True:
        try:
            found = queued(mark)
            silent = 0
        except SlurmSilentError:
            found, silent = None, silent + 1
            if silent > 5:
                raise
        if found == ():
            return node
        for job in found or ():
            node, reason = job.nodes or node, job.reason if job.waiting else ""
        if time.monotonic() > until:
            waits = f"still waits in the queue ({reason})" if reason else "is not over"
            raise WatchdogError(
                f"job {job_id} {waits} after {patience:g} s and was cancelled: give it longer with --wait"
            )
        time.sleep(_LOOK)


def _read(said: Path, wrong: Path, job_id: str) -> tuple[Finding, ...]:
    until = time.monotonic() + _SEEN_LATE
    while True:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return tuple(from_json(each) for each in document(read_plain(said))["findings"])
        if time.monotonic() > until:
            break
        time.sleep(_LOOK)
    complaint = ""
    with contextlib.suppress(OSError):
        complaint = read_plain(wrong, "replace").strip().rpartition("\n")[2]
    mend = "home and the Python it runs in have to lie where the nodes see them"
    return (broken("node", f"job {job_id} left nothing in {said.parent}: {complaint or 'no word'}", mend),)
