"""The partition in which the chain would live: its limits, its price, and whether sbatch takes a link."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from watchdogd.batch import hostlist, partitions, scontrol
from watchdogd.batch.submit import SBATCH_DEADLINE, refusal
from watchdogd.chain import link
from watchdogd.doctor.finding import Finding, broken, fine, warning
from watchdogd.doctor.scene import ask
from watchdogd.errors import SlurmError, UnitError
from watchdogd.system import command
from watchdogd.system.walltime import format_walltime, parse_walltime

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from watchdogd.batch.partitions import Partition
    from watchdogd.doctor.scene import Scene

TOPIC = "partition"
_NAME = "partition under [slurm], or --partition"


def look(scene: Scene) -> Iterator[Finding]:
    """Nothing where Slurm is not used, or does not answer (which another piece tells)."""
    if not scene.slurm or not scene.site:
        return
    try:
        site = partitions.ask_partitions()
        chosen = site.chosen(scene.partition)
        walltime = partitions.allowed_walltime(chosen, _wished(scene))
    except (SlurmError, UnitError) as error:
        yield broken(TOPIC, str(error), _NAME)
        return
    if not chosen:
        yield broken(TOPIC, "no partition is named, and the site has no default one", _NAME)
        return
    names = ", ".join(map(str, chosen))
    yield fine(TOPIC, f"{names}; a link runs for {format_walltime(walltime)}")
    cheaper = partitions.gpu_warning(chosen, site)
    if cheaper:
        yield warning(TOPIC, cheaper, _NAME)
    for each in chosen:
        shown = ask("scontrol", "--oneliner", "show", "partition", each.name)
        yield from judge(each, scontrol.words(shown.output), scene.site)
    yield _trial(scene, walltime)


def judge(each: Partition, shown: Mapping[str, str], site: Mapping[str, str]) -> Iterator[Finding]:
    """What `scontrol show partition` says that makes it a bad place to live."""
    if shown.get("State", "UP") != "UP":
        yield broken(TOPIC, f"{each.name} is {shown['State']}: it starts no jobs just now", _NAME)
    whole = [
        why
        for why, holds in (
            ("OverSubscribe=EXCLUSIVE", shown.get("OverSubscribe", "").startswith("EXCLUSIVE")),
            ("ExclusiveUser=YES", shown.get("ExclusiveUser") == "YES"),
            ("SelectType=linear", site.get("SelectType", "").endswith("/linear")),
        )
        if holds
    ]
    if whole:
        text = f"{each.name} gives and bills whole nodes ({', '.join(whole)}): one link takes one"
        yield warning(TOPIC, text, "name one that shares nodes; else start --mode tick, or run it under cron")
    yield from _submitting(each, shown)


def _submitting(each: Partition, shown: Mapping[str, str]) -> Iterator[Finding]:
    """A link submits its successor from its own node."""
    allowed = shown.get("AllocNodes", "ALL")
    if allowed == "ALL":
        return
    nodes = set(hostlist.expand(shown.get("Nodes", "")))
    if not nodes or nodes - set(hostlist.expand(allowed)):
        text = f"{each.name} takes jobs from {allowed} alone: a link on a node can submit no successor"
        yield broken(TOPIC, text, "run it outside of Slurm (start --local, cron), or name another partition")


def _wished(scene: Scene) -> float | None:
    text = scene.wish.time or scene.config.slurm.time
    return parse_walltime(text) if text else None


def _trial(scene: Scene, walltime: float) -> Finding:
    """sbatch takes exactly what `start` would submit, without doing so."""
    form = link.link_job(scene.home, scene.config, scene.wish, walltime, 0.0)
    argv = ("sbatch", "--test-only", *form.sbatch_options())
    answer = command.ask(argv, deadline=SBATCH_DEADLINE, stdin=form.script())
    if not answer.ok:
        refused = refusal(answer)
        return broken("sbatch", refused.what, refused.fix or "see [slurm] options, and 'sbatch --test-only'")
    where = "from this node" if "SLURM_JOB_ID" in os.environ else "from here"
    account = f" for account {form.account}" if form.account else ""
    return fine("sbatch", f"takes a link {where}{account}")
