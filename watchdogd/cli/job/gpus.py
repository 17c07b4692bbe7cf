"""`watchdogd gpus RUN`: one table of all GPUs of the run's nodes, once or live."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from watchdogd.batch import live_job
from watchdogd.batch.live_job import LiveJob
from watchdogd.cli.output import one_line, print_json, seconds, terminal
from watchdogd.cli.status_screen import live_view
from watchdogd.errors import WatchdogError
from watchdogd.home.layout import Home
from watchdogd.plugin import Job, Run
from watchdogd.plugins.gpu_health import activity
from watchdogd.plugins.gpu_health.activity import NamedGpu
from watchdogd.probe.node_answers import GpuSurvey, query_gpus
from watchdogd.units import format_size

COLUMNS = ("node", "GPU", "use", "power", "temp", "memory", "ECC", "name", "")
DEADLINE = 30.0
"""Seconds that all nodes together may take to answer."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("run", metavar="RUN", help="whose GPUs")
    parser.add_argument("--watch", action="store_true", help="go on until Ctrl-C")
    parser.add_argument("--every", default="5s", metavar="TIME", help="with --watch: how often (5s)")
    parser.add_argument("--json", action="store_true", help="all that is known, as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the table; return 1 if the run has no job, or nothing is known of its GPUs."""
    home = Home.existing(args.home)
    live = live_job.find(home, args.run)
    if args.watch:
        return _watch(home, live, max(seconds(args, "--every"), 1.0))
    seen = _look(live.run, live.job)
    if args.json:
        print_json([_json(each, node) for node, each in _named(seen)])
    else:
        terminal().print(_table(live.run, live.job, seen))
    return 0 if any(not node.trouble for node in seen.nodes) else 1


def _look(run: Run, job: Job) -> GpuSurvey:
    """Return the table. Raise WatchdogError if the GPUs cannot be asked."""
    seen = query_gpus(run, job, deadline=DEADLINE, now=time.time())
    if seen.closed or seen.trouble:
        raise WatchdogError(seen.closed or seen.trouble)
    return seen


def _watch(home: Home, live: LiveJob, every: float) -> int:
    """Refresh the table until Ctrl-C, or until the run has no live job; an error is shown in its place."""
    with live_view() as draw:
        while True:
            began = time.monotonic()
            shown = _shown(live)
            draw(shown)
            if not isinstance(shown, Group):
                live = live_job.find(home, live.run.name)
            time.sleep(max(every - (time.monotonic() - began), 0.0))


def _shown(live: LiveJob) -> Group | Text:
    try:
        return _table(live.run, live.job, _look(live.run, live.job))
    except WatchdogError as error:
        return Text(one_line(str(error)), style="magenta")


def _named(seen: GpuSurvey) -> list[tuple[str, NamedGpu]]:
    return [(node.name, NamedGpu(gpu.label, gpu)) for node in seen.nodes for gpu in node.readout.gpus]


def _table(run: Run, job: Job, seen: GpuSurvey) -> Group:
    rows = _named(seen)
    moment = activity.classify([NamedGpu(f"{node}/{each.name}", each.gpu) for node, each in rows])
    suspects = {each.name for each in moment.quiet} if moment.hung else set()
    waiting = {each.name for each in moment.waiting}
    table = Table(*COLUMNS, box=None, pad_edge=False, header_style="bold")
    for column in table.columns[2:7]:
        column.justify = "right"
    for node, each in rows:
        name = f"{node}/{each.name}"
        mark = "suspect" if name in suspects else "waits" if name in waiting else ""
        table.add_row(*_cells(node, each, mark), style=_style(each, mark))
    for silent in seen.nodes:
        if said := silent.trouble or silent.readout.absent:
            table.add_row(silent.name, *[""] * 7, Text(one_line(said)), style="magenta")
    title = f"{run.name}: job {job.id} on {job.nodes}, {time.strftime('%H:%M:%S')}"
    if moment.hung:
        title += ": stalled, GPUs wait for one another, suspects are marked"
    return Group(Text(one_line(title)), table)


def _style(each: NamedGpu, mark: str) -> str:
    if each.gpu.trouble or mark == "suspect":
        return "bold red"
    gpu = each.gpu
    marks = (mark, gpu.doubts, gpu.inforom, gpu.throttled, gpu.recovery, gpu.fabric, gpu.worn)
    return "yellow" if any(marks) or gpu.remap_pending else ""


def _cells(node: str, each: NamedGpu, mark: str) -> tuple[str | Text, ...]:
    gpu = each.gpu
    power = _figure(gpu.power_w, " W") + (f" / {gpu.power_cap_w:.0f} W" if gpu.power_cap_w else "")
    size = f" of {format_size(gpu.vram_total)}" if gpu.vram_total else ""
    errors = gpu.ecc_uncorrectable if gpu.ecc_uncorrectable is not None else gpu.ecc_volatile
    said = [mark, gpu.trouble, *gpu.doubts, gpu.inforom, *gpu.throttled, gpu.recovery, gpu.fabric, gpu.worn]
    said += ["remap pending"] if gpu.remap_pending else []
    return (
        node,
        each.name.removeprefix("gpu"),
        _figure(gpu.utilisation, " %"),
        power,
        _figure(gpu.temperature_c, " °C"),
        _figure(gpu.vram, " %") + size,
        "" if errors is None else str(errors),
        Text(one_line(gpu.name)),
        Text(one_line("; ".join(text for text in said if text))),
    )


def _figure(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.0f}{unit}"


def _json(each: NamedGpu, node: str) -> dict[str, Any]:
    known = {name: value for name, value in asdict(each.gpu).items() if value not in (None, "", ())}
    return {"node": node, "gpu": each.name, **known}
