"""What the checks say of everything that can go wrong, as their own functions say it.

Each has a name, and is a result of START, or an observation of the check and the time that it names.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from watchdogd.batch.models import Ending, Job, Snapshot
from watchdogd.batch.run_models import JobDeed
from watchdogd.batch.sinfo import SlurmNode
from watchdogd.checks import free_space, node_checks
from watchdogd.checks.checkpoint_inventory import Cadence
from watchdogd.checks.free_space import FreeSpaceLimits
from watchdogd.config.loading import parse
from watchdogd.daemon import trouble
from watchdogd.daemon.config_changes import not_taken
from watchdogd.daemon.dependencies import Dependency, Probes, queue_name, queue_result
from watchdogd.daemon.dropins import dropins as dropins_module
from watchdogd.daemon.dropins.dropins import refused
from watchdogd.daemon.registry.plugin_registry import _unusable as _unusable_plugin
from watchdogd.daemon.self_monitoring import SelfMonitoring
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.trouble import Trouble, TroubleKind
from watchdogd.errors import ConfigError, Problem, SlurmError
from watchdogd.history.database_file import sentence
from watchdogd.home.file_trust import distrust
from watchdogd.home.layout import Home
from watchdogd.incidents.models import DELIVERY, SELF, Observation
from watchdogd.parsers import nagios
from watchdogd.parsers.gpu.models import Gpu
from watchdogd.parsers.probe_sample import Disk, JobProcess, NodeMemory, Usage
from watchdogd.parsers.quota.lfs_quota import StorageTarget
from watchdogd.parsers.quota.models import BYTES, FILE_SYSTEM, INODES, StorageLimit
from watchdogd.plugin import Amount, History, Progress, Result, Run, Sign, Status
from watchdogd.plugins.checkpoint_age.check import checkpoint_age
from watchdogd.plugins.disk_quota import path_state, storage_targets, write_test
from watchdogd.plugins.disk_quota.check import DiskState, Outlook, _source, _told, _worded
from watchdogd.plugins.disk_quota.path_state import PathState, PathView
from watchdogd.plugins.disk_quota.quota_sources import QuotaPath, Quotas
from watchdogd.plugins.gpu_health import standstill
from watchdogd.plugins.gpu_health.activity import GpuActivity, NamedGpu
from watchdogd.plugins.gpu_health.check import _advised, _fault
from watchdogd.plugins.gpu_health.check import judge as judge_gpus
from watchdogd.plugins.gpu_health.faults import Fault, GpuLimits
from watchdogd.plugins.gpu_health.gpu_state import GpuHealthState
from watchdogd.plugins.gpu_health.standstill import Patience, _hang, _idle
from watchdogd.plugins.job_liveness.check import judge
from watchdogd.plugins.job_liveness.job_history import KillSwitch, begin_round
from watchdogd.plugins.job_liveness.liveness_wording import LivenessLimits
from watchdogd.plugins.job_liveness.postmortem import PostMortem
from watchdogd.plugins.log_staleness.check import _advised as advised
from watchdogd.plugins.log_staleness.check import log_staleness
from watchdogd.plugins.log_staleness.log_verdicts import _loss, _pace, _skips, _unread
from watchdogd.plugins.log_staleness.loss_level import Level
from watchdogd.plugins.log_staleness.run_log import Pace, RunLog, Skips, Unread
from watchdogd.plugins.log_staleness.training_figures import SLOW
from watchdogd.plugins.memory_leak.check import MemoryLimits, relief, whole
from watchdogd.plugins.memory_leak.check import judge as judge_memory
from watchdogd.plugins.node_disks.check import judge as judge_disks
from watchdogd.plugins.node_health.check import SuspectNode, _exclusion, of_jobs, spares
from watchdogd.plugins.project_hours.budgets import Budget
from watchdogd.plugins.project_hours.check import judge as judge_hours
from watchdogd.probe import node_answers
from watchdogd.probe.node_answers import GpuSurvey
from watchdogd.system.mounts import Mount
from watchdogd.system.startup import NO_THREAD

START = 1_795_800_000.0
MINUTE, HOUR = 60.0, 3600.0
RUN = Run("llama-7b", "llama-7b", users=frozenset({"alice"}))
GB, TB = 1e9, 1e12

Said = Iterator[tuple[str, Result | Observation]]


def seen(check: str, result: Result, at: float = START) -> Observation:
    """A result as a round has it: of which check of CONFIG, of what, and when."""
    run = RUN.name if check.startswith(f"{RUN.name}/") or check == "llama-nodes" else ""
    of = check.rpartition("/")[0] if "/" in check and not check.startswith("cron.") else check
    return Observation(check, run, "bloom-watch" if check.startswith(SELF) else of, result, at)


CONFIG = """
[daemon]
name = "bloom-watch"
[channels.slack]
type = "console"
[channels.mail]
type = "console"
[runs.llama-7b]
user = "alice"
log = "/scratch/tr11/train.log"
checkpoints = "/scratch/tr11/saved/global_step*"
gpus_per_node = 8
memory_free = "5%"
node_disks = ["/tmp"]
[disks.scratch]
path = "/scratch/project_1"
[checks.llama-nodes]
plugin = "node_health"
run = "llama-7b"
[checks.spare-nodes]
plugin = "node_health"
partition = "gpu"
min_idle = 2
[checks.hours]
plugin = "project_hours"
account = "p1"
[checks.waiting-jobs]
plugin = "waiting_jobs"
"""
"""The home whose messages these are; its drop-ins are DROPINS."""
DROPINS = ("tidy", "odd", "cp.slurm", "count.py")


def job(number: str = "329", **fields: Any) -> Job:
    """A running job of the run."""
    values: dict[str, Any] = {
        "name": "llama-7b", "user": "alice", "state": "RUNNING", "nodes": "node[2-3]", "node_count": 2,
        "submitted_at": START - 900, "started_at": START - 300,
    }  # fmt: skip
    return Job(number, number, **{**values, **fields})


def waits(number: str = "331", reason: str = "Priority", **fields: Any) -> Job:
    """A job of the run that waits."""
    return job(number, state="PENDING", nodes="", started_at=None, reason=reason, **fields)


def end(number: str = "329", **fields: Any) -> Ending:
    """The end of a job of the run."""
    values: dict[str, Any] = {
        "name": "llama-7b", "user": "alice", "state": "FAILED", "exit_code": 1, "signal": 0,
        "submitted_at": START - 900, "started_at": START - 300, "ended_at": START + 90, "nodes": "node[2-3]",
    }  # fmt: skip
    return Ending(number, number, **{**values, **fields})


def liveness(
    *rounds: dict[str, Any],
    switch: KillSwitch | None = None,
    cause: str = "",
    run: Run = RUN,
    begin: float = START,
    **limits: Any,
) -> dict[str, Observation]:
    """What is said in the last of some rounds a minute apart; notices under `notice`.

    `switch`: the kill switch in all of them but those that name their own.
    """
    history, now = begin_round(None, begin), begin
    results: list[Result] = []
    lost = "work lost: 12m since global_step1200" if cause else ""
    found = PostMortem(cause, lost, kind=cause, log="/scratch/tr11/train.log")
    for each in rounds:
        now += each.pop("after", MINUTE)
        pressed = each.pop("switch", switch)
        snapshot = Snapshot(now, **{"jobs": (), "endings": (), "users": frozenset({"alice"}), **each})
        history, results = judge(
            run, snapshot, begin_round(history, now), pressed, LivenessLimits(**limits), lambda *_: found, now
        )
    return {
        "notice" if each.notice else each.subject: seen(f"{RUN.name}/job_liveness", each, now)
        for each in results
    }


def job_liveness() -> Said:
    runs = {"jobs": (job(),)}
    gone: dict[str, Any] = {"state": "FAILED", "exit_code": 1}
    yield "gone, with its cause", liveness(runs, {"endings": (end(**gone),)}, cause="GPU out of memory")[""]
    yield "gone, no cause known", liveness(runs, {"endings": (end(state="TIMEOUT", exit_code=0),)})[""]
    cancelled: dict[str, Any] = {"state": "CANCELLED", "exit_code": 0, "ended_at": START - 279}
    yield "cancelled by its owner", liveness(runs, {"endings": (end(**cancelled, cancelled_by="alice"),)})[""]
    yield (
        "cancelled by somebody else",
        liveness(runs, {"endings": (end(**cancelled, cancelled_by="root"),)})[""],
    )
    unstarted = {**cancelled, "started_at": None, "nodes": ""}
    yield (
        "cancelled as it waited",
        liveness(runs, {"endings": (end(**unstarted, cancelled_by="alice"),)})[""],
    )
    yield (
        "cancelled, nobody knows by whom",
        liveness(runs, {"endings": (end(**unstarted),), "endings_trouble": "sacct is off"})[""],
    )
    yield (
        "gone, nobody knows how",
        liveness(runs, *[{"endings": None, "endings_trouble": "sacct is off"}] * 4)[""],
    )
    process = Run("llama-7b", "llama-7b", backend="process", pid_file="/work/train.pid")
    here = {"jobs": (job("4711", nodes="ws1"),), "backend": "process", "endings": None}
    yield (
        "a process that is gone",
        liveness(here, {"backend": "process", "endings": None}, run=process, absent_after=0.0)[""],
    )
    deed = (JobDeed("cancel", 6, START + 80),)
    by_us = {"endings": (end(**{**cancelled, "ended_at": START + 90}, cancelled_by="alice"),)}
    yield (
        "cancelled by watchdogd",
        liveness(runs, by_us, run=replace(RUN, deeds=deed), cause="GPU out of memory")[""],
    )
    stalled = (JobDeed("cancel", 6, START + 80, "on_hang"),)
    yield "cancelled by watchdogd, stalled", liveness(runs, by_us, run=replace(RUN, deeds=stalled))[""]
    over = {"backend": "process", "endings": None}
    yield (
        "a process that watchdogd ended",
        liveness(here, over, run=replace(process, deeds=deed), cause="GPU out of memory", absent_after=0.0)[
            ""
        ],
    )
    stalls = replace(process, progress=Progress(stalled=True, at=START - 240))
    yield (
        "gone after a stall",
        liveness(here, over, run=stalls, cause="GPU out of memory", absent_after=0.0)[""],
    )
    yield "finished, or out of jobs", liveness(runs, {"endings": (end(state="COMPLETED", exit_code=0),)})[""]
    again = {"jobs": (job("330", submitted_at=LATER - 120, started_at=LATER),)}
    yield "runs", liveness(again, begin=LATER)[""]
    yield "waits", liveness({"jobs": (waits(start_estimate=START + 7200),)}, begin=LATER)[""]
    yield "never seen alive", liveness({}, {"after": 300.0})[""]
    before = {
        "after": 300.0,
        "endings": (end(state="FAILED", exit_code=1, started_at=START - 900, ended_at=START - 600),),
    }
    yield "ended before it was watched", liveness({}, before)[""]
    far = replace(RUN, progress=Progress(done=40, total=1000, unit="iteration"))
    short = liveness(runs, {"endings": (end(state="COMPLETED", exit_code=0),)}, run=far)[""]
    yield "ended well, before its last step", short
    yield (
        "of a user who does not count",
        liveness({}, {"after": 300.0, "elsewhere": (job("7", user="carol"),)})[""],
    )
    yield "none of its jobs counts", liveness(runs, {"after": 300.0, "elsewhere": (job(user="carol"),)})[""]
    yield (
        "never seen, and perhaps hidden",
        liveness({}, {"veiled": True}, run=replace(RUN, users=frozenset()))[""],
    )
    yield "suspended", liveness({"jobs": (job(state="SUSPENDED"),)}, {"jobs": (job(state="SUSPENDED"),)})[""]
    leaving = {"jobs": (job(state="COMPLETING"),)}
    yield "its job does not leave", liveness(leaving, {**leaving, "after": 1000.0})[""]
    late = {"jobs": (waits(start_estimate=START - 7200),)}
    yield "starts later than estimated", liveness(late)[""]
    yield "never starts", liveness({"jobs": (waits(reason="QOSMinGRES"),)})[""]
    yield "held by its user", liveness({"jobs": (waits(reason="JobHeldUser"),)})[""]
    yield "renamed", liveness(runs, {"jobs": (), "renamed": (job(name="llama 2"),)})[""]
    yield "in a state that nobody knows", liveness({"jobs": (job(state="HIBERNATING"),)})[""]
    switch = KillSwitch(START, "alice", "wrong learning rate")
    yield (
        "stopped on request",
        liveness(runs, {"endings": (end(state="COMPLETED", exit_code=0),)}, switch=switch)[""],
    )
    pressed = KillSwitch(START, "watchdogd", "on_hang, incident 6", automatic=True)
    yield (
        "stopped by watchdogd",
        liveness(runs, {"endings": (end(state="COMPLETED", exit_code=0),)}, switch=pressed)[""],
    )
    yield (
        "stopped, with jobs left",
        liveness(
            runs,
            {"jobs": (waits(tasks=3),), "endings": (end(state="COMPLETED", exit_code=0),)},
            switch=switch,
        )[""],
    )
    yield "disobeys its kill switch", liveness(runs, {"jobs": (job(),), "after": 1200.0}, switch=switch)[""]
    yield "a kill switch left set", liveness({"jobs": (waits(tasks=3),), "after": 1200.0}, switch=switch)[""]
    yield (
        "the queue does not answer",
        liveness({"jobs": None, "trouble": "squeue did not answer in 20 s"})[""],
    )
    yield "less queued than wanted", liveness(runs, min_queued=2)["queue"]
    near = {"jobs": (job(ends_at=START + 1200, time_limit=72300.0),)}
    yield "its walltime ends, nothing waits", liveness(near)["queue"]
    crashed = [
        end(str(300 + at), started_at=START + 60 * at - 50, ended_at=START + 60 * at) for at in range(1, 5)
    ]
    loop = [
        {"jobs": (job(str(301 + at), started_at=START + 60 * at + 2),), "endings": tuple(crashed[:at])}
        for at in range(1, 5)
    ]
    yield "a crash loop", liveness({"jobs": (job("301"),)}, *loop, cause="GPU out of memory")["crashes"]
    yield (
        "a job failed, the next took over",
        liveness(
            runs,
            {"jobs": (job("330", started_at=START + 95),), "endings": (end(),)},
            cause="GPU out of memory",
        )["notice"],
    )
    lost = {"jobs": (job("330", started_at=START + 95),), "endings": None, "endings_trouble": "sacct is off"}
    yield "a job is lost, the next took over", liveness(runs, lost, {**lost, "after": 100.0})["notice"]
    yield (
        "requeued",
        liveness(runs, {"jobs": (waits("329", "BeginTime", start_estimate=START + 120),)})["notice"],
    )
    finished = replace(RUN, finished="alice: all steps are done")
    yield "marked finished", liveness({"jobs": ()}, run=finished)["notice"]


def lines(folder: Path, text: str, *, minutes: float = 0, **wanted: Any) -> dict[str, Observation]:
    """What log_staleness says of a log with these lines, a minute apart, and then nothing for so long.

    What is long is looked at twelve times. `later`: the jobs of further minutes, each with a new line.
    """
    log, now = folder / "train.log", wanted.pop("begin", START)
    memory: dict[str, Any] = {}
    log.write_text("")
    found: dict[str, Observation] = {}
    jobs = wanted.pop("jobs", (job(),))
    signs = wanted.pop("signs", ())
    name = wanted.pop("name", RUN.name)
    backend = wanted.pop("backend", "slurm")
    deeds = wanted.pop("deeds", ())
    run = replace(RUN, name=name, job_name=name, signs=signs, backend=backend, deeds=deeds)
    looks = min(int(minutes), 12)
    told_of = [(jobs, line, MINUTE) for line in text.splitlines()]
    told_of += [(jobs, "", MINUTE * minutes / max(looks, 1))] * looks
    for jobs, line, pause in [*told_of, *((*each, MINUTE) for each in wanted.pop("later", ()))]:
        now += pause
        if line:
            with log.open("a") as file:
                file.write(line + "\n")
            os.utime(log, (now, now))
        snapshot = Snapshot(now, jobs=jobs, backend=backend)
        given = {"run": run, "snapshot": snapshot, "memory": memory, "now": now, "failed": 0}
        parameters = {"log": str(log), "stale_after": 90.0, **wanted}
        with mock.patch.object(node_answers, "own_name", return_value="alice"):  # whoever renders this
            told = list(log_staleness.results(parameters, given))
        found = {each.subject: seen(f"{RUN.name}/log_staleness", each, now) for each in told}
    return found


STEPS = "\n".join(f"iteration {at}/9000 | lm loss: {3 - at / 10:.3f}" for at in range(1, 9))
WAITS = STEPS + "\nwaiting for the others" * 4
LATER = START + 20 * MINUTE
"""When a log that was bad is good again."""


def log(folder: Path) -> Said:
    yield "stalled", lines(folder, STEPS, minutes=4)[""]
    yield "makes progress", lines(folder, STEPS, begin=LATER)[""]
    yield "stalled, a colleague's", lines(folder, STEPS, minutes=4, jobs=(job("330", user="bob"),))[""]
    yield "a colleague's makes progress", lines(folder, STEPS, begin=LATER)[""]
    raised = f"{STEPS}\nTraceback (most recent call last):\nKeyError: 'tokens'"
    yield "stalled, an error raised", lines(folder, raised, minutes=4)[""]
    yield "it makes progress", lines(folder, STEPS, begin=LATER)[""]
    crash = f"{STEPS}\n[rank7]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    yield "stalled, with its cause", lines(folder, crash, minutes=4)[""]
    yield "output but no progress", lines(folder, WAITS, stale_after=90.0)[""]
    yield "its job is over", lines(folder, STEPS, jobs=(), begin=LATER)[""]
    waiting = waits("329", "BeginTime")
    hung: dict[str, Any] = {"minutes": 4, "begin": LATER}
    yield "its job was requeued", lines(folder, STEPS, **hung, later=[((), ""), ((waiting,), "")])[""]
    requeued: dict[str, Any] = {"deeds": (JobDeed("requeue", 7, LATER + 12.5 * MINUTE),)}
    yield (
        "watchdogd requeued its job",
        lines(folder, STEPS, **hung, **requeued, later=[((), ""), ((waiting,), "")])[""],
    )
    cancelled: dict[str, Any] = {"deeds": (JobDeed("cancel", 7, LATER + 12.5 * MINUTE),)}
    yield "watchdogd cancelled its job", lines(folder, STEPS, **hung, **cancelled, later=[((), "")] * 2)[""]
    newer = job("330", started_at=LATER + 13 * MINUTE)
    steps = [((newer,), line) for line in STEPS.splitlines()[:2]]
    yield "the next job makes progress", lines(folder, STEPS, **hung, later=[((), ""), *steps])[""]
    sign = Sign("checkpoints", "its checkpoints grew by 12 GB", START + 130 * MINUTE, START + 10 * MINUTE)
    yield "silent, but it seems to work", lines(folder, STEPS, minutes=123, signs=(sign,))[""]
    done = "\n".join(f"iteration {at}/8 | lm loss: 2.3" for at in range(1, 9))
    yield "all steps done", lines(folder, done, minutes=90, stale_after="auto")[""]
    yield "no log yet", lines(folder, STEPS, minutes=3, log=str(folder / "none.log"))[""]
    yield "nobody knows whether it runs", lines(folder, STEPS, minutes=4, jobs=None)[""]
    yield (
        "no line matches progress",
        lines(folder, "hello\n" * 5, minutes=0, progress=r"step (\d+)", grace=90.0)[""],
    )
    nan = STEPS + "\n" + "\n".join(f"iteration {at}/9000 | lm loss: nan" for at in range(9, 14))
    yield "the loss is NaN", lines(folder, nan)["loss"]
    yield "a loss that is fine", lines(folder, STEPS, begin=LATER)["loss"]
    must: dict[str, Any] = {
        "must_not_see": (r"Using \[0\]nmn0",),
        "must_see": ({"match": "aws-ofi", "within": "2m"},),
    }
    forbidden = lines(folder, f"NET/OFI Using [0]nmn0\n{STEPS}", **must)
    yield "a forbidden line", forbidden["must_not_see"]
    late = {**must, "jobs": (job(started_at=START + 30),)}
    yield "an expected line does not come", lines(folder, STEPS, **late)["must_see"]
    late["begin"] = LATER
    yield "the expected line came", lines(folder, f"{STEPS}\naws-ofi", **late)["must_see"]
    state = RunLog()
    state.curves.level, state.curves.pace = Level(), Pace("iteration", "iteration", Level(SLOW))
    for at in range(100):
        state.curves.level.take((2.3 if at < 60 else 6.9) + 0.01 * (at % 3))
        state.curves.pace.level.take((0.9 if at < 60 else 2.1) + 0.01 * (at % 3))
    yield "the loss has risen", advised(next(_loss(state, START)), RUN, job())
    yield "slower than before", advised(next(_pace(state)), RUN, job())
    state.told.skips = Skips((1,) * 20, 60)
    yield "gradients overflow", advised(next(_skips(state)), RUN, job())
    state.files.unread = Unread(3, "bytes 100 to 200 of train.log", now=True)
    yield "part of the log was not read", advised(next(_unread(state)), RUN, job())
    stopped = job("4711", state="SUSPENDED", reason="stopped by a signal", nodes="ws1")
    hangs = replace(stopped, state="RUNNING", reason="")
    yield "its process hangs", lines(folder, STEPS, minutes=4, jobs=(hangs,), backend="process")[""]
    yield "its process is stopped", lines(folder, STEPS, minutes=4, jobs=(stopped,), backend="process")[""]


def verdict(free: float, total: float, kind: str = BYTES, of: str = FILE_SYSTEM, **more: Any) -> Any:
    """A judged limit."""
    limits = more.pop("limits", FreeSpaceLimits())
    return replace(free_space.judge(StorageLimit(kind, of, used=total - free, hard=total), limits), **more)


def disk() -> Said:
    look = Outlook(History(), START, saving=Cadence(2.3 * TB, 3 * HOUR))
    path = "/scratch/project_1"
    yield (
        "nearly full",
        _worded(path, [verdict(1.2 * TB, 50 * TB, left=7 * HOUR)], look, "most is held by bob (30 TB)"),
    )
    group = verdict(9 * TB, 100 * TB, of="quota of group six")
    yield "a quota nearly used up", _worded(path, [group], Outlook(History(), START), "")
    yield "few inodes left", _worded(path, [verdict(20_000, 1e6, INODES)], look, "")
    yield "full", _worded(path, [verdict(0, 50 * TB)], look, "")
    yield "room", seen("scratch/disk_quota", _worded(path, [verdict(40 * TB, 50 * TB)], look, ""), LATER)
    yield "its quotas are not known", _source(path, Quotas((), trouble="lfs is not installed"), START)
    targets = [
        StorageTarget("OST0003", 100 * GB, 99 * GB, 1 * GB),
        StorageTarget("OST0004", 100 * GB, 5 * GB, 95 * GB),
    ]
    yield (
        "storage targets nearly full",
        next(iter(storage_targets.judge(path, targets, {BYTES: (None, None), INODES: (None, None)}))),
    )
    was = PathState(Mount("/scratch", "lustre", "mds:/scratch"), host=os.uname().nodename, hangs=START - 200)
    yield "does not answer", path_state._stuck(path, OSError("no answer within 15 s"), was, START)  # type: ignore[arg-type]
    yield "is missing", path_state._unreachable(path, OSError(errno.ENOENT, "No such file"), PathState())
    yield (
        "may not be entered",
        path_state._unreachable(path, OSError(errno.EACCES, "Permission denied"), PathState()),
    )
    yield "writing hangs", write_test._hangs(f"{path} on login1", START - 200, START)
    yield "cannot be written", write_test._failed(path, f"{path} on login1", "written", errno.ENOSPC)
    yield (
        "the file system reports no size",
        next(_told(path, {}, look, QuotaPath(path, Mount("/", "", ""), START), "auto", DiskState())),
    )
    lustre, other = Mount("/scratch", "lustre", "mds:/scratch"), Mount("/", "ext4", "/dev/sda1")
    here = os.statvfs("/")
    moved = PathState(lustre, host=os.uname().nodename)
    yield "is not mounted any more", _some(path_state._moved(path, PathView(1, here, other), moved))
    new = PathView(1, here, Mount("/scratch", "xfs", "/dev/sdb1"))
    yield "another file system", _some(path_state._replaced(path, new, moved, START))
    proc = SimpleNamespace(stat=SimpleNamespace(f_flag=os.ST_RDONLY))
    yield "is read-only", _some(path_state._read_only(path, proc))  # type: ignore[arg-type]
    small = {BYTES: FreeSpaceLimits(), INODES: FreeSpaceLimits()}
    for name, each in (
        ("a node's disk is short", Disk(2 * GB, 100 * GB)),
        ("a node's disk is read-only", Disk(50 * GB, 100 * GB, read_only=True)),
        ("a node's disk is missing", Disk(trouble="No such file", errno=errno.ENOENT)),
        ("a node's disk may not be entered", Disk(trouble="Permission denied", errno=errno.EACCES)),
    ):
        usage = Usage("llama-7b", "329", "node2", None, {"/tmp": each})
        found = [one for one in judge_disks({"node2": usage}, ("/tmp",), small) if one.subject]
        yield name, seen("llama-7b/node_disks", found[0])


def scratch(free: float) -> Result:
    """What is said of a disk of 50 TB with so many TB free."""
    room = verdict(free * TB, 50 * TB)
    return _worded("/scratch/project_1", [room], Outlook(History(), START), "most is held by bob (30 TB)")


def saved(folder: Path) -> Said:
    """What checkpoint_age says."""
    state: dict[str, Any] = {}
    run = {"run": RUN, "memory": state}

    def look(now: float) -> dict[str, Observation]:
        given = {**run, "snapshot": Snapshot(now, jobs=(job(),)), "now": now}
        wanted = {"checkpoints": str(folder / "global_step*"), "checkpoint_every": 3 * HOUR}
        told = checkpoint_age.results(wanted, given)
        return {each.subject: seen(f"{RUN.name}/checkpoint_age", each, now) for each in told}

    def save(step: int, size: int, at: float) -> None:
        path = folder / f"global_step{step}"
        path.write_bytes(b"x" * size)
        os.utime(path, (at, at))

    look(START)
    yield "no checkpoint came", look(START + 4 * HOUR)[""]
    for step in range(1, 6):
        at = START + (3 + 3 * step) * HOUR
        save(step, 100_000, at)
        found = look(at + MINUTE)
        if step == 1:
            yield "a checkpoint came", found[""]
        look(at + 10 * MINUTE)
    save(6, 1_000, START + 21 * HOUR)
    look(START + 21.1 * HOUR)
    yield "a checkpoint may be cut", look(START + 21.3 * HOUR)["content"]
    save(7, 0, START + 24 * HOUR)
    look(START + 24.1 * HOUR)
    yield "a checkpoint is empty", look(START + 24.3 * HOUR)["content"]


def nodes() -> Said:
    """Of nodes, their memory, the hours of a project."""
    limits = MemoryLimits(Amount(share=0.05), 6 * HOUR, 1800.0)
    low = NodeMemory("cgroup job_329", 1.5 * GB, 64 * GB, 60 * GB, (JobProcess(7, "python", 55 * GB),))
    memory, own = "llama-7b/memory_leak", "llama-nodes"
    helps = relief(RUN, [job()])
    yield "memory is short", seen(memory, judge_memory("node2", low, limits, [(START, 60 * GB)], helps))
    leak = [(START - HOUR + 60 * at, 20 * GB + 0.1 * GB * at) for at in range(61)]
    held = NodeMemory("cgroup job_329", 20 * GB, 64 * GB, leak[-1][1], (JobProcess(7, "python", 24 * GB),))
    yield "memory leaks", seen(memory, judge_memory("node2", held, limits, leak, helps))
    here = Snapshot(START, (job(),), users=frozenset({"alice"}))
    yield "a node of it drains", seen(own, next(of_jobs([DRAINED], RUN, here)))
    yield (
        "a node of it is down",
        seen(own, next(of_jobs([SlurmNode("node2", "gpu", "down", "*")], RUN, here))),
    )
    idle = SlurmNode("node3", "gpu", "idle")
    yield "few spare nodes", seen("spare-nodes", spares([DRAINED, idle], "gpu", Amount(absolute=2)))
    barred = node_checks.no_access("llama-7b", "its GPUs", CLOSED, reported=False)
    yield "its GPUs cannot be watched", seen("llama-7b/gpu_health", [*barred][-1])
    asked = Snapshot(START, None, trouble="squeue did not answer in 20 s")
    blind = _some(node_checks.nothing_to_judge(asked, ()))
    yield "whether its job lives is not known", seen("llama-7b/gpu_health", blind)
    yield "its nodes tell nothing of memory", seen(memory, whole({}))
    for name, left, ends_in in (
        ("hours end soon", 650, 6 * 24 * HOUR),
        ("no hours are left", -70, None),
        ("hours are left again", 8800, None),
    ):
        budget = Budget("p1", "GPU hours", left, 10_000 - left, 10_000)
        told = judge_hours(budget, "p1 GPU hours", ends_in, None, None, 14 * 24 * HOUR)
        yield name, seen("hours", told, LATER if told.status is Status.OK else START)
    failing = SuspectNode("node2", ("329 FAILED (exit 1)", "330 NODE_FAIL"))
    yield "a node fails its jobs", seen(own, _exclusion("llama-7b", [failing], "exclude"))


DRAINED = SlurmNode("node2", "gpu", "drained", since=START - HOUR, by="root", reason="bad DIMM")


def named(number: int, use: float, watts: float) -> NamedGpu:
    """A GPU of node2."""
    gpu = Gpu(index=number, utilisation=use, power_w=watts)
    return NamedGpu(f"node2/gpu{number}", gpu)


def _some(result: Result | None) -> Result:
    assert result is not None
    return result


def _of_gpu(name: str, node: str, found: list[Fault], details: str) -> Result:
    return _advised(_fault(name, node, found, details), RUN)


def memory_errors(*more: Fault) -> Result:
    """What is said of a GPU whose memory fails."""
    ecc = Fault(Status.CRITICAL, "2 uncorrectable ECC errors in this job", lasting=True)
    return _of_gpu("node2/gpu3", "node2", [ecc, *more], "")


def gpus() -> Said:
    waiting = [named(at, 100, 124.0) for at in range(7)]
    hung = GpuActivity(tuple(waiting), (named(7, 0, 126.0),), hung=True)
    state = GpuHealthState(hung_since=START - 900)
    yield "GPUs wait for one another", next(_hang(hung, state, Patience(600.0, 900.0, 3600.0), RUN, START))
    resting = [named(at, 0, 72.0) for at in range(8)]
    calm, idle, patience = GpuActivity(quiet=tuple(resting)), GpuHealthState(), Patience(600.0, 900.0, 3600.0)
    _ = list(_idle(calm, resting, idle, patience, START - 1200))
    yield "GPUs do nothing", next(standstill.results(calm, resting, idle, patience, RUN, START))
    silent = GpuSurvey((), trouble="srun did not answer within 45 s")
    limits = GpuLimits(8)
    yield (
        "no GPU can be read",
        next(judge_gpus(silent, GpuHealthState(), limits, Patience(1, 1, 1), job(), RUN, START)),
    )
    hot = Fault(Status.WARNING, "91 °C hot, slows down at 90 °C")
    yield "a GPU is hot", _of_gpu("node2/gpu3", "node2", [hot], "")
    well = node_checks.recoveries(
        {"node2/gpu3": 0},
        (),
    )[0]
    yield "a GPU has recovered", seen("llama-7b/gpu_health", well, LATER)
    yield "a GPU has memory errors", memory_errors(hot)
    yield (
        "a GPU is gone",
        _of_gpu(
            "node2", "node2", [Fault(Status.CRITICAL, "gpu3 is gone, 7 of 8 GPUs are left", lasting=True)], ""
        ),
    )
    yield (
        "a node's GPUs cannot be read",
        _of_gpu("node2", "node2", [Fault(Status.UNKNOWN, "its GPUs cannot be read: timeout")], ""),
    )


def _misspelt() -> str:
    """What is said of a key of config.toml that is none."""
    home = Home(Path("/home/alice/watchdogd"))
    try:
        parse("[disks.scratch]\npath = '/scratch'\nwarn_fre = '5%'\n", home.config)
    except ConfigError as error:
        return not_taken(home, error)
    raise AssertionError


def _unusable() -> tuple[Problem, ...]:
    """What is said of a plugin that cannot be imported."""
    why = "ModuleNotFoundError: No module named 'numpy'"
    setup: Any = SimpleNamespace(catalog={"tidy": _unusable_plugin("tidy", "/home/plugins/tidy.py", why)})
    said: tuple[Problem, ...] = Setup.unusable.fget(setup)  # type: ignore[attr-defined]
    return said


def dropins(folder: Path) -> Said:
    """What is said of drop-ins."""
    path = folder / "cron.hourly/tidy"
    for name, code, output in (
        ("a program says CRITICAL", 2, "CRITICAL: 12 files left | files=12"),
        ("a program ends with another code", 7, "boom"),
    ):
        yield name, dropins_module.advised(nagios.read(code, output, ""), str(path), str(folder))
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o757)
    yield "everybody may write it", refused(str(path), str(folder), distrust(path))


SILENT = TroubleKind.NO_ANSWER
CLOSED = "Slurm starts no step in carol's job 329, and no probe runs in it"
HOME = Path("/home/alice/watchdogd")


def _failed(text: str, number: int, path: Path) -> Trouble:
    """A trouble in the words of those who find it, with what the kernel says."""
    return Trouble.of(f"{text}: {os.strerror(number)}", OSError(number, os.strerror(number)), path)


def _unrecorded() -> Trouble:
    """The history's own words, of a disk that fails."""
    fails = sqlite3.OperationalError("disk I/O error")
    fails.sqlite_errorname = "SQLITE_IOERR_WRITE"
    return Trouble.of(sentence(fails, HOME / "history.db").what, fails, HOME)


INVALID = "sbatch was refused: invalid account"
TROUBLES = {
    "engine": Trouble(f"no alerts go out on slack: {NO_THREAD}", TroubleKind.PROCESSES),
    "history": _unrecorded(),
    "channels": "channel slack: SLACK_WEBHOOK_URL is not set",
    "answers": "answers of channel slack cannot be read: missing_scope",
    "delivery": "channel mail does not deliver: smtp.example.org refused: 550 (3 waiting)",
    "workers": "1 process hangs in the kernel and cannot be killed: run-17/log_staleness",
    "chain": Trouble.of(f"the next watchdog job is not queued: {INVALID}", SlurmError(INVALID)),
    "home": _failed("the watchdog's home cannot be written", errno.EROFS, HOME),
    "inbox": _failed(f"{HOME}/inbox cannot be read", errno.EACCES, HOME / "inbox"),
    "drop-ins": _failed("new drop-ins are not taken up", errno.EIO, HOME / "cron.daily"),
    "publishing": _failed("the page /web/bloom.html cannot be written", errno.ENOSPC, Path("/web")),
    "pulse": _failed(
        "the pulse file /scratch/tr11/pulse.log is not updated",
        errno.EISDIR,
        Path("/scratch/tr11/pulse.log"),
    ),
}
"""Troubles of the daemon, by subject, in the words of those who find them; config.toml's is made below."""


def itself() -> Said:
    """What the daemon says of itself and of what all its checks rest on."""
    silent = Snapshot(START, None, trouble="squeue did not answer within 30 s")
    queue = queue_result(silent, ["llama-7b/job_liveness"])
    yield "the queue does not answer", seen(queue_name("slurm"), queue)
    probes = Probes()
    name = f"{SELF}/files:/scratch"
    scratch = Dependency(name, "/scratch", ("/scratch/tr11",), ("llama-7b/log_staleness",))
    mute = probes.result(scratch, answered=False, host="login1")
    yield "a file system does not answer", seen(name, mute)
    monitor = SelfMonitoring(Home(Path("/home/alice/watchdogd")))
    monitor.troubles |= {**TROUBLES, "config": _misspelt()}
    with mock.patch.object(trouble, "own_name", return_value="alice"):  # whoever renders this
        link = {"job_id": "88412", "ends_at": "2026-11-28T00:20:00+01:00"}
        found = list(monitor._of_troubles(link, START))
    for each in found:
        if each.status is not Status.OK:
            check = DELIVERY if each.subject == "delivery" else SELF
            yield f"trouble with {each.subject}", seen(check, each)
    monitor.troubles |= dict.fromkeys(TROUBLES, "")
    for each in monitor._of_troubles(None, LATER):
        if each.status is Status.OK and each.subject in TROUBLES:
            check = DELIVERY if each.subject == "delivery" else SELF
            yield f"no trouble with {each.subject}", seen(check, each, LATER)
    daemon = SimpleNamespace(confirm=2, interval=10.0)
    setup: Any = SimpleNamespace(config=SimpleNamespace(daemon=daemon))
    place = "/home/alice/watchdogd"
    monitor.troubles |= {
        "home": Trouble(f"{place}/switches cannot be read: {place} has not answered for 5 s", SILENT),
        "inbox": Trouble(f"{place}/inbox cannot be read: {place} has not answered for 6 s", SILENT),
    }
    for at in (START - 40, START - 20, START):
        monitor._listen(setup, at)
    mute = next(each for each in monitor._of_troubles(None, START) if each.subject == "home")
    yield "home does not answer", seen(SELF, mute)
    monitor.troubles |= {"home": "", "inbox": ""}
    monitor._listen(setup, LATER)
    answers = next(each for each in monitor._of_troubles(None, LATER) if each.subject == "home")
    yield "home answers again", seen(SELF, answers, LATER)
    yield "a plugin is not used", monitor._of_plugins(_unusable())
