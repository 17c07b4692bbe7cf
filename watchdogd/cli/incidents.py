"""`watchdogd incidents`: what is open, or what was; `ack`, `silence`, `unsilence`: the answers to it."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from watchdogd.cli.lookup import known_target, silenced_targets, store_of
from watchdogd.cli.output import clean, complain, named, one_line, print_json, print_line, seconds, terminal
from watchdogd.daemon.status_file import incident_json
from watchdogd.errors import UsageError, WatchdogError
from watchdogd.home.inbox_submit import submit
from watchdogd.home.layout import Home
from watchdogd.incidents.models import Incident
from watchdogd.system.account import own_name
from watchdogd.system.smallfile import STATUS_LIMIT, parse_json, read_plain
from watchdogd.system.text import close_to
from watchdogd.system.times import short_time
from watchdogd.units import age, format_duration, iso, local_time
from watchdogd.web.columns import standstills, time_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `incidents`, `ack`, `silence` and `unsilence`."""
    verb = parser.get_default("verb")
    if verb == "unsilence":
        parser.add_argument("target", metavar="TARGET", help="as it was silenced")
        parser.add_argument("--json", action="store_true", help="print what was done as JSON")
        return
    if verb == "silence":
        parser.add_argument("target", metavar="TARGET", help="a run, a disk, a check (run-17/log_staleness)")
        parser.add_argument("--for", required=True, metavar="DURATION", help="30m, 2h, 1d")
        parser.add_argument("--reason", default="", metavar="TEXT", help="for the team and the log")
        parser.add_argument("--json", action="store_true", help="print the silence as JSON")
        return
    if verb == "ack":
        parser.add_argument("id", metavar="ID", type=int, nargs="+", help="as 'watchdogd incidents' shows it")
        parser.add_argument("--reason", default="", metavar="TEXT", help="for the team and the log")
        parser.add_argument("--json", action="store_true", help="print what was acknowledged as JSON")
        return
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a run, a disk or a check")
    parser.add_argument("--all", action="store_true", help="resolved ones too")
    parser.add_argument("--since", default="30d", metavar="TIME", help="with --all: how far back (30d)")
    parser.add_argument("--json", action="store_true", help="a list of incidents")


def run(args: argparse.Namespace) -> int:
    """Print incidents (open ones by weight, all by time), or pass an answer to the daemon for its next round.

    Return 1 if no incident ever had such a name or number.
    """
    return {"ack": _acknowledge, "silence": _silence, "unsilence": _unsilence}.get(args.verb, _list)(args)


def _list(args: argparse.Namespace) -> int:
    now = time.time()
    since = now - seconds(args, "--since") if args.all else None
    home = Home.existing(args.home)
    with store_of(home) as store:
        found = store.incidents(open_only=not args.all, since=since, target=args.target)
        if args.target and not found and not store.incidents(target=args.target):
            known_target(home, args.target)
    if args.json:
        known = open_incidents(home) or {}
        print_json([_json(home, incident, known.get(incident.id, {})) for incident in found])
        return 0
    marks: dict[int, str] = {}
    standing: frozenset[tuple[str, str]] = frozenset()
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        last = _last_round(home)
        marks = _marks(last, [each for each in found if each.resolved_at is None])
        standing = standstills(last)
    if args.all:
        found.sort(key=lambda incident: incident.opened_at)
    else:
        found.sort(key=lambda incident: incident.weight_among(standing))
    if found:
        _print(found, marks, now)
    else:
        print_line("no incidents" if args.all else "no open incidents")
    return 0


def _print(found: list[Incident], marks: Mapping[int, str], now: float) -> None:
    """Print a line for each incident, folded to the terminal's width."""
    from rich.text import Text

    from watchdogd.cli.status_screen import STYLES, incident_table

    def line(incident: Incident) -> tuple[str, Text]:
        style = STYLES.get(incident.status.name, "") if incident.resolved_at is None else ""
        text = Text().append(f"{incident.status.name:8}", style=style)
        what = f"{named(incident.check, incident.subject, incident.target)}: {one_line(incident.summary)}"
        return f"#{incident.id:<4}", text.append(
            f" {_state(incident, now)}{marks.get(incident.id, '')}: {what}"
        )

    terminal().print(incident_table(map(line, found)))


def _marks(last: Mapping[str, Any], found: Iterable[Incident]) -> dict[int, str]:
    """Return why no message comes of open incidents: `, comes and goes`, `, silenced by bob until 12:40`."""
    flapping = {each["id"] for each in last["incidents"] if each.get("flapping")}
    good = {(each["check"], each["subject"] or "") for each in last["checks"] if each["status"] == "OK"}
    marks = {}
    for each in found:
        names = {each.target, each.run, each.check, each.check.rpartition("/")[2]} - {""}
        said = ""
        if each.id in flapping:
            said = ", comes and goes" + (", good just now" if (each.check, each.subject) in good else "")
        silence = next((one for one in last.get("silences", []) if one["target"] in names), None)
        if silence:
            until = short_time(time_of(silence["until"]), time.time())
            said += f", silenced by {one_line(silence['by'])} until {until}"
        marks[each.id] = said
    return marks


def _json(home: Home, incident: Incident, known: dict[str, Any]) -> dict[str, Any]:
    """Return an incident as JSON, with what the last round knew, and where its evidence is."""
    said: dict[str, Any] = {name: known[name] for name in ("facts", "advice") if name in known}
    return {**incident_json(incident), **said, "evidence": home.evidence_of(incident.id)}


def _state(incident: Incident, now: float) -> str:
    """Return `open for 2h`, `open for 2h, acknowledged by bob 5m ago`, or `resolved after 2h`."""
    over = incident.resolved_at
    lasted = age((now if over is None else over) - incident.began)
    if over is not None:
        return f"resolved after {lasted}"
    if not incident.acknowledged_by:
        return f"open for {lasted}"
    at = incident.acknowledged_at
    ago = "" if at is None else f" {age(now - at)} ago"
    return f"open for {lasted}, acknowledged by {incident.acknowledged_by}{ago}"


def _acknowledge(args: argparse.Namespace) -> int:
    """Pass the acknowledgements to the daemon for its next round. Return 1 if one is not open."""
    home = Home.existing(args.home)
    known, chosen, code = open_incidents(home), [], 0
    for number in dict.fromkeys(args.id):
        try:
            chosen.append(_chosen(number, known))
        except WatchdogError as error:  # an ended one must not keep others from being acknowledged
            code = complain(error)
    for incident in chosen:
        submit(str(home.inbox), "ack", str(incident["id"]), id=incident["id"], reason=args.reason)
    if args.json:
        taken = {"state": "acknowledged", "acknowledged_by": own_name()}
        print_json([incident | taken for incident in chosen])
        return code
    for incident in chosen:
        print_line(f"incident {incident['id']} is acknowledged{_about(incident)}")
    return code


def open_incidents(home: Home) -> dict[int, dict[str, Any]] | None:
    """Return the open incidents of the daemon's last round by number; None if they cannot be read."""
    try:
        return {int(incident["id"]): incident for incident in _last_round(home)["incidents"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _last_round(home: Home) -> dict[str, Any]:
    """Return what this verb needs of status.json. Raise OSError and others if it cannot be read."""
    try:
        return dict(parse_json(read_plain(home.status, limit=STATUS_LIMIT)))
    except FileNotFoundError:
        return {"incidents": [], "checks": []}  # there was no round yet


def _chosen(number: int, known: dict[int, dict[str, Any]] | None) -> dict[str, Any]:
    if known is None:
        return {"id": number}
    if number not in known:
        some = ", ".join(map(str, sorted(known)[:12]))
        hint = close_to(str(number), [*map(str, known)]) or (f"; open: {some}" if some else "; none is open")
        raise WatchdogError(f"there is no open incident {number}{hint}")
    return known[number]


def _about(incident: dict[str, Any]) -> str:
    words = [str(incident.get(key) or "") for key in ("check", "summary")]
    return clean(": ".join(["", *(word for word in words if word)]))


def _silence(args: argparse.Namespace) -> int:
    length = seconds(args, "--for")
    if length <= 0:
        raise UsageError("silence: --for needs a duration above zero; 'watchdogd unsilence' ends a silence")
    home = Home.existing(args.home)
    target = known_target(home, args.target)
    submit(str(home.inbox), "silence", target, target=target, seconds=length, reason=args.reason)
    at = time.time() + length
    if args.json:
        print_json({"target": target, "until": iso(at), "reason": args.reason})
    else:
        print_line(f"{target} is silenced for {format_duration(length)}, until {local_time(at)}")
    return 0


def _unsilence(args: argparse.Namespace) -> int:
    """Request the end of a silence; say so if nothing is known to be silenced."""
    home = Home.existing(args.home)
    target = known_target(home, args.target)
    silent = silenced_targets(home)
    was_silent = silent is None or target in silent
    submit(str(home.inbox), "unsilence", target, target=target)
    if args.json:
        print_json({"target": target, "until": None, "was_silent": was_silent})
    elif was_silent:
        print_line(f"{target} is no longer silenced; what is still wrong is reported in the next round")
    else:
        others = f"; silenced: {', '.join(sorted(silent or ()))}" if silent else ""
        print_line(f"{target} was not silenced{others}")
    return 0
