"""Plan of what is done next on a channel, by its rows, its health and the clock.

The module is pure; the rows are the queue. What belongs to one line (an incident, or one subject of a check)
goes in the order in which it came: a later row waits until the earlier one is delivered or given up. An end
that waits while the same subject is bad again is told with that, not by itself. Among lines, what was never
refused goes first, so that one message that a channel does not like holds no other up.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from operator import attrgetter, itemgetter

from watchdogd.errors import DeliveryError
from watchdogd.incidents.message_wording import first_line
from watchdogd.notify.channel_state import (
    ChannelState,
    Health,
    Policy,
    after_failed_try,
    after_failure,
    after_success,
)
from watchdogd.notify.notification import Item, Message, Notification, addressed, incident_thread
from watchdogd.notify.reports import DIGEST, Reports, digest
from watchdogd.system.text import one_line
from watchdogd.units import local_time

STORM = 20
"""Rows ready to go from which on many are sent before they are marked."""
MERGED = 120.0
"""Seconds that a relay leaves the daemon to make one message of many."""
BATCH = 50
"""Rows that are marked in one transaction while a storm goes out."""


@dataclass(frozen=True, slots=True)
class Send:
    """A row to be sent: `message` is all that is told, `carried` are the other rows that are told with it."""

    row: Notification
    message: Message
    carried: tuple[Notification, ...] = ()


@dataclass(frozen=True, slots=True)
class DeliveryPlan:
    """Next steps: `rows` are to be written, then `sends` sent one after another until one fails.

    The next look is due at `until`. `health` is the channel's from now on.
    """

    health: Health
    rows: tuple[Notification, ...] = ()
    sends: tuple[Send, ...] = ()
    until: float = math.inf


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


@dataclass(frozen=True, slots=True)
class _Held:
    """The rows, by key, that are not told by themselves yet, `until` when; `merged`: they are told as one."""

    rows: Mapping[str, Notification]
    until: float = math.inf
    merged: tuple[Notification, ...] = ()


@dataclass(frozen=True, slots=True)
class Situation:
    """All by which it is decided what is done on the channel `name`; nothing here changes it.

    `channels` are all as they stand, `skew` the seconds by which the wall clock is ahead of `now`.
    """

    channels: Mapping[str, ChannelState]
    name: str
    now: float
    policy: Policy
    skew: float = 0.0

    @property
    def channel(self) -> ChannelState:
        return self.channels[self.name]

    @property
    def reports(self) -> Reports:
        """Return the reports about the channel, for those who get them."""
        tell = self.policy.tell
        names = () if tell is None else [name for name in tell if name in self.channels] or self.channels
        return Reports(self.name, self._working(names), self.now, self.policy)

    def _working(self, names: Iterable[str]) -> list[str]:
        """Return the other channels among these that are not broken."""
        return [
            name
            for name in names
            if name != self.name
            and name in self.channels
            and not self.channels[name].health.broken(self.now, self.policy)
        ]

    def plan(self) -> DeliveryPlan:
        """Return what is to be done now: hold back, expire, report, divert, send, or wait."""
        channel, health, now, policy = self.channel, self.channel.health, self.now, self.policy
        waiting = [row for key, row in channel.rows.items() if key not in channel.sending]
        held = self._held(waiting)
        if held.merged:
            return DeliveryPlan(health, held.merged, until=now)
        expired = [
            replace(row, state="expired")
            for row in waiting
            if row.created_at <= now - policy.expire and row.key not in held.rows
        ]
        written = [*expired, *self.reports.expired(expired)] if expired else []
        out = held.rows.keys() | {row.key for row in expired}
        waiting = [row for row in waiting if row.key not in out]
        if health.broken(now, policy):
            if not health.reported:
                written += self.reports.broken(health.failure, waiting)
                health = replace(health, reported=True)
            if now < health.rests_until:
                written += self._detour(waiting)
        opens_at = max(channel.next_slot, health.rests_until)
        sends: list[Send] = []
        if opens_at <= now:
            due = sorted((row for row in waiting if row.next_try <= now), key=attrgetter("next_try"))
            dropped, sends = self._sends((row for row in due if channel.is_head(row, out)), held.rows, out)
            written += dropped
        if sends or any(row.channel == self.name for row in written):
            return DeliveryPlan(health, tuple(written), tuple(sends), now)
        later = (max(row.next_try, opens_at) for row in waiting)
        turn = min(
            (at for at in later if at > now), default=math.inf
        )  # what is due already waits for another
        oldest = min((row.created_at for row in waiting), default=math.inf)
        times = [held.until, turn, oldest + policy.expire]
        if health.since is not None and now < health.since + policy.patience:
            times.append(health.since + policy.patience)
        return DeliveryPlan(health, tuple(written), until=min(times))

    # ------------------------------------------------------------ what is held back

    def _held(self, waiting: Sequence[Notification]) -> _Held:
        """Return what quiet hours hold back, or what is told as one: at their end, or of one round."""
        now, policy = self.now, self.policy
        rows, until, late = self._by_night(waiting)
        many = [] if late else _of_one_round(waiting, rows, policy.digest_above)
        if policy.merges and (late or many):
            at, occasion = (now, "in quiet hours") if late else (many[0].created_at, "in one round")
            return _Held(rows, merged=tuple(digest(late or many, at, at + self.skew, policy, occasion)))
        if many and now < (end := many[0].created_at + MERGED):
            rows, until = rows | {row.key: row for row in many}, min(until, end)
        return _Held(rows, until)

    def _by_night(
        self, waiting: Sequence[Notification]
    ) -> tuple[dict[str, Notification], float, list[Notification]]:
        """Return by key what quiet hours hold back, until when, and what they held back that are over."""
        quiet = self.policy.quiet.get(self.name)
        if not (quiet and waiting):
            return {}, math.inf, []
        wall, grace = self.now + self.skew, 0.0 if self.policy.merges else MERGED
        rows = [row for row in waiting if quiet.waits(row, self.channel.notified)]
        if window := quiet.window(wall) or quiet.window(wall - grace):
            end = window[1] - self.skew
            held = {row.key: row for row in rows if row.created_at < end}
            return held, end + grace if held else math.inf, []
        fresh = [row for row in rows if self.policy.merges and not (row.attempts or row.message.quiet)]
        return {}, math.inf, [row for row in fresh if quiet.window(row.created_at + self.skew)]

    # ------------------------------------------------------------ what is sent

    def _sends(
        self, ready: Iterator[Notification], held: Mapping[str, Notification], out: Container[str]
    ) -> tuple[list[Notification], list[Send]]:
        """Return the rows that are sent no more, and those to be sent: one, or in a storm many."""
        channel, notified = self.channel, self.channel.notified
        standing = self.name in self.policy.standing
        first = list(islice(ready, BATCH if self.policy.rates.get(self.name) is None else 1))
        written: list[Notification] = []
        sends: list[Send] = []
        for row in first:
            if channel.missed(row):
                written += self._follow(row)
                continue
            message = notified.without_lost(row.message)
            old = notified.overtaken(row, standing=standing)
            if row.message.items and old.issuperset(message.items):
                written.append(superseded(row, "newer messages about the same came first"))
                continue
            # What is told now comes with what quiet hours hold back of the same, and came before it.
            before = takewhile(row.key.__ne__, channel.rows) if held else ()
            same = [held[key] for key in before if key in held]
            same = [one for one in same if not message.lines.isdisjoint(one.message.lines)]
            ends = [*channel.carried(row, out), *same]
            told = [end for end in ends if not notified.overtaken(end, standing=standing)]
            sends.append(Send(row, joined(message, told, old), tuple(ends)))
            if len(first) < STORM:
                break
        return written, sends

    # ------------------------------------------------------------ after a try

    def after_try(self, send: Send, outcome: str | DeliveryError) -> DeliveryPlan:
        """Return what a try comes to: `outcome` is the receipt, or why it was not delivered."""
        row, now, policy = self.channel.rows.get(send.row.key), self.now, self.policy
        carried = [superseded(end, send.row.message.headline) for end in send.carried]
        if isinstance(outcome, str):
            tried = replace(row or send.row, attempts=send.row.attempts + 1, failure="", receipt=outcome)
            return self._works([*carried, replace(tried, state="sent", sent_at=now)])
        step = after_failed_try(row or send.row, outcome, now, policy, self.channel.health)
        health = after_failure(self.channel.health, outcome, step, now)
        if row is None:  # it went another way while it hung
            return DeliveryPlan(health)
        rows = [step]
        if step.state == "sent":
            rows = [*carried, step]
            if now >= health.partly_again_at:
                health = replace(health, partly_again_at=now + policy.expire)
                rows += self.reports.partly(step.failure)
        elif step.state == "failed":
            rows += [*self._copies([step], self._working(policy.fallback)), *self.reports.refused(step)]
        elif step.state == "expired":
            rows += self.reports.expired([step])
        return DeliveryPlan(health, tuple(rows))

    def after_others(self, delivered: Sequence[Delivered]) -> DeliveryPlan:
        """Return what follows from what others delivered on the channel: it works."""
        rows = []
        for each in delivered:
            row = self.channel.rows.get(each.key)
            if row is None:
                continue
            if each.partly:
                have = dict.fromkeys((*row.receipt.split(), *each.receipt.split()))
                rows.append(replace(row, receipt=" ".join(have)))
            else:
                rows.append(replace(row, state="sent", sent_at=each.at, failure="", receipt=each.receipt))
        if all(each.partly for each in delivered):
            return DeliveryPlan(self.channel.health, tuple(rows))
        return self._works(rows, outage=True)

    def _works(self, rows: list[Notification], *, outage: bool = False) -> DeliveryPlan:
        """Return what follows where it took something: after an outage all may go at once, in order."""
        health = self.channel.health
        if outage or len(health.failing) > 1:
            over = {row.key for row in rows}
            tried = [row for key, row in self.channel.rows.items() if key not in over and row.next_try]
            rows = [*rows, *(replace(row, next_try=0.0) for row in tried)]
        if health.reported:
            rows = [*rows, *self.reports.works()]
        return DeliveryPlan(after_success(health, self.now), tuple(rows))

    # ------------------------------------------------------------ other ways

    def arrival(self, row: Notification) -> list[Notification]:
        """Return the copies of a row that is new: an end goes to all channels that were told what it ends."""
        heard = self._heard(row)
        missed = bool(heard) and self.channel.missed(row)
        return self._copies([row], heard, "" if missed else "this channel told what it ends", ends=True)

    def orphans(self, rows: Iterable[Notification]) -> list[Notification]:
        """Return rows of a channel that is no more as diverted, with copies; none where there is no way."""
        to = [way for way in self.policy.fallback if way in self.channels and way != self.name]
        to = to or [*self.reports.to]
        lost = [replace(row, state="diverted", failure=f"there is no channel {row.channel}") for row in rows]
        return [*lost, *self._copies(lost, to)] if to else []

    def _detour(self, waiting: Sequence[Notification]) -> list[Notification]:
        """Return what goes another way while the channel is left in peace.

        What tells an end where the beginning came by this channel goes there as well, and by this one later;
        so does what is newer about the same, or that end would be the channel's last word.
        """
        to = self._working(self.policy.fallback)
        if not to:
            return []
        loud = [row for row in waiting if not row.message.quiet]
        kept: set[str] = set()
        stay: set[str] = set()
        for row in loud:
            over = (incident_thread(item.incident) for item in row.message.items if item.ended)
            if any(thread in self.channel.notified.begun for thread in over) or not kept.isdisjoint(
                row.message.lines
            ):
                stay.add(row.key)
                kept |= row.message.lines
        gone = [replace(row, state="diverted") for row in loud if row.key not in stay]
        return [*gone, *self._copies(loud, to)]

    def _follow(self, end: Notification) -> list[Notification]:
        """Return an end as diverted, with its copies: its beginning did not come by its own channel."""
        if to := self._heard(end):
            return [replace(end, state="diverted"), *self._copies([end], to, ends=True)]
        return [replace(end, state="expired", failure="what it is about was never told there")]

    def _heard(self, end: Notification) -> list[str]:
        """Return the other channels that were notified of what it ends, or will be: routes may be edited."""
        over = [item.incident for item in end.message.items if item.ended and not item.quiet]
        if self.policy.tell is None or not over:
            return []
        others = ((name, each) for name, each in self.channels.items() if name != end.channel)
        return [name for name, channel in others if any(map(channel.told_of, over))]

    def _copies(
        self, rows: Iterable[Notification], to: Collection[str], why: str = "", *, ends: bool = False
    ) -> list[Notification]:
        """Return what of these other channels do not tell yet; `ends`: the ends that they miss alone."""
        copies = (_copy(row, self.channels[way], why, ends=ends) for row in rows for way in to)
        return [copy for copy in copies if copy and not self.channels[copy.channel].knows(copy.key)]


def _of_one_round(waiting: Sequence[Notification], held: Container[str], most: float) -> list[Notification]:
    """Return the messages of one round that nobody has tried to send, where they are more than so many."""
    if len(waiting) <= most:
        return []
    fresh = [row for row in waiting if not (row.attempts or row.key in held or row.key.startswith(DIGEST))]
    at, count = max(Counter(row.created_at for row in fresh).items(), key=itemgetter(1), default=(0.0, 0))
    return [row for row in fresh if row.created_at == at] if count > most else []


def joined(message: Message, ends: Sequence[Notification], overtaken: frozenset[Item]) -> Message:
    """Return the message as it is sent: with the ends told with it, and what newer ones said since."""
    notes = [
        f"Before this, at {local_time(end.message.at)}: {one_line(end.message.headline)}" for end in ends
    ]
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


def _copy(row: Notification, channel: ChannelState, why: str, *, ends: bool) -> Notification | None:
    """Return what of a message another channel does not tell yet, with the reason why it comes there."""
    items = [item for item in row.message.items if not channel.tells(item)]
    if ends:
        items = [item for item in items if item.ended and channel.told_of(item.incident)]
    if not row.message.quiet:
        items = [item for item in items if not item.quiet]
    if row.message.items and not items:
        return None
    failure = f"does not deliver: {row.failure}" if row.failure else "did not deliver before"
    said = f"Sent here because {why or f'channel {row.channel} {failure}'}"
    message = row.message if row.key.startswith(DIGEST) else part(row.message, items)
    message = replace(message, body=f"{said}\n\n{message.body}", items=tuple(items))
    name = row.key.removesuffix(f"@{row.channel}")
    if len(items) < len(row.message.items):  # the rest may still come
        name += f"-{hashlib.sha256(repr([item.fact for item in items]).encode()).hexdigest()[:8]}"
    return addressed(message, channel.name, row.created_at, name)


def part(message: Message, items: Sequence[Item]) -> Message:
    """Return a message cut to some of its items: the first line is that of the first of them."""
    if not items or items[0] == message.items[0]:
        return message
    first = items[0]
    summaries = "\n".join(one_line(item.summary) for item in items)
    return replace(
        message,
        headline=first_line(first.status, message.target, one_line(first.summary)),
        line="",
        body=summaries if all(item.ended for item in items) else message.body,
        status=first.status,
        thread=incident_thread(first.incident) or message.thread,
        incidents=tuple(sorted({item.incident for item in items if item.incident is not None})),
    )
