"""Drop-in folders of home: finding and classifying their files, and running executables.

Finding reads only names, modes and the text of `*.py`; it executes and imports nothing.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import re
import shlex
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from watchdogd.errors import Problem, UnitError
from watchdogd.home.file_trust import FINE, Trusted, distrust, team_of
from watchdogd.home.layout import Home
from watchdogd.parsers import nagios
from watchdogd.plugin import Advice, Result, Status, check, critical, unknown
from watchdogd.system import command, umask
from watchdogd.system.command import Failure
from watchdogd.system.smallfile import read_head
from watchdogd.units import age, parse_duration

CADENCES = {"cron.hourly": 3600.0, "cron.daily": 86400.0, "cron.weekly": 7 * 86400.0}
"""Seconds between two runs, by folder; `cron.every-<duration>` has its interval in its name."""
DAILY = "cron.daily"
_EVERY = "cron.every-"
_AT = re.compile(r"cron\.at-([01]\d|2[0-3])([0-5]\d)")
_DEFINES_CHECKS = re.compile(
    rb"^[ \t]*+(?:from|import)\s++watchdogd(?:\.plugin\b|\s++import\s++.*\bplugin\b)", re.M
)
_TEXT_LIMIT = 1_000_000

Stamp = tuple[int, ...]
"""Times, size, permissions, owner and inode of a file: any edit or replacement changes it."""


class DropInKind(enum.Enum):
    """Kind of a drop-in, which decides how it is run."""

    SLURM = "Slurm script"
    EXECUTABLE = "executable"
    PYTHON = "Python plugin"


@dataclass(frozen=True, slots=True)
class DropIn:
    """File in a drop-in folder, or a folder (`name` without `/`) that cannot be used.

    `name` is `cron.hourly/FILE`, `every` the folder's interval in seconds. `skipped`: why it is ignored;
    `refused`: why it may not run; both are empty where it runs. `aside`: its name marks it as disabled.
    """

    name: str
    path: str
    every: float = 0.0
    kind: DropInKind | None = None
    skipped: str = ""
    refused: Problem = FINE
    aside: bool = False
    stamp: Stamp = ()

    @property
    def folder(self) -> str:
        return self.name.partition("/")[0]

    @property
    def hour(self) -> str:
        """Return the time of day in its folder's name, `02:30`, or empty."""
        found = _AT.fullmatch(self.folder)
        return f"{found[1]}:{found[2]}" if found else ""

    @property
    def since(self) -> float:
        """Return when it was added or last changed."""
        return self.stamp[1] / 1e9 if self.stamp else 0.0

    @property
    def runs(self) -> bool:
        return self.kind is not None and not self.refused


def look(home: Home) -> tuple[DropIn, ...]:
    """Return all files of the drop-in folders, by name. OSError where home cannot be read."""
    found: list[DropIn] = []
    trusted = team_of(home.path)
    for folder in _dropin_folders(home):
        found += _in_folder(folder, trusted)
    return tuple(found)


def _dropin_folders(home: Home) -> list[Path]:
    """Return home's drop-in folders, sorted by name."""
    names = sorted(name for name in os.listdir(home.path) if name.startswith("cron."))
    return [home.path / name for name in names if (home.path / name).is_dir()]


def _in_folder(folder: Path, trusted: Trusted) -> Iterator[DropIn]:
    try:
        every = _cadence(folder.name)
    except UnitError as error:
        yield DropIn(folder.name, str(folder), skipped=str(error))
        return
    refused = distrust(folder, trusted)
    if refused:
        yield DropIn(folder.name, str(folder), every, refused=refused)
        return
    try:
        names = sorted(os.listdir(folder))
    except PermissionError as error:
        unread = Problem(f"{folder} cannot be read: {error.strerror}")
        yield DropIn(folder.name, str(folder), every, refused=unread)
        return
    for name in names:
        yield _classified(folder / name, f"{folder.name}/{_shown(name)}", every, trusted)


def _cadence(folder: str) -> float:
    """Return a folder's interval in seconds; UnitError where its name is invalid."""
    if folder in CADENCES:
        return CADENCES[folder]
    if _AT.fullmatch(folder):
        return CADENCES[DAILY]
    if not folder.startswith(_EVERY):
        names = "cron.hourly, cron.daily, cron.weekly, cron.every-2h, cron.at-0230"
        raise UnitError(f"{folder} is no cadence: name it {names}")
    every = parse_duration(folder.removeprefix(_EVERY))
    if every < 1.0:
        raise UnitError(f"{folder} would never rest: name it cron.every-1s at least")
    return every


def _classified(path: Path, name: str, every: float, trusted: Trusted) -> DropIn:
    """Classify a file by name and mode; a `*.py` by its text."""
    reason = _set_aside(path.name)
    if reason:
        return DropIn(name, str(path), every, skipped=reason, aside=True)
    if not path.name.isprintable() or _shown(path.name) != path.name:
        said = "its name has characters that cannot be shown: rename it"
        return DropIn(name, str(path), every, skipped=said)
    try:
        found = path.stat()
        kind, reason = _kind(path, found)
    except OSError as error:
        return DropIn(name, str(path), every, skipped=f"cannot be read: {error.strerror}")
    if kind is None:
        return DropIn(name, str(path), every, skipped=reason)
    return DropIn(name, str(path), every, kind, refused=distrust(path, trusted), stamp=_stamp(found))


def _set_aside(name: str) -> str:
    """Return why the name marks the file as disabled, or empty."""
    if name.startswith("."):
        return "hidden: its name begins with a dot"
    for ending in ("~", ".bak", ".disabled"):
        if name.endswith(ending):
            return f"its name ends in {ending}"
    return ""


def _kind(path: Path, found: os.stat_result) -> tuple[DropInKind | None, str]:
    """Return its kind, or None and why it cannot be run. OSError where it cannot be read."""
    if stat.S_ISDIR(found.st_mode):
        return None, "a folder"
    if not stat.S_ISREG(found.st_mode):
        return None, "no plain file"
    if not found.st_size:
        return None, "empty"
    if path.suffix in (".slurm", ".sbatch"):
        return DropInKind.SLURM, ""
    if path.suffix == ".py" and _DEFINES_CHECKS.search(read_head(path, _TEXT_LIMIT, follow=True)[0]):
        return DropInKind.PYTHON, ""
    if os.access(path, os.X_OK):
        return DropInKind.EXECUTABLE, ""
    no_checks = "defines no checks and is " if path.suffix == ".py" else ""
    return None, f"{no_checks}not executable: chmod +x {shlex.quote(str(path))}"


def _shown(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name)


def _stamp(found: os.stat_result) -> Stamp:
    times = found.st_mtime_ns, found.st_ctime_ns
    return (*times, found.st_size, found.st_mode, found.st_ino, found.st_uid, found.st_gid)


OUTPUT_LIMIT = 1_000_000
"""Bytes kept of each output stream of a drop-in."""
_BUSY = 3.0
"""Seconds of retries for a program that is still being written (ETXTBSY)."""
_FIRST_LINE = 4096
_NOT_FOR_DROPINS = frozenset({"WATCHDOGD_LINK"})


@cache
def environment(home: str) -> dict[str, str]:
    """Return the environment of drop-ins: WATCHDOGD_HOME, and no variables of a link.

    Workers have no secrets to remove, and an environment that never changes.
    """
    return command.environment({"WATCHDOGD_HOME": home}, without=_NOT_FOR_DROPINS)


@check
def executable(path: str, home: str, deadline: float) -> Result:
    """Run a Nagios plugin in home, for at most `deadline` seconds."""
    reason = distrust(Path(path), team_of(home))
    if reason:
        return refused(path, home, reason)
    try:
        os.chdir(home)  # for the program; this process does nothing else
    except OSError as error:
        there = Advice("To see whether home is there:", f"ls -ld {shlex.quote(home)}")
        return unknown(f"not run: the watchdog's home is out of reach: {error.strerror}").saying(
            home, advice=[there]
        )
    answer = _ask(path, home, deadline)
    if answer.exit_code is not None:
        return advised(nagios.read(answer.exit_code, answer.output, answer.errors), path, home)
    if answer.failure is not Failure.LATE:
        return unknown(answer.why).saying(path, advice=_fix(answer.errno, path))
    details = "\n".join(filter(None, [answer.output.strip(), answer.errors.strip()]))
    late = unknown(f"did not end within {age(deadline)}, and was stopped", details=details)
    return advised(late, path, home)


def advised(result: Result, path: str, home: str) -> Result:
    """Add the command that runs the drop-in again, unless the result is OK."""
    again = Advice("To run it again:", f"watchdogd check {shlex.quote(os.path.relpath(path, home))}")
    return result if result.status is Status.OK else result.saying(advice=[again])


@check
def stated(status: int, summary: str, facts: tuple[str, ...] = (), advice: tuple[Advice, ...] = ()) -> Result:
    """Return a fixed result for a drop-in that is refused or cannot be loaded."""
    return Result(Status(status), summary).saying(*facts, advice=advice)


def refused(path: str, home: str, reason: Problem) -> Result:
    """Return the result for a drop-in that others may write."""
    return critical(refusal(path, home, reason)).saying(path, advice=[Advice.of(reason)])


def refusal(path: str, home: str, reason: Problem) -> str:
    """Return `refused: it can be written by everybody`; the drop-in's own path is left out."""
    what = reason.what.replace(os.path.realpath(path), "it").replace(f"{os.path.realpath(home)}/", "")
    return f"refused: {what}"


def _ask(path: str, home: str, deadline: float) -> command.Answer:
    until = time.monotonic() + _BUSY
    while True:
        with umask.Lent(umask.sane()):  # this process does nothing else
            answer = command.ask([path], deadline=deadline, env=environment(home), output_limit=OUTPUT_LIMIT)
        if answer.errno != errno.ETXTBSY or time.monotonic() > until:
            return answer
        time.sleep(0.2)


def _fix(number: int | None, path: str) -> tuple[Advice, ...]:
    """Return advice for a program that could not be started, by errno."""
    if number == errno.ENOEXEC:
        return (Advice("Begin it with a line such as #!/bin/bash."),)
    if number != errno.ENOENT:
        return ()
    with contextlib.suppress(OSError):
        if read_head(path, _FIRST_LINE, follow=True)[0].partition(b"\n")[0].endswith(b"\r"):
            return (
                Advice("It has DOS line ends; to change them:", f"sed -i 's/\\r$//' {shlex.quote(path)}"),
            )
    return (Advice("Install the interpreter that its first line names, or correct that line."),)
