"""The daemon process: rounds, delivery and housekeeping for one home while it holds the lease.

On start it reports the gap since the last round, in which nothing was watched.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import time
from collections import Counter
from datetime import datetime
from typing import Protocol

from watchdogd.daemon.housekeeping import do_chores, morning_messages
from watchdogd.daemon.publishing import Publisher
from watchdogd.daemon.scheduler import Schedule
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.status_file import open_incidents
from watchdogd.daemon.trouble import Trouble, TroubleKind, joined
from watchdogd.daemon.wiring import Wiring, answers_of, missing, outbox_of, threadless
from watchdogd.errors import ConfigError, HistoryError
from watchdogd.history.models import Gap
from watchdogd.home import markers
from watchdogd.home.lease import Lease
from watchdogd.home.markers import Pause
from watchdogd.notify.dead_mans_switch import Heartbeat, heartbeat_of
from watchdogd.notify.message_outbox import Outbox
from watchdogd.system.bounded_io import StuckError
from watchdogd.system.smallfile import STATUS_LIMIT, read_plain
from watchdogd.system.text import one_line
from watchdogd.units import age, local_time

_PATIENCE = 1.0
"""Seconds for a message to systemd."""


class ServiceManager:
    """Reporter of the service's state to systemd (sd_notify(3)); without systemd it does nothing.

    systemd's variables are removed from the environment, so that no check or drop-in can report instead.
    """

    def __init__(self) -> None:
        self._address = os.environ.pop("NOTIFY_SOCKET", "")
        given = os.environ.pop("WATCHDOG_USEC", "")
        self._deadline = int(given) / 1e6 if given.isdecimal() else 0.0

    def working(self, status: str, pause: float) -> None:
        """Report that the service works, in one line how, and again within about `pause` seconds.

        The unit's WatchdogSec is raised where it is shorter.
        """
        lines = ["READY=1", "WATCHDOG=1", f"STATUS={status}"]
        if 0 < self._deadline < 3 * pause:
            self._deadline = 3 * pause
            lines.append(f"WATCHDOG_USEC={self._deadline * 1e6:.0f}")
        self._send(lines)

    def ending(self) -> None:
        """Say that it ends on purpose.

        A service that ends before it said that it is ready counts as failed, and would be started again.
        """
        self._send(["READY=1"])
        self._send(["STOPPING=1", "STATUS=ending"])

    def _send(self, lines: list[str]) -> None:
        if not self._address:
            return
        # A socket in the abstract namespace is written with an @ (unix(7)).
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wire:
            wire.settimeout(_PATIENCE)
            wire.sendto("\n".join(lines).encode(errors="replace"), address)


STEPS, LEAST = 3, 60.0
"""A gap is this many intervals, and this many seconds at least, without a round."""
NOBODY = "no daemon ran"


def unrecorded(recorded: float | None, seen: float | None, step: float) -> str:
    """Describe rounds after the last `recorded` one, up to the last `seen` one, that the history lacks.

    The daemon could not write the history, or an older one was restored. Empty where none are missing.
    """
    if recorded is None or seen is None or seen - recorded < max(STEPS * step, LEAST):
        return ""
    lasted = f"{age(seen - recorded)} until {local_time(seen)}"
    return f"no history of {lasted}: a daemon ran, but what it saw is not recorded"


def gaps(last: float | None, now: float, step: float, pause: Pause | None) -> list[tuple[Gap, bool]]:
    """Return gaps between the last round (None: there was none) and now, each with whether to report it.

    `step`: seconds between rounds. An intended `pause` is recorded but not reported; the time before and
    after it is, where it is long.
    """
    least = max(STEPS * step, LEAST)
    if last is None or now - last < least:
        return []
    if pause is None or pause.end <= last:
        return [(Gap(last, now, NOBODY), True)]
    begin, end = min(max(pause.begin, last), now), min(pause.end, now)
    around = [(Gap(last, begin, NOBODY), True), (Gap(end, now, NOBODY), True)]
    long = [(gap, reported) for gap, reported in around if gap.end - gap.begin >= least]
    return [(Gap(begin, end, pause.words), False), *long]


FAREWELL = 10.0
"""Seconds for undelivered messages when the daemon ends; the next daemon sends the rest."""
CLOSING = 2.0
"""Seconds to wait at the end for a running read of answers."""
GONE = 600.0
"""Seconds for which the daemon goes on without home: it may come back, or was moved for good."""

log = logging.getLogger(__name__)


def tell_gaps(parts: Wiring, step: float, now: float) -> None:
    """Record and report the gap before this process; `step`: seconds between rounds."""
    recorded, seen = parts.past.last_round, _last_seen(parts, now)
    if text := unrecorded(recorded, seen, step):
        parts.engine.tell(text)
        recorded = seen
    pause = markers.last_pause(parts.home)
    for gap, reported in gaps(recorded, now, step, pause):
        parts.engine.tell_gap(gap, reported=reported)
    if pause and pause.who and recorded is not None and pause.end >= recorded:
        parts.engine.tell_started(pause)


def _last_seen(parts: Wiring, now: float) -> float | None:
    """Return the time of the last round by status.json, which is written even where the history cannot be.

    None where the history is complete.
    """
    try:
        picture = json.loads(read_plain(parts.home.status, limit=STATUS_LIMIT))
        if picture.get("recorded", True) and not parts.storage.troubles:
            return None
        return min(datetime.fromisoformat(picture["last_round"]).timestamp(), now)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None  # an older version's file, or one edited by hand


class Absence:
    """Time since home was first found missing."""

    def __init__(self) -> None:
        self._since: float | None = None

    def bearable(self, now: float) -> bool:
        """Return whether home may still come back; `now`: seconds of a monotonic clock."""
        if self._since is None:
            self._since = now
        return now - self._since < GONE


class Linked(Protocol):
    """Chain of Slurm jobs that this process is a link of, as far as the daemon shows it."""

    def as_json(self) -> dict[str, object]:
        """Return the chain as `status --json` shows it."""


class Leadership(Protocol):
    """Right to act for a home: the lease, and the chain if this process is a link of one."""

    lease: Lease

    @property
    def chain(self) -> Linked | None:
        """Return the chain; None: a plain process."""

    def watch(self) -> bool:
        """Renew the lease; False: the daemon must end. OSError where home does not answer."""

    def troubles(self) -> list[str]:
        """Return what is wrong with the chain, one line each."""


class Daemon:
    """Daemon of one home. `run` returns after a request to end, or when another daemon took the lease."""

    def __init__(
        self, parts: Wiring, leadership: Leadership, heartbeat: Heartbeat, service: ServiceManager
    ) -> None:
        self._parts = parts
        self._engine = parts.engine
        self._leadership = leadership
        self._lease = leadership.lease
        self._heartbeat = heartbeat
        self._service = service
        self._logged = 0
        self._broke = ""
        self._absence = Absence()
        step = self._engine.setup.config.daemon.interval
        tell_gaps(parts, step, time.time())
        self._behind = missing(parts) if leadership.chain else ""
        self._outbox: Outbox = outbox_of(parts, self.may_act, go_on=bool(self._behind))
        self._publisher = Publisher(parts.home)
        self._answers = answers_of(parts)
        self._schedule = Schedule(self.round, self._watch)
        self._schedule.add("chores", self._chores, after=60.0, every=3600.0)
        self._schedule.add("publishing", self._publish, after=15.0, every=60.0)

    def run(self) -> None:
        """Do rounds until the daemon must end; then deliver what can be delivered."""
        self._outbox.add(self._parts.past.waiting)
        self._outbox.start()
        self._schedule.run()
        self._service.ending()
        self._outbox.add(self._engine.conclude(FAREWELL, self.may_act))
        self._outbox.add(self._engine.say_stopped())
        self._outbox.stop(FAREWELL)
        self._answers.wait(CLOSING)
        self._answers.close()
        self._publisher.close()

    def may_act(self) -> bool:
        """Return whether the lease is still held. If home does not answer, the last holder goes on."""
        try:
            return self._parts.patient.attempt(self._lease.held)
        except (StuckError, OSError):
            return True

    def round(self) -> float:
        """Do one round; return seconds until the next.

        Raises the exception that ended the round early; the next round, which is soon, reports it.
        """
        try:
            pause = self._round()
        except Exception as error:  # a fault of ours must not stay unseen
            self._broke = Trouble.of(f"the last round broke off: {type(error).__name__}: {error}", error)
            log.exception("the round broke off")
            self._heartbeat.bad(self._broke)
            raise
        self._broke = ""
        self._service.working(self._summary(), self._engine.setup.config.daemon.interval)
        return pause

    def _round(self) -> float:
        engine = self._engine
        if engine.reload() or self._behind:
            self._exchange(engine.setup)
        self._ask_for_answers()
        self._see_troubles()
        seen = engine.round(may_act=self.may_act, send=self._outbox.add)
        if seen is None:
            self._schedule.end()
            return 0.0
        if engine.trouble:
            self._heartbeat.bad(engine.trouble)
        else:
            self._heartbeat.good()
        return engine.pause()

    def _ask_for_answers(self) -> None:
        """Start reading answers to messages; they reach the inbox for a later round."""
        if not self._parts.storage.unread:
            self._answers.begin(self._engine.alerts, time.time())
        self._engine.troubles["answers"] = self._answers.trouble

    def _summary(self) -> str:
        """Return the number of checks and open incidents in one line, for systemd."""
        counts = Counter(incident.status for incident in open_incidents(self._engine.alerts))
        worst = sorted(counts, key=lambda status: status.severity, reverse=True)
        found = ", ".join(f"{counts[status]} {status.name}" for status in worst) or "nothing"
        troubles = f"; {one_line(self._engine.trouble)}" if self._engine.trouble else ""
        return f"{len(self._engine.setup.checks)} checks, {found} open{troubles}"

    def _see_troubles(self) -> None:
        """Collect troubles from outside the round engine; the next round evaluates them."""
        self._engine.troubles["engine"] = joined((self._broke, threadless(self._outbox)))
        self._engine.troubles["channels"] = self._behind
        self._engine.troubles["chain"] = joined(self._leadership.troubles())
        self._engine.link = self._leadership.chain.as_json() if self._leadership.chain else None
        now = time.time()
        troubles = self._parts.storage.troubles
        for text in troubles[self._logged :]:
            self._engine.tell(text)
        self._logged = len(troubles)
        broken = [trouble for trouble in self._outbox.troubles if trouble.broken]
        self._engine.troubles["delivery"] = "; ".join(
            f"channel {each.channel} does not deliver: {each.failure} ({each.waiting} waiting)"
            for each in broken
        )
        self._engine.began["delivery"] = min((each.since for each in broken), default=now)

    def _exchange(self, setup: Setup) -> None:
        """Rebuild the channels for a new configuration; undelivered messages move to them."""
        try:
            fresh = outbox_of(self._parts, self.may_act)
            heartbeat = heartbeat_of(setup.config)
        except ConfigError as error:
            self._behind = Trouble(f"the old channels go on: {error}", TroubleKind.GO_ON)
            return
        self._behind = ""
        self._heartbeat.stop(1.0)
        self._heartbeat = heartbeat
        self._outbox.stop(2.0)
        fresh.succeed(self._outbox)
        self._outbox = fresh
        self._answers.close()
        self._answers = answers_of(self._parts)
        fresh.start()
        with contextlib.suppress(HistoryError):  # what no channel was there for goes by the next start
            fresh.add(self._parts.storage.waiting())
        log.info("configuration read again: %d checks", len(setup.checks))

    def _watch(self) -> bool:
        """Renew the lease; False when the daemon must end."""
        try:
            goes_on = self._parts.patient.attempt(self._leadership.watch)
        except FileNotFoundError:
            return self._absence.bearable(time.monotonic())  # rounds report it
        except (StuckError, OSError):
            return True  # rounds report it
        self._absence = Absence()
        return goes_on

    def _chores(self) -> None:
        do_chores(self._parts, time.time())

    def _publish(self) -> None:
        self._outbox.add(morning_messages(self._parts, time.time()))
        self._engine.troubles["publishing"] = self._publisher.publish(self._engine.setup, time.time())
