"""Dependencies of checks: batch system and file systems. One that does not answer is one incident.

Each dependency is a check of the daemon itself, `watchdogd/slurm` or `watchdogd/files:/scratch`. The checks
that depend on it follow it: what they cannot find out is noted in its message.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from watchdogd.checks.node_checks import ASK_SLURM
from watchdogd.daemon.registry.plugin_registry import Source
from watchdogd.daemon.snapshots import backend_of, needs_look
from watchdogd.daemon.workers.worker_protocol import Call
from watchdogd.incidents.models import SELF
from watchdogd.plugin import Advice, Result, Status, ok, unknown
from watchdogd.system import pathname
from watchdogd.system.bounded_io import BoundedIO, StuckError
from watchdogd.system.mounts import mount_of, mount_table, read_mounts
from watchdogd.system.smallfile import unanswered
from watchdogd.system.times import fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from watchdogd.batch.models import Snapshot
    from watchdogd.daemon.registry.check_factory import Check

PROBE_DEADLINE = 10.0
"""Seconds within which a file system must answer a `stat`."""
_FILES = f"{SELF}/files:"
_PATHS = ("log", "path", "checkpoints", "pulse")
_SOURCE = Source("watchdogd.daemon.dependencies", "touch")


@dataclass(frozen=True, slots=True)
class Dependency:
    """File system: mount point, the folders on it that checks read, and those checks' names."""

    name: str
    point: str
    folders: tuple[str, ...]
    checks: tuple[str, ...]


def queue_name(backend: str) -> str:
    """Return the name of the check for a batch system."""
    return f"{SELF}/{backend}"


def queue_result(snapshot: Snapshot, checks: Sequence[str] = ()) -> Result:
    """Judge whether the batch system answers, on which `checks` depend; UNKNOWN where it does not."""
    if snapshot.jobs is not None:
        return ok("the batch system says what runs").ending("the batch system answers again")
    called = _CALLED.get(snapshot.backend)
    said = f"{snapshot.trouble}, job state not known"
    told = unknown(f"{called} does not answer, no run can be watched" if called else said)
    advice = ASK_SLURM if snapshot.backend == "slurm" else []
    return told.saying(snapshot.trouble if called else "", *_unwatched(checks), advice=advice)


_CALLED = {"slurm": "Slurm", "pbs": "PBS"}
"""Batch systems by their names."""
_A_LINE = 10
"""Names in one line."""


def _unwatched(checks: Sequence[str]) -> list[str]:
    """Return lines that name each run, disk and other check that cannot be watched meanwhile once."""
    own = (check if check.startswith("cron.") else check.partition("/")[0] for check in checks)
    names = list(dict.fromkeys(own))
    rows = [", ".join(names[at : at + _A_LINE]) for at in range(0, len(names), _A_LINE)]
    return [f"cannot be watched meanwhile: {row}" if not at else row for at, row in enumerate(rows)]


@dataclass(frozen=True, slots=True)
class MountMark:
    """Hash of the mount table, and where symbolic links among the checks' folders lead."""

    mounted: int = 0
    resolved: Mapping[str, str] = field(default_factory=dict)


def mounted() -> int:
    """Return a hash of the mount table."""
    return hash(mount_table())


def placed(
    checks: Iterable[Check], before: MountMark | None = None
) -> tuple[tuple[Check, ...], dict[str, Dependency], MountMark]:
    """Return the checks, each following its dependencies; the file systems by name; and the mount mark.

    `before` is used for links that cannot be resolved now.
    """
    checks = tuple(map(_bare, checks))
    points, mounts = _points(
        {folder for check in checks for folder in _folders(check)}, before or MountMark()
    )
    folders: defaultdict[str, set[str]] = defaultdict(set)
    users: defaultdict[str, list[str]] = defaultdict(list)
    found = []
    for check in checks:
        rests_on = sorted({points[folder] for folder in _folders(check)})
        for point in rests_on:
            users[point].append(check.name)
            folders[point] |= {folder for folder in _folders(check) if points[folder] == point}
        queue = (queue_name(backend_of(check)),) if needs_look(check) else ()
        files = tuple(_files_name(point) for point in rests_on)
        found.append(replace(check, follows=tuple(dict.fromkeys((*check.follows, *queue, *files)))))
    dependencies = [
        Dependency(_files_name(point), point, tuple(sorted(folders[point])), tuple(names))
        for point, names in users.items()
    ]
    return tuple(found), {dependency.name: dependency for dependency in dependencies}, mounts


def _bare(check: Check) -> Check:
    """Return the check without its file system dependencies."""
    return replace(check, follows=tuple(name for name in check.follows if not name.startswith(_FILES)))


def touch(folders: Iterable[str]) -> str:
    """Call stat and statvfs on each folder (in a worker); return why none answers, or empty.

    An ordinary error such as ENOENT is an answer.
    """
    troubles = []
    for folder in folders:
        try:
            os.stat(folder)
            os.statvfs(folder)
        except OSError as error:
            troubles.append(f"{folder}: {error.strerror}" if unanswered(error) else "")
        else:
            troubles.append("")
    return troubles[0] if troubles and all(troubles) else ""


class Probes:
    """Probes of file systems whose checks were late: when each was asked, when it answered."""

    def __init__(self) -> None:
        self._late: set[str] = set()
        self._asked_at: dict[str, float] = {}
        self._answered: dict[str, float] = {}
        self._silent: dict[str, bool] = {}

    def note(self, check: str, *, late: bool) -> None:
        """Note whether a check came back in time."""
        if late:
            self._late.add(check)
        else:
            self._late.discard(check)

    def calls(
        self,
        dependencies: Mapping[str, Dependency],
        unsettled: Collection[str],
        outstanding: Collection[str],
        every: float,
        now: float,
        wanted: Callable[[str], float | None] = lambda _: None,
    ) -> list[Call]:
        """Return calls for file systems with late or `unsettled` checks, at most one each `every` seconds.

        A probe is due at once where results wait for an answer to a later one: `wanted` says since when.
        """
        asked = [
            dependency
            for dependency in dependencies.values()
            if dependency.name not in outstanding
            and (
                self._is_due(dependency, unsettled, every, now)
                or self._asked_before(dependency.name, wanted(dependency.name))
            )
        ]
        self._asked_at |= {dependency.name: now for dependency in asked}
        return [
            Call(dependency.name, _SOURCE, {"folders": dependency.folders}, timeout=PROBE_DEADLINE)
            for dependency in asked
        ]

    def _is_due(self, dependency: Dependency, unsettled: Collection[str], every: float, now: float) -> bool:
        if dependency.name not in unsettled and self._late.isdisjoint(dependency.checks):
            return False
        return not fresh(self._asked_at.get(dependency.name, float("-inf")), now, every * 0.9)

    def _asked_before(self, dependency: str, since: float | None) -> bool:
        """Return whether the last probe is older than the results that wait for an answer."""
        return since is not None and self._asked_at.get(dependency, float("-inf")) < since

    def doubt(self, dependency: Dependency, every: float, now: float) -> Result | None:
        """Return an UNKNOWN for a file system that is being probed, so that its late checks wait for it.

        None where it answered in the last rounds: the check's own trouble is then reported as it is.
        """
        lately = fresh(self._answered.get(dependency.name, float("-inf")), now, 2.5 * every)
        if lately or self._silent.get(dependency.name) or self._late.isdisjoint(dependency.checks):
            return None
        return unknown(f"not known yet whether the file system at {dependency.point} answers")

    def silent(self, dependency: str) -> bool:
        """Return whether the last probe got no answer."""
        return self._silent.get(dependency, False)

    def answered(self, dependency: str, since: float) -> bool:
        """Return whether it answered a probe made at that time or later."""
        return self._answered.get(dependency, float("-inf")) >= since

    def result(
        self,
        dependency: Dependency,
        *,
        answered: bool,
        host: str,
        trouble: str = "",
        hanging: Sequence[str] = (),
    ) -> Result:
        """Return the result of a probe; `trouble` is an error said instead of an answer.

        `hanging`: further checks, whose processes hang on it.
        """
        answered = answered and not trouble
        self._silent[dependency.name] = not answered
        if answered:
            self._answered[dependency.name] = self._asked_at.get(dependency.name, float("-inf"))
            answers = ok(f"the file system at {dependency.point} answers")
            return answers.ending("the file system answers again")
        return Result(
            Status.CRITICAL,
            f"file system does not answer on {host}: {dependency.point}",
        ).saying(
            trouble,
            f"asked for no more than {', '.join(dependency.folders[:5])}, for {PROBE_DEADLINE:g} s",
            *_unwatched((*dependency.checks, *hanging)),
            advice=[Advice("Ask the cluster's administrators; jobs that need it hang meanwhile.")],
        )

    def explains(self, key: str, dependencies: Mapping[str, Dependency]) -> bool:
        """Return whether a hanging process is explained by an incident of a file system, open or to come."""
        return any(
            key == dependency.name or (key in dependency.checks and self._silent.get(dependency.name, True))
            for dependency in dependencies.values()
        )


def dependency_of(place: str) -> str:
    """Return the check name of a resolved path's file system, or empty; only the mount table is read."""
    mount = mount_of(place, read_mounts(mount_table())) if place.startswith("/") else None
    return _files_name(mount.point) if mount else ""


def _files_name(point: str) -> str:
    return f"{_FILES}{point}"


def _folders(check: Check) -> list[str]:
    """Return the folders that a check reads, up to the first wildcard."""
    values = (check.parameters.get(key) for key in _PATHS)
    paths = [path for value in values for path in (value if isinstance(value, list | tuple) else (value,))]
    if check.run is not None and check.entry.declared.jobs:
        paths += [check.run.kill_switch, check.run.home_kill_switch]
    absolute = [path for path in paths if isinstance(path, str) and path.startswith("/")]
    return [pathname.wildcard_folder(path) if pathname.is_wild(path) else path for path in absolute]


def _points(folders: Iterable[str], before: MountMark) -> tuple[dict[str, str], MountMark]:
    """Return each folder's mount point; symbolic links are resolved if the file system answers in time."""
    folders = sorted(folders)
    patient = BoundedIO("a file system that a check looks at", deadline=3.0)
    try:
        resolved: Sequence[str] = patient.attempt(partial(_resolved, folders))
    except (StuckError, OSError):
        resolved = [before.resolved.get(folder, folder) for folder in folders]
    finally:
        patient.close()
    text = mount_table()
    mounts = read_mounts(text)
    found = [mount_of(path, mounts) for path in resolved]
    points = {folder: mount.point if mount else "/" for folder, mount in zip(folders, found, strict=True)}
    return points, MountMark(hash(text), dict(zip(folders, resolved, strict=True)))


def _resolved(folders: Sequence[str]) -> list[str]:
    return [os.path.realpath(folder) for folder in folders]
