"""Actions on a run's jobs: cancel or requeue one, hold or cancel waiting ones, submit its script again.

Only our own jobs, only one that was there when the incident opened, and none if several run and it is not
clear which is meant: a wrong stop costs more than a late one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from watchdogd.batch import commands, live_job, scontrol, sinfo, slurm, slurmtext
from watchdogd.batch.live_job import LiveJob
from watchdogd.checks.working_job import as_owner
from watchdogd.config import switch_places
from watchdogd.errors import SlurmError, SlurmSilentError, WatchdogError
from watchdogd.home import suspect_nodes, switches
from watchdogd.home.file_trust import distrust, team_of
from watchdogd.home.suspect_nodes import ListedNode
from watchdogd.home.touchfile import finished
from watchdogd.plugin import Advice, Job, Run
from watchdogd.plugins.job_liveness import liveness_wording
from watchdogd.remediation import node_exclusion
from watchdogd.remediation.models import ActionOutcome, ActionTask
from watchdogd.remediation.node_exclusion import NodeExclusion
from watchdogd.remediation.policy import Foreign
from watchdogd.system import account, command
from watchdogd.system.number import count, digits
from watchdogd.system.pathname import file_name
from watchdogd.system.smallfile import read_head
from watchdogd.units import local_time

LINES = {
    ("cancel", "slurm"): ("scancel",),
    ("requeue", "slurm"): ("scontrol", "requeue"),
    ("cancel", "pbs"): ("qdel",),
    ("requeue", "pbs"): ("qrerun",),
    ("hold", "slurm"): ("scontrol", "hold"),
    ("cancel-pending", "slurm"): ("scancel", "--state=PENDING"),
    ("hold", "pbs"): ("qhold",),
    ("cancel-pending", "pbs"): ("qdel",),
}
"""The command for each batch system; the job comes last."""
_RELEASE = {"slurm": "scontrol release", "pbs": "qrls"}
_OF_A_JOB = frozenset({"on_hang", "on_spike", "on_memory"})
"""Keys whose incidents are about the job that ran."""
_DEADLINE = 30.0
_SCRIPT_LIMIT = 4_000_000


def run_of(task: ActionTask) -> Run:
    """Return the run of a task that needs one. Raise WatchdogError if it has none."""
    if task.run is None:
        raise WatchdogError("it belongs to no run")
    return task.run


def foreign(jobs: Iterable[Job], backend: str) -> Foreign | None:
    """Return the first of a run's jobs that have nodes, if all of these are other users'."""
    placed = [job for job in jobs if job.placed]
    if not placed or any(_may_end(job) for job in placed):
        return None
    job, typed = placed[0], commands.of(backend)
    number = job.id if backend == "process" else shlex.quote(job.handle)
    ways = {
        kind: Advice(as_owner(purpose, job), line.format(id=number))
        for kind, purpose, line in (
            ("requeue", "To restart it", typed.requeue),
            ("cancel", "To end it", typed.end),
        )
        if line
    }
    return Foreign(f"{typed.noun} {job.id} is {job.user}'s, who alone may", ways)


def _may_end(job: Job) -> bool:
    """Return whether this process's user may end or requeue a job."""
    return os.geteuid() == 0 or job.user == account.own_name()


def cancel(task: ActionTask) -> ActionOutcome:
    """End the run's job, since a hung loop polls no switch."""
    run = run_of(task)
    if run.backend == "process":
        return _terminate(task, run)
    return _tell_batch_system("cancel", task, run)


def requeue(task: ActionTask) -> ActionOutcome:
    """End the run's job and have it start again under the same id, without suspect nodes if configured."""
    run, exclusion = run_of(task), task.record.action.exclusion
    if exclusion and run.backend != "slurm":
        raise WatchdogError('only a job of Slurm can leave nodes out: write "requeue" without exclude')
    return _tell_batch_system("requeue", task, run)


def _leave_out(task: ActionTask, job: Job, most: int) -> ActionOutcome:
    """Have a job that was just requeued start elsewhere: Slurm accepts that only for waiting jobs.

    Nodes that the job's owner excluded stay excluded; those that watchdogd excluded, while they are suspects.
    """
    nodes = suspect_nodes.excluded(task.home, run_of(task).name, time.time(), most)
    shown = command.ask(("scontrol", "show", "job", job.handle), deadline=_DEADLINE)
    if not shown.ok:
        return ActionOutcome(f"which nodes it leaves out is not known: {shown.complaint()}", ok=False)
    written = {each.node for each in suspect_nodes.listed(task.home) if job.raw_id in each.jobs}
    found = node_exclusion.of_job(shown.output, nodes, written)
    if found.refused:
        return ActionOutcome(f"but leaves no node out: {found.refused}", ok=not nodes)
    ours = [node for node in nodes if node in found.nodes or (node in found.hosts and node in written)]
    found = _fitting(found, ours, *scontrol.demand(shown.output))
    if set(found.hosts) != set(slurmtext.expand_hostlist(scontrol.excluded(shown.output))):
        change = ("scontrol", "update", f"JobId={job.handle}", f"ExcNodeList={','.join(found.hosts)}")
        until = time.monotonic() + _DEADLINE
        while not (answer := command.ask(change, deadline=_DEADLINE)).ok and time.monotonic() < until:
            task.ending.wait(1.0)  # it is still ending
        if not answer.ok:
            return ActionOutcome(
                f"but leaves no node out: {shlex.join(change)}: {answer.complaint()}", ok=False
            )
        _note(task, job.raw_id, [nodes[node] for node in found.nodes])
    without = [node for node in nodes if node in found.hosts]
    said = (
        f"without {', '.join(without)}" if without else "" if nodes else "no node is under strong suspicion"
    )
    return ActionOutcome("; ".join(filter(None, [said, found.said])), then=_usable_again(without))


def _fitting(
    found: NodeExclusion, ours: Sequence[str], partition: str, needed: int, features: str
) -> NodeExclusion:
    """Leave the job enough nodes to start on, as far as Slurm lists them; no partition: the default one."""
    if not ours:
        return found
    if not partition:
        names = command.ask(("sinfo", "--noheader", "--format=%P"), deadline=_DEADLINE).output.split()
        partition = next((name[:-1] for name in names if name.endswith("*")), "")
        if not partition:
            return found
    query = "sinfo", "--noheader", "--Node", f"--partition={partition}"
    answer = command.ask((*query, f"--format={sinfo.USABLE_FORMAT}"), deadline=_DEADLINE)
    return node_exclusion.as_many_as_fit(found, ours, sinfo.usable(answer.output, features), needed)


def _note(task: ActionTask, job: str, nodes: Iterable[ListedNode]) -> None:
    """Record what watchdogd excluded, so that the owner's exclusions stay when the suspicion ends."""
    for each in nodes:
        with contextlib.suppress(OSError):
            suspect_nodes.note_job(task.home, each, job)


def hold(task: ActionTask) -> ActionOutcome:
    """Hold all waiting jobs of the run, so that no more of them fail; running ones continue."""
    return _to_waiting("hold", "held", task)


def cancel_pending(task: ActionTask) -> ActionOutcome:
    """Cancel all waiting jobs of the run; running ones continue."""
    return _to_waiting("cancel-pending", "cancelled", task)


def _to_waiting(what: str, done: str, task: ActionTask) -> ActionOutcome:
    """Give the same command for each waiting job of the run; jobs of other users are left to them."""
    run = run_of(task)
    words = _words_for(what, run)
    waiting = [job for job in live_job.queued(run, task.users) if job.waiting]
    if not waiting:
        return ActionOutcome("nothing of it waits")
    mine = [job for job in waiting if _may_end(job)]
    said = [_named(job) for job in mine]
    failed = [
        f"{_named(job)} is {job.user}'s, who alone may: {_line(words, job)}"
        for job in waiting
        if job not in mine
    ]
    for job in mine:
        answer = command.ask((*words, job.handle), deadline=_DEADLINE)
        if not answer.ok:
            said.remove(_named(job))
            failed.append(f"{_line(words, job)}: {answer.complaint()}")
    orders = [f"{', '.join(said)} {'is' if len(said) == 1 else 'are'} {done}"] if said else []
    handles = " ".join(shlex.quote(job.handle) for job in mine)
    then = (_waiting_again(what, run, handles),)
    jobs = f"{len(said)} waiting job{'s' if len(said) != 1 else ''}"
    short = f"{jobs} {done}" + (f", {len(failed)} not" if failed else "")
    return ActionOutcome("; ".join([*orders, *failed]), ok=not failed, short=short, then=then if said else ())


def _waiting_again(what: str, run: Run, handles: str) -> Advice:
    """Return how to take it back that waiting jobs were held or cancelled."""
    if what == "hold":
        return Advice("To let them start:", f"{_RELEASE[run.backend]} {handles}")
    return Advice("To start them again, submit them again.")


def resubmit(task: ActionTask) -> ActionOutcome:
    """Submit the run's script again, if nothing of it is in the queue and nobody stopped it."""
    run, script = run_of(task), Path(task.home.path, os.path.expanduser(task.record.action.words[0]))
    if run.backend != "slurm":
        raise WatchdogError("scripts are submitted to Slurm alone: exec your own command instead")
    if stopped := _stopped(task, run):
        raise WatchdogError(stopped)
    found = live_job.queued(run, task.users)
    if found:
        return ActionOutcome(
            f"not needed: {_named(found[0])} is in the queue",
            short=f"{script.name} not submitted: in the queue already, {_named(found[0])}",
        )
    if not os.path.lexists(script):
        correct = Advice(
            f"Correct resubmit under [runs.{run.name}] in config.toml, then submit its next job."
        )
        gone = f"{script.name} does not exist"
        return ActionOutcome(f"{gone}: there is no {script}", ok=False, why=gone, then=(correct,))
    reason = distrust(script, team_of(task.home.path))
    if reason:
        told = f"{script} is not submitted: {reason}"
        return ActionOutcome(told, ok=False, why=f"{script.name} cannot be trusted")
    myself = account.own_name()
    if run.users and myself not in run.users:
        who = ", ".join(sorted(run.users))
        raise WatchdogError(f"a job of {myself} would not count for {run.name}; {who}: sbatch {script}")
    nodes = suspect_nodes.excluded(task.home, run.name, time.time())
    text = read_head(script, _SCRIPT_LIMIT, follow=True)[0].decode("utf-8", "replace")
    exclusion = node_exclusion.of_script(text, nodes) if nodes else NodeExclusion()
    exclusion = _fitting(exclusion, exclusion.nodes, *_demand(text))
    job_id, refused = _submitted(_options(text, script, run), script, exclusion)
    if exclusion.nodes and not refused:
        _note(task, job_id, [nodes[node] for node in exclusion.nodes])
    left = [node for node in nodes if node in slurmtext.expand_hostlist(",".join(exclusion.hosts))]
    without = f", without {', '.join(left)} (under suspicion)" if left and not refused else ""
    why = refused or exclusion.refused
    but = f"; it leaves no node out: {why}" if why else f"; {exclusion.said}" if exclusion.said else ""
    submitted = f"submitted as job {job_id}{without}{but}"
    then = (_cancelled(run, job_id), *(() if refused else _usable_again(left)))
    return ActionOutcome(f"{script} is {submitted}", short=f"{script.name} {submitted}", then=then)


def _cancelled(run: Run, job_id: str) -> Advice:
    """Return how to take it back that a script was submitted."""
    return Advice("To cancel it:", commands.of(run.backend).end.format(id=shlex.quote(job_id)))


def _demand(script: str) -> tuple[str, int, str]:
    """Return the partition, least number of nodes and node features that a script asks for."""
    named = slurm.script_options(script)
    partition = named.get("partition") or os.environ.get("SBATCH_PARTITION", "")
    least = re.match(r"\d+", named.get("nodes", ""))  # 4, 4-8, 4,8
    return partition, digits(least[0]) if least else 1, named.get("constraint", "")


def _submitted(options: Sequence[str], script: Path, found: NodeExclusion) -> tuple[str, str]:
    """Submit without the suspect nodes; if Slurm refuses that, with them. Return the job id, and why."""
    if not found.nodes:
        return slurm.sbatch((*options, str(script)), ""), ""
    exclude = f"--exclude={','.join(found.hosts)}"
    try:
        return slurm.sbatch((*options, exclude, str(script)), ""), ""
    except SlurmSilentError:
        raise  # it may have been submitted
    except SlurmError as error:
        return slurm.sbatch((*options, str(script)), ""), str(error)


def _options(text: str, script: Path, run: Run) -> list[str]:
    """Return options that name the job after the run and start it where its script lies, or as it says."""
    named = slurm.script_options(text)
    return [f"--job-name={run.job_name}", *([] if "chdir" in named else [f"--chdir={script.parent}"])]


def _stopped(task: ActionTask, run: Run) -> str:
    """Return why the run must not start again, or empty."""
    touch = switches.read(switch_places.find(str(task.home.path), run.name, "kill"))
    if touch:
        return f"its kill switch is set {touch}"
    mark = finished(task.home).get(file_name(run.name))
    return f"it is marked finished by {mark}" if mark else ""


def _tell_batch_system(what: str, task: ActionTask, run: Run) -> ActionOutcome:
    words = _words_for(what, run)
    job = _meant(live_job.locate(run, task.users, task.gpus), words, task)
    line = _line(words, job)
    if not _may_end(job):
        theirs = f"{_named(job)} is {job.user}'s"
        return ActionOutcome(f"{theirs}, who alone may: {line}", ok=False, why=theirs, by_hand=line)
    answer = command.ask((*words, job.handle), deadline=_DEADLINE)
    if not answer.ok:
        why = answer.complaint()
        return ActionOutcome(f"{line}: {why}", ok=False, why=why, by_hand=line)
    done = "requeued" if what == "requeue" else "cancelled"
    outcome = f"{_named(job)}{f' on {job.nodes}' if job.nodes else ''} is {done}"
    short, exclusion = f"{_named(job)} {done}", task.record.action.exclusion
    then = _way_back(what, run, job)
    if exclusion is None:
        return ActionOutcome(outcome, short=short, then=then)
    left_out = _leave_out(task, job, exclusion.most)
    said = f"{outcome}, {left_out.text}", f"{short}, {left_out.text}"
    return ActionOutcome(said[0], ok=left_out.ok, short=said[1], then=(*then, *left_out.then))


def _way_back(what: str, run: Run, job: Job) -> tuple[Advice, ...]:
    """Return how to take it back that a job was requeued or cancelled."""
    if what == "requeue":
        line = commands.of(run.backend).hold.format(id=shlex.quote(job.handle))
        return (Advice("To keep it from starting again:", line),)
    if run.backend != "slurm":
        return (Advice("To start it again, submit it again."),)
    return (liveness_wording.submitted_as(job.raw_id),)


def _usable_again(nodes: Iterable[str]) -> tuple[Advice, ...]:
    """Return how to let later jobs run on nodes that were left out."""
    return tuple(
        Advice(f"To let later jobs use {node} again:", f"watchdogd nodes --remove {shlex.quote(node)}")
        for node in nodes
    )


def _words_for(what: str, run: Run) -> tuple[str, ...]:
    words = LINES.get((what, run.backend))
    if words is None:
        raise WatchdogError(f"no batch system is known that could {what} it")
    return words


def _line(words: tuple[str, ...], job: Job) -> str:
    return shlex.join((*words, job.handle))


def _meant(live: LiveJob, words: tuple[str, ...], task: ActionTask) -> Job:
    """Return the job that the incident is about. Raise WatchdogError if that is not certain."""
    if len(live.jobs) > 1:
        lines = ", ".join(_line(words, job) for job in live.jobs)
        raise WatchdogError(f"{len(live.jobs)} jobs of it run, and which one is meant is not known: {lines}")
    job = live.job
    if _is_later(job, task):
        raise _spared(job)
    return job


def spare(task: ActionTask, run: Run) -> None:
    """Raise WatchdogError if the kill switch would only stop later jobs than the incident's.

    It stays set. A full disk, and a run that is gone, are not about one job. If the queue does not answer,
    the switch is set.
    """
    if task.record.trigger not in _OF_A_JOB:
        return
    with contextlib.suppress(SlurmSilentError):
        live = live_job.locate(run, task.users, task.gpus)
        if all(_is_later(job, task) for job in live.jobs):
            raise _spared(live.job)


def _is_later(job: Job, task: ActionTask) -> bool:
    return job.started_at is not None and job.started_at > task.incident.opened_at


def _spared(job: Job) -> WatchdogError:
    return WatchdogError(
        f"{_named(job)} started after the incident, at {local_time(job.started_at or 0.0)}: it is spared"
    )


def _terminate(task: ActionTask, run: Run) -> ActionOutcome:
    live = live_job.locate(run, task.users, task.gpus)
    meant = [job for job in live.jobs if not _is_later(job, task)]
    if not meant:
        raise _spared(live.job)
    pids = [pid for job in meant if (pid := count(job.id)) is not None]
    for pid in pids:
        try:
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGCONT)  # one that is stopped would not see the other one
        except ProcessLookupError:
            continue  # it ended by itself
        except PermissionError:
            why, line = f"process {pid} is another user's", f"kill {pid}"
            return ActionOutcome(f"{why}, who alone may: {line}", ok=False, why=why, by_hand=line)
    ended = "its process" if len(pids) == 1 else f"its {len(pids)} processes"
    return ActionOutcome(
        f"SIGTERM is sent to {', '.join(map(str, pids))}",
        short=f"{ended} ended by SIGTERM",
    )


def _named(job: Job) -> str:
    return f"job {job.id}"
