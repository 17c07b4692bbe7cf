"""What `watchdogd status` prints, as rich's values made of the picture in status.json. Fits 80 columns
of a terminal."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from watchdogd.cli.output import one_line
from watchdogd.cli.tables import STYLES, disk_table, kind_of, results_of, run_table
from watchdogd.system.times import short_time
from watchdogd.units import format_duration
from watchdogd.web.columns import columns_of, time_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import RenderableType

    Picture = Mapping[str, Any]


def overview(place: str, picture: Picture, now: float) -> Group:
    """Everything: who watches, what is open, then runs, disks, other checks, and what else is to be said."""
    parts: list[RenderableType] = [*_head(place, picture, now)]
    parts += [_incident(each, now) for each in picture["incidents"]]
    columns = columns_of(picture)
    if runs := results_of("run", picture, now):
        parts += [Text(), run_table(runs, columns)]
    if disks := results_of("disk", picture, now):
        parts += [Text(), disk_table(disks, columns)]
    parts += _others(picture)
    if picture["alive"] and picture["last_round"] and not (picture["checks"] or picture.get("unread")):
        parts.append(Text("nothing is watched yet: watchdogd watch JOB"))
    return Group(*parts)


def _head(place: str, picture: Picture, now: float) -> Iterator[Text]:
    line = Text().append(_short_path(place), style="bold").append("  ")
    if picture["alive"]:
        line.append("alive", style="green").append(f": {one_line(picture['holder'])}")
    else:
        waits = f"{one_line(picture['holder'])} is to watch" if picture["holder"] else "watchdogd start"
        line.append("not alive", style="bold red").append(f": {waits}")
    yield line
    last = picture["last_round"]
    ago = f"{format_duration(max(now - time_of(last), 0.0))} ago" if last else "never"
    yield Text(
        f"last round: {ago}{'; what follows is as it was then' if last and not picture['alive'] else ''}"
    )
    if picture["link"] and picture["holder"]:
        yield Text(one_line(_link(picture["link"])))
    for gap in picture["gaps"]:
        yield Text(f"unwatched: {_clock(gap['begin'])} to {_clock(gap['end'])}: {one_line(gap['reason'])}")


def _link(link: Mapping[str, Any]) -> str:
    """`link: job 30 on node1, until 16:10; its successor, job 31, is PENDING (Priority), expected on n2`."""
    where = f" on {link['node']}" if link.get("node") else ""
    until = f", until {_clock(link['ends_at'])}" if link.get("ends_at") else ""
    successor = link.get("successor")
    then = "no successor is known yet"
    if successor:
        reason = f" ({successor['reason']})" if successor.get("reason") else ""
        then = f"its successor, job {successor.get('job_id')}, is {successor.get('state')}{reason}"
        then += f" on {successor['node']}" if successor.get("node") else ""
        then += f", expected on {successor['expected_node']}" if successor.get("expected_node") else ""
    return f"link: job {link.get('job_id')}{where}{until}; {then}"


def _incident(incident: Mapping[str, Any], now: float) -> Text:
    """What is open, since when, and who looks after it."""
    subject = f" [{one_line(incident['subject'])}]" if incident["subject"] else ""
    subject += " (comes and goes: held back)" if incident.get("flapping") else ""
    lasted = format_duration(max(now - time_of(incident["opened_at"]), 0.0))
    state = f"{incident['status']} open for {lasted}"
    if incident.get("acknowledged_by"):
        state += f", acknowledged by {incident['acknowledged_by']}"
    if incident.get("acknowledged_at"):
        state += f" {format_duration(max(now - time_of(incident['acknowledged_at']), 0.0))} ago"
    text = Text(f"{incident['id']:>4} ")
    text.append(one_line(state), style=STYLES.get(incident["status"], ""))
    return text.append(f": {one_line(incident['check'])}{subject}: {one_line(incident['summary'])}")


def _others(picture: Picture) -> Iterator[Text]:
    """Checks of neither run nor disk, bad results and troubles that are no incident yet, silences."""
    opened = {(incident["check"], incident["subject"] or "") for incident in picture["incidents"]}
    for seen in picture["checks"]:
        own = seen["check"] == "watchdogd"
        plain = kind_of(seen, picture) == "check" and not own
        fresh = seen["status"] != "OK" and (seen["check"], seen["subject"] or "") not in opened
        if plain or (fresh and not own):
            subject = f" [{one_line(seen['subject'])}]" if seen["subject"] else ""
            text = Text().append(one_line(seen["status"]), style=STYLES.get(seen["status"], ""))
            yield text.append(f" {one_line(seen['check'])}{subject}: {one_line(seen['summary'])}")
    for silence in picture.get("silences", []):
        reason = f": {one_line(silence['reason'])}" if silence["reason"] else ""
        until = f"{_clock(silence['until'])}, by {one_line(silence['by'])}"
        yield Text(f"silent until {until}: {one_line(silence['target'])}{reason}", style="dim")
    told = {incident["summary"] for incident in picture["incidents"]}
    for trouble in picture.get("troubles", []):
        if trouble in told:
            continue
        yield Text(f"trouble: {one_line(trouble)}", style="yellow")


def _clock(text: str) -> str:
    return short_time(time_of(text), time.time())


def _short_path(path: str) -> str:
    own = os.path.expanduser("~")
    return "~" + path[len(own) :] if path.startswith(f"{own}/") else path
