"""Slurm's commands with deadlines: sbatch, scancel, questions about one job; refusals come with the fix."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

from watchdogd.batch import scontrol, slurmtext, squeue
from watchdogd.batch.models import Job
from watchdogd.errors import (
    NoClusterError,
    SlurmError,
    SlurmOddError,
    SlurmSilentError,
    UnreadableError,
    WatchdogError,
)
from watchdogd.system import command, umask
from watchdogd.system.command import Answer
from watchdogd.system.text import split_lines

SBATCH_DEADLINE = 45.0
SCANCEL_DEADLINE = 20.0
"""Seconds. Slurm's own MessageTimeout is 10 s, and sbatch tries again by itself where it makes sense."""

_NO_ANSWER = re.compile(
    r"Unable to contact slurm controller|Socket timed out|Connection refused|Connection timed out"
    r"|Communication connection failure|Zero Bytes were transmitted|in standby mode|Resource temporarily"
    r"|Rate limit exceeded|Message (?:send|receive) failure|is shutting down|Unable to connect to database"
    r"|Unexpected message received|Transport endpoint is not connected|Slurm temporarily unable",
    re.IGNORECASE,
)
_NOT_SET_UP = re.compile(r"configuration source|slurm\.conf")
"""What Slurm's commands say where they are installed, but no cluster is behind them."""
_FAILED = "Batch job submission failed: "
_JOB_ID = re.compile(r"^(\d+)(?:;.*)?\n\s*\Z", re.MULTILINE)
"""The last line of `sbatch --parsable`; one that breaks off would be another job's."""
_PREFIX = re.compile(rf"^(?:\w+: )?(?:error: |fatal: )?(?:{_FAILED})?")
_IN_CONFIG = (
    ("Invalid account", "name yours: account = \"...\" under [slurm], or --account"),
    ("Invalid qos", "correct --qos under [slurm] options"),
    ("invalid partition", "name one that sinfo shows: partition under [slurm], or --partition"),
    ("time limit is invalid", "ask for less: time under [slurm], or --time"),
    ("Node count specification invalid", "remove node counts from [slurm] options"),
    ("Memory specification can not be satisfied", "set --mem under [slurm] options to what it has"),
    ("Requested node configuration is not available",
     "no node there offers that, or none is in service: see sinfo, and [slurm] options"),
    ("unrecognized option", "correct [slurm] options: sbatch does not know it"),
    ("Invalid generic resource", "correct --gres under [slurm] options"),
    ("requested reservation", "correct --reservation under [slurm] options"),
    ("More processors requested|CPU count spec", "ask for fewer CPUs: [slurm] options"),
    ("Invalid feature", "correct --constraint under [slurm] options"),
)  # fmt: skip
"""What a refusal says, and the fix in config.toml."""
_ELSEWHERE = (
    (_NOT_SET_UP.pattern, "on a machine of no cluster, `watchdogd start --local` watches without Slurm"),
    ("job submit limit", "you have as many jobs queued as your limit allows: wait, or have it raised"),
    ("Access/permission denied", "you may not use this partition or account: name another"),
    ("group not permitted", "you may not use this partition: name another"),
    ("MaxJobCount|submissions disabled", "the cluster takes no more jobs just now: wait"),
    ("Invalid job array", "ask for fewer tasks: MaxArraySize in `scontrol show config`"),
    ("DOS line breaks", r"sed -i 's/\r$//' on the script"),
    ("not look like a batch script", "begin it with a line such as #!/bin/bash"),
    ("down/drained|is down|not available|inactive", "the partition takes no jobs just now: name another"),
)  # fmt: skip
"""What a refusal says, and the fix that lies elsewhere."""


_OF_THE_SCRIPT = (
    "correct its #SBATCH lines; what they leave out comes from partition and account under [slurm]"
)


def sbatch(
    options: Sequence[str], script: str, env: Mapping[str, str] | None = None, mask: int | None = None
) -> str:
    """Submit a script and return the job's id; an empty one: `options` end with a drop-in's path.

    The job has this umask; left out: the user's, as one that they submit themselves.

    SlurmError or SlurmSilentError.
    """
    argv = ("sbatch", "--parsable", *options)
    answer = command.ask(
        argv, deadline=SBATCH_DEADLINE, stdin=script, env=env, umask=umask.users() if mask is None else mask
    )
    if answer.ok:
        if match := _JOB_ID.search(answer.output):
            return match[1]
        said = answer.output.strip()[-200:] or answer.errors.strip()[-200:]
        raise SlurmOddError(f"sbatch printed no job id: {said!r}")
    raise refusal(answer, dropin=not script)


def scancel(job_ids: Sequence[str]) -> None:
    """End jobs, waiting or running; those that are over already are fine. SlurmError or SlurmSilentError."""
    if not job_ids:
        return
    answer = command.ask(("scancel", "--quiet", *job_ids), deadline=SCANCEL_DEADLINE)
    if not answer.ok and "Invalid job id" not in answer.errors:
        raise refusal(answer)


def refusal(answer: Answer, *, dropin: bool = False) -> SlurmError:
    """Return the error that a command's answer means, with the fix; a drop-in's is in its script."""
    tool, said = answer.argv[0], _refusal_text(answer)
    if answer.silent or _NO_ANSWER.search(answer.errors):
        return SlurmSilentError(f"{tool} got no answer from Slurm: {said}")
    known = [(words, _OF_THE_SCRIPT if dropin else fix) for words, fix in _IN_CONFIG]
    known += _ELSEWHERE
    fix = next((fix for words, fix in known if re.search(words, answer.errors, re.IGNORECASE)), "")
    return SlurmError(f"{tool} was refused: {said}", fix=fix)


def _refusal_text(answer: Answer) -> str:
    """Return what follows `Batch job submission failed`, else all that it calls an error.

    That may be one sentence over several lines.
    """
    if answer.trouble:
        return answer.trouble
    lines = [line.strip() for line in split_lines(answer.errors) if line.strip()]
    telling = [line for line in lines if "error" in line.lower()] or lines[:1]
    last = [line for line in telling if _FAILED in line][-1:] or telling
    return " ".join(_PREFIX.sub("", line) for line in last).rstrip(".") or answer.complaint()


QUERY_DEADLINE = 20.0
"""Seconds for one question to Slurm."""
_PATH_MAX = 4096
"""Characters of a path: PATH_MAX."""


def all_jobs() -> tuple[Job, ...]:
    """Return all jobs that live. WatchdogError without Slurm, SlurmSilentError without an answer."""
    if not shutil.which("squeue"):
        raise WatchdogError(
            "there is no squeue here, and only Slurm's jobs can be adopted: write [runs.NAME] with pid_file "
            'or command (or backend = "pbs") into config.toml'
        )
    return listed_jobs()


def listed_jobs(users: Iterable[str] = ()) -> tuple[Job, ...]:
    """Return the jobs of these users (none named: everybody's) that squeue lists. SlurmSilentError."""
    env, mark = command.environment(squeue.ENVIRONMENT), slurmtext.mark()
    answer = command.ask(squeue.argv(users, mark=mark), deadline=QUERY_DEADLINE, env=env)
    if not answer.ok or (not answer.output.strip() and answer.errors.strip()):
        kind = NoClusterError if _NOT_SET_UP.search(answer.errors) else SlurmSilentError
        raise kind(f"squeue did not answer: {answer.complaint()}")
    try:
        return squeue.read(answer.output, mark)
    except UnreadableError as error:
        raise SlurmSilentError(str(error)) from None


def log_pattern(job: Job) -> str:
    """Return where its output goes, as sbatch was asked.

    squeue keeps the pattern; scontrol replaces half of it.
    """
    asked = ("squeue", "--noheader", f"--jobs={job.raw_id}", f"--Format=STDOUT:{_PATH_MAX}")
    answer = command.ask(asked, deadline=QUERY_DEADLINE)
    pattern = answer.output.rstrip("\n").split("\n")[0].rstrip() if answer.ok else ""
    if pattern.startswith("/"):
        return pattern
    shown = command.ask(("scontrol", "show", "job", job.raw_id), deadline=QUERY_DEADLINE)
    return scontrol.stdout(shown.output) if shown.ok else ""


def gpus_per_node(job: Job) -> tuple[int, ...]:
    """Return the GPUs of each of its nodes; empty where it waits, or nobody says."""
    answer = command.ask(("scontrol", "--details", "show", "job", job.raw_id), deadline=QUERY_DEADLINE)
    return tuple(scontrol.allocated_gpus(answer.output).values()) if answer.ok else ()


_SCRIPT_OPTIONS = {
    "partition": "-p",
    "account": "-A",
    "output": "-o",
    "error": "-e",
    "chdir": "-D",
    "job-name": "-J",
    "exclude": "-x",
    "nodelist": "-w",
    "nodes": "-N",
    "constraint": "-C",
}


class _OptionParser(argparse.ArgumentParser):
    """Parser that raises ValueError, where argparse ends the program."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def script_options(script: str) -> dict[str, str]:
    """Return those of _SCRIPT_OPTIONS (partition, output, exclude…) that the script sets.

    sbatch stops at the first line that is neither empty nor a comment, and takes abbreviations; none where
    one of them is ambiguous: sbatch refuses the script.
    """
    parser = _OptionParser(add_help=False)
    for option, short in _SCRIPT_OPTIONS.items():
        parser.add_argument(short, f"--{option}", dest=option, nargs="?", const="")
    words = [
        word for word in _directive_words(script) if not word.startswith("--=")
    ]  # short for each of them
    try:
        known, _ = parser.parse_known_args(words)
    except ValueError:
        return {}
    return {option: value for option, value in vars(known).items() if value is not None}


def is_heterogeneous(script: str) -> bool:
    """Return whether the script describes a job of several components, each with options of its own."""
    return any(word in ("hetjob", "packjob") for word in _directive_words(script))


def _directive_words(script: str) -> Iterator[str]:
    for line in split_lines(script):
        if line.strip() and not line.startswith("#"):
            return
        if line.startswith("#SBATCH"):
            yield from _split(line.removeprefix("#SBATCH"))


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # a quote that is not closed
        return text.split()
