"""`watchdogd finish RUN`: all steps are done; queued jobs end at once, and no more are expected."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from watchdogd.cli.output import print_json, print_line
from watchdogd.config import switch_places
from watchdogd.home import switches
from watchdogd.home.inbox_submit import submit
from watchdogd.home.layout import Home
from watchdogd.home.touchfile import Signature
from watchdogd.system.pathname import file_name
from watchdogd.system.smallfile import create_file

if TYPE_CHECKING:
    import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("name", metavar="RUN", help="which has done all of its steps")
    parser.add_argument("--clear", action="store_true", help="take the mark away: the run is expected again")
    parser.add_argument("--reason", default="", metavar="TEXT", help="for the team and the log")
    parser.add_argument("--json", action="store_true", help="print the state as JSON")


def run(args: argparse.Namespace) -> int:
    """Set or remove `switches/RUN.finished`, which every Guard of the run sees, and tell the daemon."""
    home = Home.existing(args.home)
    inbox = switch_places.find(
        str(home.path), args.name, "kill"
    ).inbox  # also checks that there is such a run
    mark = home.switches / f"{file_name(args.name)}.finished"
    touch = switches.my_signature(args.reason)
    changed = _clear(mark) if args.clear else _set(home, mark, args.name, touch)
    if changed:
        action = "cleared" if args.clear else "set"
        with contextlib.suppress(OSError):  # the mark counts even without it
            fields = {"run": args.name, "action": action, **touch.fields()}
            submit(inbox, "finish", args.name, blank=action, **fields)
    if args.json:
        print_json({"run": args.name, "finished": not args.clear, "changed": changed})
    else:
        before = "" if changed else " already"
        print_line(f"{args.name} is{before} {'expected to run' if args.clear else 'marked finished'}")
    return 0


def _set(home: Home, mark: Path, run: str, touch: Signature) -> bool:
    line = json.dumps({"run": run, **touch.fields()}) + "\n"
    try:
        create_file(str(mark), line, home.file_mode, home.group)
    except FileExistsError:
        return False
    return True


def _clear(mark: Path) -> bool:
    try:
        os.unlink(mark)
    except FileNotFoundError:
        return False
    return True
