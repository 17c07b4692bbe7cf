"""`scontrol show job` and `scontrol show config`: what squeue's columns do not hold."""

from __future__ import annotations

import re

_EXIT = re.compile(r"^JobId=(\d+) .*?^ +Requeue=\d+ [^\n]*?ExitCode=(\d+):(\d+)", re.MULTILINE | re.DOTALL)
_PRIVATE = re.compile(r"^PrivateData\s*=\s*(\S+)", re.MULTILINE)


def exit_codes(text: str) -> dict[str, tuple[int, int]]:
    """Raw id → (exit code, signal) of `scontrol show job ID`; an array's id shows all its tasks."""
    return {raw_id: (int(code), int(number)) for raw_id, code, number in _EXIT.findall(text)}


def unknown_job(complaint: str) -> bool:
    """True where the controller answered that it knows no such job."""
    return "Invalid job id specified" in complaint


def hides_jobs(text: str) -> bool:
    """True where `scontrol show config` says that users do not see each other's jobs (PrivateData=jobs)."""
    match = _PRIVATE.search(text)
    return match is not None and "jobs" in match[1].split(",")
