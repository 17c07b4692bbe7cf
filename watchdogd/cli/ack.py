"""ack ID: somebody looks after the incident."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from watchdogd.cli.output import clean, complain, print_json, print_line
from watchdogd.errors import WatchdogError
from watchdogd.home.inbox_submit import submit
from watchdogd.home.layout import Home
from watchdogd.system.account import user_name
from watchdogd.system.smallfile import STATUS_LIMIT, parse_json, read_plain
from watchdogd.system.text import close_to

if TYPE_CHECKING:
    import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument("id", metavar="ID", type=int, nargs="+", help="as 'watchdogd incidents' shows it")
    parser.add_argument("--reason", default="", metavar="TEXT", help="for the team and the log")
    parser.add_argument("--json", action="store_true", help="print what was acknowledged as JSON")


def run(args: argparse.Namespace) -> int:
    """Hand the acknowledgements in; the daemon takes them in its next round. 1 where one is not open."""
    home = Home.existing(args.home)
    known, chosen, code = open_incidents(home), [], 0
    for number in dict.fromkeys(args.id):
        try:
            chosen.append(_chosen(number, known))
        except WatchdogError as error:  # one that has ended meanwhile keeps no other from being taken on
            code = complain(error)
    for incident in chosen:
        submit(str(home.inbox), "ack", str(incident["id"]), id=incident["id"], reason=args.reason)
    if args.json:
        taken = {"state": "acknowledged", "acknowledged_by": user_name(os.geteuid())}
        print_json([incident | taken for incident in chosen])
        return code
    for incident in chosen:
        print_line(f"incident {incident['id']} is acknowledged{_about(incident)}")
    return code


def open_incidents(home: Home) -> dict[int, dict[str, Any]] | None:
    """The incidents of the daemon's last round by number, or None where it left no (readable) word."""
    try:
        listed = parse_json(read_plain(home.status, limit=STATUS_LIMIT))["incidents"]
        return {int(incident["id"]): incident for incident in listed}
    except FileNotFoundError:
        return {}  # no round was judged yet
    except (OSError, ValueError, KeyError, TypeError):
        return None


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
