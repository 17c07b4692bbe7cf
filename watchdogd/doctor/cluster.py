"""Tests of Slurm: commands, controller, accounting, visible users, and the chain's partition."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping

from watchdogd.batch import pbs, scontrol, sinfo, slurm, slurmtext
from watchdogd.batch.models import Job
from watchdogd.batch.run_models import slurm_users
from watchdogd.batch.sinfo import Partition
from watchdogd.batch.slurm import SBATCH_DEADLINE, refusal
from watchdogd.chain import link_script
from watchdogd.chain.launch import unknown_users
from watchdogd.doctor.diagnosis import Diagnosis, Installation, ask, broken, fine, warning
from watchdogd.errors import SlurmError, SlurmSilentError, UnitError
from watchdogd.plugin import Run
from watchdogd.system import command
from watchdogd.system.account import group_name
from watchdogd.system.times import format_walltime, parse_walltime

TOPIC = "Slurm"
TOOLS = ("sbatch", "squeue", "scancel", "scontrol", "srun", "sinfo")


def look(installation: Installation) -> Iterator[Diagnosis]:
    """Test Slurm as far as it is used; without it, PBS."""
    if not installation.slurm:
        yield _pbs() if shutil.which("qstat") else fine(TOPIC, "not used here: runs are watched as processes")
        return
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        yield broken(
            TOPIC, f"there is no {', '.join(missing)} on PATH", "load Slurm's module where it starts"
        )
        return
    ping = ask("scontrol", "ping")
    if not ping.ok or " UP" not in ping.output:
        said = ping.complaint()
        yield broken(TOPIC, f"its controller does not answer: {said}", "wait, or ask the administrators")
        return
    yield fine(TOPIC, f"the controller of {installation.site.get('ClusterName', 'the cluster')} answers")
    yield from _accounting(installation.site)
    users = slurm_users(installation.config, installation.home.watcher)
    yield from judge_users(installation.me, users, installation.site)
    yield from judge_sharing(
        users, installation.config.slurm.users or installation.config.slurm.group, _sharing(installation)
    )
    yield judge_draining(installation.site)
    runs = [run for run in installation.runs() if run.backend == "slurm"]
    yield from judge_runs(runs, users, slurm.all_jobs() if runs else ())
    yield from (
        warning("users", text, "correct [slurm] users") for text in unknown_users(installation.config)
    )
    yield _overlap()


def _pbs() -> Diagnosis:
    try:
        pbs.all_jobs(slurm.QUERY_DEADLINE)
    except SlurmSilentError as error:
        return broken("PBS", str(error), "load PBS's module where it starts, or ask the administrators")
    return fine("PBS", "qstat answers")


def _accounting(site: Mapping[str, str]) -> Iterator[Diagnosis]:
    answer = None
    if accounts(site):
        answer = ask("sacct", "--noheader", "--allocations", "--format=JobID", "--starttime=now-1hours")
    yield judge_accounting(site, "" if answer is None or answer.ok else answer.complaint())


def accounts(site: Mapping[str, str]) -> bool:
    """Return whether the site keeps accounting that sacct can read."""
    return site.get("AccountingStorageType", "").rpartition("/")[2] not in ("none", "", "(null)")


def judge_accounting(site: Mapping[str, str], trouble: str) -> Diagnosis:
    """Judge whether the ends of jobs can be known; `trouble`: why sacct failed."""
    age = site.get("MinJobAge", "300 sec")
    if not accounts(site):
        text = f"the site keeps no accounting: how a job ended is known for {age} only"
        return warning("accounting", text, "nothing to do: rounds are more frequent than that")
    if trouble:
        text = f"sacct does not answer ({trouble}): how a job ended is known for {age} only"
        return warning("accounting", text, "wait, or ask the administrators for slurmdbd")
    return fine("accounting", "sacct answers")


def judge_draining(site: Mapping[str, str]) -> Diagnosis:
    """Report whether the site drains bad nodes itself, by `scontrol show config`."""
    program, every = site.get("HealthCheckProgram", ""), site.get("HealthCheckInterval", "0")
    if program not in ("", "(null)") and every.split()[:1] != ["0"]:
        states = site.get("HealthCheckNodeState", "ANY")
        return fine("bad nodes", f"the site looks for them itself: {program} every {every} on {states} nodes")
    why = "HealthCheckInterval is 0" if program not in ("", "(null)") else "it has no HealthCheckProgram"
    features = site.get("NodeFeaturesPlugins", "")
    why += f", and {features} tests none" if features not in ("", "(null)") else ""
    ask_for = "one that tests GPUs and links (LBNL NHC, say), with HealthCheckInterval=300"
    text = f"the site drains none by itself ({why}): ask its administrators for {ask_for}"
    return fine("bad nodes", f"{text}; until then 'watchdogd nodes --exclude' lists those under suspicion")


def judge_users(me: str, users: Collection[str], site: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Judge whether `me` sees the jobs of all users whose jobs count."""
    others = sorted(set(users) - {me})
    hidden = "jobs" in site.get("PrivateData", "").split(",")
    if others and hidden:
        yield warning(
            "users",
            f"the site hides the jobs of {', '.join(others)} from {me} (PrivateData=jobs)",
            "let each of them run a watchdogd of their own, or ask for the operator role",
        )
    elif others:
        yield fine("users", f"{me} sees the jobs of {', '.join(others)}")
    else:
        yield fine("users", f"the jobs of {', '.join(users) or 'nobody'} count")


def judge_sharing(users: Collection[str], named: Collection[str] | None, group: str) -> Iterator[Diagnosis]:
    """Warn where a group shares home but only this user's jobs count; `named`: config.toml names users."""
    if group and not named:
        text = f"{group} shares home, and the jobs of {', '.join(users)} alone count, as who starts it"
        yield warning("users", text, f'set group = "{group}" under [slurm]')


def judge_runs(runs: Iterable[Run], users: Collection[str], queued: Iterable[Job]) -> Iterator[Diagnosis]:
    """Warn of runs without a job that counts, while another user has a job with their name."""
    living = [job for job in queued if not job.own and not job.ended]
    for run in runs:
        whose = {job.user: job.id for job in living if job.name == run.job_name}
        if whose and not whose.keys() & (run.users or set(users)):
            user = min(whose)
            text = f"{run.name}: job {whose[user]} of that name is {user}'s, whose jobs do not count"
            yield warning("users", text, f'if it is the run\'s: user = "{user}" under [runs.{run.name}]')


def _sharing(installation: Installation) -> str:
    """Return the Unix group that shares home now or by configuration; empty where it is private."""
    group = installation.home.group
    return installation.config.daemon.group or ("" if group is None else group_name(group))


def _overlap() -> Diagnosis:
    known = "--overlap" in ask("srun", "--help").output
    if known:
        return fine("nodes", "srun knows --overlap: one's own runs are looked at on their nodes")
    text = "this srun knows no --overlap (before 20.11): nobody can look into a job from outside"
    return warning("nodes", text, "put 'watchdogd probe --run RUN &' into the job script")


PARTITION = "partition"
_NAME = "partition under [slurm], or --partition"


def look_at_partition(installation: Installation) -> Iterator[Diagnosis]:
    """Test the partition, if Slurm is used and answers (`look` reports otherwise)."""
    if not installation.slurm or not installation.site:
        return
    try:
        site = sinfo.ask_partitions()
        chosen = site.chosen(installation.partition)
        walltime = sinfo.allowed_walltime(chosen, _wished_walltime(installation))
    except (SlurmError, UnitError) as error:
        yield broken(PARTITION, str(error), _NAME)
        return
    if not chosen:
        yield broken(PARTITION, "no partition is named, and the site has no default one", _NAME)
        return
    names = ", ".join(map(str, chosen))
    yield fine(PARTITION, f"{names}; a link runs for {format_walltime(walltime)}")
    cheaper = sinfo.gpu_warning(chosen, site)
    if cheaper:
        yield warning(PARTITION, cheaper, _NAME)
    for each in chosen:
        shown = ask("scontrol", "--oneliner", "show", "partition", each.name)
        yield from judge_partition(each, scontrol.words(shown.output), installation.site)
    yield _submission(installation, walltime)


def judge_partition(
    each: Partition, shown: Mapping[str, str], site: Mapping[str, str]
) -> Iterator[Diagnosis]:
    """Yield what makes a partition unsuitable for the chain, by `scontrol show partition`."""
    if shown.get("State", "UP") != "UP":
        yield broken(PARTITION, f"{each.name} is {shown['State']}: it starts no jobs just now", _NAME)
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
        fix = "name one that shares nodes; else start --mode tick, or run it under cron"
        yield warning(PARTITION, text, fix)
    yield from _submitting(each, shown)


def _submitting(each: Partition, shown: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Judge whether a link can submit its successor from its own node."""
    allowed = shown.get("AllocNodes", "ALL")
    if allowed == "ALL":
        return
    nodes = set(slurmtext.expand_hostlist(shown.get("Nodes", "")))
    if not nodes or nodes - set(slurmtext.expand_hostlist(allowed)):
        text = f"{each.name} takes jobs from {allowed} alone: a link on a node can submit no successor"
        fix = "run it outside of Slurm (start --local, cron), or name another partition"
        yield broken(PARTITION, text, fix)


def _wished_walltime(installation: Installation) -> float | None:
    text = installation.wish.time or installation.config.slurm.time
    return parse_walltime(text) if text else None


def _submission(installation: Installation, walltime: float) -> Diagnosis:
    """Have sbatch test what `start` would submit, without submitting it."""
    form = link_script.link_job(installation.home, installation.config, installation.wish, walltime, 0.0)
    argv = ("sbatch", "--test-only", *form.sbatch_options())
    answer = command.ask(argv, deadline=SBATCH_DEADLINE, stdin=form.script())
    if not answer.ok:
        refused = refusal(answer)
        return broken("sbatch", refused.what, refused.fix or "see [slurm] options, and 'sbatch --test-only'")
    where = "from this node" if "SLURM_JOB_ID" in os.environ else "from here"
    account = f" for account {form.account}" if form.account else ""
    return fine("sbatch", f"takes a link {where}{account}")
