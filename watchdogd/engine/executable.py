"""Work of a worker for a drop-in that is a program of its own, and for one that cannot be run."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import time
from functools import cache

from watchdogd.errors import Problem
from watchdogd.home.trust import Folders, team_of
from watchdogd.parsers import nagios
from watchdogd.plugin import Result, Status, check, critical, unknown
from watchdogd.system import command, umask
from watchdogd.system.command import Failure
from watchdogd.system.smallfile import read_head
from watchdogd.units import format_duration

OUTPUT_LIMIT = 1_000_000
"""Bytes of each stream of a drop-in that are kept."""
_BUSY = 3.0
"""Seconds for which a program is tried again that somebody still writes."""
_FIRST_LINE = 4096
_NOT_FOR_DROPINS = frozenset({"WATCHDOGD_LINK"})
_folders = Folders()


@cache
def environment(home: str) -> dict[str, str]:
    """Return drop-ins' environment: WATCHDOGD_HOME, and nothing of a link's own.

    Secrets are gone already: no worker has them. Made once, since a worker's own never changes.
    """
    return command.environment({"WATCHDOGD_HOME": home}, without=_NOT_FOR_DROPINS)


@check
def executable(path: str, home: str, deadline: float) -> Result:
    """Run a program that speaks the Nagios plugin API, in home, for at most `deadline` seconds."""
    reason = _folders.distrust(path, team_of(home))
    if reason:
        return critical(f"is refused: {reason}")
    try:
        os.chdir(home)  # where it starts: this process does nothing else
    except OSError as error:
        return unknown(f"{home} cannot be entered: {error.strerror}")
    answer = _ask(path, home, deadline)
    if answer.exit_code is not None:
        return nagios.read(answer.exit_code, answer.output, answer.errors)
    if answer.failure is not Failure.LATE:
        return unknown(str(Problem(answer.trouble, _fix(answer.errno, path))))
    details = "\n".join(filter(None, [answer.output.strip(), answer.errors.strip()]))
    return unknown(f"did not end within {format_duration(deadline)} and was killed", details=details)


@check
def stated(status: int, summary: str) -> Result:
    """State what is known of a drop-in without running it: it is refused, or cannot be loaded."""
    return Result(Status(status), summary)


def _ask(path: str, home: str, deadline: float) -> command.Answer:
    until = time.monotonic() + _BUSY
    while True:
        with umask.Lent(umask.sane()):  # nothing else goes on in this process
            answer = command.ask([path], deadline=deadline, env=environment(home), output_limit=OUTPUT_LIMIT)
        if answer.errno != errno.ETXTBSY or time.monotonic() > until:
            return answer
        time.sleep(0.2)


def _fix(number: int | None, path: str) -> str:
    """Say what to do about a program that could not be started, by the system's number of the error."""
    if number == errno.ENOEXEC:
        return "begin it with a line such as #!/bin/bash"
    if number != errno.ENOENT:
        return ""
    with contextlib.suppress(OSError):
        if read_head(path, _FIRST_LINE, follow=True)[0].partition(b"\n")[0].endswith(b"\r"):
            return f"it has DOS line ends: sed -i 's/\\r$//' {shlex.quote(path)}"
    return "is the interpreter that its first line names installed?"
