"""Snapshots of the batch systems, one a round for all checks: when they are taken, what each check gets."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from watchdogd.batch.models import Ending, Job, Snapshot
from watchdogd.batch.run_models import slurm_users
from watchdogd.daemon.registry.plugin_registry import Source
from watchdogd.daemon.workers.worker_protocol import NOTHING, Call, Reply
from watchdogd.plugin import remembered
from watchdogd.plugins.job_liveness.job_history import JobHistory, begin_round
from watchdogd.system.times import fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from watchdogd.config.models import Config
    from watchdogd.daemon.registry.check_factory import Check

SOURCES = {
    "slurm": Source("watchdogd.batch.slurm_snapshot", "look"),
    "pbs": Source("watchdogd.batch.pbs", "look"),
    "process": Source("watchdogd.batch.processes", "look"),
}
"""Function that takes the snapshot of each backend, in a worker, since commands and file systems hang."""
_KEY = "look at "
SEEK = 300.0
"""Seconds for which the owners of foreign jobs with a run's name are remembered."""


class Snapshots:
    """Newest snapshot of each backend, indexed by job name.

    `memory` returns a check's memory, from which the first snapshot of a link or tick learns which jobs were
    alive before. `uid`: the user whose jobs count where the configuration names nobody.
    """

    def __init__(self, memory: Callable[[str], str] = lambda _check: NOTHING, uid: int | None = None) -> None:
        self._memory = memory
        self._uid = os.geteuid() if uid is None else uid
        self._before: dict[str, dict[str, float]] = {}
        self._latest: dict[str, Snapshot] = {}
        self._asked: set[str] = set()
        self._sought: dict[str, tuple[float, frozenset[str]]] = {}
        self._counted: frozenset[str] = frozenset()
        self._jobs: dict[str, dict[str, list[Job]]] = {}
        self._endings: dict[str, dict[str, list[Ending]]] = {}
        self._shares: dict[tuple[str, str, frozenset[str]], Snapshot] = {}

    def calls(
        self,
        due: Sequence[Check],
        checks: Iterable[Check],
        config: Config,
        now: float,
        finished: Collection[str] = (),
        outstanding: Collection[str] = (),
    ) -> list[Call]:
        """Return calls for the snapshots that `due` checks need and that are not fresh enough.

        Runs in `finished` are left out, so that accounting is not asked for them. `outstanding`: keys of
        unanswered calls; a backend whose last call hangs in the kernel is not asked again.
        """
        hung = {backend for key in outstanding if (backend := looked_at(key))}
        wanted = {backend_of(check) for check in due if needs_look(check)} - self._asked - hung
        stale = {backend for backend in wanted if not self._fresh(backend, config.slurm.min_poll, now)}
        for backend in stale:
            self._asked.add(backend)
        watched = list(checks)
        return [self._call(backend, watched, config, now, finished) for backend in sorted(stale)]

    def waits(self, check: Check) -> bool:
        return bool(self._asked) and needs_look(check) and backend_of(check) in self._asked

    def take(self, reply: Reply, now: float) -> Snapshot | None:
        """Store and return the snapshot in a reply; None where the reply is of another call.

        While a command of the call hangs in the kernel its jobs count as unknown.
        """
        backend = looked_at(reply.key)
        if not backend:
            return None
        snapshot = reply.value if isinstance(reply.value, Snapshot) else self._silence(backend, reply, now)
        if reply.hang and not reply.trouble:
            what = f"{snapshot.trouble}, and" if snapshot.trouble else "one of its commands"
            snapshot = replace(snapshot, jobs=None, trouble=f"{what} {reply.hang}")
        self._asked.discard(backend)
        running = frozenset((job.id, job.raw_id) for job in snapshot.jobs or () if job.working)
        snapshot = replace(self._with_strangers(backend, snapshot), running=running)
        self._latest[backend] = snapshot
        self._jobs[backend] = _by_name(snapshot.jobs or ())
        self._endings[backend] = _by_name(snapshot.endings or ())
        self._shares = {}
        return snapshot

    def snapshot(self, check: Check) -> Snapshot | None:
        """Return a check's snapshot: its run's jobs, or all jobs if it has no run; None before the first."""
        backend = backend_of(check)
        whole = self._latest.get(backend)
        if whole is None or check.run is None:
            return whole
        name = check.run.name if backend == "process" else check.run.job_name
        share = (backend, name, check.run.users or (frozenset() if backend == "process" else self._counted))
        if share not in self._shares:  # one for all checks of a run
            self._shares[share] = self._share(whole, *share)
        return self._shares[share]

    def _share(self, whole: Snapshot, backend: str, name: str, users: frozenset[str]) -> Snapshot:
        return replace(
            whole,
            jobs=None if whole.jobs is None else _of(self._jobs[backend], name, users),
            endings=None if whole.endings is None else _of(self._endings[backend], name, users),
            renamed=tuple(job for job in whole.renamed if not users or job.user in users),
            elsewhere=(
                *(job for job in whole.elsewhere if job.name == name),
                *(job for job in self._jobs[backend].get(name, ()) if users and job.user not in users),
            ),
            users=users,
        )

    def _with_strangers(self, backend: str, snapshot: Snapshot) -> Snapshot:
        """Add jobs found recently under other users, where this snapshot did not search for them."""
        if snapshot.sought:
            self._sought[backend] = (snapshot.taken_at, snapshot.sought)
        elif snapshot.jobs is not None and self._sought_lately(backend, snapshot.taken_at):
            before = self._latest[backend]
            return replace(snapshot, elsewhere=snapshot.elsewhere or before.elsewhere, veiled=before.veiled)
        return snapshot

    def _sought_lately(self, backend: str, now: float) -> frozenset[str]:
        at, names = self._sought.get(backend, (-SEEK, frozenset[str]()))
        return names if fresh(at, now, SEEK) else frozenset()

    def _fresh(self, backend: str, min_poll: float, now: float) -> bool:
        """Return whether the last snapshot is younger than `min_poll`; processes can always be listed."""
        if backend == "process":
            return False
        latest = self._latest.get(backend)
        return latest is not None and fresh(latest.taken_at, now, min_poll * 0.9)

    def _call(
        self, backend: str, checks: Sequence[Check], config: Config, now: float, finished: Collection[str]
    ) -> Call:
        runs = tuple({c.run_name: c.run for c in checks if c.run and c.run.backend == backend}.values())
        parameters: dict[str, Any] = {"now": now, "deadline": config.daemon.timeout}
        if backend == "process":
            parameters |= {"runs": runs, "uid": self._uid}
        else:
            self._counted = slurm_users(config, self._uid)
            users = self._counted | {user for run in runs for user in run.users}
            if backend not in self._before:
                self._before[backend] = self._remembered(backend, checks, now)
            wanted = frozenset(run.job_name for run in runs if run.name not in finished)
            parameters |= {"wanted": wanted, "users": users, "known": self._known(backend)}
            parameters["sought"] = self._sought_lately(backend, now)
        return Call(_KEY + backend, SOURCES[backend], parameters, timeout=config.daemon.timeout * 2)

    def _silence(self, backend: str, reply: Reply, now: float) -> Snapshot:
        trouble = f"the look at the queue {reply.trouble}"
        return Snapshot(now, trouble=trouble, backend=backend, known=self._known(backend))

    def _known(self, backend: str) -> dict[str, float]:
        latest = self._latest.get(backend)
        return dict(latest.known if latest else self._before.get(backend, {}))

    def _remembered(self, backend: str, checks: Iterable[Check], now: float) -> dict[str, float]:
        """Return when each remembered job was last seen, by raw id."""
        found: dict[str, float] = {}
        for check in checks:
            if check.run and check.run.backend == backend and check.entry.declared.jobs:
                past = begin_round(remembered(JobHistory, json.loads(self._memory(check.name))), now)
                found |= {raw_id: each.seen_at for raw_id, each in past.observed.items()}
        return found


def looked_at(key: str) -> str:
    """Return the backend of a snapshot call, or empty where the key is of another call."""
    return key.removeprefix(_KEY) if key.startswith(_KEY) else ""


def needs_look(check: Check) -> bool:
    """Return whether a check needs a snapshot: its plugin has a `snapshot` parameter."""
    return "snapshot" in check.entry.wants and backend_of(check) in SOURCES


def backend_of(check: Check) -> str:
    """Return the backend of a check; Slurm where it has no run."""
    return check.run.backend if check.run else "slurm"


def _by_name(items: Iterable[Any]) -> dict[str, list[Any]]:
    found = defaultdict(list)
    for item in items:
        if not item.own:
            found[item.name].append(item)
    return found


def _of(index: dict[str, list[Any]], name: str, users: frozenset[str]) -> tuple[Any, ...]:
    return tuple(item for item in index.get(name, ()) if not users or item.user in users)
