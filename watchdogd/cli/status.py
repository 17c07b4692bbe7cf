"""`watchdogd status`: alive? where? what is open? Reads what the daemon left in home, no database.

Slurm is asked only if no daemon is seen: between two ticks of tick mode, and before the first link starts,
only the queue shows that it will go on. With --nagios, one line as of a Nagios plugin, for other monitors.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

from watchdogd.cli.output import one_line, print_json, print_line, seconds, terminal
from watchdogd.errors import HomeError, SlurmSilentError, UsageError, WatchdogError
from watchdogd.home import lease
from watchdogd.home.layout import Home, no_file
from watchdogd.system.smallfile import MISSHAPEN, STATUS_LIMIT, parse_json, read_plain
from watchdogd.units import iso, local_time

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from watchdogd.batch.models import Job


_COUNTED = ("CRITICAL", "WARNING", "UNKNOWN")


def start_command(home: Home, status: Mapping[str, Any]) -> str:
    """Return the command that starts the watchdog as it was started last; empty if it is alive."""
    from watchdogd.home import markers

    return "" if status["alive"] else home.command(markers.start_verb(home))


def nagios_line(status: dict[str, Any], code: int, start: str = "watchdogd start") -> str:
    """Return `watchdogd CRITICAL - 2 open, first ... | critical=1 warning=1 unknown=0 last_round=12s`."""
    incidents = status["incidents"]
    counts = Counter(incident["status"] for incident in incidents)
    word = ("OK", "WARNING", "CRITICAL", "UNKNOWN")[code]
    said = [f"alive: {status['holder']}" if status["alive"] else f"not alive, to start it: {start}"]
    said += status["troubles"] if status.get("unread") else []
    if incidents:
        said.append(f"{len(incidents)} open, first {incidents[0]['check']}: {incidents[0]['summary']}")
    numbers = [f"{word.lower()}={counts[word]}" for word in _COUNTED]
    if status["last_round"]:
        age = time.time() - datetime.fromisoformat(status["last_round"]).timestamp()
        numbers.append(f"last_round={max(0.0, age):.0f}s")
    # Monitors read what follows a bar as numbers.
    return f"watchdogd {word} - {one_line('; '.join(said)).replace('|', '/')} | {' '.join(numbers)}"


NOT_ALIVE = 3
QUEUE_EVERY = 30.0
"""Seconds between two looks of `--watch` if no daemon is seen, since each asks the queue."""
_EMPTY: dict[str, Any] = {"last_round": None, "link": None, "incidents": [], "gaps": [], "checks": []}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--watch", action="store_true", help="refresh in place until Ctrl-C")
    parser.add_argument("--every", default="2s", metavar="TIME", help="with --watch: how often (2s)")
    parser.add_argument("--nagios", action="store_true", help="one line for another monitor, with numbers")
    parser.add_argument("--json", action="store_true", help="alive, link, last_round, incidents, gaps")


def run(args: argparse.Namespace) -> int:
    """Return 0 if all is OK, 1 for an open warning, 2 for a critical incident, 3 if nobody watches."""
    if args.watch and (args.json or args.nagios):
        raise UsageError("status: --watch draws for people: it goes with neither --json nor --nagios")
    home = Home.existing(args.home)
    if args.watch:
        return _watch(home, max(seconds(args, "--every"), 1.0))
    try:
        return _report(args, home, read(home))
    except MISSHAPEN:
        return _report(
            args, home, read(home, _from_history(home, f"{home.status} holds what no round writes"))
        )


def _report(args: argparse.Namespace, home: Home, status: dict[str, Any]) -> int:
    code = max(_worst(status["incidents"]), status.get("unread", 0)) if status["alive"] else NOT_ALIVE
    line, shown = (
        nagios_line(status, code, start_command(home, status)),
        _shown(home, status) if not (args.json or args.nagios) else None,
    )
    if args.json:
        kept = [{**each, "evidence": home.evidence_of(each["id"])} for each in status["incidents"]]
        print_json({**status, "incidents": kept})
    elif args.nagios:
        print_line(line)
    else:
        terminal().print(shown)
    return code


def read(home: Home, left: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the daemon's last status (`left`, or else status.json), and whether it is alive."""
    status = _left_behind(home) if left is None else left
    status |= _life(home, status) | {"switches": _pressed(home)}
    if status["alive"]:
        return status
    status["stopped"] = _stopped(home)
    if not status["stopped"] and _ticking(home, status):
        return status
    return _by_the_queue(home, status) if os.path.lexists(home.path / "link.json") else status


def _stopped(home: Home) -> dict[str, object] | None:
    """Return who stopped the watchdog for good, when and why; None if nobody did."""
    from watchdogd.home import markers

    signature = markers.stopped_by(home)
    return signature.fields() if signature else None


def _pressed(home: Home) -> list[dict[str, Any]]:
    """Return the switches set in home right now, by whom and why, without waiting for a round."""
    from watchdogd.home import touchfile
    from watchdogd.system.pathname import run_name

    found = []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(home.switches)):
            quoted, _, kind = name.rpartition(".")
            if kind in ("kill", "save") and quoted:
                with contextlib.suppress(OSError):
                    signature = touchfile.read(os.path.join(home.switches, name))
                    found.append({"run": run_name(quoted), "switch": kind, **signature.fields()})
    return found


def _without_file(home: Home) -> dict[str, Any]:
    """Return the status from the history, since status.json has values of unexpected types."""
    return read(home, _from_history(home, f"{home.status} holds what no round writes"))


def _life(home: Home, status: dict[str, Any]) -> dict[str, Any]:
    """Return who acts for home; if the lease cannot be read, a recent round shows a live daemon."""
    try:
        holder = lease.alive(home)
    except OSError as error:
        alive = status["last_round"] is not None and not _stale(status)
        why = str(error.strerror) if error.filename is None else f"{error.filename}: {error.strerror}"
        known = status if why in status.get("troubles", []) else _troubled(status, why)
        return {**known, "alive": alive, "holder": "by its last round" if alive else None}
    starting = {"starting": True, "link": None} if holder and _starting(home, status, holder.job_id) else {}
    alive = holder is not None and not _stale(status)
    return {"holder": str(holder) if holder else None, "alive": alive, **starting}


def _starting(home: Home, status: dict[str, Any], job_id: str) -> bool:
    """Return True if whoever watches, as this job of a chain, has not done a round yet: all is as before."""
    from watchdogd.home import markers

    link, last = status["link"], status["last_round"]
    if link and job_id and str(link.get("job_id")) != job_id:
        return True
    pause = markers.last_pause(home)
    return bool(last and pause and datetime.fromisoformat(last).timestamp() < pause.end)


def _left_behind(home: Home) -> dict[str, Any]:
    """Return status.json, or if it cannot be read, the history's status with `unread` set."""
    try:
        return {**_EMPTY, **parse_json(read_plain(home.status, limit=STATUS_LIMIT))}
    except FileNotFoundError:
        return dict(_EMPTY)  # before the first round
    except (OSError, ValueError, TypeError) as error:
        wrong = home.status.exists() and not home.status.is_file()
        why = no_file(str(home.status)) if wrong else f"{home.status} cannot be read: {error}"
        return _from_history(home, why)


def _from_history(home: Home, why: str) -> dict[str, Any]:
    """Return the history's status in place of status.json, with the reason among the troubles."""
    return {**_troubled({**_EMPTY, **_recorded(home)}, why), "unread": True}


def _recorded(home: Home) -> dict[str, Any]:
    """Return the last round and the open incidents in the history."""
    from watchdogd.cli.lookup import existing_store
    from watchdogd.daemon.status_file import incident_json, open_incidents

    try:
        with existing_store(home) as store:
            past = store.past()
    except WatchdogError as error:
        return {"troubles": [str(error)]}
    last = past.last_round
    return {
        "last_round": None if last is None else iso(last),
        "incidents": [incident_json(incident) for incident in open_incidents(past.alerts)],
    }


def _ticking(home: Home, status: dict[str, Any]) -> bool:
    """Return True if ticks from cron watch: the next one is not overdue."""
    from watchdogd.home import markers

    begins = markers.last_ticks(home)
    due = markers.tick_overdue_at(begins)
    now = time.time()
    if now >= due or begins[-1] > now + markers.CLOCK_AHEAD:
        return False
    status.update(
        alive=True,
        holder=f"by ticks, the last at {local_time(begins[-1])}, the next due by {local_time(due)}",
    )
    return True


def _stale(status: dict[str, Any], least: float = 0.0) -> bool:
    """Return True if rounds have stopped: none for three intervals and a minute.

    An interval counts as at least `least` seconds.
    """
    if status["last_round"] is None:
        return False
    age = time.time() - datetime.fromisoformat(status["last_round"]).timestamp()
    return bool(age > 3 * max(status.get("round_every", 60.0), least) + 60.0)


def _by_the_queue(home: Home, status: dict[str, Any]) -> dict[str, Any]:
    """Ask the queue if no daemon is seen.

    In tick mode it is alive if a link is queued or, if Slurm does not answer, if a tick was not long ago.
    """
    from watchdogd.chain import link_script, live_links
    from watchdogd.config.secret import withhold

    withhold(home)
    ticks = False
    try:
        wish, walltime = link_script.remembered(home)
        if not walltime:
            return status
        ticks = wish.mode == "tick"
        found = live_links.active_links(home)
    except HomeError as error:
        return _troubled(status, str(error))
    except SlurmSilentError as error:
        ticked = ticks and status["last_round"] is not None and not _stale(status, link_script.SHORTEST_TICK)
        holder = "by its last tick" if ticked else None
        return {**_troubled(status, str(error)), "alive": ticked, "holder": holder}
    return _queued(status, found, wish.mode) if found else status


def _queued(status: dict[str, Any], found: tuple[Job, ...], mode: str) -> dict[str, Any]:
    """Return the links in the queue: the running one, else the next one, and its successor."""
    from watchdogd.chain import live_links

    first, *more = sorted(found, key=lambda job: job.waiting)
    successor = live_links.as_json(more[0]) if more else None
    return {
        **_troubled(status, *filter(None, map(live_links.held_up, found))),
        "alive": mode == "tick",
        "holder": live_links.describe(first),
        "link": {**live_links.as_json(first), "mode": mode, "successor": successor},
    }


def _troubled(status: dict[str, Any], *troubles: str) -> dict[str, Any]:
    return {**status, "troubles": [*status.get("troubles", []), *troubles]}


def _worst(incidents: list[dict[str, Any]]) -> int:
    statuses = {incident["status"] for incident in incidents}
    if "CRITICAL" in statuses:
        return 2
    return 1 if statuses else 0


def _watch(home: Home, every: float) -> int:
    """Refresh the status in place until Ctrl-C; if the output cannot be overwritten, print it repeatedly."""
    from watchdogd.cli.status_screen import live_view

    with live_view() as draw:
        while True:
            try:
                draw(_shown(home, read(home)))
            except MISSHAPEN:
                draw(_shown(home, _without_file(home)))
            time.sleep(every if lease.alive(home) else max(every, QUEUE_EVERY))


def _shown(home: Home, status: dict[str, Any]) -> Any:
    from watchdogd.cli.status_screen import overview

    return overview(home, status, time.time())
