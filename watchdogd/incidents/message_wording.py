"""First lines of all messages, built from fields; the plugins give the fact. Pure.

`[STATUS] TARGET: fact`: who and what, for how long, the number that matters. At most 100 characters, since a
phone shows no more. INFO is what people and jobs do, ACTION what watchdogd does, OK a good result alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from watchdogd.system.text import one_line
from watchdogd.units import age, local_time, parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.home.inbox import Submission
    from watchdogd.incidents.models import CheckState, Incident, NextAction

LIMIT = 100
"""Characters of a first line."""
_CLAUSE = re.compile(r"[;,] | \(")
"""Separators between the clauses of a fact; the first clauses matter most."""
_TARGET = 40
_LASTS = re.compile(r"\b(?:for|in|after|waited) (\d[\dsmhdw]*)\b(?![^(]*\))")
"""A clause of a fact that says for how long it has been so; an aside in parentheses does not."""
_OLD_NEWS = re.compile(r" \([^()]*\)| after \d[\dsmhdw]*(?=:)")
"""Clauses of a fact that a later message leaves out first: asides, and how long the job ran."""
_MORE = re.compile(r"(?:[;,] | \().*| for \d\w*(?=:|[;,] | \(|$)")
"""What the end of a fault leaves out of its fact: all but the first clause, and how long it had been so."""
_LEAST = 20
"""Characters of the fact that a suspect leaves at least: `stalled for 22m`."""


def first_line(word: str, target: str, fact: str, more: str = "", suspect: str = "") -> str:
    """Return `[WORD] TARGET: fact; suspect (and 2 more alerts)`; a long fact is cut at a word."""
    room = _room(word, target, more)
    named = joined("", one_line(suspect, 1000), after=fact)
    if not fits(word, target, fact, more, suspect):
        named = cut(named, room - min(_LEAST, len(fact))) if suspect else ""
    return beginning(word, target) + cut(one_line(fact, 1000), room - len(named)) + named + _others(more)


def late_line(headline: str, word: str, target: str, how: str) -> tuple[str, str]:
    """Return a first line with `how` late it comes before its fact, and the same uncut.

    `headline`: one that `first_line` made for this word and target.
    """
    begin = beginning(word, target)
    fact = f"{how}: {headline[len(begin) :]}"
    return begin + cut(fact, LIMIT - len(begin)), begin + fact


def joined(fact: str, suspect: str, after: str = "") -> str:
    """Return `fact; suspect`, or `slow: suspect` if the fact is one word; `after` is a fact left out."""
    between = "; " if " " in (fact or after) else ": "
    return f"{fact}{between}{suspect}" if suspect else fact


def fits(word: str, target: str, fact: str, more: str = "", suspect: str = "") -> bool:
    """Return True if `first_line` keeps the whole fact and suspect."""
    told = joined(one_line(fact, 1000), one_line(suspect, 1000))
    return len(told) <= _room(word, target, more)


def _room(word: str, target: str, more: str) -> int:
    """Return how many characters are left for the fact and the suspect."""
    return LIMIT - len(beginning(word, target)) - len(_others(more))


def beginning(word: str, target: str) -> str:
    """Return the part of a first line before the fact."""
    return f"[{word}] {one_line(target, _TARGET)}: "


def _others(more: str) -> str:
    return f" (and {more})" if more else ""


def cut(text: str, room: int) -> str:
    """Return text cut to `room` characters: after a whole clause, else after a word if one ends near."""
    if len(text) <= room:
        return text
    ends = [match.start() for match in _CLAUSE.finditer(text, room // 2, room + 2)]
    whole = [
        at
        for at in ends
        if at <= room and text.count("(", 0, at) == text.count(")", 0, at)
        if ": " not in text[at:room]  # there the cause stands
    ]
    if whole:
        return text[: whole[-1]]
    head = text[: room - 1]
    words = head.rpartition(" ")[0]
    return (words if len(words) > len(head) - 20 else head).rstrip(" ,;:(") + "…"


# ------------------------------------------------------------------ of an incident


def recovered(state: CheckState) -> bool:
    """Return True if a good result shows that it recovered, False if it is just no longer judged."""
    return not state.quiet if state.recovery is None else state.recovery.recovered


def ended(incident: Incident, state: CheckState, at: float) -> str:
    """Return what ended, and after how long.

    It is OK again only if a good result shows that; else what ended it before: `its job ended before it
    recovered, after 20m: stalled`.
    """
    recovery, lasted = state.recovery, age(at - incident.began)
    if incident.turns > 1:
        lasted = f"coming and going for {lasted}"
    if not recovered(state):
        fault = _MORE.sub("", incident.summary)
        if recovery is None:
            return f"closed before it recovered, after {lasted}: {fault} ({state.summary})"
        now = f", {recovery.now}" if recovery.now else ""
        before = f" before it recovered, after {lasted}: {fault}" if recovery.timed else ""
        return f"{recovery.what}{before}{now}"
    if recovery is None:
        return f"OK again after {lasted}: {state.summary}"
    after = f" after {lasted}" if recovery.timed else ""
    return f"{recovery.what}{after}" + (f", {recovery.now}" if recovery.now else "")


def known_again(incident: Incident, at: float) -> str:
    """Return that it is known again how it is, which another incident had hidden."""
    return f"known again after {age(at - incident.began)}"


def reminder(incident: Incident, now: float, flaps: str = "") -> str:
    """Return that it is still so, and for how long unless the fact says it; `flaps`: see `flapping`."""
    lasted = now - incident.status_began
    after = "" if flaps or _says_how_long(incident.summary, lasted) else f" after {age(lasted)}"
    worst = incident.peak[0]
    if worst.severity > incident.status.severity and worst not in incident.notified_as:
        after += f", was {worst.name} meanwhile"  # in a silence: nobody heard of it
    return _later(f"still {incident.status.name}{after}", "REMINDER", incident, flaps)


def unacknowledged(incident: Incident, now: float, flaps: str = "") -> str:
    """Return for how long nobody has acknowledged it; `flaps`: see `flapping`."""
    waited = age(now - (incident.first_notified_at or now))
    return _later(f"unacknowledged for {waited}", incident.status.name, incident, flaps)


def _later(head: str, word: str, incident: Incident, flaps: str) -> str:
    """Return `head: fact`; if that is too long, without what is no news any more, so that the cause stays."""
    head = f"{head}, {flaps}" if flaps else head
    whole = f"{head}: {incident.summary}"
    return whole if fits(word, incident.target, whole) else f"{head}: {_OLD_NEWS.sub('', incident.summary)}"


def _says_how_long(fact: str, seconds: float) -> bool:
    """Return True if a fact says itself that it has been so for about as many seconds."""
    said = (parse_duration(length) for length in _LASTS.findall(fact))
    return any(abs(each - seconds) <= max(60.0, 0.1 * seconds) for each in said)


def eased(incident: Incident) -> str:
    """Return that it is less severe than it was."""
    return f"down from {incident.peak[0].name}: {incident.summary}"


def flapping(times: int, within: float) -> str:
    """Return that it comes and goes, and how often in what time."""
    return f"comes and goes, {times} times in {age(within)}"


def recovers(key: str) -> str:
    """Return what to know before anything is restarted because of what comes and goes.

    `key`: where config.toml makes the check more patient.
    """
    fix = f"; if that is normal here, set a higher {key} in config.toml" if key else ""
    return f"It has recovered by itself each time{fix}."


def calm(seconds: float) -> str:
    """Return when the end of what comes and goes is reported."""
    return f"it comes and goes: its end is reported once it has stayed good for {age(seconds)}"


def follower(incident: Incident) -> str:
    """Return an inhibited incident as one line inside its cause's message."""
    subject = f" {incident.subject}" if incident.subject else ""
    return f"[{incident.status.name}] {incident.check}{subject}: {incident.summary}"


# ------------------------------------------------------------------ of people


def acknowledged(incident: Incident, by: str, reason: str) -> str:
    """Return who acknowledged what, and why."""
    why = f" ({reason})" if reason else ""
    return f"acknowledged by {by}{why}: {incident.summary}"


def silenced(by: str, seconds: float, reason: str) -> str:
    """Return who asked for a silence, and for how long."""
    return _why(f"silenced by {by} for {age(seconds)}", reason)


def unsilenced(by: str, *, wrong: bool) -> str:
    """Return who ended a silence; `wrong`: something is, which is reported now."""
    now = "what is still wrong is reported again" if wrong else "nothing is wrong now"
    return f"silence ended by {by}, {now}"


def switched(touches: Sequence[Submission], *, polled: bool = True, then: str = "") -> str:
    """Return who set or cleared a switch; one that was set and cleared at once is one fact.

    `polled`: if a job of the run is there, a Guard polls it. `then`: what is so now that it is cleared.
    """
    first, last = touches[0], touches[-1]
    what = f"{first.switch} switch {'cleared' if first.cleared else 'set'} by {first.by}"
    again = first.cleared is not last.cleared
    by = "" if last.by == first.by else f" by {last.by}"
    done = f" and {'cleared' if last.cleared else 'set again'}{by} after {age(last.at - first.at)}"
    if last.cleared:
        why = f" ({first.reason})" if first.reason else ""
        return f"{what}{why}{done if again else ''}{f', {then}' if then else ''}"
    unheard = "" if polled else ", but no Guard of it was heard of"
    return _why(f"{what}{done if again else ''}{unheard}", first.reason)


def stopped(by: str, reason: str) -> str:
    """Return who stopped the watchdog, which reports that itself as it ends."""
    return _why(f"the watchdog was stopped by {by}, nobody watches now", reason)


def started(by: str, seconds: float) -> str:
    """Return that the watchdog watches again after a stop, which was reported."""
    return f"the watchdog watches again after {age(seconds)}, stopped by {by} before"


def unwatched(begin: float, end: float) -> str:
    """Return for how long nobody watched."""
    return f"nobody watched for {age(end - begin)}, until {local_time(end)}"


# ------------------------------------------------------------------ of watchdogd's own actions


class ActionWords(NamedTuple):
    """Outcome of an action in a first line: `what` was done, and `why`, if that is not all."""

    what: str
    why: str = ""


def outcome(
    said: Sequence[ActionWords],
    trigger: str,
    incident: int,
    target: str,
    coming: Sequence[NextAction] = (),
) -> str:
    """Return what watchdogd did about an incident, most important first, and what is still to come.

    If there is not enough room, what is to come is dropped, then the last reasons, and then the trigger.
    """
    later = ", ".join(each.words for each in coming if not each.refused)
    if later:
        told = ", ".join(": ".join(filter(None, each)) for each in said)
        whole = f"{told}; still to come: {later} (incident {incident})"
        if len(whole) <= LIMIT - len(beginning("ACTION", target)):
            return whole
    short = f" (incident {incident})"
    asked = f" ({trigger}, incident {incident})" if trigger else short
    room = LIMIT - len(beginning("ACTION", target))
    if len(said) == 1:
        return cut(": ".join(filter(None, said[0])), room - len(asked)) + asked
    heads = ""
    for explained in range(len(said), -1, -1):
        heads = ", ".join(
            f"{each.what} ({each.why})" if each.why and at < explained else each.what
            for at, each in enumerate(said)
        )
        for tail in (asked, short):
            if len(heads) + len(tail) <= room:
                return heads + tail
    return cut(heads, room - len(short)) + short


RESTARTS = frozenset({"requeue", "resubmit"})
"""Kinds of action that start the same job again."""


def upcoming(actions: Sequence[NextAction], incidents: Sequence[int] = (), *, recurs: bool = False) -> str:
    """Return what watchdogd will do, when if not at once, and what stops it; what it will not, and why.

    `incidents`: those for which it is done, where others are in the message. `recurs`: the job that it starts
    would end in the same way; the command that stops it follows.
    """
    will = ", then ".join(str(each) for each in actions if not each.refused)
    wont = "; ".join(f"{each.words}: {each.refused}" for each in actions if each.refused)
    which = f" of incident {' and '.join(map(str, incidents))}" if incidents else ""
    stops = f" An acknowledgement{which} or a silence stops that." if will and not recurs else ""
    parts = [f"watchdogd will {will}.{stops}" if will else "", f"It will not {wont}." if wont else ""]
    parts.append("But the job would meet the same error again. To stop that:" if recurs else "")
    said = " ".join(filter(None, parts))
    return said if will else said.replace("It will", "watchdogd will", 1)


def not_before(time: float, ago: float | None) -> str:
    """Return when an action comes that was done `ago` seconds ago (None: it is being done)."""
    why = "it does so now" if ago is None else f"it did so {age(ago)} ago"
    return f"at {local_time(time)} at the earliest ({why})"


def _why(what: str, reason: str) -> str:
    return f"{what}: {reason}" if reason else what
