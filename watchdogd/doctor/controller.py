"""Slurm itself: its commands, its controller, accounting, and whom it shows to whom."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from watchdogd.batch import queue
from watchdogd.batch.runs import slurm_users
from watchdogd.chain.launch import unknown_users
from watchdogd.doctor.finding import Finding, broken, fine, warning
from watchdogd.doctor.scene import ask
from watchdogd.system.account import group_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from watchdogd.batch.models import Job
    from watchdogd.doctor.scene import Scene
    from watchdogd.plugin import Run

TOPIC = "Slurm"
TOOLS = ("sbatch", "squeue", "scancel", "scontrol", "srun", "sinfo")


def look(scene: Scene) -> Iterator[Finding]:
    """Nothing where Slurm is not used."""
    if not scene.slurm:
        yield fine(TOPIC, "not used here: runs are watched as processes")
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
    yield fine(TOPIC, f"the controller of {scene.site.get('ClusterName', 'the cluster')} answers")
    yield from _accounting(scene.site)
    users = slurm_users(scene.config, scene.home.watcher)
    yield from judge_users(scene.me, users, scene.site)
    yield from judge_sharing(users, scene.config.slurm.users or scene.config.slurm.group, _sharing(scene))
    runs = [run for run in scene.runs() if run.backend == "slurm"]
    yield from judge_runs(runs, users, queue.everybodys() if runs else ())
    yield from (warning("users", text, "correct [slurm] users") for text in unknown_users(scene.config))
    yield _overlap()


def _accounting(site: Mapping[str, str]) -> Iterator[Finding]:
    answer = None
    if accounts(site):
        answer = ask("sacct", "--noheader", "--allocations", "--format=JobID", "--starttime=now-1hours")
    yield judge_accounting(site, "" if answer is None or answer.ok else answer.complaint())


def accounts(site: Mapping[str, str]) -> bool:
    """Whether the site keeps accounts of jobs that sacct can read."""
    return site.get("AccountingStorageType", "").rpartition("/")[2] not in ("none", "", "(null)")


def judge_accounting(site: Mapping[str, str], trouble: str) -> Finding:
    """Whether the ends of jobs can be told; `trouble`: why sacct failed."""
    age = site.get("MinJobAge", "300 sec")
    if not accounts(site):
        text = f"the site keeps no accounting: how a job ended is known for {age} only"
        return warning("accounting", text, "nothing to do: rounds are more frequent than that")
    if trouble:
        text = f"sacct does not answer ({trouble}): how a job ended is known for {age} only"
        return warning("accounting", text, "wait, or ask the administrators for slurmdbd")
    return fine("accounting", "sacct answers")


def judge_users(me: str, users: Collection[str], site: Mapping[str, str]) -> Iterator[Finding]:
    """Whether we may see the jobs of all whose jobs count."""
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


def judge_sharing(users: Collection[str], named: Collection[str] | None, group: str) -> Iterator[Finding]:
    """Whether the jobs of all who share home count, whoever of them starts it; `named`: config.toml says
    whose do."""
    if group and not named:
        text = f"{group} shares home, and the jobs of {', '.join(users)} alone count, as who starts it"
        yield warning("users", text, f'set group = "{group}" under [slurm]')


def judge_runs(runs: Iterable[Run], users: Collection[str], queued: Iterable[Job]) -> Iterator[Finding]:
    """Runs of which nothing is seen that counts, while somebody else has a job of their name."""
    living = [job for job in queued if not job.own and not job.ended]
    for run in runs:
        whose = {job.user: job.id for job in living if job.name == run.job_name}
        if whose and not whose.keys() & (run.users or set(users)):
            user = min(whose)
            text = f"{run.name}: job {whose[user]} of that name is {user}'s, whose jobs do not count"
            yield warning("users", text, f'if it is the run\'s: user = "{user}" under [runs.{run.name}]')


def _sharing(scene: Scene) -> str:
    """The Unix group that shares home, or will; empty where it is its owner's alone."""
    group = scene.home.group
    return scene.config.daemon.group or ("" if group is None else group_name(group))


def _overlap() -> Finding:
    known = "--overlap" in ask("srun", "--help").output
    if known:
        return fine("nodes", "srun knows --overlap: one's own runs are looked at on their nodes")
    text = "this srun knows no --overlap (before 20.11): nobody can look into a job from outside"
    return warning("nodes", text, "put 'watchdogd probe --run RUN &' into the job script")
