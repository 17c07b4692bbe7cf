"""`watchdogd doctor`: everything that the configuration needs, tried; a table with a fix for each line."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence

from watchdogd.cli.output import one_line, print_json, seconds, terminal
from watchdogd.config.secret import withhold
from watchdogd.daemon.setup import Setup
from watchdogd.doctor import on_partition
from watchdogd.doctor.diagnosis import BROKEN, FINE, WARNING, Diagnosis, Installation, exit_code
from watchdogd.doctor.runner import examine
from watchdogd.errors import HomeError, WatchdogError
from watchdogd.home.layout import Home

_STYLES = {FINE: "green", WARNING: "yellow", BROKEN: "bold red"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument(
        "--on-partition",
        action="store_true",
        help="by a short job on [slurm] partition: from where it will run",
    )
    parser.add_argument(
        "--wait", default="5m", metavar="TIME", help="with --on-partition: for the job's end (5m)"
    )
    parser.add_argument("--json", action="store_true", help="the findings as JSON")


def run(args: argparse.Namespace) -> int:
    """Return 0 if all is fine, 1 for a warning, 2 if something is broken."""
    home = Home.existing(args.home)
    withhold(home)
    if args.on_partition:
        findings, where = _there(home, seconds(args, "--wait"), quiet=args.json)
    else:
        findings, where = examine(home), _here()
    if args.json:
        print_json({"where": where, "findings": [finding.as_json() for finding in findings]})
    else:
        _print(findings, where, hint=not args.on_partition)
    return exit_code(findings)


def _there(home: Home, patience: float, *, quiet: bool) -> tuple[tuple[Diagnosis, ...], str]:
    """Return what a job on the partition finds, and on which node; without home there, the rest from here."""
    report = _try_on_partition(home, patience, quiet=quiet)
    if report.whole:
        return report.findings, report.where
    return (*report.findings, *examine(home)), f"{report.where}; what needs home, from {_here()}"


def _try_on_partition(home: Home, patience: float, *, quiet: bool) -> on_partition.PartitionReport:
    installation = Installation.of(home, Setup.load(home))
    if not installation.slurm:
        raise WatchdogError(
            f"no Slurm is used here: '{home.command('doctor')}' without --on-partition tries everything"
        )
    if not quiet:
        print("a short job on the partition tries it; waiting for it ...", file=sys.stderr, flush=True)
    try:
        return on_partition.run(installation, patience)
    except OSError as error:
        more = f"'{home.command('doctor')}' from here says more"
        raise HomeError(f"nothing can be written to {home.path}: {error.strerror}; {more}") from None


def _here() -> str:
    host, job = socket.gethostname(), os.environ.get("SLURM_JOB_ID")
    return f"{host} (job {job})" if job else host


def _print(findings: Sequence[Diagnosis], where: str, *, hint: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    console = terminal()
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        state = Text(finding.state, style=_STYLES[finding.state])
        table.add_row(state, finding.topic, Text(_short(finding.text)))
        if finding.fix:
            table.add_row("", "", Text(f"→ {_short(finding.fix)}", style="cyan"))
    console.print(table)
    console.print(Text(one_line(f"tried from {where}: {_sum(findings)}")))
    if hint and "SLURM_JOB_ID" not in os.environ:
        console.print(Text("the daemon may run elsewhere: --on-partition tries it from there"))


def _short(text: str) -> str:
    """Return text on one line, with the user's home folder as `~`."""
    return one_line(text).replace(f"{os.path.expanduser('~')}/", "~/")


def _sum(findings: Sequence[Diagnosis]) -> str:
    counts = {state: sum(finding.state == state for finding in findings) for state in (BROKEN, WARNING, FINE)}
    plural = {state: f"{state}s" if state == WARNING and counts[state] > 1 else state for state in counts}
    return ", ".join(f"{count} {plural[state]}" for state, count in counts.items() if count)
