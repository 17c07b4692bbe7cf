"""Nodes under suspicion: a file for each in home's nodes/, written by watchdogd or by hand.

A suspicion applies to one run or, written by hand without a run, to all. It is kept for a while after it has
expired, so that the exclusion can be removed from jobs that have it.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdogd.errors import UsageError
from watchdogd.home import switches, touchfile
from watchdogd.system.number import real
from watchdogd.system.pathname import file_name
from watchdogd.units import iso

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from watchdogd.home.layout import Home

DAY = 86400.0
MOST = 2
"""Maximum nodes excluded from a job by default."""
_JOBS = 8
"""Number of newest jobs recorded for a suspicion."""
_FORGOTTEN = 30 * DAY
"""Seconds after the end of a suspicion until its file is removed."""
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_FOREVER = 1e11
"""Seconds since the epoch, in the year 5138: until somebody removes it."""


@dataclass(frozen=True, slots=True)
class ListedNode:
    """Suspicion of a `node`, for a `run` (empty: for all), `by` whom, from `at` until `until` (epoch).

    `by_hand`: written by a person, without any limit on their number. `jobs`: raw ids of jobs from which
    watchdogd excluded the node.
    """

    node: str
    run: str
    reason: str
    by: str
    at: float
    until: float
    by_hand: bool
    jobs: tuple[str, ...] = ()

    def holds(self, now: float) -> bool:
        """Return whether the node is to be excluded now."""
        return now < self.until

    def concerns(self, run: str | None) -> bool:
        """Return whether the suspicion applies to a run; None: to any."""
        return run is None or self.run in ("", run)

    def as_json(self) -> dict[str, object]:
        return {
            "node": self.node,
            "run": self.run or None,
            "reason": self.reason,
            "by": self.by,
            "at": iso(self.at),
            "until": None if self.until >= _FOREVER else iso(self.until),
        }


def listed(home: Home, run: str | None = None) -> tuple[ListedNode, ...]:
    """Return all known suspicions, newest first."""
    found = [each for path in _files(home) if (each := _read(path)) and each.concerns(run)]
    return tuple(sorted(found, key=lambda each: (-each.at, each.node)))


def excluded(home: Home, run: str, now: float, most: int | None = MOST) -> dict[str, ListedNode]:
    """Return the nodes to exclude from the run's next job: all listed by hand, and the newest `most` others.

    `most` None: all others.
    """
    current = [each for each in listed(home, run) if each.holds(now)]
    chosen = {each.node: each for each in current if each.by_hand}
    others = {each.node: each for each in reversed(current) if each.node not in chosen}
    newest = sorted(others.values(), key=lambda each: -each.at)[:most]
    return chosen | {each.node: each for each in newest}


def add(home: Home, node: str, run: str, reason: str, lasts: float | None, *, by_hand: bool) -> ListedNode:
    """Write a suspicion, replacing an older one of the same node and run. UsageError, OSError.

    A valid one written by hand is kept instead of watchdogd's. `lasts`: seconds; None: until it is removed.
    """
    _check(node)
    now = time.time()
    signature = switches.my_signature(reason)
    until = _FOREVER if lasts is None else now + lasts
    before = _read(_path(home, node, run))
    if before and before.by_hand and before.holds(now) and not by_hand:
        return before
    jobs = before.jobs if before else ()
    said = {"node": node, "run": run, **signature.fields(), "since": now, "until": until, "by_hand": by_hand}
    home.make_folder(home.nodes)
    home.write(_path(home, node, run), json.dumps({**said, "jobs": jobs}) + "\n")
    return ListedNode(node, run, signature.reason, signature.by, now, until, by_hand, jobs)


def note_job(home: Home, found: ListedNode, job: str) -> None:
    """Record the raw id of a job from which watchdogd excluded the node. OSError."""
    path = _path(home, found.node, found.run)
    said = touchfile.fields_of(str(path))
    if said.get("node") != found.node:
        return  # it was removed
    jobs = [*dict.fromkeys([*found.jobs, job])][-_JOBS:]
    home.write(path, json.dumps({**said, "jobs": jobs}) + "\n")


def remove(home: Home, node: str, run: str | None = None) -> int:
    """End the suspicions of a node (for one run; None: all of them); return how many were valid.

    UsageError, OSError.
    """
    _check(node)
    now, ended = time.time(), 0
    for path in _files(home):
        found = _read(path)
        if found and found.node == node and (run is None or found.run == run) and found.holds(now):
            home.write(path, json.dumps({**touchfile.fields_of(str(path)), "until": now}) + "\n")
            ended += 1
    return ended


def _check(node: str) -> None:
    if not _NODE.fullmatch(node):
        raise UsageError(f"'{node}' is no node's name")


def _files(home: Home) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from sorted(path for path in home.nodes.iterdir() if not path.name.startswith("."))


def _path(home: Home, node: str, run: str) -> Path:
    return home.nodes / (f"{node}@{file_name(run)}" if run else node)


def _read(path: Path) -> ListedNode | None:
    """Return a file's suspicion; None for other files, and for old ones, which are removed."""
    try:
        mark, said = touchfile.read(str(path)), touchfile.fields_of(str(path))
    except OSError:
        return None
    node, run = path.name.partition("@")[0], said.get("run")
    since, until = real(said.get("since")), real(said.get("until"))
    if not _NODE.fullmatch(node) or said.get("node") != node or not isinstance(run, str) or until is None:
        return None
    if time.time() - until > _FORGOTTEN:
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    jobs = said.get("jobs")
    return ListedNode(
        node,
        run,
        mark.reason,
        mark.who,
        since or mark.time,
        until,
        said.get("by_hand") is True,
        tuple(map(str, jobs)) if isinstance(jobs, list) else (),
    )
