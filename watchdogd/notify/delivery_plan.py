"""Delivery plan: the next steps on a channel, from its rows, its health and the clock. Pure.

The rows are the queue. Rows of one line (an incident, or one subject of a check) are sent in order: a later
one waits until the earlier one is delivered or given up. A waiting recovery whose subject is bad again is
told with the new fault. Among lines, rows never refused go first, so that one bad message delays no other.
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
from watchdogd.incidents.message_wording import first_line, late_line
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
from watchdogd.units import age, local_time

STORM = 20
"""Number of ready rows from which on many are sent before they are marked."""
MERGED = 120.0
"""Seconds for which a relay leaves it to the daemon to make a digest of many messages."""
BATCH = 50
"""Rows marked in one transaction in a storm."""


@dataclass(frozen=True, slots=True)
class Send:
    """Row to send: `message` is its content, `carried` are other rows told with it."""

    row: Notification
    message: Message
    carried: tuple[Notification, ...] = ()


@dataclass(frozen=True, slots=True)
class DeliveryPlan:
    """Next steps: write `rows`, then send `sends` in order until one fails, and plan again at `until`.

    `health`: the channel's new health.
    """

    health: Health
    rows: tuple[Notification, ...] = ()
    sends: tuple[Send, ...] = ()
    until: float = math.inf


@dataclass(frozen=True, slots=True)
class Delivered:
    """Acknowledgement of a delivery: key, channel, time (seconds since the epoch), receipt.

    `partly`: only the recipients named in the receipt have it.
    """

    key: str
    channel: str
    at: float
    receipt: str = ""
    partly: bool = False


@dataclass(frozen=True, slots=True)
class _Held:
    """Rows held back, by key, and `until` when; `merged`: rows and digest to write instead."""

    rows: Mapping[str, Notification]
    until: float = math.inf
    merged: tuple[Notification, ...] = ()


@dataclass(frozen=True, slots=True)
class Situation:
    """Input of all decisions about the channel `name`; never modified here.

    `channels`: all channels; `skew`: seconds by which the wall clock is ahead of `now`.
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
        """Return the maker of reports on the channel, and the channels that get them."""
        tell = self.policy.tell
        names = () if tell is None else [name for name in tell if name in self.channels] or self.channels
        return Reports(self.name, self._working(names), self.now, self.policy, self.skew)

    def _working(self, names: Iterable[str]) -> list[str]:
        """Return those channels, except this one, that are not broken."""
        return [
            name
            for name in names
            if name != self.name
            and name in self.channels
            and not self.channels[name].health.broken(self.now, self.policy)
        ]

    def plan(self) -> DeliveryPlan:
        """Return the next steps: hold back, expire, report, divert, send, or wait."""
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
        # what is due already waits for another row
        turn = min((at for at in later if at > now), default=math.inf)
        oldest = min((row.created_at for row in waiting), default=math.inf)
        times = [held.until, turn, oldest + policy.expire]
        if health.since is not None and now < health.since + policy.patience:
            times.append(health.since + policy.patience)
        return DeliveryPlan(health, tuple(written), until=min(times))

    def _held(self, waiting: Sequence[Notification]) -> _Held:
        """Return rows held back by quiet hours or for a digest; at the end, the digest."""
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
        """Return rows held back by quiet hours, until when, and rows whose quiet hours have ended."""
        quiet = self.policy.quiet.get(self.name)
        if not (quiet and waiting):
            return {}, math.inf, []
        wall, grace = self.now + self.skew, 0.0 if self.policy.merges else MERGED
        rows = [row for row in waiting if quiet.waits(row, self.channel)]
        if window := quiet.window(wall) or quiet.window(wall - grace):
            end = window[1] - self.skew
            held = {row.key: row for row in rows if row.created_at < end}
            return held, end + grace if held else math.inf, []
        fresh = [row for row in rows if self.policy.merges and not (row.attempts or row.message.quiet)]
        return {}, math.inf, [row for row in fresh if quiet.window(row.created_at + self.skew)]

    def _sends(
        self, ready: Iterator[Notification], held: Mapping[str, Notification], out: Container[str]
    ) -> tuple[list[Notification], list[Send]]:
        """Return rows that are dropped, and the rows to send: one, or many in a storm."""
        channel = self.channel
        standing = self.name in self.policy.standing
        first = list(islice(ready, BATCH if self.policy.rates.get(self.name) is None else 1))
        written: list[Notification] = []
        sends: list[Send] = []
        for row in first:
            if channel.missed(row):
                written += self._follow(row)
                continue
            message = channel.without_lost(row.message)
            old = channel.overtaken(row, standing=standing)
            if row.message.items and old.issuperset(message.items):
                written.append(superseded(row, "newer messages about the same came first"))
                continue
            # It carries rows on the same subject that quiet hours hold back and that came before it.
            before = takewhile(row.key.__ne__, channel.rows) if held else ()
            same = [held[key] for key in before if key in held]
            same = [one for one in same if not message.lines.isdisjoint(one.message.lines)]
            ends = [*channel.carried(row, out), *same]
            told = [end for end in ends if not channel.overtaken(end, standing=standing)]
            whole = joined(message, told, old)
            sends.append(Send(row, as_late(whole, channel.ends_of(whole), self.now + self.skew), tuple(ends)))
            if len(first) < STORM:
                break
        return written, sends

    def after_try(self, send: Send, outcome: str | DeliveryError) -> DeliveryPlan:
        """Return the steps after a try; `outcome`: the receipt, or the error."""
        row, now, policy = self.channel.rows.get(send.row.key), self.now, self.policy
        carried = [superseded(end, send.row.message.headline) for end in send.carried]
        if isinstance(outcome, str):
            tried = replace(row or send.row, attempts=send.row.attempts + 1, failure="", receipt=outcome)
            return self._works([*carried, replace(tried, state="sent", sent_at=now)])
        step = after_failed_try(row or send.row, outcome, now, policy, self.channel.health)
        health = after_failure(self.channel.health, outcome, step, now)
        if row is None:  # diverted while the try hung
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
        """Return the steps after deliveries by others, which show that the channel works."""
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
        """Return the steps after a success; after an outage all rows are due at once, in order."""
        health = self.channel.health
        if outage or len(health.failing) > 1:
            over = {row.key for row in rows}
            tried = [row for key, row in self.channel.rows.items() if key not in over and row.next_try]
            rows = [*rows, *(replace(row, next_try=0.0) for row in tried)]
        if health.reported:
            rows = [*rows, *self.reports.works()]
        return DeliveryPlan(after_success(health, self.now), tuple(rows))

    def arrival(self, row: Notification) -> list[Notification]:
        """Return copies of a new row: a recovery goes to all channels that have its fault."""
        heard = self._heard(row)
        missed = bool(heard) and self.channel.missed(row)
        return self._copies([row], heard, "" if missed else "this channel told what it ends", ends=True)

    def orphans(self, rows: Iterable[Notification]) -> list[Notification]:
        """Return rows of a removed channel as diverted, with copies; none where there is no other channel."""
        to = [way for way in self.policy.fallback if way in self.channels and way != self.name]
        to = to or [*self.reports.to]
        lost = [replace(row, state="diverted", failure=f"there is no channel {row.channel}") for row in rows]
        return [*lost, *self._copies(lost, to)] if to else []

    def _detour(self, waiting: Sequence[Notification]) -> list[Notification]:
        """Return the rows to divert, and copies, while the channel rests.

        A recovery whose fault was sent here goes to the fallback and waits here as well, as do newer rows on
        the same subject: otherwise the recovery would be the channel's last word.
        """
        to = self._working(self.policy.fallback)
        if not to:
            return []
        loud = [row for row in waiting if not row.message.quiet]
        kept: set[str] = set()
        stay: set[str] = set()
        for row in loud:
            over = [item.incident for item in row.message.items if item.ended]
            if any(map(self.channel.has_begun, over)) or not kept.isdisjoint(row.message.lines):
                stay.add(row.key)
                kept |= row.message.lines
        gone = [replace(row, state="diverted") for row in loud if row.key not in stay]
        return [*gone, *self._copies(loud, to)]

    def _follow(self, end: Notification) -> list[Notification]:
        """Return a recovery as diverted to the channels that have its fault, since this one has not."""
        if to := self._heard(end):
            return [replace(end, state="diverted"), *self._copies([end], to, ends=True)]
        return [replace(end, state="expired", failure="what it is about was never told there")]

    def _heard(self, end: Notification) -> list[str]:
        """Return other channels that have, or will have, the fault of this recovery: routes may change."""
        over = [item.incident for item in end.message.items if item.ended and not item.quiet]
        if self.policy.tell is None or not over:
            return []
        others = ((name, each) for name, each in self.channels.items() if name != end.channel)
        return [name for name, channel in others if any(map(channel.told_of, over))]

    def _copies(
        self, rows: Iterable[Notification], to: Collection[str], why: str = "", *, ends: bool = False
    ) -> list[Notification]:
        """Return copies for other channels of what they lack; `ends`: recoveries only."""
        copies = (_copy(row, self.channels[way], why, ends=ends) for row in rows for way in to)
        return [copy for copy in copies if copy and not self.channels[copy.channel].knows(copy.key)]


def _of_one_round(waiting: Sequence[Notification], held: Container[str], most: float) -> list[Notification]:
    """Return the untried messages of one round, if there are more than `most`."""
    if len(waiting) <= most:
        return []
    fresh = [row for row in waiting if not (row.attempts or row.key in held or row.key.startswith(DIGEST))]
    at, count = max(Counter(row.created_at for row in fresh).items(), key=itemgetter(1), default=(0.0, 0))
    return [row for row in fresh if row.created_at == at] if count > most else []


def joined(message: Message, ends: Sequence[Notification], overtaken: frozenset[Item]) -> Message:
    """Return the message to send: with carried recoveries, and notes on overtaken items."""
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


LATE = 60.0
"""Seconds after which a message says how late it comes."""


def as_late(message: Message, ends: Mapping[int, Message], wall: float) -> Message:
    """Return a message as it is sent at the time `wall`: a late one says how late, and what has ended since.

    `ends`: those that wait behind it, by incident.
    """
    if (seconds := wall - message.at) < LATE:
        return message
    alerts = {item.incident for item in message.items if item.incident is not None and not item.ended}
    how = f"{age(seconds)} late"
    if alerts and alerts <= ends.keys():
        how += ", recovered since" if all(end.recovered for end in ends.values()) else ", ended since"
    headline, whole = late_line(message.headline, message.status, message.target, how)
    over = [
        f"{'Recovered' if end.recovered else 'Ended'} at {local_time(end.at)}: {one_line(item.summary)}"
        for number, end in ends.items()
        for item in end.items
        if item.incident == number
    ]
    notes = [f"This message is {age(seconds)} late.", *over]
    notes.append(f"What follows is as it was at {local_time(message.at)}.")
    if not message.line and headline != whole:
        notes.append(whole.partition(f"{how}: ")[2])
    body = "\n".join((*notes, "", message.body))
    line = message.line or ("" if headline == whole else whole)
    return replace(message, headline=headline, line=line, body=body)


def superseded(old: Notification, by: str) -> Notification:
    """Return the row as superseded by a newer one."""
    return replace(old, state="superseded", failure=f"told no more: {one_line(by)}")


def _copy(row: Notification, channel: ChannelState, why: str, *, ends: bool) -> Notification | None:
    """Return a copy, with its reason, of the items that another channel lacks; None where it lacks none."""
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
    if len(items) < len(row.message.items):  # the others may follow
        name += f"-{hashlib.sha256(repr([item.fact for item in items]).encode()).hexdigest()[:8]}"
    return addressed(message, channel.name, row.created_at, name)


def part(message: Message, items: Sequence[Item]) -> Message:
    """Return a message with some of its items; the first line is that of the first of them."""
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
