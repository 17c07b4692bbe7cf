"""Watch over the dependencies of checks, and results deferred until a dependency is known to answer.

A file system that does not answer is one incident, reported once, and its checks are UNKNOWN. Otherwise each
result is reported as it is. The outcome does not depend on which check notices first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from watchdogd.batch.models import Snapshot
from watchdogd.daemon.dependencies import Probes, dependency_of, queue_name, queue_result
from watchdogd.daemon.registry.check_factory import Check
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.snapshots import looked_at
from watchdogd.daemon.workers.worker_pool import UnkillableProcesses, WorkerPool
from watchdogd.daemon.workers.worker_protocol import Reply
from watchdogd.incidents.models import AlertPolicy, AlertState, Observation
from watchdogd.plugin import Result, Status
from watchdogd.system.times import fresh

LONGEST = 120.0
"""Seconds after which a deferred result is reported even if its file system is still in doubt."""


@dataclass(frozen=True, slots=True)
class _Deferred:
    """Newest results of a check, the file systems it depends on, and when the first was deferred."""

    dependencies: tuple[str, ...]
    seen: tuple[Observation, ...]
    since: float


class DeferredResults:
    """Newest deferred results, by check."""

    def __init__(self) -> None:
        self._kept: dict[str, _Deferred] = {}

    @property
    def checks(self) -> frozenset[str]:
        return frozenset(self._kept)

    def keep(
        self, check: str, dependencies: tuple[str, ...], seen: tuple[Observation, ...], now: float
    ) -> None:
        before = self._kept.get(check)
        self._kept[check] = _Deferred(dependencies, seen, before.since if before else now)

    def drop(self, check: str) -> None:
        """Drop the deferred results of a check that has an answer by now."""
        self._kept.pop(check, None)

    def open(self, dependency: str) -> float | None:
        """Return since when results have waited for this file system; None: none do."""
        return min(
            (kept.since for kept in self._kept.values() if dependency in kept.dependencies), default=None
        )

    def release(
        self, silent: Callable[[str], bool], answered: Callable[[str, float], bool], now: float
    ) -> dict[str, tuple[Observation, ...]]:
        """Return the results that may be judged now, by check.

        `silent`: the file system's last probe got no answer; `answered`: one at that time or later got one.
        """
        found = {}
        for check, kept in list(self._kept.items()):
            if any(silent(dependency) for dependency in kept.dependencies):
                found[check] = tuple(_blind(seen) for seen in kept.seen)
            elif not fresh(kept.since, now, LONGEST) or all(
                answered(dependency, kept.since) for dependency in kept.dependencies
            ):
                found[check] = kept.seen
            else:
                continue
            del self._kept[check]
        return found


def _blind(seen: Observation) -> Observation:
    """Return an observation that had no answer as UNKNOWN."""
    result = seen.result
    return replace(seen, result=replace(result, status=Status.UNKNOWN)) if result.unanswered else seen


class DependencyWatch:
    """Prober of dependencies through `workers`; keeps their newest observations in `latest`."""

    def __init__(
        self, workers: WorkerPool, latest: dict[str, tuple[Observation, ...]], clock: Callable[[], float]
    ) -> None:
        self._workers = workers
        self._latest = latest
        self._clock = clock
        self._probes = Probes()
        self._deferred = DeferredResults()
        self._setup: Setup | None = None
        self._unsettled: frozenset[str] = frozenset()
        self._doubts: list[Observation] = []

    def begin(self, setup: Setup, alerts: AlertState, now: float) -> None:
        """Begin a round: probe what did not answer before."""
        self._setup = setup
        self._unsettled = frozenset(
            state.check
            for state in alerts.states.values()
            if state.incident is not None or state.status is not Status.OK
        )
        self._ask(setup, now)

    def queue(self, snapshot: Snapshot) -> Observation:
        """Return the observation of a batch system's check for a new snapshot."""
        name = queue_name(snapshot.backend)
        checks = self._setup.checks if self._setup else ()
        resting = [check.name for check in checks if name in check.follows]
        return self._said(name, queue_result(snapshot, resting))

    def take(self, reply: Reply) -> Observation | None:
        """Return the observation of a file system's check; None where the reply is of another call."""
        dependency = self._setup.files.get(reply.key) if self._setup else None
        if dependency is None or self._setup is None:
            return None
        host, trouble = self._setup.rules.host, reply.value or ""
        hanging = [check for check, names in self._hanging().items() if dependency.name in names]
        result = self._probes.result(
            dependency, answered=not reply.late, host=host, trouble=trouble, hanging=hanging
        )
        if result.status is Status.OK:
            self._doubts = [doubt for doubt in self._doubts if doubt.check != dependency.name]
        return self._said(dependency.name, result)

    def confirmed(self, check: Check, seen: tuple[Observation, ...]) -> tuple[Observation, ...]:
        """Return observations that may be judged at once.

        Those without an answer are deferred: the check's file systems are probed first, as are those on
        which its processes hang; `settled` returns them later.
        """
        nothing = any(each.result.unanswered for each in seen)
        self._probes.note(check.name, late=nothing)
        hanging = self._hanging().get(check.name, ())
        if not nothing and not hanging:
            self._deferred.drop(check.name)
            return seen
        rests_on = (name for name in check.follows if self._setup and name in self._setup.files)
        dependencies = tuple(dict.fromkeys((*rests_on, *hanging)))
        if not dependencies or self._setup is None:
            return seen
        now = self._clock()
        self._deferred.keep(check.name, dependencies, seen, now)
        self._ask(self._setup, now)
        return ()

    def settled(self) -> dict[str, tuple[Observation, ...]]:
        """Return deferred results that may be judged now, by check; probe what is still in doubt."""
        if self._setup is not None:
            self._ask(self._setup, self._clock())
        return self._deferred.release(self._probes.silent, self._probes.answered, self._clock())

    def policies(self) -> Mapping[str, AlertPolicy]:
        """Return the alert policies of all checks.

        A check whose process hangs on a file system follows that one too, even if its configuration does not
        name it (a drop-in).
        """
        if self._setup is None:
            return {}
        known = self._setup.policies
        hanging = {check: names for check, names in self._hanging().items() if check in known}
        more = {
            check: replace(known[check], follows=tuple(dict.fromkeys((*known[check].follows, *names))))
            for check, names in hanging.items()
        }
        return {**known, **more} if more else known

    def _hanging(self) -> dict[str, tuple[str, ...]]:
        """Return, by check, the file systems on which processes of it hang in the kernel."""
        files = self._setup.files if self._setup else {}
        found: dict[str, tuple[str, ...]] = {}
        for stuck in self._workers.stuck:
            name = dependency_of(stuck.place)
            if name in files:
                found[stuck.key] = (*found.get(stuck.key, ()), name)
        return found

    def doubts(self) -> list[Observation]:
        """Return the doubts about file systems that came up since the last call."""
        doubts, self._doubts = self._doubts, []
        return doubts

    def stuck(self) -> tuple[list[Observation], list[UnkillableProcesses]]:
        """Return old observations to repeat, and hanging processes that no incident explains.

        A check whose process hangs in the kernel cannot run again: once an interval its last result is
        repeated.
        """
        if self._setup is None:
            return [], []
        hanging, files = self._workers.stuck, self._setup.files
        now, every = self._clock(), self._setup.config.daemon.interval * 0.9
        keys = {_speaker(each.key) for each in hanging} - self._deferred.checks
        held = [seen for key in keys for seen in self._latest.get(key, ())]
        again = [replace(seen, at=now) for seen in held if now - seen.at >= every]
        for key in {seen.check for seen in again}:
            self._latest[key] = tuple(seen for seen in again if seen.check == key)
        reported = {each.key for each in hanging if self._tells(each.key, self._setup)}
        rest = [each for each in hanging if each.key not in reported | self._deferred.checks]
        return again, [each for each in rest if not self._probes.explains(each.key, files)]

    def _tells(self, key: str, setup: Setup) -> bool:
        """Return whether the check of a hanging call reports a fault already."""
        check = _speaker(key)
        bad = any(seen.result.status is not Status.OK for seen in self._latest.get(check, ()))
        return bad and check in setup.policies

    def _ask(self, setup: Setup, now: float) -> None:
        interval, outstanding = setup.config.daemon.interval, self._workers.outstanding
        calls = self._probes.calls(
            setup.files, self._unsettled, outstanding, interval, now, self._deferred.open
        )
        self._workers.submit(calls)
        for dependency in (setup.files[call.key] for call in calls):
            doubt = self._probes.doubt(dependency, interval, now)
            if doubt is not None:
                self._doubts.append(self._said(dependency.name, doubt))

    def _said(self, check: str, result: Result) -> Observation:
        target = self._setup.config.daemon.name if self._setup else ""
        seen = Observation(check, "", target, result, self._clock())
        self._latest[check] = (seen,)
        return seen


def _speaker(key: str) -> str:
    """Return the check that reports the result of the call with this key."""
    backend = looked_at(key)
    return queue_name(backend) if backend else key
