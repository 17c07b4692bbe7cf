"""The model: what has to arrive, by what happened. Pure, and from outside: it knows the journal alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.chaos.journal import EVERYONE, Fault, Journal, Message, Truth

BAD = ("CRITICAL", "WARNING", "UNKNOWN")
SETTLE = 40.0
"""Seconds, besides those for which nobody could act, in which an end, an ack or a silence takes effect."""
INSTANT = 2.0
"""Seconds by which two clocks of one machine may differ, between what is done and when that is noted."""
SETTLED = 3.0
"""Seconds after a good round in which others are as good."""
CRON = 5.0
"""Seconds more where a round has to wait for cron."""
WORK, TICKS_WORK = 3.0, 8.0
"""Seconds of the processor from a fault to its message, of a daemon and of ticks, which start anew."""
PACE = 15.0
"""Seconds around a time in which how slow the machine was holds for it."""
MEMORY, DESCRIPTORS, PROCESSES = 1500.0, 120, 40


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that was not kept."""

    rule: str
    at: float
    what: str


def judge(journal: Journal) -> list[Broken]:
    """Return all promises that were not kept, in the order of time."""
    journal = replace(journal, messages=sorted(journal.messages, key=lambda each: each.at))
    rules = (_reported, _ended, _once, _so, _acknowledged, _silenced, _bounded, _tidy)
    return sorted((each for rule in rules for each in rule(journal)), key=lambda broken: broken.at)


def delays(journal: Journal) -> dict[str, list[float]]:
    """Return by truth's name the seconds until it was told on the first channel, excused time included."""
    found: dict[str, list[float]] = defaultdict(list)
    for truth in journal.truths:
        told = [each.at for each in journal.messages if _tells(each, truth) and each.at >= truth.begin]
        if told and min(told) <= truth.end + SETTLE:
            found[truth.name].append(min(told) - truth.begin)
    return dict(found)


def repeats(journal: Journal) -> int:
    """Return how many messages came a second time, excused or not."""
    return len(journal.messages) - len({(each.channel, each.key) for each in journal.messages})


def excused(journal: Journal, channel: str) -> float:
    """Return in which share of the campaign nothing could be told there: the rest is judged."""
    times = [each.at for each in journal.samples]
    if not times:
        return 0.0
    begin, end = min(times), max(times)
    spans = _excused(journal, {channel})
    away = sum(max(0.0, min(last, end) - max(first, begin)) for first, last in spans)
    return away / max(end - begin, 1.0)


def deadline(journal: Journal, channel: str, begin: float, seconds: float, target: str = "") -> float:
    """Return when for so many seconds since `begin` something could be told of `target` on `channel`.

    On a machine that has much to do they are more, by as much as a process of the campaign itself was late.
    """
    late = _late(journal, begin, _plain_deadline(journal, channel, begin, seconds, target))
    return _plain_deadline(journal, channel, begin, seconds + late, target)


def _late(journal: Journal, begin: float, end: float) -> float:
    """By how many seconds everything may be late there, by what a process of the campaign had to wait."""
    slower = [each.slower for each in journal.pace if begin - PACE <= each.at <= end + PACE]
    work = TICKS_WORK if journal.mode == "ticks" else WORK
    return work * (max(slower, default=1.0) - 1.0)


def _plain_deadline(journal: Journal, channel: str, begin: float, seconds: float, target: str) -> float:
    now, left = begin, seconds
    for start, end in _excused(journal, {channel, target}):
        if end <= now:
            continue
        if start - now >= left:
            break
        left -= max(0.0, start - now)
        now = max(now, end)
    return now + left


def _excused(journal: Journal, about: set[str]) -> list[tuple[float, float]]:
    """The spans in which nothing could be told, sorted and joined.

    Where home or the queue cannot be used, nobody comes back in place of one who was ended.
    """
    strands = sorted((fault for fault in journal.faults if fault.strands), key=lambda each: each.begin)
    spans = []
    for fault in journal.faults:
        if EVERYONE not in fault.excuses and about.isdisjoint(fault.excuses):
            continue
        end = _able_again(journal, fault)
        for each in strands:
            if each is not fault and each.begin < end and each.end > fault.begin:
                end = max(end, _able_again(journal, replace(fault, end=max(each.end, fault.end))))
        spans.append((fault.begin, end))
    joined: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def _able_again(journal: Journal, fault: Fault) -> float:
    """When what it excuses is over: a while after its end, or once a good round was seen."""
    latest = fault.end + fault.after * (2 if journal.mode == "ticks" else 1)
    if EVERYONE not in fault.excuses:
        return latest
    beat = next((at for at in journal.beats if at > fault.end + INSTANT), latest)
    return min(latest, beat + SETTLED)


def _tells(message: Message, truth: Truth) -> bool:
    right = message.target == truth.target and message.status in truth.statuses
    return right and re.search(truth.words, message.headline) is not None


def _reported(journal: Journal) -> Iterator[Broken]:
    """Whatever lasted longer than its bound is told within the bound."""
    more = CRON + TICKS_WORK if journal.mode == "ticks" else 0.0
    for truth in journal.truths:
        for channel in journal.channels:
            due = deadline(journal, channel, _spoken_of(journal, truth), truth.bound + more, truth.target)
            if due > min(float("inf") if truth.event else truth.end, journal.end):
                continue
            since = _standing_since(journal, channel, truth) - INSTANT
            told = [
                each.at
                for each in journal.messages
                if each.channel == channel and _tells(each, truth) and each.at >= since
            ]
            if not told:
                yield Broken("lost", truth.begin, f"{truth.name} of {truth.target} never came by {channel}")
            elif min(told) > due:
                late = min(told) - due
                yield Broken(
                    "late", truth.begin, f"{truth.name} of {truth.target} by {channel}: {late:.1f} s"
                )


def _spoken_of(journal: Journal, truth: Truth) -> float:
    """When it may be spoken of: while its target is silenced, or acknowledged, nothing has to be told."""
    held = [
        each.end
        for each in journal.requests
        if each.verb.endswith("silence") and each.target == truth.target and each.at <= truth.begin + SETTLE
    ]
    return max([truth.begin, *(end for end in held if end >= truth.begin)])


def _standing_since(journal: Journal, channel: str, truth: Truth) -> float:
    """Since when the same may stand as told: nobody could see the end of the truth before it."""
    begin = truth.begin
    before = [each for each in journal.truths if each.target == truth.target and each.end <= truth.begin]
    for each in sorted(before, key=lambda one: -one.end):
        if deadline(journal, channel, each.end, SETTLE, truth.target) <= begin:
            break
        begin = each.begin
    return begin


def _ended(journal: Journal) -> Iterator[Broken]:
    """Whatever was told as bad is told as over, unless it is told as bad anew."""
    lasting = [each for each in journal.truths if not each.event]
    for channel in journal.channels:
        for target in dict.fromkeys(each.target for each in lasting):
            about = [each for each in journal.messages if each.channel == channel and each.target == target]
            last = next(
                (each for each in reversed(about) if each.status in (*BAD, "RESOLVED", "REMINDER")), None
            )
            end = max(each.end for each in lasting if each.target == target)
            if (
                last
                and last.status != "RESOLVED"
                and not _forgotten(journal, last)
                and deadline(journal, channel, end, SETTLE, target) <= journal.end
            ):
                yield Broken("no end", end, f"the last word on {target} by {channel} is {last.headline}")
            opened = False
            for each in about:
                if each.status == "RESOLVED" and not opened:
                    yield Broken("no beginning", each.at, f"by {channel} came {each.headline}")
                opened = opened or each.status in BAD


def _forgotten(journal: Journal, message: Message) -> bool:
    """Whether whoever sent it ended before he could write anywhere that he did: a tick does by itself."""
    return any(
        journal.mode == "ticks"
        or (one.crash and message.at - INSTANT <= one.end and one.begin < fault.end + INSTANT)
        for fault in journal.faults
        if fault.unwritten and fault.begin - INSTANT <= message.at <= fault.end
        for one in journal.faults
    )


def _once(journal: Journal) -> Iterator[Broken]:
    """No message comes twice, but one for each crash, and those whose answer did not come through."""
    for channel in journal.channels:
        crashes = [each for each in journal.faults if each.crash or _unmarked(journal, each)]
        used: set[int] = set()
        last: dict[str, Message] = {}
        for each in sorted((m for m in journal.messages if m.channel == channel), key=lambda one: one.at):
            before = last.get(each.key)
            last[each.key] = each
            if before is None or not before.confirmed:
                continue
            excuse = next(
                (at for at, one in enumerate(crashes) if _between(one, before, each) and at not in used), None
            )
            if excuse is None:
                gap = each.at - before.at
                yield Broken("twice", each.at, f"by {channel}, {gap:.1f} s after the first: {each.headline}")
            elif not crashes[excuse].unwritten:
                used.add(excuse)


def _unmarked(journal: Journal, fault: Fault) -> bool:
    """Whether somebody ended while nothing could be marked: all that he sent meanwhile may come again.

    A tick does by itself.
    """
    if not fault.unwritten:
        return False
    return journal.mode == "ticks" or any(
        one.crash and fault.begin < one.end and one.begin < fault.end + SETTLE for one in journal.faults
    )


def _between(crash: Fault, first: Message, second: Message) -> bool:
    return first.at - INSTANT <= crash.end and crash.begin <= second.at


def _so(journal: Journal) -> Iterator[Broken]:
    """Nothing is told that was not so."""
    targets = {each.target for each in journal.truths}
    for message in journal.messages:
        if message.status in ("INFO", "ACTION", "OK") or _explained(journal, message):
            continue
        if message.target not in targets:
            yield Broken("not so", message.at, f"by {message.channel}: {message.headline}")
            continue
        while_so = [
            each
            for each in journal.truths
            if each.target == message.target
            and each.begin - INSTANT <= message.at
            and (
                each.event
                or message.at <= deadline(journal, message.channel, each.end, SETTLE, message.target)
            )
        ]
        if message.status == "RESOLVED":
            right = any(each.end - INSTANT <= message.at for each in while_so)
        else:
            right = bool(while_so)
        if not right:
            yield Broken("not so", message.at, f"by {message.channel}: {message.headline}")


def _explained(journal: Journal, message: Message) -> bool:
    """Whether a fault brings such a message, or its end."""
    return any(
        re.search(words, message.headline)
        for fault in journal.faults
        if fault.begin - INSTANT <= message.at
        and message.at <= deadline(journal, message.channel, fault.end, 2 * SETTLE)
        for words in fault.explains
    )


def _acknowledged(journal: Journal) -> Iterator[Broken]:
    """Nobody is reminded of what somebody works on."""
    for request in journal.requests:
        if request.verb != "ack":
            continue
        for each in journal.messages:
            reminds = request.incident in each.incidents and each.status == "REMINDER"
            if reminds and each.at > deadline(journal, each.channel, request.at, SETTLE):
                yield Broken("acknowledged", each.at, f"by {each.channel}: {each.headline}")


def _silenced(journal: Journal) -> Iterator[Broken]:
    """What is silenced is not told, but for an end and for what was under way."""
    for request in journal.requests:
        if request.verb != "silence":
            continue
        for each in journal.messages:
            under_way = deadline(journal, each.channel, request.at, SETTLE)
            if each.target == request.target and under_way < each.at < request.end and each.status in BAD:
                yield Broken("silenced", each.at, f"by {each.channel}: {each.headline}")


def _bounded(journal: Journal) -> Iterator[Broken]:
    """Neither memory nor descriptors nor processes pile up."""
    for each in journal.samples:
        large = each.memory > MEMORY or each.descriptors > DESCRIPTORS or each.processes > PROCESSES
        if large:
            size = f"{each.memory:.0f} MB, {each.descriptors} descriptors, {each.processes} processes"
            yield Broken("grew", each.at, size)
            return


def _tidy(journal: Journal) -> Iterator[Broken]:
    """Nothing is left, and it lived to the end."""
    for each in journal.left:
        yield Broken("left", journal.end, each)
