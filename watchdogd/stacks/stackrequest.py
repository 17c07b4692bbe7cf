"""Stacks from the probes and Guards of a run, which write them when `inbox/RUN.stacks-request` is touched.

The way in where Slurm starts no step for us: a probe in the job takes them by py-spy; a Guard writes its own,
also where py-spy is missing or may attach to nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from watchdogd.config import switch_places
from watchdogd.parsers import faulthandler
from watchdogd.stacks import stackprobe
from watchdogd.stacks.stackprobe import Parcel
from watchdogd.stacks.stacks import Process
from watchdogd.system import account
from watchdogd.system.pathname import file_name, group_of
from watchdogd.system.smallfile import NoPlainFileError, parse_json, read_head, replace_file

_QUIET = 7.0
"""Seconds without a new file after which all Guards are taken as heard: each looks every five."""
_LOOK = 0.2
_FILE_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class _Taken:
    """One probe's file: the processes of one node."""

    run: str
    node: str
    parcels: tuple[Parcel, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """The processes whose Guards wrote, what the probes of nodes took, and one line on how that went."""

    processes: tuple[Process, ...]
    note: str
    nodes: tuple[tuple[str, tuple[Parcel, ...]], ...] = ()


def ask(home: str, run: str, patience: float, enough: Callable[[int], bool] = lambda _: False) -> Answers:
    """Ask, and wait for what is written within `patience` seconds, or until so many files are `enough`. Never
    raises for what files do."""
    inbox = switch_places.find(home, run, "kill").inbox
    request = os.path.join(inbox, f"{file_name(run)}.stacks-request")
    try:
        asked_at = _touch(request)
    except OSError as error:
        return Answers((), f"its Guards cannot be asked: {request}: {error.strerror or error}")
    try:
        found, refused = _gather(inbox, run, asked_at, patience, enough)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(request)
    guards = [each for each in found if isinstance(each, faulthandler.Handed)]
    nodes = tuple((each.node, each.parcels) for each in found if isinstance(each, _Taken))
    processes = tuple(
        Process(each.host, each.dump.pid or 0, each.rank, samples=(each.dump,), step=each.step)
        for each in guards
    )
    return Answers(processes, _note(run, bool(processes), len(nodes), refused, patience), nodes)


def _note(run: str, guards: bool, nodes: int, refused: dict[str, str], patience: float) -> str:
    if refused:
        name, why = next(iter(refused.items()))
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        return f"{name} of its Guards{more} cannot be read: {why}: a home that a team shares has a group"
    if nodes:
        count = f"its probe{'s' if nodes > 1 else ''} on {nodes} node{'s' if nodes > 1 else ''}"
        return f"the stacks are from {count}{' and from the Guards of the run' if guards else ''}"
    if guards:
        return "the stacks are from the Guards of the run"
    return f"no Guard of {run} wrote its stacks within {patience:.0f} s, and no probe took them"


def _touch(request: str) -> float:
    """Replace the request, which every Guard sees; its time by the file server's clock."""
    shared = group_of(os.path.dirname(request)) is not None
    try:
        replace_file(request, f"{account.user_name(os.getuid())}\n", 0o660 if shared else 0o600)
    except PermissionError:  # another one's, who was killed: it is asked again
        os.utime(request, follow_symlinks=False)
    return os.lstat(request).st_mtime


def _gather(
    inbox: str, run: str, since: float, patience: float, enough: Callable[[int], bool]
) -> tuple[list[faulthandler.Handed | _Taken], dict[str, str]]:
    """All files of this request, and those that cannot be read with why. What was read is removed."""
    until, last = time.monotonic() + patience, float("inf")
    found: dict[str, faulthandler.Handed | _Taken] = {}
    refused: dict[str, str] = {}
    while time.monotonic() < min(until, last + _QUIET) and not enough(len(found)):
        for path in Path(inbox).glob(f"{file_name(run)}.stacks.*"):
            if path.name in found or path.name in refused or path.suffix not in (".txt", ".json"):
                continue
            try:
                handed = _read(path, since)
            except OSError as error:
                refused[path.name], last = error.strerror or str(error), time.monotonic()
                continue
            if handed and handed.run == run:
                found[path.name], last = handed, time.monotonic()
                with contextlib.suppress(OSError):
                    path.unlink()
        time.sleep(_LOOK)
    return list(found.values()), refused


def _read(path: Path, since: float) -> faulthandler.Handed | _Taken | None:
    """None where it is of an earlier request, or nobody's. OSError where it cannot be read."""
    if path.lstat().st_mtime < since:
        return None
    try:
        text = read_head(path, _FILE_LIMIT)[0].decode("utf-8", "replace")
    except NoPlainFileError:
        return None
    return faulthandler.handed(text) if path.suffix == ".txt" else _taken(text)


def _taken(text: str) -> _Taken | None:
    """What a probe took; None where it is none, or not whole."""
    try:
        told = parse_json(text)
        return _Taken(str(told["run"]), str(told["node"]), tuple(stackprobe.parcels(str(told["text"]))))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
