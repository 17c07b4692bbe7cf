"""Answers to messages, such as Slack reactions and mail replies, read once a round by one thread a channel.

A new answer is submitted to the inbox as an `ack` or `silence` in the name of its author. Answers already
submitted are kept in home's `answers.json`, so that a restart submits none twice.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from watchdogd.config.models import Config
from watchdogd.errors import ConfigError, DeliveryError, WatchdogError
from watchdogd.home.inbox_submit import submit
from watchdogd.home.layout import Home
from watchdogd.incidents.models import AlertState, Incident
from watchdogd.notify.answers import AnswerReader, PersonAnswer, ReadAnswers
from watchdogd.notify.notification import Notification
from watchdogd.notify.senders import channel_of
from watchdogd.system.bounded_io import BoundedIO
from watchdogd.system.smallfile import parse_json, read_plain

EVERY = 30.0
"""Minimum seconds between two reads of one channel."""
BEARABLE = 600.0
"""Seconds of failed reads before that is reported: servers have short outages."""
FILE = "answers.json"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TakenAnswer:
    """Answer that was submitted; `receipt` and `incidents` are those of the answered message."""

    key: str
    channel: str
    receipt: str
    incidents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AnswerLook:
    """Result of one read: answers to submit, receipts of recovered incidents, and all answers known now."""

    fresh: tuple[PersonAnswer, ...]
    recovered: tuple[str, ...]
    taken: tuple[TakenAnswer, ...]


def look(
    channel: str, known: Sequence[TakenAnswer], answers: ReadAnswers, opened: Mapping[int, Incident]
) -> AnswerLook:
    """Compare the answers read with those known; known ones whose incidents are all resolved are dropped."""
    keys = {answer.key for answer in answers.found}
    mine = [each for each in known if each.channel == channel]
    stand = [each for each in mine if each.key in keys or each.receipt not in answers.looked]
    ours = {each.key for each in mine}
    fresh = tuple(answer for answer in answers.found if answer.key not in ours)
    taken = [
        *stand,
        *(
            TakenAnswer(each.key, channel, each.message.receipt, each.message.message.incidents)
            for each in fresh
        ),
    ]
    over = [each for each in taken if not opened.keys() & set(each.incidents)]
    recovered = dict.fromkeys(each.receipt for each in over)
    return AnswerLook(fresh, tuple(recovered), tuple(each for each in taken if each not in over))


class AnswerBook:
    """Submitted answers of all channels, kept in `answers.json`. Thread-safe."""

    def __init__(self, home: Home, patient: BoundedIO) -> None:
        self._home, self._patient = home, patient
        self._lock = threading.Lock()
        self._taken: tuple[TakenAnswer, ...] | None = None

    def read(self) -> tuple[TakenAnswer, ...]:
        """Return all submitted answers. WatchdogError or OSError where home does not answer."""
        with self._lock:
            if self._taken is None:
                self._taken = self._patient.attempt(self._stored)
            return self._taken

    def _stored(self) -> tuple[TakenAnswer, ...]:
        try:
            found = parse_json(read_plain(self._home.path / FILE))
            return tuple(map(_entry, found))
        except FileNotFoundError:
            return ()
        except (ValueError, TypeError, KeyError, RecursionError):
            log.warning("%s cannot be read: answers may count twice", FILE)
            return ()

    def write(self, channel: str, taken: Sequence[TakenAnswer]) -> None:
        """Replace one channel's answers; write the file if that changes anything."""
        self.read()
        with self._lock:
            others = tuple(each for each in self._taken or () if each.channel != channel)
            new = (*others, *taken)
            if set(new) == set(self._taken or ()):
                return
            text = json.dumps([asdict(each) for each in new]) + "\n"
            self._patient.attempt(partial(self._home.write, self._home.path / FILE, text))
            self._taken = new


def _entry(said: Mapping[str, Any]) -> TakenAnswer:
    """Parse one entry of `answers.json`. ValueError, TypeError or KeyError where it is malformed."""
    entry = TakenAnswer(said["key"], said["channel"], said["receipt"], tuple(said["incidents"]))
    kinds = {type(each) for each in (entry.key, entry.channel, entry.receipt)}
    if kinds != {str} or {type(each) for each in entry.incidents} - {int}:
        raise ValueError("an entry has other types")
    return entry


@dataclass
class ChannelAnswers:
    """Reader of one channel's answers. `begin` never blocks, and does nothing while a read is running."""

    name: str
    reader: AnswerReader
    home: Home
    book: AnswerBook
    sent: Callable[[float], Sequence[Notification]]
    """Return the messages of all channels from the last so many seconds. HistoryError."""
    trouble: str = ""
    _thread: threading.Thread | None = None
    _next: float = 0.0
    _failing: float | None = None

    def begin(self, opened: Mapping[int, Incident], now: float) -> None:
        """Start reading the answers to messages about these open incidents."""
        if (self._thread and self._thread.is_alive()) or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY
        thread = threading.Thread(
            target=self._look, args=(opened, now), name=f"answers {self.name}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no thread can be had: the next round tries again
            return
        self._thread = thread

    def wait(self, timeout: float) -> None:
        """Wait for a running read, `timeout` seconds at most."""
        if self._thread:
            self._thread.join(timeout)

    def close(self) -> None:
        """Close the reader's connections, unless a read is running."""
        if not (self._thread and self._thread.is_alive()):
            self.reader.close()

    def _look(self, opened: Mapping[int, Incident], now: float) -> None:
        try:
            known = self.book.read()
            answers = ReadAnswers()
            if opened and (messages := self._messages(opened, now)):
                answers = self.reader.read(messages)
            found = look(self.name, known, answers, opened)
            for answer in found.fresh:
                hand_in(self.home, self.name, answer, opened)
            failed = self._unconfirmed(found.recovered)
            again = [each for each in known if each.channel == self.name and each.receipt in failed]
            self.book.write(self.name, [*found.taken, *again])
            self._failing, self.trouble = None, ""
        except DeliveryError as error:
            self._failed(error)
        except (WatchdogError, OSError) as error:  # home or history: that is reported elsewhere
            log.info("answers of channel %s: %s", self.name, error)
        except Exception as error:  # one channel's reader must not end the daemon's
            log.exception("answers of channel %s", self.name)
            self.trouble = _unread(self.name, f"it failed within: {type(error).__name__}")

    def _messages(self, opened: Mapping[int, Incident], now: float) -> list[Notification]:
        """Return this channel's messages about these incidents: unacknowledged first, then the newest."""
        since = min(incident.opened_at for incident in opened.values())
        sent = [
            row
            for row in self.sent(now - since + 60.0)
            if row.channel == self.name and row.state == "sent" and opened.keys() & set(row.message.incidents)
        ]
        waits = {number for number, incident in opened.items() if not incident.acknowledged_by}
        return sorted(sent, key=lambda row: (not waits & set(row.message.incidents), -(row.sent_at or 0.0)))

    def _unconfirmed(self, receipts: Sequence[str]) -> set[str]:
        """Mark messages as recovered in the channel; return the receipts to try again."""
        again = set()
        for receipt in receipts:
            try:
                self.reader.confirm(receipt)
            except DeliveryError as error:  # a kindness: nobody is woken for it
                log.info("channel %s: %s", self.name, error)
                if not error.permanent:
                    again.add(receipt)
        return again

    def _failed(self, error: DeliveryError) -> None:
        now = time.monotonic()
        self._failing = now if self._failing is None else self._failing
        self._next = now + max(EVERY, error.retry_after or 0.0)
        log.info("answers of channel %s: %s", self.name, error)
        if error.permanent or now - self._failing >= BEARABLE:
            self.trouble = _unread(self.name, error)


def hand_in(home: Home, channel: str, answer: PersonAnswer, opened: Mapping[int, Incident]) -> None:
    """Submit an answer to the inbox for each open incident of its message. OSError."""
    by = f"{answer.by} ({channel})"
    for number in answer.message.message.incidents:
        incident = opened.get(number)
        if incident is None:
            continue
        if answer.verb == "silence":
            submit(
                str(home.inbox),
                "silence",
                incident.check,
                target=incident.check,
                seconds=answer.seconds,
                answered_by=by,
            )
        elif not incident.acknowledged_by:
            submit(str(home.inbox), "ack", str(number), id=number, answered_by=by)


class ChatAnswers:
    """Answer readers of all channels that support answers."""

    def __init__(
        self,
        config: Config,
        home: Home,
        patient: BoundedIO,
        sent: Callable[[float], Sequence[Notification]],
    ) -> None:
        book = AnswerBook(home, patient)
        found, self._faults = readers(config, home)
        self._channels = [ChannelAnswers(name, reader, home, book, sent) for name, reader in found.items()]

    @property
    def trouble(self) -> str:
        """Return why answers cannot be read, in one line, or empty."""
        return "; ".join(filter(None, (*self._faults, *(channel.trouble for channel in self._channels))))

    def begin(self, alerts: AlertState, now: float) -> None:
        """Start reading all channels; never blocks."""
        if self._channels:
            incidents = [state.incident for state in alerts.states.values() if state.incident]
            opened = {incident.id: incident for incident in incidents if incident.resolved_at is None}
            for channel in self._channels:
                channel.begin(opened, now)

    def wait(self, timeout: float) -> None:
        """Wait for running reads, `timeout` seconds at most in all."""
        until = time.monotonic() + timeout
        for channel in self._channels:
            channel.wait(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """Close all connections."""
        for channel in self._channels:
            channel.close()


def readers(config: Config, home: Home) -> tuple[dict[str, AnswerReader], list[str]]:
    """Return the answer readers by channel, and the faults of channels that cannot be read."""
    found: dict[str, AnswerReader] = {}
    faults = []
    for name, section in config.channels.items():
        if section.relay:  # out of the daemon's reach
            continue
        try:
            reader = channel_of(config, name).make_answers(home)
        except Exception as error:  # noqa: BLE001 - also of another package: nothing else stops
            why = error if isinstance(error, ConfigError) else f"it failed within: {type(error).__name__}"
            faults.append(_unread(name, why))
            continue
        if reader is not None:
            found[name] = reader
    return found, faults


def _unread(channel: str, why: object) -> str:
    return f"answers of channel {channel} cannot be read: {why}"
