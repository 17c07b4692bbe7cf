"""The round: start due checks, gather results, evaluate incidents, store, notify."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from watchdogd.config import switch_places
from watchdogd.daemon import status_file
from watchdogd.daemon.check_runner import CheckRunner
from watchdogd.daemon.config_changes import Changes
from watchdogd.daemon.due import unconfirmed
from watchdogd.daemon.inbox_reader import InboxReader
from watchdogd.daemon.publishing import StatusLines
from watchdogd.daemon.remediation import KEPT, Remediation
from watchdogd.daemon.remediation_context import RemediationContext
from watchdogd.daemon.self_monitoring import SelfMonitoring
from watchdogd.daemon.status_file import StatusWriter
from watchdogd.daemon.storage import Storage, WriteBuffer
from watchdogd.daemon.switch_events import RunNow, touch_events
from watchdogd.daemon.trouble import Trouble
from watchdogd.errors import WatchdogError
from watchdogd.history.models import Gap, Past, Record
from watchdogd.home import markers, switches
from watchdogd.incidents import evaluate, message_wording
from watchdogd.incidents.models import SELF, EventKind, IncidentEvent, Observation
from watchdogd.notify.message import compose
from watchdogd.notify.sparkline import with_trends
from watchdogd.plugin import SWITCH_SET, Advice
from watchdogd.remediation import stall_inquiry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from watchdogd.daemon.registry.check_factory import Check
    from watchdogd.daemon.registry.plugin_registry import Source
    from watchdogd.daemon.setup import Setup
    from watchdogd.daemon.workers.worker_pool import WorkerPool
    from watchdogd.home.inbox import Submission
    from watchdogd.home.layout import Home
    from watchdogd.home.markers import Pause
    from watchdogd.home.touchfile import Signature
    from watchdogd.notify.notification import Notification
    from watchdogd.system.bounded_io import BoundedIO

    Send = Callable[[Sequence[Notification]], None]

SETTLE = 5.0
"""Seconds for which a round waits for its checks; later results go to the next round."""

ACTING = 3.0
"""Seconds until the next round while an action is under way."""

KILLED = 5.0
"""Maximum seconds to wait for killed actions when the daemon ends."""


@dataclass(frozen=True, slots=True)
class Round:
    at: float
    observations: tuple[Observation, ...]
    events: tuple[IncidentEvent, ...]
    notifications: tuple[Notification, ...]


class Engine:
    """State that a daemon keeps between rounds; all decisions are made by pure functions.

    `dry`: it evaluates, but writes and sends nothing. `troubles`: see SelfMonitoring. `link` and `gaps` are
    shown by `status`.
    """

    def __init__(
        self,
        home: Home,
        setup: Setup,
        past: Past,
        *,
        workers: WorkerPool,
        patient: BoundedIO,
        storage: Storage,
        dry: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.home = home
        self.setup = setup
        self.alerts = past.alerts
        self._itself = SelfMonitoring(home)
        self.troubles, self.began = self._itself.troubles, self._itself.began
        self.link: dict[str, Any] | None = None
        self.gaps: tuple[Gap, ...] = ()
        self._execution = CheckRunner(
            home,
            past,
            workers=workers,
            patient=patient,
            storage=storage,
            troubles=self.troubles,
            clock=clock,
            uid=home.watcher if dry else None,
        )
        self._patient = patient
        self._status_writer = StatusWriter(home, patient)
        self._buffer = WriteBuffer(storage)
        self._storage = storage
        self._dry = dry
        self._clock = clock
        self._inbox = InboxReader(home, patient)
        self._changes = Changes(home, patient, self.troubles)
        self._pulse = StatusLines(home)
        self._new_gaps: tuple[Gap, ...] = ()
        self._started: Pause | None = None
        self._unwritten = ""
        self._shown: tuple[tuple[Check, ...], dict[str, Any]] = ((), {})
        kept = past.memories.get(KEPT, "{}")
        self._remediation = Remediation(home, kept, dry=dry, certain=not storage.unread)
        self._execution.deeds = self._remediation.deeds

    def round(
        self,
        *,
        patience: float = SETTLE,
        may_act: Callable[[], bool] = lambda: True,
        send: Send = lambda _: None,
        only: Collection[str] | None = None,
    ) -> Round | None:
        """Do one round and return it; None, with nothing done, where `may_act` returns False.

        `patience`: seconds to wait for checks. `send` gets the notifications as soon as they are stored.
        `only`: names of the checks to run, instead of those that are due.
        """
        now = self._clock()
        resumed = () if self._dry else self._resume(now, send)
        submissions = [] if self._dry else self._inbox.take()
        self.troubles["inbox"] = self._inbox.trouble
        forgotten, emptied = self._execution.forgotten()
        started = forgotten | self._execution.start(self.setup, self.alerts, now, only)
        observations, memories = self._execution.gather(patience)
        started |= self._execution.look_again(now, self.setup.config.daemon.interval)
        judged_at = self._clock()
        observations += self._itself.observe(self.setup, self.link, judged_at)
        if not may_act():
            return None
        before = self.alerts
        try:
            record = self._judge(observations, submissions, emptied | memories, started, judged_at, resumed)
        except BaseException:  # nothing is sent: the next round evaluates again
            self.alerts = before
            raise
        self._started = None
        self._keep(record, send)
        if not self._dry:
            self.troubles["pulse"] = self._pulse.beat(self._context(), judged_at)
        return Round(judged_at, observations, record.events, record.notifications)

    def _resume(self, now: float, send: Send) -> tuple[IncidentEvent, ...]:
        """Load the earlier state if it can be read only now, and send its waiting notifications."""
        past = self._storage.recovered()
        if past is None:
            return ()
        self._execution.recall(past)
        self.alerts, events = evaluate.resumed(past.alerts, self.alerts, now)
        send(past.waiting)
        return events

    def _judge(
        self,
        observations: tuple[Observation, ...],
        submissions: Sequence[Submission],
        memories: Mapping[str, str],
        started: Mapping[str, float],
        judged_at: float,
        resumed: tuple[IncidentEvent, ...],
    ) -> Record:
        """Evaluate observations and submissions, order actions, and compose the messages."""
        stops = {
            state.run: state.incident.summary
            for state in self.alerts.states.values()
            if state.incident and state.incident.fault in SWITCH_SET
        }
        self.alerts, events = evaluate.evaluate(
            self.alerts,
            observations,
            self._execution.policies,
            judged_at,
            requests=tuple(order for submission in submissions for order in submission.requests),
            silent=self.setup.maintenance,
        )
        checks, latest = self.setup.checks, self._execution.latest
        wanted = {check.name: check.entry.declared.evidence for check in checks if check.run}
        reported = [self._with_evidence(event, wanted.get(event.check, ())) for event in (*resumed, *events)]
        if not self._dry:
            stalls = [*self._context().stalls(reported, judged_at)]
            reported = [*stall_inquiry.with_evidence(stalls, reported, self._patient.attempt)]
            for suspicion in self._context().suspicions(reported):
                with contextlib.suppress(WatchdogError, OSError):  # home does not answer
                    self._patient.attempt(suspicion)
        trends = {check.name: trend for check in checks if (trend := check.entry.declared.trend)}
        events = with_trends(self._with_guards(reported), trends, latest, self._storage.series)
        speaker = self._context().speaker
        events += tuple(touch_events(submissions, speaker, judged_at, stops, self._run_now))
        if self._started is not None:
            name, count = self.setup.config.daemon.name, len(status_file.open_incidents(self.alerts))
            events += (start_event(name, self._started, count, judged_at),)
        events, records = self._remediation.step(self._context(), events, submissions, judged_at)
        notifications = tuple(compose(events, self.setup.routes, self.setup.rules, judged_at))
        return Record(
            at=judged_at,
            observations=observations,
            alerts=self.alerts,
            events=events,
            notifications=notifications,
            memories={**memories, **records},
            started=started,
            gaps=self._new_gaps,
            touches=tuple(submission.line for submission in submissions),
        )

    def conclude(
        self, patience: float, may_act: Callable[[], bool], *, go_on: bool = False
    ) -> tuple[Notification, ...]:
        """Wait for actions under way and report their outcomes; `go_on`: also order the next ones.

        A program still running after `patience` seconds is killed and reported as such.
        """
        notifications = self._outcomes(patience, may_act, go_on)
        self._remediation.end()
        return notifications + self._outcomes(KILLED, may_act, go_on=False)

    def say_stopped(self) -> tuple[Notification, ...]:
        """Report who stopped the watchdog, if somebody did."""
        try:
            signature, again = self._patient.attempt(partial(_stop_of, self.home))
        except (WatchdogError, OSError):
            return ()
        if signature is None:
            return ()
        now, name = self._clock(), self.setup.config.daemon.name
        config, open_now = self.setup.config, len(status_file.open_incidents(self.alerts))
        targets = (counted(len(config.runs), "run"), counted(len(config.disks), "disk"))
        facts = (f"not watched now: {' and '.join(targets)}", f"{counted(open_now, 'incident')} open")
        event = stop_event(name, signature.who, signature.reason, now, f"watchdogd {again}", facts)
        notifications = tuple(compose((event,), self.setup.routes, self.setup.rules, now))
        self._keep(Record(at=now, alerts=self.alerts, events=(event,), notifications=notifications))
        return notifications

    def _outcomes(
        self, patience: float, may_act: Callable[[], bool], go_on: bool
    ) -> tuple[Notification, ...]:
        until = time.monotonic() + patience
        notifications: tuple[Notification, ...] = ()
        while self._remediation.wait(until - time.monotonic()):
            if not may_act():
                self._remediation.hand_over()
                break
            now = self._clock()
            events, records = self._remediation.step(self._context(), (), (), now, ordering=go_on)
            new = tuple(compose(events, self.setup.routes, self.setup.rules, now))
            self._keep(Record(at=now, alerts=self.alerts, events=events, notifications=new, memories=records))
            notifications += new
        return notifications

    def _context(self) -> RemediationContext:
        return RemediationContext(
            self.home, self.setup, self.alerts, self._execution.latest, self._execution.snapshots
        )

    def rehearse(self, again: Callable[[], bool] = lambda: True) -> Round:
        """Do a dry round of all checks.

        Bad results are checked again until they are confirmed, or until `again`, which may wait, returns
        False.
        """
        alerts, policies = self.alerts, self.setup.policies
        seen: dict[str, list[Observation]] = {}
        events: tuple[IncidentEvent, ...] = ()
        only: Collection[str] | None = None
        while only is None or (only and again()):
            observations = self.observe(only)
            now = self._clock()
            alerts, came = evaluate.evaluate(
                alerts, observations, policies, now, silent=self.setup.maintenance
            )
            events += came
            seen |= _by_check(observations)
            only = unconfirmed(alerts, policies, self.setup.checks, now)
        events, _ = self._remediation.step(replace(self._context(), alerts=alerts), events, (), now)
        notifications = tuple(compose(events, self.setup.routes, self.setup.rules, now))
        return Round(now, tuple(each for found in seen.values() for each in found), events, notifications)

    def observe(self, only: Collection[str] | None = None) -> tuple[Observation, ...]:
        """Run due checks, or `only` these, wait for all, and return their observations; nothing is stored."""
        self._execution.start(self.setup, self.alerts, self._clock(), only)
        known = {check.name for check in self.setup.checks}
        return tuple(seen for seen in self._execution.gather(None)[0] if seen.check in known)

    def remembered(self, check: str) -> dict[str, Any]:
        return self._execution.remembered(check)

    def unconfirmed(self) -> frozenset[str]:
        """Return the names of checks with a new bad result that is still to be confirmed."""
        found = unconfirmed(self.alerts, self._execution.policies, self.setup.checks, self._clock())
        return found | {SELF} if self._itself.unsure else found

    @property
    def waits(self) -> bool:
        return self._execution.busy

    def pause(self) -> float:
        """Return seconds until the next round, one interval at most, since reminders need one as well."""
        pause = self._execution.pause(self.setup, self._clock())
        return min(pause, ACTING) if self._remediation.busy else pause

    def tell_gap(self, gap: Gap, *, reported: bool) -> None:
        """Record a gap with the next round, and report it if `reported`."""
        self._new_gaps += (gap,)
        self.gaps += (gap,)
        if reported:
            self.tell(f"{message_wording.unwatched(gap.begin, gap.end)}: {gap.reason}")

    def tell_started(self, pause: Pause) -> None:
        """Report with the next round that it watches again after this stop."""
        self._started = pause

    def tell(self, text: str) -> None:
        """Report something once, as a notice."""
        self._itself.tell(text)

    @property
    def trouble(self) -> str:
        """Return all troubles of the daemon in one line, or empty."""
        return "; ".join(self._itself.standing)

    def close(self) -> None:
        """Close what the engine alone uses."""
        self._changes.close()
        self._pulse.close()

    def _with_evidence(self, event: IncidentEvent, plugins: Iterable[str]) -> IncidentEvent:
        """Add the details of these checks of the run to the message."""
        if event.kind not in (EventKind.OPENED, EventKind.WORSE):
            return event
        latest = self._execution.latest
        seen = [each for plugin in plugins for each in latest.get(f"{event.run}/{plugin}", ())]
        said = [each.result.details for each in seen if not each.result.subject and each.result.details]
        return replace(event, details="\n".join([event.details, *said]).strip()) if said else event

    def _with_guards(self, events: Iterable[IncidentEvent]) -> list[IncidentEvent]:
        """Set for each event whether a Guard polls the run's kill switch.

        A hanging loop does not poll: then only polls since the fault was seen count.
        """
        return [replace(event, polled=self._is_polled(event)) for event in events]

    def _is_polled(self, event: IncidentEvent) -> bool:
        if event.incident is None or event.quiet or event.run not in self.setup.config.runs:
            return False
        hangs = any(
            each.result.trigger == "on_hang" and each.result.subject == event.incident.subject
            for each in self._execution.latest.get(event.check, ())
        )
        since = (event.incident.seen_at or event.incident.fault_began) if hangs else 0.0
        with contextlib.suppress(WatchdogError, OSError):  # without home nothing is known of Guards
            return self._patient.attempt(partial(_is_polled, str(self.home.path), event.run, since))
        return False

    def _run_now(self, run: str, kind: str) -> RunNow:
        """Return what is known of a run whose switch was used."""
        check = self._context().speaker(run)
        snapshot = self._execution.snapshots.snapshot(check) if check and check.run else None
        if not snapshot or check is None or check.run is None:
            return RunNow()
        polled = True
        with contextlib.suppress(WatchdogError, OSError):  # without home nothing is known of Guards
            polled = not self._patient.attempt(partial(_is_unpolled, str(self.home.path), run, kind))
        return RunNow(check.run.backend, snapshot.jobs, polled)

    def _keep(self, record: Record, send: Send = lambda _: None) -> None:
        """Store the round; then send its messages and begin its actions."""
        if not self._dry:
            self._buffer.keep(record)
            self.troubles["history"] = self._buffer.trouble
        try:
            send(record.notifications)
        finally:
            self._show(record.at)
            self._remediation.begin(stored=not self._buffer.trouble)

    def _show(self, now: float) -> None:
        """Remove submissions whose effects are stored; write the status file."""
        if self._dry:
            return
        try:
            if not self._buffer.trouble:
                self._new_gaps = ()
                self._inbox.settle()
            self._publish(now)
            self._unwritten = ""
        except (WatchdogError, OSError) as error:  # the next round reports it
            why = getattr(error, "strerror", None) or error
            text = f"the watchdog's home cannot be written: {why}"
            self._unwritten = Trouble.of(text, error, self.home.path)

    def _declared(self) -> dict[str, Any]:
        """Return what the checks declare; rebuilt only when the checks change."""
        if self._shown[0] is not self.setup.checks:
            self._shown = self.setup.checks, status_file.declared_json(self.setup.checks)
        return self._shown[1]

    def _publish(self, now: float) -> None:
        known = [check.name for check in self.setup.checks]
        self._status_writer.publish(
            {"recorded": not self._buffer.trouble, "actions": self._remediation.pending}
            | status_file.snapshot(
                self.alerts,
                {name: seen for name in known if (seen := self._execution.latest.get(name))},
                now=now,
                link=self.link,
                gaps=self.gaps,
                every=min((check.every for check in self.setup.checks), default=3600.0),
                troubles=self._itself.standing,
                policies=self.setup.policies,
                declared=self._declared(),
            ),
            known,
        )

    def reload(self) -> bool:
        """Load changes to config.toml and drop-ins; return whether the configuration changed."""
        self.troubles["home"] = self._unwritten
        before, self.setup = self.setup, self._changes.config(self.setup)
        changed = self.setup is not before
        dropped = _sources(self.setup)
        self.setup = self._changes.dropins(self.setup).remounted(
            {state.check for state in self.alerts.states.values() if state.incident}
        )
        if self.setup.looked:
            self._execution.forget(dropped, _sources(self.setup))
        self.setup = self.setup.expecting(check for check, _ in self.alerts.states)
        return changed


def _sources(setup: Setup) -> dict[str, Source]:
    return {check.name: check.entry.source for check in setup.dropped}


def _by_check(observations: Iterable[Observation]) -> dict[str, list[Observation]]:
    found: dict[str, list[Observation]] = {}
    for each in observations:
        found.setdefault(each.check, []).append(each)
    return found


def _is_polled(home: str, run: str, since: float) -> bool:
    """Return whether a Guard polled the run's kill switch after `since`. WatchdogError, OSError."""
    return switches.is_polled(switch_places.find(home, run, "kill"), since)


def _is_unpolled(home: str, run: str, kind: str) -> bool:
    """Return whether no Guard of the run was heard of. WatchdogError, OSError."""
    return bool(switches.unpolled(switch_places.find(home, run, kind)))


def _stop_of(home: Home) -> tuple[Signature | None, str]:
    """Return who stopped the watchdog, if somebody did, and the verb that starts it again. OSError."""
    return markers.stopped_by(home), markers.start_verb(home)


def stop_event(
    name: str, by: str, reason: str, now: float, start: str, facts: tuple[str, ...] = ()
) -> IncidentEvent:
    """Return the notice that somebody stopped the watchdog; `start`: the command that starts it again."""
    again = (Advice("To watch again:", start),)
    text = message_wording.stopped(by, reason)
    return IncidentEvent(EventKind.NOTICE, now, SELF, "", name, text, facts=facts, advice=again, calm=True)


def start_event(name: str, pause: Pause, incidents: int, now: float) -> IncidentEvent:
    """Return the notice that the watchdog watches again after a stop; `incidents` are open still."""
    text = message_wording.started(pause.who, now - pause.begin)
    facts = (pause.words, f"{counted(incidents, 'incident')} open" if incidents else "no incident is open")
    return IncidentEvent(EventKind.NOTICE, now, SELF, "", name, text, facts=facts, calm=True)


def counted(number: int, what: str) -> str:
    """Return `3 runs`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
