"""Slurm's commands with deadlines: sbatch, scancel, queries on one job; an error names the fix."""

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
"""Seconds. Slurm's MessageTimeout is 10 s, and sbatch retries by itself where useful."""

_NO_ANSWER = re.compile(
    r"Unable to contact slurm controller|Socket timed out|Connection refused|Connection timed out"
    r"|Communication connection failure|Zero Bytes were transmitted|in standby mode|Resource temporarily"
    r"|Rate limit exceeded|Message (?:send|receive) failure|is shutting down|Unable to connect to database"
    r"|Unexpected message received|Transport endpoint is not connected|Slurm temporarily unable",
    re.IGNORECASE,
)
_NOT_SET_UP = re.compile(r"configuration source|slurm\.conf")
"""Messages of Slurm's commands where they are installed without a cluster."""
_FAILED = "Batch job submission failed: "
_JOB_ID = re.compile(r"^(\d+)(?:;.*)?\n\s*\Z", re.MULTILINE)
"""Last line of `sbatch --parsable`; a truncated one would be another job's id."""
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
"""Patterns of refusals, each with its fix in config.toml."""
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
"""Patterns of refusals, each with a fix elsewhere."""


_OF_THE_SCRIPT = (
    "correct its #SBATCH lines; what they leave out comes from partition and account under [slurm]"
)


def sbatch(
    options: Sequence[str], script: str, env: Mapping[str, str] | None = None, mask: int | None = None
) -> str:
    """Submit a script and return the job's id. SlurmError or SlurmSilentError.

    Where `script` is empty, `options` end with a drop-in's path. `mask`: the job's umask; left out: the
    user's.
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
    """Cancel jobs, waiting or running; ended ones are ignored. SlurmError or SlurmSilentError."""
    if not job_ids:
        return
    answer = command.ask(("scancel", "--quiet", *job_ids), deadline=SCANCEL_DEADLINE)
    if not answer.ok and "Invalid job id" not in answer.errors:
        raise refusal(answer)


def refusal(answer: Answer, *, dropin: bool = False) -> SlurmError:
    """Return a command's failure as an error with the fix, which for a drop-in is in its script."""
    tool, said = answer.argv[0], _refusal_text(answer)
    if answer.silent or _NO_ANSWER.search(answer.errors):
        return SlurmSilentError(f"{tool} got no answer from Slurm: {said}")
    known = [(words, _OF_THE_SCRIPT if dropin else fix) for words, fix in _IN_CONFIG]
    known += _ELSEWHERE
    fix = next((fix for words, fix in known if re.search(words, answer.errors, re.IGNORECASE)), "")
    return SlurmError(f"{tool} was refused: {said}", fix=fix)


def _refusal_text(answer: Answer) -> str:
    """Return the text after `Batch job submission failed`, or else all error lines, joined."""
    if answer.trouble:
        return answer.trouble
    lines = [line.strip() for line in split_lines(answer.errors) if line.strip()]
    telling = [line for line in lines if "error" in line.lower()] or lines[:1]
    last = [line for line in telling if _FAILED in line][-1:]
    last = last or [line for line in lines if _NOT_SET_UP.search(line)][-1:] or telling
    return " ".join(_PREFIX.sub("", line) for line in last).rstrip(".") or answer.complaint()


QUERY_DEADLINE = 20.0
"""Seconds for one query."""
_PATH_MAX = 4096
"""Maximum characters of a path (PATH_MAX)."""


def all_jobs() -> tuple[Job, ...]:
    """Return all living jobs. WatchdogError without Slurm, SlurmSilentError without an answer."""
    if not shutil.which("squeue"):
        raise WatchdogError(
            "there is no squeue here, and only Slurm's jobs can be adopted: write [runs.NAME] with pid_file "
            'or command (or backend = "pbs") into config.toml'
        )
    return listed_jobs()


def listed_jobs(users: Iterable[str] = ()) -> tuple[Job, ...]:
    """Return the jobs of these users (none: of all) in squeue. SlurmSilentError."""
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
    """Return the path of its output as it was given to sbatch; scontrol replaces half of the pattern."""
    asked = ("squeue", "--noheader", f"--jobs={job.raw_id}", f"--Format=STDOUT:{_PATH_MAX}")
    answer = command.ask(asked, deadline=QUERY_DEADLINE)
    pattern = answer.output.rstrip("\n").split("\n")[0].rstrip() if answer.ok else ""
    if pattern.startswith("/"):
        return pattern
    shown = command.ask(("scontrol", "show", "job", job.raw_id), deadline=QUERY_DEADLINE)
    return scontrol.stdout(shown.output) if shown.ok else ""


def gpus_per_node(job: Job) -> tuple[int, ...]:
    """Return the GPUs of each of its nodes; empty where it waits, or they are unknown."""
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
    """Parser that raises ValueError instead of exiting."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def script_options(script: str) -> dict[str, str]:
    """Return those of _SCRIPT_OPTIONS (partition, output, exclude…) that the script sets.

    Like sbatch it stops at the first line that is neither empty nor a comment, and accepts abbreviations;
    none where one is ambiguous, as sbatch then refuses the script.
    """
    parser = _OptionParser(add_help=False)
    for option, short in _SCRIPT_OPTIONS.items():
        parser.add_argument(short, f"--{option}", dest=option, nargs="?", const="")
    words = [word for word in _directive_words(script) if not word.startswith("--=")]  # ambiguous
    try:
        known, _ = parser.parse_known_args(words)
    except ValueError:
        return {}
    return {option: value for option, value in vars(known).items() if value is not None}


def is_heterogeneous(script: str) -> bool:
    """Return whether the script describes a heterogeneous job."""
    return any(word in ("hetjob", "packjob") for word in _directive_words(script))


def _directive_words(script: str) -> Iterator[str]:
    for line in split_lines(script):
        if line.strip() and not line.startswith("#"):
            return
        if line.startswith("#SBATCH"):
            try:
                yield from shlex.split(line.removeprefix("#SBATCH"), comments=True)
            except ValueError:  # an unclosed quote
                yield from line.removeprefix("#SBATCH").split()
