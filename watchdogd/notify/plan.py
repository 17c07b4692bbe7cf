"""What is to be done next on a channel, by its rows, its health and the clock: the rows are the queue. Pure.

What belongs to one line (an incident, or one subject of a check) goes in the order in which it came: a later
row waits until the earlier one is delivered or given up. An end that waits while the same subject is bad
again is told with that, not by itself. Among lines, what was refused least goes first, so that one message
that a channel does not like holds no other up.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING

from watchdogd.errors import DeliveryError
from watchdogd.notify.notification import Message, Notification, addressed, incident_thread
from watchdogd.notify.notified import Notified
from watchdogd.notify.quiet import digest
from watchdogd.notify.reports import Reports, hearers
from watchdogd.notify.retry import Health, after_failure, after_success, next_step
from watchdogd.system.text import one_line
from watchdogd.units import iso

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

    from watchdogd.notify.notification import Item
    from watchdogd.notify.retry import Policy

STORM = 20
"""Rows ready to go from which on many are sent before they are marked."""
MERGED = 120.0
"""Seconds that a relay leaves the daemon to make one message of what waited for the end of quiet hours."""
BATCH = 50
"""Rows that are marked in one transaction while a storm goes out."""


class Channel:
    """One channel as it stands: the rows that wait for it, in order; what it was notified of; its health.

    `sending` are the keys that are on their way, with the time at which they left; `next_slot` is when its
    rate lets the next one go.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: dict[str, Notification] = {}
        self.notified = Notified()
        self.health = Health()
        self.sending: dict[str, float] = {}
        self.next_slot = 0.0
        self._keys: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """By thread and subject, the keys of the rows that wait, in order: a plan looks at what comes next
        alone, however many wait."""

    def put(self, row: Notification) -> None:
        """Take in a row that waits: a new one comes last."""
        if row.key not in self.rows:
            for line in _lines(row.message):
                self._keys[line][row.key] = None
        self.rows[row.key] = row

    def drop(self, key: str) -> None:
        """Remove a row that waits no more."""
        row = self.rows.pop(key, None)
        for line in _lines(row.message) if row else ():
            del self._keys[line][key]
            if not self._keys[line]:
                del self._keys[line]

    def knows(self, key: str) -> bool:
        """Return whether the row of that key waits, or ended here."""
        return key in self.rows or self.notified.knows(key)

    def told_of(self, incident: int) -> bool:
        """Return whether it was told of an incident, or will be."""
        thread = incident_thread(incident)
        return self.notified.begun(thread) or thread in self._keys

    def missed(self, end: Notification) -> bool:
        """Return whether an end that waits is the first word here of what it ends, since others were lost."""
        if not end.message.ends:
            return False
        alone = all(len(self._keys.get(thread, ())) < 2 for thread in end.message.threads)
        return alone and self.notified.missed(end.message)

    def tells_end(self, incident: int) -> bool:
        """Return whether it was told that an incident is over, or will be."""
        return self.notified.ended(incident) or f"end {incident}" in self._keys

    def is_head(self, row: Notification, out: Container[str]) -> bool:
        """Return whether a row that waits is next in each of its lines, and is told by itself.

        `out` are the keys of rows that do not count. What some recipients have already waits for no other,
        and no other for it.
        """
        return bool(row.receipt) or not (self._is_behind(row, out) or self.told_with(row, out))

    def _is_behind(self, row: Notification, out: Container[str]) -> bool:
        for keys in (self._keys[line] for line in row.message.lines):
            if not self.sending.keys().isdisjoint(keys):
                return True
            for before in (self.rows[key] for key in takewhile(row.key.__ne__, keys) if key not in out):
                if not before.receipt and not self.told_with(before, out):
                    return True
        return False

    def told_with(self, end: Notification, out: Container[str]) -> str:
        """Return the key of the row with which an end is told, since each thing is bad again; or nothing."""
        if end.receipt or not end.message.ends:
            return ""
        keys = (key for item in end.message.items for key in self._keys.get(item.line, ()) if key not in out)
        rows = (self.rows[key] for key in keys if key not in self.sending)
        return next((row.key for row in rows if row.message.begins_anew(end.message)), "")

    def carried(self, row: Notification, out: Container[str]) -> list[Notification]:
        """Return the ends that are told with a row."""
        lines = (item.line for item in row.message.items if not item.ended)
        keys = dict.fromkeys(key for line in lines for key in self._keys.get(line, ()) if key not in out)
        ends = (self.rows[key] for key in keys if key not in self.sending)
        return [end for end in ends if self.told_with(end, out) == row.key]


Channels = dict[str, Channel]


@dataclass(frozen=True, slots=True)
class Send:
    """A row to be sent: `message` is all that is told, `carried` are the other rows that are told with it."""

    row: Notification
    message: Message
    carried: tuple[Notification, ...] = ()

    @property
    def whole(self) -> Notification:
        """The notification as its sender gets it."""
        return replace(self.row, message=self.message)


@dataclass(frozen=True, slots=True)
class Plan:
    """Next steps: `rows` are to be written, then `sends` sent one after another until one fails, the next
    look is due at `until`. `health` is the channel's from now on."""

    health: Health
    rows: tuple[Notification, ...] = ()
    sends: tuple[Send, ...] = ()
    until: float = math.inf


def plan(channels: Mapping[str, Channel], name: str, now: float, policy: Policy, skew: float = 0.0) -> Plan:
    """Return what is to be done on the channel `name` now: hold back, expire, report, divert, send, or wait.

    `skew`: seconds by which the wall clock is ahead of `now`.
    """
    channel, health = channels[name], channels[name].health
    reports = _reports(channels, name, now, policy)
    waiting = [row for key, row in channel.rows.items() if key not in channel.sending]
    held = _held(channel, waiting, now, skew, policy)
    if held.over:
        return Plan(health, tuple(digest(held.rows, now, now + skew, policy.name, policy.command)), until=now)
    expired = [
        replace(row, state="expired")
        for row in waiting
        if row.created_at <= now - policy.expire and row.key not in held.keys
    ]
    written = [*expired, *reports.expired(expired)]
    out = held.keys.union(row.key for row in expired)
    if out:
        waiting = [row for row in waiting if row.key not in out]
    if health.broken(now, policy):
        if not health.reported:
            written += reports.broken(health.failure, waiting)
            health = replace(health, reported=True)
        if now < health.rests_until:
            written += _detour(channels, channel, waiting, now, policy)
    opens_at = max(channel.next_slot, health.rests_until)
    refused = channel.health.refused
    ordered = sorted(waiting, key=lambda row: refused.get(row.key, 0)) if refused else waiting
    sends: list[Send] = []
    if opens_at <= now:
        ready = (row for row in ordered if row.next_try <= now and channel.is_head(row, out))
        dropped, sends = _sends(channels, channel, ready, held, out, policy)
        written += dropped
    if sends or any(row.channel == name for row in written):
        return Plan(health, tuple(written), tuple(sends), now)
    later = (max(row.next_try, opens_at) for row in waiting)
    turn = min((at for at in later if at > now), default=math.inf)  # what is due already waits for another
    oldest = min((row.created_at for row in waiting), default=math.inf)
    times = [held.until, turn, oldest + policy.expire]
    if health.since is not None and now < health.since + policy.patience:
        times.append(health.since + policy.patience)
    return Plan(health, tuple(written), until=min(times))


@dataclass(frozen=True, slots=True)
class _Held:
    """The rows that quiet hours hold back, `until` when; `over`: they may be told now, as one."""

    rows: list[Notification]
    until: float = math.inf
    over: bool = False

    @property
    def keys(self) -> frozenset[str]:
        """Their keys."""
        return frozenset(row.key for row in self.rows)


def _held(
    channel: Channel, waiting: Sequence[Notification], now: float, skew: float, policy: Policy
) -> _Held:
    quiet = policy.quiet.get(channel.name)
    if quiet is None or not waiting:
        return _Held([])
    window = quiet.window(now + skew)
    if window is not None:
        rows = [row for row in waiting if quiet.waits(row, channel.notified)]
        return _Held(rows, window[1] - skew if rows else math.inf)
    fresh = [row for row in waiting if not row.attempts and not row.message.quiet]
    passed = [(row, quiet.window(row.created_at + skew)) for row in fresh]
    late = [(row, found[1] - skew) for row, found in passed if found and quiet.waits(row, channel.notified)]
    if policy.merges:
        return _Held([row for row, _ in late], over=bool(late))
    kept = [(row, end + MERGED) for row, end in late if now < end + MERGED]
    return _Held([row for row, _ in kept], min((until for _, until in kept), default=math.inf))


def _sends(
    channels: Mapping[str, Channel],
    channel: Channel,
    ready: Iterator[Notification],
    held: _Held,
    out: Container[str],
    policy: Policy,
) -> tuple[list[Notification], list[Send]]:
    """The rows that are told no more, and those to be sent: one, or in a storm many."""
    first = list(islice(ready, BATCH)) if policy.rates.get(channel.name) is None else []
    storm = len(first) >= STORM
    standing = channel.name in policy.standing
    written: list[Notification] = []
    sends: list[Send] = []
    for row in chain(first, ready):
        message = row.message
        if channel.missed(row):
            written += _follow(channels, row, policy)
            continue
        old = channel.notified.overtaken(row, standing=standing)
        if old and len(old) == len({*message.items}):
            written.append(superseded(row, "newer messages about the same came first"))
            continue
        # What is told now comes with what quiet hours hold back of the same.
        same = [one for one in held.rows if not message.lines.isdisjoint(one.message.lines)]
        ends = [*channel.carried(row, out), *same]
        told = [end for end in ends if not channel.notified.overtaken(end, standing=standing)]
        sends.append(Send(row, joined(message, told, old), tuple(ends)))
        if len(sends) == (BATCH if storm else 1):
            break
    return written, sends


def joined(message: Message, ends: Sequence[Notification], overtaken: frozenset[Item]) -> Message:
    """Return the message as it is sent: with the ends told with it, and what newer ones said since."""
    notes = [f"Before this, at {iso(end.message.at)}: {one_line(end.message.headline)}" for end in ends]
    notes += [
        f"No longer so, as was told since: [{item.status}] {one_line(item.summary)}" for item in overtaken
    ]
    if not notes:
        return message
    items = [item for item in message.items if item not in overtaken]
    told = {item.incident for item in items} - {None}
    items += [item for end in ends for item in end.message.items if item.incident not in told]
    incidents = {*message.incidents, *(number for end in ends for number in end.message.incidents)}
    body = "\n".join((message.body, "", *notes))
    return replace(message, body=body, items=tuple(items), incidents=tuple(sorted(incidents)))


def superseded(old: Notification, by: str) -> Notification:
    """Return `old` as told no more, since `by` says what is newer."""
    return replace(old, state="superseded", failure=f"told no more: {one_line(by)}")


# ---------------------------------------------------------------- after a try


def after_try(
    channels: Mapping[str, Channel],
    send: Send,
    outcome: str | DeliveryError,
    now: float,
    policy: Policy,
) -> Plan:
    """Return what a try comes to: `outcome` is the receipt, or why it was not delivered."""
    name = send.row.channel
    channel, health = channels[name], channels[name].health
    row = channel.rows.get(send.row.key)
    if isinstance(outcome, str):
        sent = replace(
            row or send.row,
            state="sent",
            attempts=send.row.attempts + 1,
            sent_at=now,
            failure="",
            receipt=outcome,
        )
        return _works(channels, name, [*_told(send), sent], now, policy)
    step = next_step(row or send.row, outcome, now, policy, health)
    health = after_failure(health, outcome, step, now)
    if row is None:  # it went another way while it hung
        return Plan(health)
    reports = _reports(channels, name, now, policy)
    rows = [step]
    if step.state == "sent":
        rows = [*_told(send), step]
        if now >= health.partly_again_at:
            health = replace(health, partly_again_at=now + policy.expire)
            rows += reports.partly(step.failure)
    elif step.state == "failed":
        rows += [*_copies(channels, [step], ways(channels, name, now, policy)), *reports.refused(step)]
    elif step.state == "expired":
        rows += reports.expired([step])
    return Plan(health, tuple(rows))


def after_others(
    channels: Mapping[str, Channel], name: str, delivered: Sequence[Delivered], now: float, policy: Policy
) -> Plan:
    """Return what follows from what others delivered on the channel `name`: it works."""
    channel = channels[name]
    rows = []
    for each in delivered:
        row = channel.rows.get(each.key)
        if row is None:
            continue
        if each.partly:
            have = dict.fromkeys((*row.receipt.split(), *each.receipt.split()))
            rows.append(replace(row, receipt=" ".join(have)))
        else:
            rows.append(replace(row, state="sent", sent_at=each.at, failure="", receipt=each.receipt))
    if all(each.partly for each in delivered):
        return Plan(channel.health, tuple(rows))
    return _works(channels, name, rows, now, policy, outage=True)


def _works(
    channels: Mapping[str, Channel],
    name: str,
    rows: list[Notification],
    now: float,
    policy: Policy,
    *,
    outage: bool = False,
) -> Plan:
    """The channel took something; after an outage all that wait may go at once, in order."""
    channel, health = channels[name], channels[name].health
    if outage or health.outage:
        over = {row.key for row in rows}
        waiting = [row for key, row in channel.rows.items() if key not in over and row.next_try > now]
        rows = [*rows, *(replace(row, next_try=now) for row in waiting)]
    if health.reported:
        rows = [*rows, *_reports(channels, name, now, policy).works()]
    health = after_success(replace(health, refused={}) if outage else health, now)
    return Plan(health, tuple(rows))


def _told(send: Send) -> list[Notification]:
    return [superseded(end, send.row.message.headline) for end in send.carried]


@dataclass(frozen=True, slots=True)
class Delivered:
    """An acknowledgement: a message that somebody delivered, when (seconds since the epoch), its receipt.

    `partly`: to those that the receipt names; others still wait for it.
    """

    key: str
    channel: str
    at: float
    receipt: str = ""
    partly: bool = False


# ---------------------------------------------------------------- other ways


def ways(channels: Mapping[str, Channel], name: str, now: float, policy: Policy) -> list[str]:
    """Return the fallback channels that work."""
    return [
        way
        for way in policy.fallback
        if way != name and way in channels and not channels[way].health.broken(now, policy)
    ]


def arrival(channels: Mapping[str, Channel], row: Notification, policy: Policy) -> list[Notification]:
    """Return the copies of a row that is new: an end goes to all channels that were told what it ends."""
    message = row.message
    if not message.over or message.quiet or channels[row.channel].missed(row):
        return []
    heard = [
        way
        for way in _heard(channels, row, policy)
        if any(
            channels[way].told_of(number) and not channels[way].tells_end(number) for number in message.over
        )
    ]
    return _copies(channels, [row], heard, "this channel told what it ends")


def orphans(
    channels: Mapping[str, Channel], rows: Iterable[Notification], now: float, policy: Policy
) -> list[Notification]:
    """Return rows of channels that are no more as diverted, with their copies; none where there is no way."""
    to = [way for way in policy.fallback if way in channels]
    to = to or list(hearers(_healths(channels), "", now, policy))
    lost = [replace(row, state="diverted", failure=f"there is no channel {row.channel}") for row in rows]
    return [*lost, *_copies(channels, lost, to)] if to else []


def _detour(
    channels: Mapping[str, Channel],
    channel: Channel,
    waiting: Sequence[Notification],
    now: float,
    policy: Policy,
) -> list[Notification]:
    """What goes another way while the channel is left in peace.

    What tells an end where the beginning came by this channel goes there as well, and by this one later; so
    does what is newer about the same, or that end would be the channel's last word.
    """
    to = ways(channels, channel.name, now, policy)
    if not to:
        return []
    loud = [row for row in waiting if not row.message.quiet]
    kept: set[str] = set()
    stay: set[str] = set()
    for row in loud:
        begun = any(channel.notified.begun(incident_thread(number)) for number in row.message.over)
        if begun or not kept.isdisjoint(row.message.lines):
            stay.add(row.key)
            kept |= row.message.lines
    gone = [replace(row, state="diverted") for row in loud if row.key not in stay]
    return [*gone, *_copies(channels, loud, to)]


def _follow(channels: Mapping[str, Channel], end: Notification, policy: Policy) -> list[Notification]:
    """An end whose beginning did not come by its own channel goes where the beginning went."""
    if to := _heard(channels, end, policy):
        return [replace(end, state="diverted"), *_copies(channels, [end], to)]
    return [replace(end, state="expired", failure="what it ends was never told there")]


def _heard(channels: Mapping[str, Channel], end: Notification, policy: Policy) -> list[str]:
    """The other channels that told of what it ends, or will: its route may be another since."""
    if policy.tell is None:
        return []
    return [
        name
        for name, channel in channels.items()
        if name != end.channel and any(map(channel.told_of, end.message.over))
    ]


def _copies(
    channels: Mapping[str, Channel], rows: Iterable[Notification], to: Collection[str], why: str = ""
) -> list[Notification]:
    """The same messages on other channels, but for those on their way there, or sent there, already."""
    copies = [_copy(row, way, why) for row in rows for way in to]
    return [copy for copy in copies if not channels[copy.channel].knows(copy.key)]


def _copy(row: Notification, way: str, why: str) -> Notification:
    """The same message on another channel, saying why it comes there."""
    failure = f"does not deliver: {row.failure}" if row.failure else "did not deliver before"
    said = f"Sent here because {why or f'channel {row.channel} {failure}'}"
    message = replace(row.message, body=f"{said}\n\n{row.message.body}")
    return addressed(message, way, row.created_at, row.key.removesuffix(f"@{row.channel}"))


def _reports(channels: Mapping[str, Channel], name: str, now: float, policy: Policy) -> Reports:
    return Reports(name, hearers(_healths(channels), name, now, policy), now, policy)


def _healths(channels: Mapping[str, Channel]) -> dict[str, Health]:
    return {name: channel.health for name, channel in channels.items()}


def _lines(message: Message) -> frozenset[str]:
    """By what a row that waits is found: where it stands in line, and whose end it tells."""
    return message.lines.union(f"end {number}" for number in message.over)
