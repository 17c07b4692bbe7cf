"""The doctor's tests as a short job on the partition where the daemon will run.

A node that does not see home cannot write a report there: so the job script first tests what needs neither
home nor Python, and reports by its exit code.
"""

from __future__ import annotations

import contextlib
import secrets
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from watchdogd.batch import scontrol, slurm
from watchdogd.chain import link_script
from watchdogd.chain.live_links import queued_links
from watchdogd.doctor.diagnosis import Diagnosis, Installation, ask, broken, fine, from_json
from watchdogd.errors import SlurmError, SlurmSilentError, WatchdogError
from watchdogd.system.smallfile import parse_json, read_plain

LACKING = 32
"""Exit code to which bits for what is missing are added: below 128, where codes of signals begin."""
_NO_HOME, _NOT_WRITTEN, _NO_PYTHON, _NO_SLURM, _NO_SBATCH = 1, 2, 4, 8, 16
_SCRIPT = Template(
    """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=512M
#SBATCH --no-requeue
umask 077
lacks=0
if [ ! -d $home ]; then lacks=$$((lacks + 1))
elif ! : > $said; then lacks=$$((lacks + 2)); fi
timeout 60 $python -P -c 'import watchdogd' || lacks=$$((lacks + 4))
[ $$lacks = 0 ] && exec $python -P -m watchdogd doctor --json --home $home > $said 2> $wrong
timeout 30 squeue --noheader --jobs="$$SLURM_JOB_ID" || lacks=$$((lacks + 8))
printf '#!/bin/bash\\ntrue\\n' | timeout 60 sbatch --test-only $options || lacks=$$((lacks + 16))
exit $$((32 + lacks))
"""
)


def job_script(home: Path, python: str, said: Path, wrong: Path, options: Sequence[str]) -> str:
    """Return the job script: the report goes to `said`, errors to `wrong`; `options` are a link's."""
    words = {"home": home, "python": python, "said": said, "wrong": wrong}
    quoted = {name: shlex.quote(str(value)) for name, value in words.items()}
    return _SCRIPT.substitute(quoted, options=shlex.join(options))


def judge_exit(code: int, node: str, home: Path, python: str) -> Iterator[Diagnosis]:
    """Judge the exit code of the job; nothing where all went well."""
    if not LACKING < code < 2 * LACKING:
        return
    if code & _NO_HOME:
        fix = (
            "move home to a file system that the nodes see (--home, $WATCHDOGD_HOME), or let it watch from "
            "here: 'watchdogd tick' in a crontab, or 'watchdogd start --local'"
        )
        yield broken("home", f"{node} does not see {home}", fix)
    if code & _NOT_WRITTEN:
        fix = "mount it for writing there, or move home"
        yield broken("home", f"{node} sees {home}, but cannot write to it", fix)
    if code & _NO_PYTHON:
        fix = "install watchdogd into a virtual environment on a file system that the nodes see"
        yield broken("Python", f"{node} cannot run {python} with watchdogd", fix)
    else:
        yield fine("Python", f"{node} runs {python} with watchdogd")
    if code & _NO_SLURM:
        fix = "ask the administrators for Slurm's commands on compute nodes; else watch from here"
        yield broken("Slurm", f"squeue gets no answer on {node}", fix)
    else:
        yield fine("Slurm", f"squeue answers on {node}")
    if code & _NO_SBATCH:
        fix = "the site may forbid it there: watch from here ('watchdogd tick' in a crontab, start --local)"
        yield broken("sbatch", f"{node} cannot submit a successor", fix)
    else:
        yield fine("sbatch", f"takes a link from {node}")


WALLTIME = 300.0
"""Seconds that the job requests."""
_SEEN_LATE = 20.0
"""Seconds until a node's file is visible here at the latest (NFS caches attributes)."""
_LOOK = 1.0


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """Diagnoses from the job, and where it ran; `whole`: all tests could be done there."""

    findings: tuple[Diagnosis, ...]
    where: str
    whole: bool = True


def run(installation: Installation, patience: float) -> PartitionReport:
    """Submit the job, wait `patience` seconds at most for its end, and return its report.

    SlurmError where it is refused. It leaves nothing behind.
    """
    token = secrets.token_hex(4)
    said, wrong = (installation.home.logs / f"doctor-{token}.{end}" for end in ("json", "err"))
    form = link_script.link_job(installation.home, installation.config, installation.wish, WALLTIME, 0.0)
    mark = f"{form.mark} doctor {token}"
    # not in home: where a node cannot open its output, a job ends before it could report
    unseen = ("--output=/dev/null", "--error=/dev/null")
    script = job_script(installation.home.path, sys.executable, said, wrong, form.sbatch_options(*unseen))
    own = ("--job-name=watchdogd-doctor", f"--comment={mark}", *unseen)
    job_id = slurm.sbatch(form.sbatch_options(*own), script, form.environment())
    try:
        node = _wait(mark, job_id, patience)
        code, host = _exit_code(job_id)
        node = node or host or "the node"
        lacks = tuple(judge_exit(code, node, installation.home.path, sys.executable))
        found = lacks or _read(said, wrong, job_id)
        return PartitionReport(found, f"job {job_id} on {node}", whole=not lacks)
    finally:
        with contextlib.suppress(SlurmError):
            slurm.scancel([job_id])
        for path in (said, wrong):
            path.unlink(missing_ok=True)


def _exit_code(job_id: str) -> tuple[int, str]:
    """Return the job's exit code and node while the controller has them; else 0 and empty."""
    shown = ask("scontrol", "show", "job", job_id).output
    return scontrol.exit_codes(shown).get(job_id, (0, 0))[0], scontrol.host(shown)


def _wait(mark: str, job_id: str, patience: float) -> str:
    """Wait for the job's end and return its node. WatchdogError where it does not end in time."""
    until, node, reason, silent = time.monotonic() + patience, "", "", 0
    while True:
        try:
            found = queued_links(mark)
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


def _read(said: Path, wrong: Path, job_id: str) -> tuple[Diagnosis, ...]:
    until = time.monotonic() + _SEEN_LATE
    while True:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return tuple(from_json(each) for each in parse_json(read_plain(said))["findings"])
        if time.monotonic() > until:
            break
        time.sleep(_LOOK)
    complaint = ""
    with contextlib.suppress(OSError):
        complaint = read_plain(wrong, "replace").strip().rpartition("\n")[2]
    fix = "home and the Python it runs in have to lie where the nodes see them"
    return (broken("node", f"job {job_id} left nothing in {said.parent}: {complaint or 'no word'}", fix),)
