"""Runner of a round's checks: submits due checks to the workers and turns replies into observations."""

from __future__ import annotations

import json
import logging
import shlex
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from watchdogd.batch import run_models
from watchdogd.daemon import status_file
from watchdogd.daemon.dependency_probes import DependencyWatch
from watchdogd.daemon.dropins.crontab import is_dropin
from watchdogd.daemon.due import due, next_due
from watchdogd.daemon.snapshots import Snapshots
from watchdogd.daemon.status_file import progress_of, signs_of
from watchdogd.daemon.trouble import Trouble
from watchdogd.daemon.workers.worker_protocol import FAILED, NOTHING, Call, Reply
from watchdogd.errors import WatchdogError
from watchdogd.home.touchfile import finished
from watchdogd.incidents.models import AlertPolicy, AlertState, Observation
from watchdogd.plugin import Advice, History, Progress, Result, Run, Sign, Status, unknown
from watchdogd.system.pathname import file_name
from watchdogd.units import age, local_time

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from watchdogd.batch.run_models import JobDeed
    from watchdogd.daemon.registry.check_factory import Check
    from watchdogd.daemon.registry.plugin_registry import Source
    from watchdogd.daemon.setup import Setup
    from watchdogd.daemon.storage import Storage
    from watchdogd.daemon.workers.worker_pool import UnkillableProcesses, WorkerPool
    from watchdogd.history.measurements import PastOfCheck
    from watchdogd.history.models import Past
    from watchdogd.home.layout import Home
    from watchdogd.system.bounded_io import BoundedIO

    Said = tuple[Progress | None, tuple[Sign, ...]]
    """Progress and signs of work that a check last reported for a run."""

TOLD_AGAIN = 3
"""Consecutive unfinished executions of a check before a message mentions their number."""
LINGER = 1.0
"""Maximum seconds until the next round while checks are running."""

log = logging.getLogger(__name__)


class CheckRunner:
    """Start times, memories and newest observations (`latest`) of all checks.

    `snapshots` holds the batch system's newest snapshots, `uid` is the daemon's user (see Snapshots).
    Troubles found here are written to `troubles`, by subject.
    """

    def __init__(
        self,
        home: Home,
        past: Past,
        *,
        workers: WorkerPool,
        patient: BoundedIO,
        storage: Storage,
        troubles: dict[str, str],
        clock: Callable[[], float],
        uid: int | None = None,
    ) -> None:
        self.latest: dict[str, tuple[Observation, ...]] = {}
        self._home = home
        self._memories = dict(past.memories)
        self._started = dict(past.started)
        self._forgotten: dict[str, float] = {}
        self._workers = workers
        self._patient = patient
        self._storage = storage
        self._troubles = troubles
        self._clock = clock
        self.snapshots = Snapshots(lambda check: self._memories.get(check, NOTHING), uid)
        self._held: list[Check] = []
        self._unended: dict[str, tuple[int, float]] = {}
        self._blind: list[Check] = []
        self._said: dict[str, dict[str, Said]] = {}
        self._known: frozenset[str] = frozenset()
        self._out: dict[str, Check] = {}
        self._dependencies = DependencyWatch(workers, self.latest, clock)
        self.deeds: Callable[[str], tuple[JobDeed, ...]] = lambda _run: ()
        """What watchdogd did to the jobs of a run lately."""

    def start(
        self, setup: Setup, alerts: AlertState, now: float, only: Collection[str] | None = None
    ) -> dict[str, float]:
        """Submit due checks, or those named in `only`; return the start time of each."""
        self._known = frozenset(check.name for check in setup.checks)
        outstanding = self._workers.outstanding | {*self._out}
        if only is None:
            ready = due(setup.checks, self._started, outstanding, now, _sooner(setup, alerts))
        else:
            ready = tuple(each for each in setup.checks if each.name in only and each.name not in outstanding)
        marks = self._finished_marks()
        over = {check.run_name for check in setup.checks if marks and file_name(check.run_name) in marks}
        snapshots = self.snapshots.calls(ready, setup.checks, setup.config, now, over, outstanding)
        self._workers.submit(snapshots)
        self._out |= {check.name: check for check in ready}
        self._dependencies.begin(setup, alerts, now)
        self._hold([*self._held, *ready], marks)
        started = {check.name: now for check in ready}
        self._started |= started
        return started

    def pause(self, setup: Setup, now: float) -> float:
        """Return seconds until a check is due or a reply may arrive, one interval at most."""
        pause = min(next_due(setup.checks, self._started, now) - now, setup.config.daemon.interval)
        return max(0.0, min(pause, LINGER) if self._workers.busy else pause)

    def _hold(self, checks: Iterable[Check], marks: dict[str, str]) -> None:
        """Submit checks whose inputs are ready; hold the others until a snapshot or a check has answered."""
        ready: list[Check] = []
        self._held = []
        for check in checks:
            (self._held if self._waits(check) else ready).append(check)
        self._submit(ready, marks)

    def _waits(self, check: Check) -> bool:
        """Return whether a snapshot that the check needs, or a check in its `after`, is outstanding.

        Nothing waits for a check that waits itself, so that no chain of waits can form.
        """
        before = (self._out.get(f"{check.run_name}/{name}") for name in check.entry.after)
        return self.snapshots.waits(check) or any(each and not each.entry.after for each in before)

    def _submit(self, checks: Sequence[Check], marks: dict[str, str]) -> None:
        pasts = self._pasts(checks)
        self._workers.submit([self._call(check, marks, pasts) for check in checks])

    def _call(self, check: Check, marks: dict[str, str], pasts: Mapping[str, PastOfCheck]) -> Call:
        wants = check.entry.wants
        injected: dict[str, Any] = {}
        if "run" in wants:
            injected["run"] = check.run and self._run(check.run, marks)
        if "snapshot" in wants:
            snapshot = injected["snapshot"] = self.snapshots.snapshot(check)
            if snapshot is None or snapshot.jobs is None:
                self._blind.append(check)
        if "history" in wants:
            injected["history"] = History(pasts.get(check.name, {}))
        if "failed" in wants:
            injected["failed"] = _failed(self._memories.get(check.name, NOTHING))
        if "now" in wants:
            injected["now"] = self._clock()
        entry = check.entry
        return Call(
            check.name,
            entry.source,
            check.parameters,
            injected,
            self._memories.get(check.name, NOTHING),
            check.timeout,
            alone=entry.foreign and not entry.program,
            lane="programs" if entry.program else "",
        )

    def _run(self, run: Run, marks: Mapping[str, str]) -> Run:
        finished = marks.get(file_name(run.name), "") if marks else ""
        said = [each for check, each in self._said_of(run.name).items() if check in self._known]
        progress = run_models.merged_progress(each for each, _ in said)
        signs = tuple(sign for _, signs in said for sign in signs)
        deeds = self.deeds(run.name)
        if not (finished or progress or signs or deeds):
            return run
        return replace(run, finished=finished, progress=progress, signs=signs, deeds=deeds)

    def _said_of(self, run: str) -> dict[str, Said]:
        """Return progress and signs of a run by check, from this process or the last one's status file."""
        if run not in self._said:
            self._said[run] = self._said_before(run)
        return self._said[run]

    def _said_before(self, run: str) -> dict[str, Said]:
        try:
            found = self._patient.attempt(partial(status_file.left_behind, self._home))
            return _by_check(
                (seen["check"], progress_of(seen), signs_of(seen)) for seen in found if seen.get("run") == run
            )
        except (WatchdogError, OSError, ValueError, KeyError, TypeError):
            return {}  # nothing is known then; a home that cannot be read is reported elsewhere

    def _pasts(self, checks: Sequence[Check]) -> Mapping[str, PastOfCheck]:
        """Read past measurements for checks that want them, with one query for each time span."""
        names: dict[float, list[str]] = {}
        for check in checks:
            if "history" in check.entry.wants and check.entry.remembers:
                names.setdefault(check.entry.remembers, []).append(check.name)
        now, found = self._clock(), dict[str, "PastOfCheck"]()
        try:
            for remembers, asking in names.items():
                found |= self._storage.series_of(asking, now - remembers)
        except WatchdogError as error:
            log.info("the history cannot be read: %s", error)
        return found

    def _finished_marks(self) -> dict[str, str]:
        try:
            return self._patient.attempt(partial(finished, self._home))
        except (WatchdogError, OSError) as error:
            place = self._home.switches
            why = getattr(error, "strerror", None) or error
            self._troubles["home"] = Trouble.of(f"{place} cannot be read: {why}", error, place)
            return {}

    def look_again(self, now: float, interval: float) -> dict[str, float]:
        """Make checks that ran without knowing which jobs run due in one interval; return their start times.

        A check slower than that would know nothing for hours after a moment's silence of the batch system.
        """
        blind = [check for check in self._blind if check.every > interval and check.at is None]
        self._blind = []
        starts = {check.name: now + interval - check.every for check in blind}
        self._started |= starts
        return starts

    @property
    def busy(self) -> bool:
        """Return whether a submitted call has not answered yet."""
        return self._workers.busy

    @property
    def policies(self) -> Mapping[str, AlertPolicy]:
        return self._dependencies.policies()

    def remembered(self, check: str) -> dict[str, Any]:
        """Return the check's memory."""
        kept: dict[str, Any] = json.loads(self._memories.get(check, NOTHING))
        return kept

    def gather(self, patience: float | None) -> tuple[tuple[Observation, ...], dict[str, str]]:
        """Return observations and changed memories of the next `patience` seconds; None: wait for all."""
        end = time.monotonic() + (patience if patience is not None else float("inf"))
        observations: list[Observation] = []
        memories: dict[str, str] = {}
        while self._workers.busy and (left := end - time.monotonic()) > 0:
            for reply in self._workers.collect(min(left, 60.0)):
                if (snapshot := self.snapshots.take(reply, self._clock())) is not None:
                    observations.append(self._dependencies.queue(snapshot))
                    self._hold(self._held, self._finished_marks())
                elif (answer := self._dependencies.take(reply)) is not None:
                    observations.append(answer)
                elif (check := self._out.pop(reply.key, None)) is not None:
                    seen = self._observed(check, reply, memories)
                    self._note_progress(check, seen)
                    if patience is not None:
                        seen = self._dependencies.confirmed(check, seen)
                    observations += self._noted(check.name, seen)
                    if any(check.entry.name in each.entry.after for each in self._held):
                        self._hold(self._held, self._finished_marks())
        for name, seen in self._dependencies.settled().items():
            observations += self._noted(name, seen)
        self._memories |= memories
        held, stuck = self._dependencies.stuck()
        self._troubles["workers"] = _hanging(stuck)
        return (*self._dependencies.doubts(), *observations, *held), memories

    def _observed(self, check: Check, reply: Reply, memories: dict[str, str]) -> tuple[Observation, ...]:
        if reply.memory is not None:
            memories[check.name] = reply.memory
        results: Sequence[Result] = reply.value or ()
        now = self._clock()
        again = self._again(check, now, ended=not reply.trouble)
        if reply.trouble:
            nothing = reply.late or reply.unanswered
            state = "?" if check.entry.declared.jobs else ""
            text = f"the check {reply.trouble}{again}"
            broken = unknown(text).saying(advice=[_to_correct(check, late=nothing)])
            results = (replace(broken, unanswered=nothing, run_state=state),)
            if "failed" in check.entry.wants:
                memories[check.name] = _failed_again(self._memories.get(check.name, NOTHING))
        elif reply.hang:
            results = [_hung(result, reply.hang) for result in results]
        return tuple(Observation(check.name, check.run_name, check.target, result, now) for result in results)

    def _again(self, check: Check, now: float, *, ended: bool) -> str:
        """Describe since when and how often in a row a check did not finish; empty below TOLD_AGAIN."""
        if ended:
            self._unended.pop(check.name, None)
            return ""
        count, since = self._unended.get(check.name, (0, now))
        self._unended[check.name] = count + 1, since
        if count + 1 < TOLD_AGAIN:
            return ""
        paths = (item for item in check.parameters.items() if isinstance(item[1], str) and "/" in item[1])
        reads = next((f", {name} = {path}" for name, path in paths), "")
        return f", {count + 1} looks in a row for {age(now - since)}{reads}"

    def _noted(self, check: str, seen: tuple[Observation, ...]) -> tuple[Observation, ...]:
        if seen:
            self.latest[check] = seen
        return seen

    def _note_progress(self, check: Check, seen: Iterable[Observation]) -> None:
        if check.run:
            reports = ((check.name, each.result.progress, each.result.signs) for each in seen)
            self._said_of(check.run_name)[check.name] = _by_check(reports).get(check.name, (None, ()))

    def recall(self, past: Past) -> None:
        """Merge starts and memories that could be read only now; newer ones in this process win."""
        self._memories = {**past.memories, **self._memories}
        self._started = {**past.started, **self._started}

    def forget(self, before: dict[str, Source], after: dict[str, Source]) -> None:
        """Reset the memory of drop-ins that were removed or are run in another way, as if they were new."""
        for name, at in self._started.items():
            if at and is_dropin(name) and name not in after:
                self._forgotten[name] = 0.0
                self._memories[name] = NOTHING
            elif name in before and before[name] != after.get(name):
                self._forgotten[name] = 0.0
        self._started |= self._forgotten

    def forgotten(self) -> tuple[dict[str, float], dict[str, str]]:
        """Return the starts and memories reset since the last call, for the history."""
        starts, self._forgotten = self._forgotten, {}
        return starts, {name: self._memories[name] for name in starts if name in self._memories}


def _by_check(reports: Iterable[tuple[str, Progress | None, tuple[Sign, ...]]]) -> dict[str, Said]:
    """Merge progress and signs of each check's results."""
    found: dict[str, Said] = {}
    for check, progress, signs in reports:
        before, others = found.get(check, (None, ()))
        found[check] = run_models.merged_progress((before, progress)), (*others, *signs)
    return found


def _hung(result: Result, hang: str) -> Result:
    """Add to a check's bad result what a process that it left behind is doing."""
    if result.status is Status.OK:
        return result
    return replace(result, summary=f"{result.summary}; what it started {hang}")


def _hanging(stuck: Sequence[UnkillableProcesses]) -> str:
    """Describe the five oldest processes that hang in the kernel: check, since when, where."""
    if not stuck:
        return ""
    oldest = sorted(stuck, key=lambda each: each.since)[:5]
    named = (
        f"{each.key} since {local_time(each.since)}{f' in {each.place}' * bool(each.place)}"
        for each in oldest
    )
    processes = f"{len(stuck)} process hangs" if len(stuck) == 1 else f"{len(stuck)} processes hang"
    return f"{processes} in the kernel and cannot be killed: {'; '.join(named)}"


def _sooner(setup: Setup, alerts: AlertState) -> dict[str, float]:
    """Return the interval for checks whose newest result needs confirmation; they run each round."""
    return {
        state.check: setup.config.daemon.interval
        for state in alerts.states.values()
        if state.status is not state.hard
    }


def _failed(memory: str) -> int:
    """Return the number of consecutive unfinished executions that a memory records."""
    return int(json.loads(memory).get(FAILED, 0)) if FAILED in memory else 0


def _to_correct(check: Check, *, late: bool) -> Advice:
    again = f"watchdogd check {shlex.quote(check.name)}"
    if late:
        return Advice("What it reads may not answer, or it needs a longer timeout; to run it now:", again)
    if check.entry.foreign:
        return Advice("Correct the plugin; to run it then:", again)
    return Advice("This is a fault of watchdogd: report it with this line. To run it again:", again)


def _failed_again(memory: str) -> str:
    """Return the memory with one more unfinished execution."""
    return json.dumps({**json.loads(memory), FAILED: _failed(memory) + 1}, separators=(",", ":"))
