"""preflight --run RUN: a smoke test at the start of a job script, before the allocation is wasted.

Only problems of the job stop it. The watchdog's own problems (no home, a broken configuration, a run that is
not configured yet, an internal error) are reported on stderr, and the job goes on.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator, Sequence
from functools import partial

from watchdogd.batch.run_models import run_of
from watchdogd.cli.output import explained, note, print_json, print_line, seconds, warn
from watchdogd.config.loading import load
from watchdogd.config.models import Config
from watchdogd.config.target_models import RunSection
from watchdogd.errors import UsageError, WatchdogError
from watchdogd.home.layout import Home, absolute
from watchdogd.plugin import Status
from watchdogd.preflight import affinity, gpu_trial, inspection, surroundings, verdicts
from watchdogd.preflight.verdicts import Believed, Facts, Finding
from watchdogd.stacks import stack_folding
from watchdogd.system.bounded_io import BoundedIO
from watchdogd.system.number import count

GO, NO_GO = 0, 2
_PATIENCE = 30.0
"""Seconds for which home may delay the job."""
_WORDS = {Status.OK: "fine", Status.WARNING: "warning", Status.CRITICAL: "broken", Status.UNKNOWN: "unknown"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--run", required=True, dest="name", metavar="RUN", help="what this job is for")
    parser.add_argument("--nodes", type=int, metavar="N", help="that the script goes by (default: $NNODES)")
    parser.add_argument("--tasks", type=int, metavar="N", help="that the script goes by")
    parser.add_argument("--cpus", type=int, metavar="N", help="cores that must be usable here")
    parser.add_argument(
        "--gpus", type=int, metavar="N", help="of each node (default: as configured, else as Slurm gave)"
    )
    parser.add_argument(
        "--all-reduce",
        action="store_true",
        help="an all-reduce across the nodes too, by the script's PyTorch",
    )
    parser.add_argument(
        "--srun",
        metavar="OPTIONS",
        help="of the srun that starts the training: which cores and GPU each of its ranks has is shown",
    )
    parser.add_argument("--no-trial", action="store_true", help="compute nothing on the GPUs")
    parser.add_argument(
        "--python", default="python3", metavar="FILE", help="that has PyTorch (default: python3)"
    )
    parser.add_argument(
        "--spares",
        type=int,
        default=0,
        metavar="N",
        help="nodes that the run can do without: prints the healthy ones to launch on, n1,n2",
    )
    parser.add_argument("--deadline", default="60s", metavar="DURATION", help="for all nodes (default: 60s)")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    """Return 0 to go on, 2 not to waste the allocation; the last line names the nodes to leave out."""
    if args.spares < 0:
        raise UsageError(f"preflight: --spares {args.spares} is no number of nodes")
    try:
        findings, hosts = _findings(args)
    except UsageError:
        raise
    except WatchdogError as error:
        warn([f"preflight: {explained(error)}: the job goes, and nothing was looked at"])
        findings, hosts = (), inspection.hosts_of_job()
    broken = [finding for finding in findings if finding.status is Status.CRITICAL]
    exclude = stack_folding.names(verdicts.bad_nodes(findings))
    nodes = verdicts.healthy(findings, hosts, args.spares)
    if args.spares and nodes:
        broken = [finding for finding in broken if not finding.nodes]  # a bad node is left out
    elif args.spares:
        text = f"fewer than {len(hosts) - args.spares} of the job's {len(hosts)} nodes are well"
        broken.append(Finding(Status.CRITICAL, "nodes", text))
        findings = (*findings, broken[-1])
    if args.json:
        found = [_json(each) for each in findings]
        print_json({"go": not broken, "exclude": exclude, "nodes": list(nodes), "findings": found})
    else:
        for line in _lines(findings, len(broken), exclude, tables=args.srun is not None):
            (note if args.spares else print_line)(line)
        if args.spares:
            print_line("" if broken else ",".join(nodes))
    return NO_GO if broken else GO


def _findings(args: argparse.Namespace) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """Return all findings, and the job's nodes."""
    home = Home.find(args.home)
    patient = BoundedIO(str(home.path), _PATIENCE)
    try:
        config, section = patient.attempt(partial(_configured, home, args.name))
    except WatchdogError as error:
        if not os.environ.get("SLURM_JOB_ID"):
            raise
        warn([f"preflight: {explained(error)}: what needs no configuration is looked at"])
        config, section = Config(), RunSection()
    believed = _believed(args, section.gpus_per_node)
    run = run_of(args.name, section, config, home, "slurm")
    facts = inspection.facts(
        run,
        inspection.switches_of(home, args.name, patient),
        inspection.suspects_of(home, args.name, patient),
        node_disks=section.node_disks,
        checkpoints=absolute(home, section.checkpoints) if section.checkpoints else None,
        gpus=bool(believed.gpus),
        deadline=seconds(args, "--deadline"),
    )
    findings = verdicts.judge(facts, believed)
    if args.all_reduce or (believed.gpus and not args.no_trial and not facts.unasked):
        deadline = seconds(args, "--deadline")
        tried = inspection.tried(run, args.python, reduce=args.all_reduce, deadline=deadline)
        findings += tuple(gpu_trial.judge(tried, believed.gpus))
    pattern = absolute(home, section.checkpoints) if section.checkpoints else None
    return (
        *findings,
        *_started(args, facts, believed),
        *_around(facts, pattern, gpus=bool(believed.gpus)),
    ), facts.hosts


def _started(args: argparse.Namespace, facts: Facts, believed: Believed) -> Iterator[Finding]:
    """Test the ranks as the training's srun will start them, if there are several or they have GPUs."""
    several = (facts.tasks or 1) > 1 or believed.gpus
    if facts.unasked or facts.silent or not (several or args.srun) or not os.environ.get("SLURM_JOB_ID"):
        return
    try:
        options = shlex.split(args.srun or "")
    except ValueError as error:
        raise UsageError(f"preflight: --srun '{args.srun}': {error}") from None
    found = inspection.ranks(facts.given, options, seconds(args, "--deadline"))
    if isinstance(found, str):
        yield Finding(Status.WARNING, affinity.TOPIC, f"which cores the ranks have is not known: {found}")
        return
    yield from affinity.judge(found, stated=args.srun is not None)


def _around(facts: Facts, checkpoints: str | None, *, gpus: bool) -> Iterator[Finding]:
    if not gpus:
        return
    try:
        largest = surroundings.largest_file(checkpoints) if checkpoints else None
    except OSError:
        largest = None  # the check for checkpoint room has reported it
    caches, fabric = surroundings.caches(os.environ), surroundings.fabric(os.environ)
    yield from surroundings.judge(tuple(caches), fabric, largest, nodes=len(facts.hosts))


def _configured(home: Home, name: str) -> tuple[Config, RunSection]:
    """Return the configured run. Raise WatchdogError that says why there is none."""
    config = load(Home.existing(str(home.path)))
    return config, config.run(name)


def _believed(args: argparse.Namespace, configured: int | None) -> Believed:
    """Return the job's numbers: by options, then common exports of job scripts, configuration, and Slurm."""
    nodes = args.nodes if args.nodes is not None else _exported("NNODES")
    cpus = args.cpus if args.cpus is not None else inspection.given_cpus()
    for gpus in (args.gpus, _exported("GPUS_PER_NODE"), configured, _exported("SLURM_GPUS_ON_NODE")):
        if gpus is not None:
            return Believed(nodes, args.tasks, cpus, gpus, args.spares)
    return Believed(nodes, args.tasks, cpus, spares=args.spares)


def _exported(name: str) -> int | None:
    """Return a number that the job script exports, or None. Raise UsageError if it is not a number."""
    text = os.environ.get(name)
    if text is None or text == "":
        return None
    if (number := count(text)) is None:
        raise UsageError(f"preflight: {name}='{text}' in the environment is no number")
    return number


def _lines(findings: Sequence[Finding], broken: int, exclude: str, *, tables: bool) -> Iterator[str]:
    for finding in findings:
        yield f"{_WORDS[finding.status]:<8} {finding.topic:<12} {finding.text}"
        if tables or finding.status is not Status.OK:
            yield from (f"{'':<21} {line}" for line in finding.table)
    if not broken:
        yield "go"
        return
    what = "1 thing is broken" if broken == 1 else f"{broken} things are broken"
    yield f"do not start: {what}" + (f"; submit it again with --exclude={exclude}" if exclude else "")


def _json(finding: Finding) -> dict[str, object]:
    return {
        "status": _WORDS[finding.status],
        "topic": finding.topic,
        "text": finding.text,
        "nodes": list(finding.nodes),
        "table": list(finding.table),
    }
