"""Watch over what checks depend on, such as a file system, and results deferred until it is known to answer.

Where a whole file system is silent, that is one cause, reported once, and its checks are UNKNOWN. Else each
result is reported as it is. The outcome does not depend on which check notices first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from watchdogd.batch.snapshot import Snapshot
from watchdogd.daemon.dependencies import Probes, dependency_of, queue_name, queue_result
from watchdogd.daemon.registry.check_factory import Check
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.snapshots import looked_at
from watchdogd.daemon.workers.worker_pool import UnkillableProcesses, WorkerPool
from watchdogd.daemon.workers.worker_protocol import Reply
from watchdogd.incidents.models import AlertPolicy, AlertState, Observation
from watchdogd.plugin import Result, Status
from watchdogd.system.clock import fresh

LONGEST = 120.0
"""Seconds after which it is told as it is, should nobody have found out."""


@dataclass(frozen=True, slots=True)
class _Deferred:
    """Last results of a check, on which file systems it rests, and when it began to say so."""

    dependencies: tuple[str, ...]
    seen: tuple[Observation, ...]
    since: float


class DeferredResults:
    """Results that are kept back, by check, the newest."""

    def __init__(self) -> None:
        self._kept: dict[str, _Deferred] = {}

    @property
    def checks(self) -> frozenset[str]:
        """Return those of which something is kept."""
        return frozenset(self._kept)

    def keep(
        self, check: str, dependencies: tuple[str, ...], seen: tuple[Observation, ...], now: float
    ) -> None:
        """Keep what a check said instead of what is kept of it."""
        before = self._kept.get(check)
        self._kept[check] = _Deferred(dependencies, seen, before.since if before else now)

    def drop(self, check: str) -> None:
        """Forget what is kept of a check: it had an answer after all."""
        self._kept.pop(check, None)

    def open(self, dependency: str) -> float | None:
        """Return since when something waits for a word of this file system; None where nothing does."""
        return min(
            (kept.since for kept in self._kept.values() if dependency in kept.dependencies), default=None
        )

    def release(
        self, silent: Callable[[str], bool], answered: Callable[[str, float], bool], now: float
    ) -> dict[str, tuple[Observation, ...]]:
        """Return what may be judged now, by check.

        `silent` says whether a file system is known to be, `answered` whether it was asked at a time or
        later, and did answer.
        """
        found = {}
        for check, kept in list(self._kept.items()):
            if any(silent(dependency) for dependency in kept.dependencies):
                found[check] = tuple(_blind(seen) for seen in kept.seen)
            elif _over(kept, now) or all(
                answered(dependency, kept.since) for dependency in kept.dependencies
            ):
                found[check] = kept.seen
            else:
                continue
            del self._kept[check]
        return found


def _over(kept: _Deferred, now: float) -> bool:
    return not fresh(kept.since, now, LONGEST)


def _blind(seen: Observation) -> Observation:
    """Return the same as something that cannot be found out."""
    result = seen.result
    return replace(seen, result=replace(result, status=Status.UNKNOWN)) if result.unanswered else seen


class DependencyWatch:
    """Asks through `workers`, beside the checks; what each ground said last is in `latest`, as of checks."""

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
        """Begin a round: ask what was silent before."""
        self._setup = setup
        self._unsettled = frozenset(
            state.check
            for state in alerts.states.values()
            if state.incident is not None or state.status is not Status.OK
        )
        self._ask(setup, now)

    def queue(self, snapshot: Snapshot) -> Observation:
        """Observe what a look at a batch system says of it."""
        name = queue_name(snapshot.backend)
        checks = self._setup.checks if self._setup else ()
        resting = [check.name for check in checks if name in check.follows]
        return self._said(name, queue_result(snapshot, resting))

    def take(self, reply: Reply) -> Observation | None:
        """Observe what a file system said; None where the reply is none of ours."""
        dependency = self._setup.files.get(reply.key) if self._setup else None
        if dependency is None or self._setup is None:
            return None
        host, trouble = self._setup.rules.host, reply.value or ""
        result = self._probes.result(dependency, answered=not reply.late, host=host, trouble=trouble)
        if result.status is Status.OK:
            self._doubts = [doubt for doubt in self._doubts if doubt.check != dependency.name]
        return self._said(dependency.name, result)

    def confirmed(self, check: Check, seen: tuple[Observation, ...]) -> tuple[Observation, ...]:
        """Return what a check said, where it may be judged at once.

        Where it had no answer, its file systems are asked first, and those on which what it started hangs;
        `settled` tells what came of it.
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
        """Return what had no answer, by check, once it is known whether its file system does; ask again."""
        if self._setup is not None:
            self._ask(self._setup, self._clock())
        return self._deferred.release(self._probes.silent, self._probes.answered, self._clock())

    def policies(self) -> Mapping[str, AlertPolicy]:
        """Return how each check is judged.

        While what it started hangs on a file system it follows that one too, though nothing in its
        configuration says that it looks there (a drop-in).
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
        """Return, by check, the file systems of ours on which processes of it hang in the kernel."""
        files = self._setup.files if self._setup else {}
        found: dict[str, tuple[str, ...]] = {}
        for stuck in self._workers.stuck:
            name = dependency_of(stuck.place)
            if name in files:
                found[stuck.key] = (*found.get(stuck.key, ()), name)
        return found

    def doubts(self) -> list[Observation]:
        """Return what is being found out since the last call."""
        doubts, self._doubts = self._doubts, []
        return doubts

    def stuck(self) -> tuple[list[Observation], list[UnkillableProcesses]]:
        """Repeat, once an interval, what was found of what hangs in the kernel and cannot be asked again.

        Also what hangs there and is not told otherwise: neither by its own check nor by what that rests on.
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
        """Return whether the check that asked for what hangs reports it: it is judged, and bad."""
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
    """Return the check that reports what the Call of this key found."""
    backend = looked_at(key)
    return queue_name(backend) if backend else key
