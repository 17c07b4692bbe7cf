"""probe --run RUN: in the background of a job script, writes samples of all its nodes to home."""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS

from watchdogd.cli.output import seconds
from watchdogd.errors import UsageError

TYPE_CHECKING = False  # without importing typing: see watchdogd/cli/__init__.py
if TYPE_CHECKING:
    import argparse

    from watchdogd.training import Places

_SHORTEST = 5.0
_DISKS = ("/tmp", "/dev/shm")  # noqa: S108 - what fills on compute nodes; nothing is written there


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.usage = "watchdogd probe --run RUN [--every 30s] [--disk DIR ...] &"
    parser.add_argument("--run", required=True, dest="name", metavar="RUN", help="whose nodes")
    parser.add_argument("--every", default="30s", metavar="DURATION", help="between two looks (default: 30s)")
    parser.add_argument(
        "--disk",
        action="append",
        metavar="DIR",
        dest="disks",
        help="a disk of each node, also several (default: the run's node_disks, else /tmp and /dev/shm)",
    )
    parser.add_argument("--job", help=SUPPRESS)  # passed by the probe to its samplers, one on each node


def run(args: argparse.Namespace) -> int:
    """Return 0 when the job's work is over."""
    every = max(seconds(args, "--every"), _SHORTEST)
    places = _places(args)
    if args.job is not None:
        from watchdogd.probe import node

        disks = tuple(args.disks or places.node_disks or _DISKS)
        node.serve(node.Task(args.name, args.job, places.inbox, disks, every))
        return 0
    from watchdogd.probe import job
    from watchdogd.system.pathname import home_folder

    _doubt(args.name, home_folder(args.home))
    place = job.OwnJob.here()
    words = [f"--run={args.name}", f"--every={args.every}", f"--job={place.job}"]
    words += [f"--home={home_folder(args.home)}"]
    words += [f"--disk={disk}" for disk in args.disks or ()]
    job.accompany(place, args.name, places.inbox, words)
    return 0


def _doubt(name: str, home: str) -> None:
    """Warn in the job's log if no such run is known: nobody would read samples under a misspelt name."""
    from watchdogd.system.text import nearest
    from watchdogd.training import known_runs

    known = known_runs(home)
    if known and name not in known:
        _say(f"no run '{name}' is known in {home}{nearest(name, known)}")


def _places(args: argparse.Namespace) -> Places:
    """Return where samples go: by switches/RUN.json, config.toml, or home's default. Raise UsageError."""
    from watchdogd.training import default_places, places

    try:
        found = places(args.name, args.home)
    except PermissionError:  # a member may be unable to read the owner's config.toml
        found = default_places(args.name, args.home)
    except (ValueError, OSError) as error:
        _say(f"{error}: what is usual counts")
        found = default_places(args.name, args.home)
    inbox = found.inbox
    if not os.path.isdir(inbox):
        raise UsageError(f"probe: there is no {inbox}: give the watchdog's home by --home or WATCHDOGD_HOME")
    if not os.access(inbox, os.W_OK | os.X_OK):
        raise UsageError(f"probe: {inbox} cannot be written: a home that a team shares has a group")
    return found


def _say(text: str) -> None:
    print(f"watchdogd: probe: {text}", file=sys.stderr, flush=True)
