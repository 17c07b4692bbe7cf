"""Tables and lines of `watchdogd status`: rich objects made from status.json, 80 columns wide."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from watchdogd.batch.run_models import run_state
from watchdogd.cli.output import named, one_line, terminal
from watchdogd.home import markers
from watchdogd.plugin import Status
from watchdogd.system.times import short_time
from watchdogd.units import age, format_size
from watchdogd.web.columns import (
    ROUND,
    STATE_WORDS,
    cells_of,
    columns_of,
    compact,
    dated,
    disk_checks,
    doubt,
    room_of,
    shown_state,
    standstills,
    switch_line,
    time_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rich.console import JustifyMethod

    from watchdogd.declaration import Column
    from watchdogd.home.layout import Home

    Seen = Mapping[str, Any]
    """One result, as status.json has it."""

BAR = 16
"""Length of a disk's bar in characters."""
STYLES = {"CRITICAL": "bold red", "WARNING": "yellow", "UNKNOWN": "magenta"}
"""Colours of results by status."""
_WEIGHTS = {status: weight for weight, status in enumerate(STYLES)}
_EIGHTHS = " ▏▎▍▌▋▊▉"
_STATE_STYLES = {
    "running": "green",
    "doubtful": "yellow",
    "starting": "cyan",
    "suspended": "yellow",
    "waiting": "cyan",
    "hung": "bold red",
    "failing": "bold red",
    "diverged": "bold red",
    "gone": "bold red",
}


@contextmanager
def live_view() -> Iterator[Callable[[RenderableType], object]]:
    """Yield a function that draws over the last output; if that cannot be done, below it."""
    console = terminal()
    if not console.is_terminal or console.is_dumb_terminal:
        yield console.print
        return
    from rich.live import Live  # imported late: plain `status` opens five files fewer

    with Live(console=console, auto_refresh=False) as screen:
        yield partial(screen.update, refresh=True)


@dataclass(frozen=True, slots=True)
class Results:
    """The latest results of one run or disk; `every`: seconds from round to round."""

    seen: tuple[Seen, ...]
    now: float
    every: float = ROUND

    @property
    def weight(self) -> int:
        """Severity of the worst of them, by which rows are sorted."""
        return max((Status[seen["status"]].severity for seen in self.seen), default=0)

    def cells(self, columns: Mapping[str, Column]) -> dict[str, str]:
        """Return the text of each column that has one."""
        found = cells_of(self.seen, columns, self.now, self.every)
        return {title: one_line(text) for title, text in found.items()}


def kind_of(seen: Seen, status: Mapping[str, Any]) -> str:
    """Return what the check of this result watches: `run`, `disk`, or else `check`."""
    if seen["run"] and seen["check"] != seen["target"]:
        return "run"
    return "disk" if seen["check"] in disk_checks(status) else "check"


def results_of(kind: str, status: Mapping[str, Any], now: float) -> dict[str, Results]:
    """Return the results of each run, or each disk, by name, in the order of the configuration."""
    found: dict[str, list[Seen]] = defaultdict(list)
    disks = disk_checks(status)
    for seen in status["checks"]:
        if kind == "run" and seen["run"]:
            found[seen["run"]].append(seen)
        elif kind == "disk" and seen["check"] in disks:
            found[seen["target"]].append(seen)
    every = status.get("round_every") or ROUND
    return {name: Results(tuple(each), now, every) for name, each in found.items()}


def run_table(runs: Mapping[str, Results], columns: Mapping[str, Column], status: Mapping[str, Any]) -> Table:
    """Return a table with a row for each run; empty columns are left out."""
    cells = {name: found.cells(columns) for name, found in runs.items()}
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    table.add_column("run", no_wrap=True, overflow="ellipsis", min_width=8)
    table.add_column("state", no_wrap=True, overflow="ellipsis")
    shown = _shown(table, cells.values(), columns)
    for name, found in sorted(runs.items(), key=lambda item: -item[1].weight):
        row = (Text(cells[name].get(title, "")) for title in shown)
        table.add_row(Text(one_line(name), overflow="ellipsis", no_wrap=True), _state(found, status), *row)
    return table


def _shown(table: Table, rows: Iterable[Mapping[str, str]], columns: Mapping[str, Column]) -> tuple[str, ...]:
    """Add the columns that are not empty to the table; return their titles."""
    filled = {title for row in rows for title, text in row.items() if text}
    titles = tuple(title for title in columns if title in filled)
    for title in titles:
        side: JustifyMethod = "right" if columns[title].right else "left"
        table.add_column(one_line(title), no_wrap=True, overflow="ellipsis", justify=side)
    return titles


def _state(found: Results, status: Mapping[str, Any]) -> Text:
    """Return the run's state; green only if it runs and no check doubts its progress."""
    critical = {
        (each["check"], each.get("subject") or "")
        for each in status.get("incidents", ())
        if each["status"] == "CRITICAL"
    }
    state = shown_state(run_state(found.seen), doubt(found.seen, status), critical)
    return Text(STATE_WORDS.get(state, state), style=_STATE_STYLES.get(state, ""))


def disk_table(disks: Mapping[str, Results], columns: Mapping[str, Column]) -> Table:
    """Return a table with two rows for each disk, bytes and inodes, and the columns of other checks."""
    cells = {name: found.cells(columns) for name, found in disks.items()}
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    table.add_column("disk", no_wrap=True, overflow="ellipsis", min_width=8)
    for title in ("", "", "used", "free", ""):
        table.add_column(title, no_wrap=True, justify="right" if title else "left")
    shown = _shown(table, cells.values(), columns)
    for name, found in disks.items():
        for number, row in enumerate(_disk(name, found)):
            own = (Text("" if number else cells[name].get(title, "")) for title in shown)
            table.add_row(*row, *own)
    return table


def _disk(name: str, found: Results) -> Iterator[tuple[str | Text, ...]]:
    """Yield a row for bytes and one for inodes, if their size is known; else one word."""
    shown = False
    for seen in found.seen:
        room = room_of(seen)
        if room is None:
            continue
        shown = True
        full = (
            ""
            if room.full_in is None
            else f"full in {compact(room.full_in - (found.now - time_of(seen['at'])))}"
        )
        size = format_size(room.free) if room.unit == "B" else f"{room.free:,.0f}"
        yield (
            one_line(name),
            one_line(room.subject),
            Text(bar(room.used), style=STYLES.get(room.status, "") or "green"),
            f"{100 * room.used:.0f} %",
            dated(size, seen, found.now, found.every),
            full,
        )
    if not shown:
        word = found.seen[0]["status"] if found.seen else "not looked at yet"
        yield one_line(name), "", Text(word, style="magenta"), "", "", ""


def bar(share: float, width: int = BAR) -> str:
    """Draw a share from 0 to 1 as a bar, exact to an eighth of a character: `███▌────`."""
    eighths = round(share * width * 8)
    full, rest = divmod(eighths, 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return drawn + "─" * (width - len(drawn))


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import RenderableType

    StatusFile = Mapping[str, Any]


def overview(home: Home, status: StatusFile, now: float) -> Group:
    """Return everything: who watches, what is open, then runs, disks, other checks, and the rest."""
    parts: list[RenderableType] = [*_head(home, status, now)]
    parts += [_incidents(_by_weight(status), now)] if status["incidents"] else []
    parts += [_action(each, now) for each in status.get("actions", [])]
    columns = columns_of(status)
    if runs := results_of("run", status, now):
        parts += [Text(), run_table(runs, columns, status)]
    if disks := results_of("disk", status, now):
        parts += [Text(), disk_table(disks, columns)]
    parts += _others(status, now)
    if status["alive"] and status["last_round"] and not (status["checks"] or status.get("unread")):
        parts.append(Text(f"nothing is watched yet: {home.command('watch JOB')}"))
    return Group(*parts)


def _head(home: Home, status: StatusFile, now: float) -> Iterator[Text]:
    line = Text().append(_short_path(str(home.path)), style="bold").append("  ")
    if status["alive"]:
        line.append("alive", style="green").append(f": {one_line(status['holder'])}")
    else:
        waits = f", to start it: {home.command(markers.start_verb(home))}"
        if status["holder"]:
            waits = f": {one_line(status['holder'])} is to watch"
        starts = status["holder"] and not status["last_round"]
        line.append("not alive yet" if starts else "not alive", style="bold red").append(waits)
    yield line
    if stopped := status.get("stopped"):
        yield Text(_stop(stopped, now))
    if status["alive"] and status.get("starting"):
        yield Text("starting: its first round is not done yet", style="cyan")
    last, old = status["last_round"], status.get("starting") or not status["alive"]
    ago = f"{age(now - time_of(last))} ago" if last else "never"
    yield Text(f"last round: {ago}{'; what follows is as it was then' if last and old else ''}")
    if status["link"] and status["holder"]:
        yield Text(one_line(_link(status["link"])))
    for gap in status["gaps"]:
        yield Text(f"unwatched: {_clock(gap['begin'])} to {_clock(gap['end'])}: {one_line(gap['reason'])}")


def _stop(stopped: Mapping[str, str], now: float) -> str:
    """Return `stopped by alice on login1 3h ago: the cluster is serviced`."""
    where = f" on {stopped['host']}" if stopped["host"] else ""
    why = f": {stopped['reason']}" if stopped["reason"] else ""
    ago = age(now - time_of(stopped["at"]))
    return one_line(f"stopped by {stopped['by']}{where} {ago} ago{why}")


def _link(link: Mapping[str, Any]) -> str:
    """Return `link: job 30 on node1, until 16:10; its successor, job 31, is PENDING (Priority), ...`."""
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


def _by_weight(status: StatusFile) -> list[Mapping[str, Any]]:
    """Return the open incidents by weight; of equal ones, first those of runs that stand still."""
    standing = standstills(status)
    return sorted(
        status["incidents"],
        key=lambda each: (
            _WEIGHTS.get(each["status"], len(_WEIGHTS)),
            bool(each.get("acknowledged_by")),
            (each["check"], each["subject"] or "") not in standing,
        ),
    )


def _incidents(incidents: Iterable[Mapping[str, Any]], now: float) -> Table:
    return incident_table((f"#{each['id']}", _incident(each, now)) for each in incidents)


def incident_table(lines: Iterable[tuple[str, Text]]) -> Table:
    """Return a line for each incident, its number first; what does not fit continues below its text."""
    table = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    for number, text in lines:
        table.add_row(number, text)
    return table


def _incident(incident: Mapping[str, Any], now: float) -> Text:
    """Return the line of an open incident: its age, who acknowledged it, the check's summary."""
    name = named(incident["check"], incident["subject"], incident.get("target") or "")
    name += " (comes and goes: held back)" if incident.get("flapping") else ""
    lasted = age(now - time_of(incident.get("since") or incident["opened_at"]))
    state = f"{incident['status']} open for {lasted}"
    if incident.get("acknowledged_by"):
        state += f", acknowledged by {incident['acknowledged_by']}"
    if incident.get("acknowledged_at"):
        state += f" {age(now - time_of(incident['acknowledged_at']))} ago"
    text = Text().append(one_line(state), style=STYLES.get(incident["status"], ""))
    return text.append(f": {name}: {one_line(incident['summary'])}")


def _action(action: Mapping[str, Any], now: float) -> Text:
    """Return the line about what watchdogd does, or is about to do, about an incident."""
    began = action["began"] and age(now - time_of(action["began"]))
    does = action.get("will") or action["action"]
    what = f"{does}, begun {began} ago" if began else f"watchdogd will {does}"
    by = f"({action['trigger']}, incident {action['incident']})"
    return Text(one_line(f"ACTION pending: {action['run']}: {what} {by}"), style="bold")


def _others(status: StatusFile, now: float) -> Iterator[Text]:
    """Yield everything else, most important first.

    These are good checks of neither run nor disk, bad results without an incident, switches, silences,
    troubles.
    """
    opened = {(incident["check"], incident["subject"] or "") for incident in status["incidents"]}
    for seen in sorted(status["checks"], key=lambda seen: _WEIGHTS.get(seen["status"], len(_WEIGHTS))):
        own = seen["check"] == "watchdogd"
        if own or (seen["check"], seen["subject"] or "") in opened:
            continue
        if seen["status"] != "OK" or kind_of(seen, status) == "check":
            text = Text().append(one_line(seen["status"]), style=STYLES.get(seen["status"], ""))
            yield text.append(f" {named(seen['check'], seen['subject'])}: {one_line(seen['summary'])}")
    for switch in status.get("switches", []):
        ago = age(now - time_of(switch["at"]))
        yield Text(one_line(f"{switch_line(switch)[0]} {ago} ago{switch_line(switch)[1]}"), style="yellow")
    for silence in status.get("silences", []):
        reason = f": {one_line(silence['reason'])}" if silence["reason"] else ""
        until = f"{_clock(silence['until'])} by {one_line(silence['by'])}"
        yield Text(f"{one_line(silence['target'])} silenced until {until}{reason}", style="dim")
    known = {incident["summary"] for incident in status["incidents"]}
    for trouble in status.get("troubles", []):
        if trouble in known:
            continue
        yield Text(f"trouble: {one_line(trouble)}", style="yellow")


def _clock(text: str) -> str:
    return short_time(time_of(text), time.time())


def _short_path(path: str) -> str:
    own = os.path.expanduser("~")
    return "~" + path[len(own) :] if path.startswith(f"{own}/") else path
