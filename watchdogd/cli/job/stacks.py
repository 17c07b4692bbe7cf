"""stacks RUN: the Python stacks of all its processes, equal ones folded, the suspects first."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from watchdogd.batch import live_job
from watchdogd.cli.output import note, print_json, print_line, seconds
from watchdogd.errors import UsageError
from watchdogd.home.layout import Home
from watchdogd.stacks import stack_collection, stack_summary
from watchdogd.stacks.stack_collection import Sampling
from watchdogd.stacks.stack_folding import Group, StackSummary


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("name", metavar="RUN", help="whose processes")
    parser.add_argument(
        "--samples", type=int, default=3, metavar="N", help="looks, to tell what moves (default: 3)"
    )
    parser.add_argument("--every", default="2s", metavar="DURATION", help="between two looks (default: 2s)")
    parser.add_argument("--deadline", default="30s", metavar="DURATION", help="for all of it (default: 30s)")
    parser.add_argument("--native", action="store_true", help="C and C++ frames too, where py-spy can")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> int:
    """Return 0 if at least one stack was read, else 1."""
    home = Home.existing(args.home)
    wish = _wish(args)
    live = live_job.find(home, args.name)
    if live.run.backend == "slurm" and len(live.jobs) > 1:
        note(f"{args.name} runs in {len(live.jobs)} jobs; this is the newest, {live.job.id}")
    if sys.stderr.isatty():
        nodes = f"{len(live.hosts)} node{'' if len(live.hosts) == 1 else 's'}"
        note(
            f"looking {args.samples} times into {nodes} of job {live.job.id}, for {args.deadline} at most ..."
        )
    taken = stack_collection.take(str(home.path), live, wish)
    for each in taken.notes:
        note(each)
    if args.json:
        print_json({"run": args.name, "job": live.job.id, **as_json(taken.folded)})
    else:
        for line in stack_summary.lines(taken.folded):
            print_line(line)
    return 0 if taken.folded.ranks or taken.folded.helpers else 1


def as_json(folded: StackSummary) -> dict[str, Any]:
    """Return the folded stacks for JSON; `suspect` marks the odd ones out."""
    groups = [(group, group in folded.odd) for group in folded.groups]
    return {
        "summary": stack_summary.summary(folded),
        "groups": [{"suspect": odd, **_group(group)} for group, odd in groups],
        "helpers": [_group(group) for group in folded.helpers],
        "unread": [
            {"node": each.node, "pid": each.pid, "rank": each.rank, "why": each.trouble, "state": each.state}
            for each in folded.unread
        ],
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        "members": [
            {"node": each.node, "pid": each.pid, "rank": each.rank, "moves": each in group.moving}
            for each in group.members
        ],
        "waits_in": group.waits_in or None,
        "frames": [str(frame) for frame in group.frames],
    }


def _wish(args: argparse.Namespace) -> Sampling:
    every, deadline = seconds(args, "--every"), seconds(args, "--deadline")
    if not 1 <= args.samples <= 20:
        raise UsageError("stacks: --samples is a number from 1 to 20")
    needed = (args.samples - 1) * every + 10
    if deadline < needed:
        raise UsageError(f"stacks: so many looks need --deadline {needed:.0f}s at least")
    return Sampling(args.samples, every, deadline, args.native)
