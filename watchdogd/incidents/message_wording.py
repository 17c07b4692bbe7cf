"""Words of every message's first line, from fields; the plugins say the fact, here it gets its frame. Pure.

`[STATUS] TARGET: fact`: who and what, for how long, the number that matters. At most 100 characters, since a
phone shows no more. INFO is what people and jobs do, ACTION what watchdogd does, OK a good result alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from watchdogd.system.text import one_line
from watchdogd.units import age, local_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.home.inbox import Submission
    from watchdogd.incidents.models import CheckState, Incident, NextAction

LIMIT = 100
"""Characters of a first line."""
SUSPECT_LIMIT = 160
"""Characters of one that names a suspect: who holds a run up is what people have to know."""
FACT_WITHIN = 60
"""Characters of a first line within which the fact has begun: what comes before it takes less."""
_CLAUSE = re.compile(r"[;,] | \(")
"""Beginning of what stands between two clauses of a fact, of which the first ones say most."""
_TARGET = 40
_QUOTED = 40
"""Characters of a fact that somebody acknowledged."""
_LEAST = 20
"""Characters of the fact that a suspect leaves, at least: `stalled for 22m`."""


def first_line(word: str, target: str, fact: str, more: str = "", suspect: str = "") -> str:
    """Return `[WORD] TARGET: fact; suspect (and 2 more alerts)`; a long fact loses its end at a word."""
    room = _room(word, target, more, suspect)
    named = joined("", one_line(suspect, 1000), after=fact)
    if not fits(word, target, fact, more, suspect):
        named = cut(named, room - _LEAST) if suspect else ""
    return beginning(word, target) + cut(one_line(fact, 1000), room - len(named)) + named + _others(more)


def joined(fact: str, suspect: str, after: str = "") -> str:
    """Return `fact; suspect`, or `slow: suspect` where the fact is one word; `after` is a fact left out."""
    between = "; " if " " in (fact or after) else ": "
    return f"{fact}{between}{suspect}" if suspect else fact


def fits(word: str, target: str, fact: str, more: str = "", suspect: str = "") -> bool:
    """Return whether `first_line` keeps all of the fact and of the suspect."""
    told = joined(one_line(fact, 1000), one_line(suspect, 1000))
    return len(told) <= _room(word, target, more, suspect)


def _room(word: str, target: str, more: str, suspect: str) -> int:
    """Return the characters that are left for the fact and the suspect."""
    limit = SUSPECT_LIMIT if suspect else LIMIT
    return limit - len(beginning(word, target)) - len(_others(more))


def beginning(word: str, target: str) -> str:
    """Return what stands before the fact."""
    return f"[{word}] {one_line(target, _TARGET)}: "


def _others(more: str) -> str:
    return f" (and {more})" if more else ""


def cut(text: str, room: int) -> str:
    """Return text that fits: of clauses the first ones, whole, else cut after a word where one ends near."""
    if len(text) <= room:
        return text
    ends = [match.start() for match in _CLAUSE.finditer(text, room // 2, room + 2)]
    whole = [at for at in ends if at <= room and text.count("(", 0, at) == text.count(")", 0, at)]
    if whole:
        return text[: whole[-1]]
    head = text[: room - 1]
    words = head.rpartition(" ")[0]
    return (words if len(words) > len(head) - 20 else head).rstrip(" ,;:(") + "…"


# ------------------------------------------------------------------ of an incident


def recovered(state: CheckState) -> bool:
    """Return whether a good result speaks for what ended, and not only that nothing is judged any more."""
    return not state.quiet if state.recovery is None else state.recovery.recovered


def ended(incident: Incident, state: CheckState, at: float) -> str:
    """Say what ended, and after how long: nothing is OK again of which no good result speaks."""
    recovery, lasted = state.recovery, age(at - incident.began)
    if not recovered(state):
        return f"closed without recovery: {recovery.what if recovery else state.summary}"
    if recovery is None:
        return f"OK again after {lasted}: {state.summary}"
    after = f" after {lasted}" if recovery.timed else ""
    return f"{recovery.what}{after}" + (f", {recovery.now}" if recovery.now else "")


def reminder(incident: Incident, now: float) -> str:
    """Say that it still is so."""
    return f"still {incident.status.name} after {age(now - incident.fault_began)}: {incident.summary}"


def unacknowledged(incident: Incident, now: float) -> str:
    """Say for how long nobody acknowledged it."""
    return f"unacknowledged for {age(now - (incident.first_notified_at or now))}: {incident.summary}"


def eased(incident: Incident) -> str:
    """Say that it is less bad than it was."""
    return f"down from {incident.peak[0].name}: {incident.summary}"


def flapping(times: int, within: float, calm: float) -> str:
    """Say that it comes and goes."""
    return (
        f"it comes and goes: {times} times within {age(within)}; "
        f"its end is reported when it has lasted for {age(calm)}"
    )


def follower(incident: Incident) -> str:
    """Return an inhibited incident as one line inside its cause's message."""
    subject = f" {incident.subject}" if incident.subject else ""
    return f"[{incident.status.name}] {incident.check}{subject}: {incident.summary}"


# ------------------------------------------------------------------ of people


def acknowledged(incident: Incident, by: str, reason: str) -> str:
    """Say who works on what."""
    return _why(f'"{cut(incident.summary, _QUOTED)}" acknowledged by {by}', reason)


def silenced(by: str, seconds: float, reason: str) -> str:
    """Say who asked for silence, and for how long."""
    return _why(f"silenced by {by} for {age(seconds)}", reason)


def unsilenced(by: str) -> str:
    """Say who ended a silence."""
    return f"silence ended by {by}, what is still wrong is reported again"


def switched(touches: Sequence[Submission]) -> str:
    """Say who pressed or cleared a switch; a press that was cleared at once is one fact."""
    first, last = touches[0], touches[-1]
    what = f"{first.switch} switch {'cleared' if first.cleared else 'set'} by {first.by}"
    if last is first or last.cleared is first.cleared:
        return _why(what, first.reason)
    by = "" if last.by == first.by else f" by {last.by}"
    done = "cleared" if last.cleared else "set again"
    return _why(f"{what} and {done}{by} after {age(last.at - first.at)}", first.reason)


def stopped(by: str, reason: str) -> str:
    """Say who stopped the watchdog, which says so itself as it ends."""
    return _why(f"the watchdog was stopped by {by}, nobody watches now", reason)


def unwatched(begin: float, end: float) -> str:
    """Say for how long nobody watched."""
    return f"nobody watched for {age(end - begin)}, until {local_time(end)}"


# ------------------------------------------------------------------ of watchdogd's own actions


class ActionWords(NamedTuple):
    """An outcome of an action in a first line: `what` came of it, and `why` where that is not all."""

    what: str
    why: str = ""


def outcome(said: Sequence[ActionWords], trigger: str, incident: int, target: str) -> str:
    """Say what watchdogd did about an incident in a first line, the heaviest first, and each of it.

    What has no room are the reasons of the last ones, and then what asked for it.
    """
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


def upcoming(actions: Sequence[NextAction]) -> str:
    """Say what watchdogd will do, and what ends that promise."""
    words = [each.words for each in actions]
    return f"watchdogd will {', then '.join(words)}. An acknowledgement or a silence stops that."


def _why(what: str, reason: str) -> str:
    return f"{what}: {reason}" if reason else what
