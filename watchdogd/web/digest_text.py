"""The morning message: what a day did to each run, and what the watchdog missed. Pure.

It replaces the dashboards that people opened in the morning: progress, hours lost and why, incidents, how
long disks last, how long jobs waited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from watchdogd.incidents import message_wording
from watchdogd.notify.notification import Message
from watchdogd.plugin import Status
from watchdogd.system.text import one_line
from watchdogd.system.times import short_time
from watchdogd.units import format_size, iso
from watchdogd.web.columns import STATE_WORDS, DiskRoom, disks_of
from watchdogd.web.run_forecast import LOST, coarse, headline

if TYPE_CHECKING:
    from watchdogd.incidents.models import Incident
    from watchdogd.web.content import PageContent, RunRow

DAY = 86_400.0
"""Seconds that a digest covers by default."""
REASONS = 5
"""How many incidents are named as reasons for a run's lost hours, and how many others of one kind."""
_UNSENT = {"expired": "never delivered", "failed": "refused"}


def digest(content: PageContent) -> Message:
    """Return the message about the time from `content.since` to `content.at`."""
    states = [run.state for run in content.runs]
    lost = sum(_seconds(run, *LOST) for run in content.runs)
    opened = len(content.open)
    fact = "; ".join(
        (headline(states), f"{coarse(lost)} lost" if lost >= 1 else "nothing lost", f"{opened} open")
    )
    parts = [*(_of_run(run, content) for run in content.runs), _of_disks(content.status), _incidents(content)]
    parts.append(_itself(content))
    since = f"Since {short_time(content.since, content.at)}."
    return Message(
        headline=message_wording.first_line("INFO", content.name, fact),
        body="\n\n".join(part for part in (since, *parts) if part),
        status="INFO",
        target=one_line(content.name, 100),
        thread=f"morning-{iso(content.at)}",
        at=content.at,
    )


def as_json(content: PageContent, message: Message) -> dict[str, Any]:
    """Return the same as JSON values."""
    return {
        "since": iso(content.since),
        "at": iso(content.at),
        "headline": message.headline,
        "body": message.body,
        "runs": [
            {
                "run": run.name,
                "state": run.state,
                "done": run.far.done,
                "total": run.far.total,
                "gained": run.gained,
                "left_seconds": run.far.eta.left if run.far.eta else None,
                "lost_seconds": _seconds(run, *LOST),
                "waited_seconds": _seconds(run, "waiting"),
                "unwatched_seconds": _unwatched(run, content),
            }
            for run in content.runs
        ],
        "open": len(content.open),
        "resolved": len(content.over),
        "gaps": [
            {"begin": iso(gap.begin), "end": iso(gap.end), "reason": gap.reason} for gap in content.gaps
        ],
    }


def _seconds(run: RunRow, *states: str) -> float:
    return sum(run.totals.get(state, 0.0) for state in states)


def _of_run(run: RunRow, content: PageContent) -> str:
    """Return how far a run is, what it gained, and what held it up."""
    lines = [f"{one_line(run.name, 100)}: {', '.join(_far(run))}"]
    held_up = ((STATE_WORDS.get(state, state), run.totals.get(state, 0.0)) for state in LOST)
    losses = [f"{word} {coarse(seconds)}" for word, seconds in held_up if seconds]
    if losses:
        lines.append(f"lost {coarse(_seconds(run, *LOST))}: {', '.join(losses)}")
        lines += _reasons(run, content)
    if (waited := _seconds(run, "waiting")) >= 60:
        lines.append(f"waited {coarse(waited)} in the queue")
    if (unseen := _unwatched(run, content)) >= 60:
        lines.append(f"unwatched for {coarse(unseen)}")
    return "\n".join(lines)


def _unwatched(run: RunRow, content: PageContent) -> float:
    """Return seconds for which nobody watched the run, since it first stood in config.toml in this time."""
    later = sum(span.end - span.begin for span in run.spans[1:] if span.state == "unwatched")
    if not run.spans or run.spans[0].state != "unwatched":
        return later
    first = run.spans[0]  # before its first reading only a time without rounds was missed
    missed = (min(first.end, gap.end) - max(first.begin, gap.begin) for gap in content.gaps)
    return later + sum(seconds for seconds in missed if seconds > 0)


def _far(run: RunRow) -> Iterator[str]:
    far = run.far
    yield STATE_WORDS.get(run.state, run.state)
    if far.done is not None:
        whole = f"/{far.total:,.0f} ({far.share:.0%})" if far.total and far.share is not None else ""
        yield f"{far.done:,.0f}{whole} {far.units}"
    if run.gained is not None:
        back = f"back by {-run.gained:,.0f}" if run.gained < 0 else f"{run.gained:+,.0f}"
        yield back if run.gained else "none of them new"
    if far.eta is not None:
        spread = f" ({far.eta.spread})" if far.eta.spread else ""
        yield f"{coarse(far.eta.left)} left{spread}"


def _reasons(run: RunRow, content: PageContent) -> Iterator[str]:
    """Yield why hours were lost: the critical incidents of that time, the longest first."""
    found = [row.incident for row in run.incidents if row.incident.status is Status.CRITICAL]
    found = [each for each in found if each.resolved_at is None or each.resolved_at > content.since]
    for each in sorted(found, key=lambda each: -_lasted(each, content))[:REASONS]:
        yield f"- {coarse(_lasted(each, content))}: {one_line(each.summary, 200)}"


def _lasted(incident: Incident, content: PageContent) -> float:
    """Return how many seconds of an incident are within the time."""
    end = content.at if incident.resolved_at is None else incident.resolved_at
    return max(end - max(incident.began, content.since), 0.0)


def _of_disks(status: Mapping[str, Any]) -> str:
    return "\n".join(_disk(disk) for disk in disks_of(status))


def _disk(disk: DiskRoom) -> str:
    free = format_size(int(disk.free)) if disk.unit == "B" else f"{disk.free:,.0f}"
    until = f", full in {coarse(disk.full_in)}" if disk.full_in is not None else ""
    return f"{one_line(f'{disk.name} {disk.subject}'.strip(), 100)}: {disk.used:.0%} used, {free} free{until}"


def _incidents(content: PageContent) -> str:
    if not (content.open or content.over):
        return "No incidents."
    begun = sum(row.incident.opened_at >= content.since for row in (*content.open, *content.over))
    lines = [f"Incidents: {begun} new, {len(content.over)} resolved, {len(content.open)} open"]
    lines += [_open(row.incident, content) for row in content.open[:REASONS]]
    if (more := len(content.open) - REASONS) > 0:
        lines.append(f"- and {more} more")
    return "\n".join(lines)


def _open(incident: Incident, content: PageContent) -> str:
    by = f", acknowledged by {incident.acknowledged_by}" if incident.acknowledged_by else ""
    fact = one_line(f"{incident.target}: {incident.summary}", 200)
    return f"- {incident.id} [{incident.status.name}] {fact} (for {coarse(content.at - incident.began)}{by})"


def _itself(content: PageContent) -> str:
    """Return what the watchdog itself missed: times without rounds, undelivered messages, troubles."""
    lines = [
        f"- nobody watched from {short_time(gap.begin, content.at)} to {short_time(gap.end, content.at)}: "
        f"{one_line(gap.reason, 200)}"
        for gap in content.gaps
    ]
    lines += [f"- {line}" for line in _unsent(content)]
    lines += [f"- {one_line(str(trouble), 200)}" for trouble in content.status.get("troubles", ())]
    return "\n".join(("What the watchdog missed:", *lines)) if lines else "The watchdog missed nothing."


def _unsent(content: PageContent) -> Iterable[str]:
    for row in content.messages:
        for each in row.sent:
            if each.state in _UNSENT:
                said = f"{short_time(row.at, content.at)}: {one_line(row.message.headline, 200)}"
                yield f"{_UNSENT[each.state]} on {each.channel}, of {said}"
