"""Drop-in folders of home: their files, the kind of each, why some are not run, and how one is run.

Discovery reads only names, modes and the text of a `*.py`; it executes and imports nothing.
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
"""Seconds between two runs, by folder; `cron.every-<duration>` says its own."""
DAILY = "cron.daily"
_EVERY = "cron.every-"
_AT = re.compile(r"cron\.at-([01]\d|2[0-3])([0-5]\d)")
_DEFINES_CHECKS = re.compile(
    rb"^[ \t]*+(?:from|import)\s++watchdogd(?:\.plugin\b|\s++import\s++.*\bplugin\b)", re.M
)
_TEXT_LIMIT = 1_000_000

Stamp = tuple[int, ...]
"""What changes when a file is edited, given other rights, or replaced."""


class DropInKind(enum.Enum):
    """Kind of a drop-in, and so how it is run."""

    SLURM = "Slurm script"
    EXECUTABLE = "executable"
    PYTHON = "Python plugin"


@dataclass(frozen=True, slots=True)
class DropIn:
    """A file in a drop-in folder, or (where `name` has no `/`) a folder that is not used itself.

    `name` is `cron.hourly/FILE`, `every` its folder's cadence in seconds. `skipped` says why it is ignored,
    `refused` why it may not run; both are empty where it runs. `aside`: it is ignored for a name that
    somebody gave it for that purpose.
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
        """Return the name of its folder."""
        return self.name.partition("/")[0]

    @property
    def hour(self) -> str:
        """Return the time of day that its folder names, `02:30`, or empty."""
        found = _AT.fullmatch(self.folder)
        return f"{found[1]}:{found[2]}" if found else ""

    @property
    def since(self) -> float:
        """Return when it was added or changed last."""
        return self.stamp[1] / 1e9 if self.stamp else 0.0

    @property
    def runs(self) -> bool:
        return self.kind is not None and not self.refused


def look(home: Home) -> tuple[DropIn, ...]:
    """Return everything in the drop-in folders, by name. OSError where home cannot be read."""
    found: list[DropIn] = []
    trusted = team_of(home.path)
    for folder in _dropin_folders(home):
        found += _in_folder(folder, trusted)
    return tuple(found)


def _dropin_folders(home: Home) -> list[Path]:
    """List the folders of drop-ins in home, in the order of their names."""
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
    """Return a folder's cadence; UnitError says what is wrong with its name."""
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
    """Classify a file by name and mode alone, but for `*.py`."""
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
    """Return why the name excludes the file from the drop-ins on purpose, or empty."""
    if name.startswith("."):
        return "hidden: its name begins with a dot"
    for ending in ("~", ".bak", ".disabled"):
        if name.endswith(ending):
            return f"its name ends in {ending}"
    return ""


def _kind(path: Path, found: os.stat_result) -> tuple[DropInKind | None, str]:
    """Return its kind, or why it cannot be run. OSError where it cannot be read."""
    if stat.S_ISDIR(found.st_mode):
        return None, "a folder"
    if not stat.S_ISREG(found.st_mode):
        return None, "no plain file"
    if not found.st_size:
        return None, "empty"
    if path.suffix in (".slurm", ".sbatch"):
        return DropInKind.SLURM, ""
    if path.suffix == ".py" and _DEFINES_CHECKS.search(_text(path)):
        return DropInKind.PYTHON, ""
    if os.access(path, os.X_OK):
        return DropInKind.EXECUTABLE, ""
    no_checks = "defines no checks and is " if path.suffix == ".py" else ""
    return None, f"{no_checks}not executable: chmod +x {shlex.quote(str(path))}"


def _text(path: Path) -> bytes:
    return read_head(path, _TEXT_LIMIT, follow=True)[0]


def _shown(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name)


def _stamp(found: os.stat_result) -> Stamp:
    times = found.st_mtime_ns, found.st_ctime_ns
    return (*times, found.st_size, found.st_mode, found.st_ino, found.st_uid, found.st_gid)


OUTPUT_LIMIT = 1_000_000
"""Bytes of each stream of a drop-in that are kept."""
_BUSY = 3.0
"""Seconds for which a program is tried again that somebody still writes."""
_FIRST_LINE = 4096
_NOT_FOR_DROPINS = frozenset({"WATCHDOGD_LINK"})


@cache
def environment(home: str) -> dict[str, str]:
    """Return the environment of drop-ins: WATCHDOGD_HOME, and no variables of a link.

    Workers have no secrets, so none need to be removed. Made once, since a worker's environment never
    changes.
    """
    return command.environment({"WATCHDOGD_HOME": home}, without=_NOT_FOR_DROPINS)


@check
def executable(path: str, home: str, deadline: float) -> Result:
    """Run a program that speaks the Nagios plugin API, in home, for at most `deadline` seconds."""
    reason = distrust(Path(path), team_of(home))
    if reason:
        return refused(path, home, reason)
    try:
        os.chdir(home)  # where it starts: this process does nothing else
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
    """Add to what is wrong how the drop-in runs again."""
    again = Advice("To run it again:", f"watchdogd check {shlex.quote(os.path.relpath(path, home))}")
    return result if result.status is Status.OK else result.saying(advice=[again])


@check
def stated(status: int, summary: str, facts: tuple[str, ...] = (), advice: tuple[Advice, ...] = ()) -> Result:
    """Report on a drop-in without running it: it is refused, or cannot be loaded."""
    return Result(Status(status), summary).saying(*facts, advice=advice)


def refused(path: str, home: str, reason: Problem) -> Result:
    """Report that a drop-in is not run, since others may write it."""
    return critical(refusal(path, home, reason)).saying(path, advice=[Advice.of(reason)])


def refusal(path: str, home: str, reason: Problem) -> str:
    """Return `refused: it can be written by everybody`; its own path is known."""
    what = reason.what.replace(os.path.realpath(path), "it").replace(f"{os.path.realpath(home)}/", "")
    return f"refused: {what}"


def _ask(path: str, home: str, deadline: float) -> command.Answer:
    until = time.monotonic() + _BUSY
    while True:
        with umask.Lent(umask.sane()):  # nothing else goes on in this process
            answer = command.ask([path], deadline=deadline, env=environment(home), output_limit=OUTPUT_LIMIT)
        if answer.errno != errno.ETXTBSY or time.monotonic() > until:
            return answer
        time.sleep(0.2)


def _fix(number: int | None, path: str) -> tuple[Advice, ...]:
    """Return the fix for a program that could not be started, by its errno."""
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
