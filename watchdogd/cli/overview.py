"""What `watchdogd status` prints, as rich's values made of the picture in status.json. Fits 80 columns."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from watchdogd.cli.output import one_line
from watchdogd.units import format_duration, format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rich.console import RenderableType

    Picture = Mapping[str, Any]
    Seen = Mapping[str, Any]

BAR = 16
"""Signs that a disk's bar is long."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
_STYLES = {"CRITICAL": "bold red", "WARNING": "yellow", "UNKNOWN": "magenta"}
_STATE_STYLES = {"running": "green", "waiting": "cyan", "hung": "bold red", "gone": "bold red"}


@dataclass(frozen=True, slots=True)
class _Results:
    """The latest results of one run or disk by plugin and subject."""

    by_plugin: Mapping[str, Mapping[str, Seen]]
    now: float

    def of(self, plugin: str, subject: str = "") -> Seen | None:
        return self.by_plugin.get(plugin, {}).get(subject)

    def number(self, plugin: str, metric: str, subject: str = "") -> float | None:
        """A metric's value, or None where it was not measured."""
        seen = self.of(plugin, subject)
        value = (seen or {}).get("metrics", {}).get(metric, {}).get("value")
        return None if value is None else float(value)

    def age(self, plugin: str, subject: str = "") -> float:
        """Seconds since it was said: checks have cadences of their own."""
        seen = self.of(plugin, subject)
        return max(self.now - _time(seen["at"]), 0.0) if seen else 0.0


def overview(place: str, picture: Picture, now: float) -> Group:
    """Everything: who watches, what is open, then runs, disks, other checks, and what else is to be said."""
    parts: list[RenderableType] = [*_head(place, picture, now), *map(_incident(now), picture["incidents"])]
    targets = _by_target(picture["checks"])
    runs = {name: _Results(found, now) for (kind, name), found in targets.items() if kind == "run"}
    disks = {name: _Results(found, now) for (kind, name), found in targets.items() if kind == "disk"}
    parts += [Text(), _runs(runs)] if runs else []
    parts += [Text(), _disks(disks)] if disks else []
    parts += _others(picture)
    if picture["alive"] and not picture["checks"]:
        parts.append(Text("nothing is watched yet: watchdogd watch JOB"))
    return Group(*parts)


# ------------------------------------------------------------------ who watches


def _head(place: str, picture: Picture, now: float) -> Iterator[Text]:
    line = Text().append(_short_path(place), style="bold").append("  ")
    if picture["alive"]:
        line.append("alive", style="green").append(f": {picture['holder']}")
    else:
        waits = f"{picture['holder']} is to watch" if picture["holder"] else "watchdogd start"
        line.append("not alive", style="bold red").append(f": {waits}")
    yield line
    last = picture["last_round"]
    ago = f"{format_duration(max(now - _time(last), 0.0))} ago" if last else "never"
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


def _incident(now: float) -> Any:
    """Renders one open incident: what, since when, and who looks after it."""

    def line(incident: Mapping[str, Any]) -> Text:
        subject = f" [{incident['subject']}]" if incident["subject"] else ""
        subject += " (comes and goes: held back)" if incident.get("flapping") else ""
        lasted = format_duration(max(now - _time(incident["opened_at"]), 0.0))
        who = f", {incident['acknowledged_by']} looks after it" if incident.get("acknowledged_by") else ""
        state = f"{incident['status']} {incident['state']} for {lasted}{who}"
        text = Text(f"{incident['id']:>4} ")
        text.append(state, style=_STYLES.get(incident["status"], ""))
        return text.append(f": {one_line(incident['check'])}{subject}: {one_line(incident['summary'])}")

    return line


# ------------------------------------------------------------------ runs


def _runs(runs: Mapping[str, _Results]) -> Table:
    """A row a run; columns of which nothing is known are left out."""
    columns = {
        "run": [Text(one_line(name), overflow="ellipsis", no_wrap=True) for name in runs],
        "state": [
            Text(state := state_of(found), style=_STATE_STYLES.get(state, "")) for found in runs.values()
        ],
        "progress": [Text(_progress(found)) for found in runs.values()],
        "rate": [Text(_rate(found)) for found in runs.values()],
        "left": [Text(_left(found)) for found in runs.values()],
        "log": [Text(_log(found)) for found in runs.values()],
        "GPUs": [Text(_gpus(found)) for found in runs.values()],
        "mem left": [Text(_memory(found)) for found in runs.values()],
    }
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    told = {title: cells for title, cells in columns.items() if title == "run" or any(map(str, cells))}
    for title in told:
        right = title in ("rate", "left", "log", "mem left")
        table.add_column(title, no_wrap=True, overflow="ellipsis", justify="right" if right else "left")
    table.columns[0].min_width = 8
    for row in zip(*told.values(), strict=True):
        table.add_row(*row)
    return table


def state_of(found: _Results) -> str:
    """running, waiting, hung, gone (and that is wrong), none (no job, finished or not seen yet), or `?`."""
    alive = found.of("job_liveness")
    if alive is None or alive["status"] == "UNKNOWN":
        return "?" if alive else ""
    if found.number("job_liveness", "running"):
        log = found.of("log_staleness")
        return "hung" if log and log["status"] == "CRITICAL" else "running"
    if found.number("job_liveness", "waiting"):
        return "waiting"
    return "gone" if alive["status"] == "CRITICAL" else "none"


def _progress(found: _Results) -> str:
    done, total = (found.number("log_staleness", name) for name in ("progress", "total"))
    if done is None:
        epoch, batch = (found.number("log_staleness", name) for name in ("epoch", "batch"))
        return "" if epoch is None or batch is None else f"epoch {epoch:.0f}, batch {batch:.0f}"
    return f"{done:.10g}" + (f"/{total:.10g} {100 * done / total:.0f} %" if total else "")


def _rate(found: _Results) -> str:
    seconds = found.number("log_staleness", "iteration_time")
    if not seconds:
        return ""
    number, unit = (seconds, "s/it") if seconds >= 1 else (1 / seconds, "it/s")
    return f"{number:.{1 if number < 10 else 0}f} {unit}"


def _left(found: _Results) -> str:
    left = found.number("job_liveness", "time_left")
    return "" if left is None else _compact(left - found.age("job_liveness"))


def _log(found: _Results) -> str:
    age = found.number("log_staleness", "age")
    return "" if age is None else _compact(age + found.age("log_staleness"))


def _gpus(found: _Results) -> str:
    """`8: 97 % 412 W`"""
    count = found.number("gpu_health", "gpus")
    figures = [
        f"{value:.0f} {unit}"
        for name, unit in (("utilisation", "%"), ("power", "W"))
        if (value := found.number("gpu_health", name)) is not None
    ]
    return "" if count is None else f"{count:.0f}: {' '.join(figures)}"


def _memory(found: _Results) -> str:
    """What is left on the node that has the least."""
    left = [found.number("memory_leak", "left", node) for node in found.by_plugin.get("memory_leak", {})]
    known = [value for value in left if value is not None]
    return format_size(min(known)) if known else ""


# ------------------------------------------------------------------ disks


def _disks(disks: Mapping[str, _Results]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    table.add_column("disk", no_wrap=True, overflow="ellipsis", min_width=8)
    for title in ("", "", "used", "free", ""):
        table.add_column(title, no_wrap=True, justify="right" if title else "left")
    for name, found in disks.items():
        for row in _disk(name, found):
            table.add_row(*row)
    return table


def _disk(name: str, found: _Results) -> Iterator[tuple[str | Text, ...]]:
    """A row for bytes, one for inodes; one sentence where neither is known."""
    shown = False
    for subject, seen in found.by_plugin.get("disk_quota", {}).items():
        free, total = (found.number("disk_quota", metric, subject) for metric in ("free", "total"))
        if free is None or not total:
            continue
        shown, used = True, min(max(1 - free / total, 0.0), 1.0)
        left = found.number("disk_quota", "full_in", subject)
        age = found.age("disk_quota", subject)
        full = "" if left is None else f"full in {_compact(left - age)}"
        size = f"{free:,.0f}" if seen["metrics"]["free"]["unit"] != "B" else format_size(free)
        style = _STYLES.get(seen["status"], "")
        yield (
            one_line(name),
            subject,
            Text(bar(used), style=style or "green"),
            f"{100 * used:.0f} %",
            size,
            full,
        )
    if not shown:
        told = next(iter(found.by_plugin.get("disk_quota", {}).values()), None)
        yield one_line(name), "", Text(told["status"] if told else "not looked at yet", style="magenta")


def bar(share: float, width: int = BAR) -> str:
    """A share from 0 to 1 as a bar, an eighth of a sign exact: `███▌────`."""
    eighths = round(share * width * 8)
    full, rest = divmod(eighths, 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return drawn + "─" * (width - len(drawn))


# ------------------------------------------------------------------ all the rest


def _others(picture: Picture) -> Iterator[Text]:
    """Checks of neither run nor disk, bad results that are no incident yet, silences, troubles."""
    opened = {(incident["check"], incident["subject"] or "") for incident in picture["incidents"]}
    for seen in picture["checks"]:
        own = seen["check"] == "watchdogd"
        plain = _kind(seen) == "check" and not own
        fresh = seen["status"] != "OK" and (seen["check"], seen["subject"] or "") not in opened
        if plain or (fresh and not own):
            subject = f" [{one_line(seen['subject'])}]" if seen["subject"] else ""
            text = Text().append(seen["status"], style=_STYLES.get(seen["status"], ""))
            yield text.append(f" {one_line(seen['check'])}{subject}: {one_line(seen['summary'])}")
    for silence in picture.get("silences", []):
        reason = f": {one_line(silence['reason'])}" if silence["reason"] else ""
        until = f"{_clock(silence['until'])}, by {one_line(silence['by'])}"
        yield Text(f"silent until {until}: {one_line(silence['target'])}{reason}", style="dim")
    for trouble in picture.get("troubles", []):
        yield Text(f"trouble: {one_line(trouble)}", style="yellow")


def _kind(seen: Seen) -> str:
    if seen["run"] and seen["check"] != seen["target"]:
        return "run"
    return "disk" if seen["check"] == f"{seen['target']}/disk_quota" else "check"


def _by_target(checks: Iterable[Seen]) -> dict[tuple[str, str], dict[str, dict[str, Seen]]]:
    """(kind, name) → plugin → subject → result, in the order of the configuration."""
    found: dict[tuple[str, str], dict[str, dict[str, Seen]]] = defaultdict(lambda: defaultdict(dict))
    for seen in checks:
        kind = _kind(seen)
        if kind != "check":
            name = seen["run"] if kind == "run" else seen["target"]
            found[kind, name][seen["check"].rpartition("/")[2]][seen["subject"] or ""] = seen
    return found


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _clock(text: str) -> str:
    """A time as people say it: `16:10` of today, else with its day."""
    at, today = datetime.fromisoformat(text).astimezone(), datetime.now().astimezone().date()
    return at.strftime("%H:%M") if at.date() == today else at.strftime("%a %d %b %H:%M")


def _compact(seconds: float) -> str:
    """A duration for a cell: `2d23h`, `41m`, `24s`."""
    whole = max(seconds, 0.0)
    return format_duration(whole if whole < 60 else whole - whole % 60)


def _short_path(path: str) -> str:
    own = os.path.expanduser("~")
    return "~" + path[len(own) :] if path.startswith(f"{own}/") else path
