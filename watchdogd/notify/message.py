"""One round's events in words: what somebody half awake reads. Pure.

All events about one target travel in one message a channel, the worst first.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING

from watchdogd.incidents import message_wording
from watchdogd.incidents.models import HOME_CLOSED, HOME_SILENT, SELF, EventKind
from watchdogd.notify.notification import ORDER, Item, Message, Notification, addressed, incident_thread
from watchdogd.notify.routing import Route, channels_of, word_of
from watchdogd.plugin import CANCELLED, SWITCH_SET, Advice
from watchdogd.system.text import excerpt, one_line, plain, verbatim
from watchdogd.units import age, local_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from watchdogd.incidents.models import Incident, IncidentEvent, NextAction
    from watchdogd.notify.routing import MessageRules

_ALERTS = frozenset({"CRITICAL", "UNKNOWN", "WARNING", "REMINDER"})

BODY_LIMIT = 16_000
"""Characters of a body: far below Slack's 50 blocks of 3,000, and what a phone still shows."""

SHOWN = 6
"""Events of one message that are told with their evidence; further ones by their first line."""

ADVICE = 12
"""Commands of the checks' own that one message shows."""

_FRESH = 60.0
"""Seconds for which a notice happened when its message says it."""

_OVER = frozenset({"gone", CANCELLED, "never seen"})
"""Faults of a run of which nothing runs that could be stopped."""

_OPEN = frozenset(
    {EventKind.OPENED, EventKind.WORSE, EventKind.EASED, EventKind.REMINDER, EventKind.ESCALATION}
)
"""What leaves somebody something to do."""


_ONE_OF_MANY = re.compile(r"[^\s/\d]*+[/\d]\S*+")


def compose(
    events: Iterable[IncidentEvent],
    routes: Mapping[str, Route],
    rules: MessageRules,
    now: float,
) -> list[Notification]:
    """Return the notifications of one round. `routes` are by check.

    Keys depend on what happened, when and to which channel alone: composing again gives the same.
    """
    letters: dict[str, dict[str, list[IncidentEvent]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        for channel in channels_of(event, routes, rules):
            letters[channel][event.target].append(event)
    notifications = []
    for channel, targets in letters.items():
        groups = [sorted(group, key=_rank) for group in targets.values()]
        notifications += [
            addressed(_message(group, routes, rules, now), channel, now, _name(group))
            for group in sorted(groups, key=lambda group: _rank(group[0]))
        ]
    return notifications


def test_message(name: str, host: str, by: str, now: float) -> Message:
    """Return what `notify --test` sends."""
    return Message(
        headline=message_wording.first_line("INFO", name, f"test message, sent by {by} on {host}"),
        body=f"Alerts will arrive as this did. No action needed. Sent at {local_time(now)}.",
        status="INFO",
        target=one_line(name),
        thread=f"test-{now:.3f}",
        at=now,
    )


test_message.__test__ = False  # type: ignore[attr-defined]  # so that pytest does not take it for a test


def _rank(event: IncidentEvent) -> tuple[int, float]:
    return ORDER.index(word_of(event)), event.at


def _fact(event: IncidentEvent, routes: Mapping[str, Route]) -> str:
    """Return what is said of it, whole."""
    return one_line(f"{_subject(event, routes)}{event.told}", 1000)


def _headline(event: IncidentEvent, routes: Mapping[str, Route], more: str = "") -> str:
    fact = f"{_subject(event, routes)}{event.summary}"
    return message_wording.first_line(word_of(event), event.target, fact, more, event.suspect)


def _subject(event: IncidentEvent, routes: Mapping[str, Route]) -> str:
    """Return the subject (which node, GPU, disk) to stand before a summary that does not name it; else empty.

    What built-in checks call by plain words (`inodes`, `must_see`) is no thing of many.
    """
    subject = event.incident.subject if event.incident else ""
    foreign = routes.get(event.check, Route()).foreign
    if not foreign and not _ONE_OF_MANY.fullmatch(subject):
        return ""
    parts = [part for part in subject.split("/") if part]
    named = (re.search(rf"(?<!\w){re.escape(part)}(?!\w)", event.summary, re.IGNORECASE) for part in parts)
    return "" if all(named) else f"{one_line(subject, 100)}: "


def _message(
    group: Sequence[IncidentEvent],
    routes: Mapping[str, Route],
    rules: MessageRules,
    now: float,
) -> Message:
    """Make one message about one target; `group` is sorted, the worst first."""
    worst = group[0]
    opener = next((event for event in group if event.kind is EventKind.OPENED or not event.incident), None)
    runbooks = dict.fromkeys(routes[event.check].runbook for event in group if event.check in routes)
    headline = _headline(worst, routes, _others(group))
    fact = _fact(worst, routes)
    whole = message_wording.fits(
        word_of(worst),
        worst.target,
        f"{_subject(worst, routes)}{worst.summary}",
        _others(group),
        worst.suspect,
    )
    several = len(_numbers(group)) > 1
    parts = ["" if whole else fact, _promise(group, rules.command), _answers(group, rules.command)]
    shown: set[str] = set()
    parts.append(_account(worst, now, shown, lines=40, several=several))
    for event in group[1:SHOWN]:
        parts += [
            f"[{word_of(event)}] {_fact(event, routes)}",
            _account(event, now, shown, lines=8, several=several),
        ]
        if event.kind is EventKind.NOTICE:
            parts.append(_advice(event.advice, rules.command))
    parts.append("\n".join(_headline(event, routes) for event in group[SHOWN:]))
    parts += [f"Runbook: {plain(link)}" for link in runbooks if link]
    parts += [_replies(group, rules.command), _watcher(rules, group)]
    return Message(
        headline=headline,
        line="" if whole else f"[{word_of(worst)}] {one_line(worst.target, 100)}: {fact}",
        body=_body(parts),
        status=word_of(worst),
        target=one_line(worst.target, 100),
        thread=_thread(opener or worst),
        at=worst.at,
        opens=opener is not None,
        quiet=all(event.quiet or event.calm for event in group),
        urgent=any(event.kind is EventKind.ESCALATION for event in group),
        incidents=tuple(sorted({event.incident.id for event in group if event.incident})),
        items=tuple(_item(event) for event in group),
        runbooks=tuple(link for link in runbooks if link),
        recovered=all(event.incident is None or event.incident.recovered for event in group),
    )


def _others(group: Sequence[IncidentEvent]) -> str:
    """Return how many further alerts a message has, or ends beside an end: `2 more alerts`."""
    first, *others = ((each.incident.id if each.incident else each.summary, word_of(each)) for each in group)
    ends = first[1] == "RESOLVED"
    counted = {"RESOLVED"} if ends else _ALERTS
    count = len({about for about, word in others if about != first[0] and word in counted})
    return f"{count} more {'end' if ends else 'alert'}{'s' * (count > 1)}" if count else ""


def _body(parts: Iterable[str]) -> str:
    """Join paragraphs with an empty line between them; what is too long loses its middle."""
    body = "\n\n".join(part for part in parts if part)
    return body if len(body) <= BODY_LIMIT else excerpt(body, 400, BODY_LIMIT)


def _account(event: IncidentEvent, now: float, shown: set[str], lines: int, *, several: bool) -> str:
    """Return since when it is so, the facts, the evidence and what was done.

    `shown`: evidence above it in the message, which is not repeated. `several`: incidents are in the message,
    so that each is named by its number, by which it is acknowledged.
    """
    when = _when(event, now)
    if several and event.incident and when:
        when = f"Incident {event.incident.id}. {when}"
    facts = [when, *(fact for fact in map(one_line, event.facts) if fact not in event.summary)]
    evidence = event.details or (event.incident.details if event.incident and not event.calm else "")
    parts = ["\n".join(fact for fact in facts if fact)]
    if event.notes:
        parts.append("\n".join(one_line(note) for note in event.notes[:20]))
    tells = event.details.strip() or (evidence.strip() and event.kind is not EventKind.RESOLVED)
    if tells and evidence not in shown:
        shown.add(evidence)
        parts.append(verbatim(excerpt(evidence, lines, lines * 150)))
    parts.append("\n".join(f"watchdogd did: {one_line(deed)}" for deed in event.done))
    return "\n\n".join(part for part in parts if part)


def _when(event: IncidentEvent, now: float) -> str:
    incident = event.incident
    fresh = event.label == "ACTION" or (incident is None and event.label == "INFO")
    if event.calm or fresh:  # as fresh as the message
        return ""
    if incident is None or event.kind is EventKind.NOTICE:
        return f"At {local_time(event.at)}." if now - event.at >= _FRESH else ""
    if event.kind is EventKind.RESOLVED:
        end = event.at if incident.resolved_at is None else incident.resolved_at
        times = f"Came and went {incident.turns} times within" if incident.turns > 1 else "Lasted"
        lasted = (
            f"{times} {age(end - incident.began)}, from {local_time(incident.began)} to {local_time(end)}."
        )
        worst, said = incident.peak
        was = [f"It was: [{worst.name}] {said}"]
        if worst is not incident.status:
            was = [f"Worst: [{worst.name}] {said}", f"At last: [{incident.status.name}] {incident.summary}"]
        return "\n".join([lasted, *map(one_line, was)])
    if event.flaps_since is not None:
        return f"Since {local_time(event.flaps_since)}, on and off."
    since = incident.status_began
    seconds, milder = max(now, event.at) - since, since - incident.fault_began
    before = f"; before that a WARNING for {age(milder)}" if milder >= 1 else ""
    return f"Since {local_time(since)}{f', for {age(seconds)}' if seconds >= 1 else ''}{before}."


def _promise(group: Sequence[IncidentEvent], command: str) -> str:
    """Return what watchdogd will do about all of it, and what ends that promise."""
    will: dict[str, NextAction] = {}
    for each in (each for event in group for each in event.upcoming):
        known = will.get(each.words)
        if known is None or (known.limited and not each.limited):
            will[each.words] = each
    several = len(_numbers(group)) > 1
    whose = _numbers(event for event in group if event.upcoming) if several else ()
    again = [event for event in group if _starts_again(event)]
    if not will:
        return ""
    stops = [f"{command} ack {number}" for number in _numbers(again)]
    said = message_wording.upcoming(tuple(will.values()), whose, recurs=bool(stops))
    return f"{said}\n{verbatim(chr(10).join(stops))}" if stops else said


def _starts_again(event: IncidentEvent) -> bool:
    """Return whether watchdogd will start the run again, though the same fault would come again."""
    will = {each.kind for each in event.upcoming if not each.refused}
    return bool(will & message_wording.RESTARTS) and any(each.recurs for each in event.advice)


def _answers(group: Sequence[IncidentEvent], command: str) -> str:
    """Return what helps with just this: what to do next about what is still open.

    What watchdogd is about to do by itself comes last, in case that fails.
    """
    open_now = [event for event in group if event.incident and event.kind in _OPEN]
    others = [event for event in group if event.kind is EventKind.RESOLVED]
    others += [event for event in group[:1] if event.kind is EventKind.NOTICE]  # others': below themselves
    will = {each.kind: each.words for event in group for each in event.upcoming if not each.refused}
    told = [
        each
        for event in (*open_now, *others)
        for each in event.advice
        if each.action != "save-switch" or event.polled  # else nothing obeys it
    ]
    foremost = open_now[0].advice if open_now else ()  # only it may say first to end the run
    told.sort(key=lambda each: each.action == "cancel" and each not in foremost)
    if open_now and not told:  # to look at it now is what always helps
        own = open_now[0].check.partition("/")[0] == SELF
        look = "watchdogd doctor" if own else f"watchdogd check {_quoted(open_now[0].check)}"
        told = [Advice("To look at it again now:", look)]
    for run in dict.fromkeys(event.run for event in open_now if event.run and _stoppable(event)):
        told.append(Advice("To stop the run:", f"watchdogd kill-switch {_quoted(run)}", "kill-switch"))
    advice = [each for each in told if each.action not in will]
    late = [each for each in told if each.action in will]
    for each in late:
        failed = f"Only if watchdogd could not {will[each.action]}"
        shows = f"; this shows {each.shows}:" if each.shows else ":"
        then = shows if each.command else f": {each.sentence}"
        advice.append(Advice(f"{failed}{then}", each.command))
    shown = list(dict.fromkeys(advice))[:ADVICE]
    return f"What you can do:\n{_advice(shown, command)}" if shown else ""


def _advice(advice: Iterable[Advice], command: str) -> str:
    """Return it as lines: each sentence once, and below it its commands in a block of their own."""
    lines = []
    for (said, typed), same in groupby(advice, key=lambda each: (each.sentence, bool(each.command))):
        lines.append(one_line(said) or ("To do this:" if typed else ""))
        if typed:
            lines.append(verbatim("\n".join(for_home(each.command, command) for each in same)))
    return "\n".join(filter(None, lines))


def _replies(group: Sequence[IncidentEvent], command: str) -> str:
    """Return how to say that somebody works on what is still open, or wants to hear no more of it."""
    open_now = [event for event in group if event.incident and (event.kind in _OPEN or event.upcoming)]
    unheard = any(
        each.incident.fault in (HOME_SILENT, HOME_CLOSED)
        for each in open_now
        if each.incident and each.check == SELF
    )
    if not open_now or unheard:  # nothing that people answer is taken in
        return ""
    known = {each.incident.id: each.incident for each in open_now if each.incident}
    several = len(known) > 1
    answers = [
        Advice(f"Once you work on {_named(known[number]) if several else 'it'}:", f"{command} ack {number}")
        for number in sorted(known)[:SHOWN]
    ]
    if len(known) > SHOWN:
        answers.append(Advice("To see the others:", f"{command} incidents"))
    quiet = f"{command} silence {_quoted(open_now[0].target)} --for 2h"
    answers.append(Advice(f"To hear no more of {'them' if several else 'it'} for 2h:", quiet))
    return _advice(answers, command)


def _named(incident: Incident) -> str:
    """Return an incident's number and the beginning of its line, to tell it from others of one message."""
    subject = "" if incident.subject in incident.summary else f"{incident.subject}: "
    return f"incident {incident.id} ({one_line(f'{subject}{incident.summary}', 60)})"


def for_home(line: str, command: str) -> str:
    """Return a command of ours as it is typed for this home."""
    return one_line(re.sub(r"^watchdogd (?=[a-z])", lambda _: f"{command} ", line))


def _stoppable(event: IncidentEvent) -> bool:
    """Return whether a Guard polls the run's kill switch, which is not set yet, and something runs."""
    return event.polled and event.incident is not None and event.incident.fault not in SWITCH_SET | _OVER


def _quoted(text: str) -> str:
    """Quote outside text as one word of a command to paste."""
    return shlex.quote(one_line(text, 100))


def _numbers(events: Iterable[IncidentEvent]) -> list[int]:
    return sorted({event.incident.id for event in events if event.incident})


def _watcher(rules: MessageRules, group: Sequence[IncidentEvent]) -> str:
    """Say who saw it, and by which check; of what people did, who reports it."""
    event = group[0]
    host = f" on {one_line(rules.host)}" if rules.host else ""
    if all(each.calm or (each.incident is None and each.label == "INFO") for each in group):
        about = f"; incident {event.incident.id}" if event.incident else ""
        return f"Reported by {one_line(rules.name)}{host}{about}"
    about = f" {event.incident.subject}" if event.incident and event.incident.subject else ""
    verb = "Reported" if event.label == "ACTION" else "Seen"
    numbers = _numbers(group)
    if len(numbers) > 1:
        more = "…" if len(numbers) > SHOWN else ""
        return (
            f"{verb} by {one_line(rules.name)}{host}; incidents {', '.join(map(str, numbers[:SHOWN]))}{more}"
        )
    number = f", incident {event.incident.id}" if event.incident else ""
    check = event.incident.check if event.incident else event.check
    return f"{verb} by {one_line(rules.name)}{host}; check {one_line(check + about, 200)}{number}"


def _item(event: IncidentEvent) -> Item:
    incident: Incident | None = event.incident
    return Item(
        status="RESOLVED"
        if event.kind is EventKind.RESOLVED
        else incident.status.name
        if incident
        else event.label,
        check=one_line(event.check, 200),
        summary=one_line(event.told),
        subject=one_line(incident.subject, 200) if incident else "",
        incident=incident.id if incident else None,
        since=incident.began if incident else None,
        at=event.at,
        quiet=event.quiet or event.calm,
    )


def _thread(event: IncidentEvent) -> str:
    return incident_thread(event.incident.id) if event.incident else f"notice-{_digits([_identity(event)])}"


def _identity(event: IncidentEvent) -> tuple[str, str, float]:
    """Return what tells one event from all others."""
    about = str(event.incident.id) if event.incident else f"{event.check}: {event.summary}"
    return about, event.kind.value, event.at


def _name(group: Sequence[IncidentEvent]) -> str:
    """Return the half of a key that names no channel."""
    return f"{_thread(group[0])}-{group[0].kind.value}-{_digits(sorted(map(_identity, group)))}"


def _digits(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
