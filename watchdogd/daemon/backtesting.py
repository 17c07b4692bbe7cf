"""Backtest: replay the recorded history under the present configuration and return the alerts it would raise.

The history has metrics and changes of status, not results: each result is taken to hold until the next one. A
check whose plugin defines `rejudge` is judged again by the present parameters; all others keep their recorded
status. Confirmation, inhibition, reminders and maintenance windows follow the present configuration.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from watchdogd.daemon.registry.check_factory import Check
from watchdogd.daemon.registry.plugin_loading import load
from watchdogd.daemon.setup import Setup
from watchdogd.history import retention
from watchdogd.history.models import Reading
from watchdogd.incidents import evaluate
from watchdogd.incidents.models import AlertState, EventKind, IncidentEvent, Observation
from watchdogd.notify.message import compose
from watchdogd.notify.notification import Message, Notification
from watchdogd.plugin import Plugin, Result, Status

Judge = Callable[[str, Mapping[str, float]], Result | None]
"""(subject, metrics) → result under the present parameters; None: keep the recorded one."""

HOLDS = 2 * 3600.0
"""Seconds for which a measurement holds when none follows: old ones are hourly means."""

_SAME = 5.0
"""Multiple of its check's interval within which a replayed recovery is the one that was sent."""


@dataclass(frozen=True, slots=True)
class Alert:
    at: float
    status: str
    target: str
    headline: str
    channels: tuple[str, ...]


@dataclass(slots=True)
class _Subject:
    """Last recorded state of one subject of one check."""

    run: str
    status: Status = Status.OK
    summary: str = ""
    numbers: dict[str, tuple[float, float]] = field(default_factory=dict)
    measured_at: float = 0.0
    turned_at: float = 0.0

    def take(self, reading: Reading) -> None:
        self.status, self.summary = reading.status, reading.summary
        if reading.value is None:
            self.turned_at = reading.at
        else:
            self.numbers[reading.metric] = (reading.at, reading.value)
            self.measured_at = reading.at

    def is_reported(self, now: float) -> bool:
        """Return whether its check still reports it: a measured subject that is gone has no more readings."""
        return not self.numbers or self.turned_at > self.measured_at or now - self.measured_at <= HOLDS

    def result(self, subject: str, judge: Judge | None, slack: float) -> Result:
        """Judge again, by the metrics of its last result: those at most `slack` seconds older."""
        known = self.status is not Status.UNKNOWN and self.measured_at >= self.turned_at
        numbers = {
            metric: value for metric, (at, value) in self.numbers.items() if at >= self.measured_at - slack
        }
        anew = judge(subject, numbers) if judge and known and numbers else None
        if anew is None or anew.status is self.status:
            anew = Result(self.status, self.summary)  # in the words in which it was recorded
        return replace(anew, subject=subject).ending("over")


class SentEnds:
    """Recoveries as they were worded in sent messages, by check and subject."""

    def __init__(self, notifications: Iterable[Notification]) -> None:
        self._ends: dict[tuple[str, str], dict[float, str]] = defaultdict(dict)
        for message in (each.message for each in notifications):
            for item in filter(lambda item: item.ended, message.items):
                self._ends[item.check, item.subject][message.at] = item.summary

    def worded(self, event: IncidentEvent, within: float) -> IncidentEvent:
        """Return a recovery in the words of the message sent at about that time, if there is one."""
        ends = self._ends.get((event.check, event.incident.subject)) if event.incident else None
        if not ends or event.kind is not EventKind.RESOLVED:
            return event
        at = min(ends, key=lambda at: abs(at - event.at))
        return replace(event, summary=ends[at]) if abs(at - event.at) < within else event


def backtest(
    setup: Setup, readings: Sequence[Reading], until: float = math.inf, sent: Iterable[Notification] = ()
) -> Iterator[Alert]:
    """Yield the alerts up to `until`, oldest first.

    Readings of checks that are no longer configured are skipped. Recoveries are worded as in the messages
    `sent`.
    """
    ends = SentEnds(sent)
    checks = {check.name: check for check in setup.checks}
    judges = {name: judge for name, check in checks.items() if (judge := judge_of(check))}
    alerts = AlertState()
    subjects: dict[str, dict[str, _Subject]] = defaultdict(dict)
    end = readings[-1].at if readings else 0.0
    for now, round_ in _rounds(readings, checks, setup.config.daemon.interval):
        if now > until:  # a check that comes once a day has not confirmed it yet
            break
        for reading in round_.readings:
            subjects[reading.check].setdefault(reading.subject, _Subject(reading.run)).take(reading)
        slack = _slack(end - now)
        seen = tuple(
            Observation(
                name, subject.run, checks[name].target, subject.result(title, judges.get(name), slack), now
            )
            for name in round_.speaking
            for title, subject in subjects[name].items()
            if subject.is_reported(now)
        )
        alerts, events = evaluate.evaluate(alerts, seen, setup.policies, now, silent=setup.maintenance)
        told = [ends.worded(each, _SAME * checks[each.check].every) for each in events]
        yield from _alerts(compose(told, setup.routes, setup.rules, now))


def _slack(age: float) -> float:
    """Return how many seconds apart readings of one result may lie: old ones are means of 5 min or 1 h."""
    return 1.0 if age < retention.RAW else retention.FIVE if age < retention.FIVES else retention.HOUR


def judge_of(check: Check) -> Judge | None:
    """Return the function that judges a check's metrics; None where its plugin has none or is a user's."""
    if check.entry.foreign:
        return None
    plugin = getattr(load(check.entry.source.module), check.entry.source.attribute)
    rejudge = plugin.rejudge if isinstance(plugin, Plugin) else None
    if rejudge is None:
        return None
    return lambda subject, numbers: rejudge(subject, numbers, check.parameters)


@dataclass(slots=True)
class _Round:
    """Readings of one round, and the checks that reported in it, in order."""

    readings: list[Reading] = field(default_factory=list)
    speaking: dict[str, None] = field(default_factory=dict)


def _rounds(
    readings: Iterable[Reading], checks: Mapping[str, Check], interval: float
) -> Iterator[tuple[float, _Round]]:
    """Group readings by round; a status change is repeated as often as its confirmation needs."""
    rounds: dict[int, _Round] = defaultdict(_Round)
    for reading in readings:
        check = checks.get(reading.check)
        if check is None:
            continue
        rounds[int(reading.at // interval)].readings.append(reading)
        for again in range(check.confirm + 1 if reading.value is None else 1):
            rounds[int((reading.at + again * check.every) // interval)].speaking[reading.check] = None
    for number in sorted(rounds):
        yield (number + 1) * interval, rounds[number]


def _alerts(notifications: Iterable[Notification]) -> Iterator[Alert]:
    """Yield one alert for each message, however many channels it goes to."""
    channels: dict[str, list[str]] = defaultdict(list)
    messages: dict[str, Message] = {}
    for each in notifications:
        name = each.key.rpartition("@")[0]
        channels[name].append(each.channel)
        messages[name] = each.message
    for name, message in messages.items():
        if not message.quiet:
            yield Alert(
                message.at, message.status, message.target, message.headline, tuple(sorted(channels[name]))
            )
