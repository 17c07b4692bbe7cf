"""`scontrol show job` and `scontrol show config`: what squeue's columns do not hold."""

from __future__ import annotations

import re

from watchdogd.system.number import digits

_JOB = r"^JobId=(\d+) .*\n(?:(?!JobId=).*\n)*?"
"""A job's lines up to one of them, none of the next job."""
_EXIT = re.compile(rf"{_JOB} +Requeue=\d+ .*?ExitCode=(\d+):(\d+)", re.MULTILINE)
_STATE = re.compile(rf"{_JOB} +JobState=([A-Z_]+)", re.MULTILINE)
_USER = re.compile(rf"{_JOB} +UserId=([^(\n]+)\(\d+\)", re.MULTILINE)
_STDOUT = re.compile(r"^ +StdOut=(.*)$", re.MULTILINE)
_HOST = re.compile(r"^ +BatchHost=(\S+)", re.MULTILINE)
_PRIVATE = re.compile(r"^PrivateData\s*=\s*(\S+)", re.MULTILINE)


def exit_codes(text: str) -> dict[str, tuple[int, int]]:
    """Raw id → (exit code, signal) of `scontrol show job ID`; an array's id shows all its tasks."""
    return {raw_id: (digits(code), digits(number)) for raw_id, code, number in _EXIT.findall(text)}


def states(text: str) -> dict[str, str]:
    """Raw id → state of `scontrol show job ID`, for which as much holds."""
    return dict(_STATE.findall(text))


def users(text: str) -> dict[str, str]:
    """Raw id → the user whose job it is, likewise."""
    return dict(_USER.findall(text))


def unknown_job(complaint: str) -> bool:
    """True where the controller answered that it knows no such job."""
    return "Invalid job id specified" in complaint


def hides_jobs(text: str) -> bool:
    """True where `scontrol show config` says that users do not see each other's jobs (PrivateData=jobs)."""
    match = _PRIVATE.search(text)
    return match is not None and "jobs" in match[1].split(",")


def stdout(text: str) -> str:
    """Where the output of the first job in `scontrol show job` goes, or empty."""
    match = _STDOUT.search(text)
    return match[1].strip() if match else ""


def host(text: str) -> str:
    """The node of the first job's script in `scontrol show job`, or empty: it was on none yet."""
    match = _HOST.search(text)
    return match[1] if match else ""


def settings(text: str) -> dict[str, str]:
    """The keys of `scontrol show config`, each on a line of its own: `SelectType = select/cons_tres`."""
    pairs = (line.partition(" = ") for line in text.splitlines())
    return {key.strip(): value.strip() for key, sign, value in pairs if sign}


def words(text: str) -> dict[str, str]:
    """The `Key=value` words of the first line of `scontrol --oneliner show`."""
    pairs = (word.partition("=") for word in text.strip().partition("\n")[0].split())
    return {key: value for key, sign, value in pairs if sign}
