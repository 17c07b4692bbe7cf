"""What is said where something cannot be looked at, by each check's own function."""

from __future__ import annotations

import contextlib
import errno
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from tests.golden.checks import HOUR, MINUTE, RUN, START, TB, Said, _some, end, job, seen, verdict
from watchdogd.batch.models import Snapshot
from watchdogd.batch.sinfo import SlurmNode
from watchdogd.daemon.check_runner import CheckRunner
from watchdogd.daemon.dropins import dropin_jobs, dropins
from watchdogd.daemon.dropins.crontab import _CrontabBuilder
from watchdogd.daemon.dropins.dropin_jobs import Followed
from watchdogd.daemon.workers.worker_protocol import Reply
from watchdogd.parsers.gpu.kernel_log import DriverEvent
from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.parsers.probe_sample import Usage
from watchdogd.parsers.quota.lfs_quota import StorageTarget
from watchdogd.plugin import Amount, Result
from watchdogd.plugins.checkpoint_age import check as checkpoint_age
from watchdogd.plugins.disk_quota import path_state, storage_targets, write_test
from watchdogd.plugins.disk_quota.check import _source
from watchdogd.plugins.disk_quota.path_state import PathState
from watchdogd.plugins.disk_quota.quota_sources import Quotas
from watchdogd.plugins.disk_quota.write_test import WriteTestState
from watchdogd.plugins.gpu_health.check import _advised, _of_gpus
from watchdogd.plugins.gpu_health.faults import GpuLimits
from watchdogd.plugins.gpu_health.gpu_state import GpuHealthState
from watchdogd.plugins.gpu_health.standstill import Patience
from watchdogd.plugins.log_staleness.check import log_staleness
from watchdogd.plugins.log_staleness.log_verdicts import _lost
from watchdogd.plugins.memory_leak.check import memory_leak
from watchdogd.plugins.node_disks.check import judge as judge_disks
from watchdogd.plugins.node_disks.check import node_disks
from watchdogd.plugins.node_health.check import node_health, spares
from watchdogd.plugins.project_hours.check import project_hours
from watchdogd.system.bounded_io import BoundedIO, UnaskedError
from watchdogd.system.command import Answer, Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Snapshot(START, jobs=(job(),), users=frozenset({"alice"}))
GIVEN: dict[str, Any] = {"run": RUN, "snapshot": HERE, "memory": {}, "now": START}
DENIED = Answer(("sinfo",), 1, "", "slurm_load_node: Unable to contact slurm controller", 0.1)


@contextlib.contextmanager
def instead(name: str, answer: object) -> Iterator[None]:
    """Let a function of the product return that, or raise it."""
    keys = {"side_effect" if isinstance(answer, Exception) else "return_value": answer}
    with patch(f"watchdogd.{name}", **keys):  # type: ignore[call-overload]
        yield


def log(folder: Path) -> Said:
    """Of logs."""
    with instead("plugins.log_staleness.sources.look", PermissionError(errno.EACCES, "Permission denied")):
        yield "the log cannot be read", log_staleness.results({"log": str(folder)}, {**GIVEN, "failed": 0})[0]
    lost = SimpleNamespace(lost=5, text="iter # reward nan")
    nameless: Any = SimpleNamespace(told=SimpleNamespace(loss=None), clocks=SimpleNamespace(lost=lost))
    yield "a number without a name is NaN", _some(_lost(nameless, "", START))


def saved() -> Said:
    """Of checkpoints."""
    place = "plugins.checkpoint_age.check"
    wanted = {"checkpoints": "/scratch/tr11/global_step*", "checkpoint_every": 3 * HOUR}
    wrong = OSError(errno.EIO, "Input/output error", "/scratch/tr11")
    with instead(f"{place}.checkpoint_inventory.update_inventory", wrong):
        yield "its checkpoints cannot be read", checkpoint_age.checkpoint_age.results(wanted, GIVEN)[0]
    empty = SimpleNamespace(known={})
    since, late = (
        SimpleNamespace(since=SimpleNamespace(at=START - hours * HOUR), inventory=empty) for hours in (1, 4)
    )
    working: Any = SimpleNamespace(job=None, blind="squeue did not answer in 20 s")
    say: Any = checkpoint_age._age
    pattern = wanted["checkpoints"]
    with instead(f"{place}._lost", [2 * HOUR]):
        yield "perhaps no checkpoint came", say(pattern, working, late, START, 3 * HOUR, None)
    idle: Any = SimpleNamespace(job=None, blind="")
    with instead(f"{place}._lost", [2 * HOUR, 2 * HOUR]):
        yield "none of two jobs saved one", say(pattern, idle, since, START, 3 * HOUR, None)
    half = SimpleNamespace(changed=START - 24 * HOUR, mark=".incomplete", size=7)
    kept: Any = SimpleNamespace(known={"/scratch/tr11/global_step7": half})
    yield "a checkpoint is unfinished", checkpoint_age._content(kept, START)


def disk() -> Said:
    """Of disks."""
    path = "/scratch/project_1"
    old = replace(verdict(9 * TB, 100 * TB).limit, at=START - 72 * HOUR)
    yield "its quotas are old", _source(path, Quotas((old,)), START)
    with patch.object(BoundedIO, "attempt", side_effect=UnaskedError(path)):
        unseen = path_state.look(path, PathState(), START)
    yield "could not be looked at", _some(unseen if isinstance(unseen, Result) else None)
    for name, number, text in (
        ("cannot be looked at", errno.ELOOP, "Too many levels of symbolic links"),
        ("its server has lost it", errno.ESTALE, "Stale file handle"),
    ):
        yield name, path_state._unreachable(path, OSError(number, text), PathState())
    mute = StorageTarget("OST0003", 0, 0, 0)
    yield "no figures of its targets", storage_targets._judged(path, [mute], (0.1, 0.05), "targets")
    with instead("plugins.disk_quota.write_test.ask", replace(DENIED, argv=("python",), errors="no memory")):
        yield "writing could not be tried", write_test.write_test(path, WriteTestState(), START, 15.0)


def nodes() -> Said:
    """Of nodes."""
    mute: Any = SimpleNamespace(closed="", trouble="", told={}, silent={"node2": "its probe has ended"})
    disks, nodes = "llama-7b/node_disks", "llama-nodes"
    for check, name in ((memory_leak, "memory_leak"), (node_disks, "node_disks")):
        wanted: dict[str, Any] = {"memory_free": Amount(share=0.05)}
        wanted = {"node_disks": ("/tmp",)} if check is node_disks else wanted
        with instead(f"plugins.{name}.check.look", mute):
            told = check.results(wanted, {**GIVEN, "history": None})[-1]
            yield "a node is silent", seen(f"llama-7b/{name}", told)
    with instead("plugins.node_disks.check.look", SimpleNamespace(**{**vars(mute), "trouble": "srun: late"})):
        told = node_disks.results({"node_disks": ("/tmp",)}, GIVEN)[-1]
        yield "no node could be asked", seen(disks, told)
    usage = Usage("llama-7b", "329", "node2", None, {})
    yield "a disk was not looked at", seen(disks, list(judge_disks({"node2": usage}, ("/tmp",), {}))[-1])
    for name, answer in (
        ("Slurm says nothing of nodes", DENIED),
        ("Slurm knows no node", replace(DENIED, exit_code=0, errors="")),
        ("Slurm's nodes are not understood", replace(DENIED, exit_code=0, output="what?\n")),
    ):
        with instead("plugins.node_health.check.command.ask", answer):
            yield name, seen(nodes, node_health.results({}, GIVEN)[0])
    yield "no such partition", seen("spare-nodes", spares([SlurmNode("node2", "gpu", "idle")], "gpus", None))
    with instead("plugins.project_hours.check.ask", replace(DENIED, argv=("sshare",))):
        yield (
            "its hours are not known",
            seen("hours", project_hours.results({}, {**GIVEN, "history": None})[0]),
        )
    none: Any = SimpleNamespace(name="p1", limit=0, used=0)
    with (
        instead("plugins.project_hours.check.budgets.of_sshare", [none]),
        instead("plugins.project_hours.check._said", ""),
        patch("watchdogd.plugins.project_hours.check._ends_in"),
        patch("watchdogd.plugins.project_hours.check.judge", return_value=Result.__new__(Result)),
    ):
        yield "no hours are granted", seen("hours", next(project_hours.function(history=None, now=START)))


def gpus() -> Said:
    """Of GPUs that only their driver tells of."""
    event = DriverEvent("0000:1b:00", 79, "Xid 79, GPU has fallen off the bus", at=START, fatal=True)
    node = GpuNode("node2", events=(event,))
    given: Any = (GpuHealthState(), GpuLimits(8), Patience(1, 1, 1), {}, START - 60, START)
    yield "a driver tells of a GPU", _advised(next(_of_gpus(node, *given)), RUN)


def dropin(folder: Path) -> Said:
    """Of drop-ins that do not run, or whose jobs fail."""
    home, copy, script_name = str(folder), folder / "cron.hourly/cp.slurm", "cron.hourly/cp.slurm"
    tidy, odd = folder / "cron.hourly/tidy", folder / "cron.hourly/odd"
    odd.write_text("#!/no/such/shell\n")
    for each in (tidy, odd):
        each.chmod(0o755)
    given: dict[str, Any] = {"path": str(tidy), "home": home, "deadline": 600.0}
    late = replace(DENIED, exit_code=None, failure=Failure.LATE, errors="")
    with contextlib.chdir(folder), instead("daemon.dropins.dropins.command.ask", late):
        yield "a program that does not end", dropins.executable.results(given, {})[0]
    with contextlib.chdir(folder):
        strange = dropins.executable.results({**given, "path": str(odd)}, {})[0]
    yield "a program that cannot be started", seen("cron.hourly/odd", strange)
    yield "home is gone", dropins.executable.results({**given, "home": f"{home}/gone"}, {})[0]
    slurm: dict[str, Any] = {
        "path": str(copy), "comment": "watchdogd:1", "home": home, "output": "", "partition": "",
        "account": "", "every": 3600.0, "users": frozenset({"alice"}), "edited": 1,
    }  # fmt: skip
    copy.write_text("#!/bin/sh\n")
    with patch("shutil.which", return_value=None):
        yield "there is no sbatch", seen(script_name, next(_results(slurm, Followed())))
    failed = end("77", name="copy", ended_at=START - 30)
    over = Snapshot(START, jobs=(), endings=(failed,), users=frozenset({"alice"}))
    with (
        patch("shutil.which", return_value="/usr/bin/sbatch"),
        instead("daemon.dropins.dropin_jobs.slurm_snapshot.look", over),
    ):
        known = Followed("77", "copy", START - MINUTE, "77", START - 600)
        (folder / "cp-77.out").write_text("cp: cannot stat 'saved': No such file or directory\n")
        told = next(_results({**slurm, "output": f"{folder}/cp"}, known))
        yield "its job failed", seen(script_name, told)
    for name, reason, hours in (
        ("its job never starts", "PartitionTimeLimit", 0),
        ("its job waits", "Priority", 3),
    ):
        waits = job("77", state="PENDING", reason=reason, submitted_at=START - hours * HOUR, nodes="")
        queue = Snapshot(START, jobs=(waits,), endings=(), users=frozenset({"alice"}))
        with (
            patch("shutil.which", return_value="/usr/bin/sbatch"),
            instead("daemon.dropins.dropin_jobs.slurm_snapshot.look", queue),
        ):
            known = Followed("77", "copy", START - MINUTE, "77", START - 600)
            yield name, seen(script_name, next(_results(slurm, known)))
    crontab: Any = _CrontabBuilder.__new__(_CrontabBuilder)
    stated = patch.object(_CrontabBuilder, "_stated", lambda _self, _dropin, said: said)
    script: Any = SimpleNamespace(
        refused="", kind=dropins.DropInKind.SLURM, name="x", every=1.0, path=f"{home}/count.py"
    )
    full = OSError(errno.ENOSPC, "No space left on device")
    with stated, patch.object(_CrontabBuilder, "_script", side_effect=full):
        yield "its job could not be marked", seen(script_name, crontab.of(script)[0])
    entry: Any = SimpleNamespace(every=None, skipped="cannot be loaded: ModuleNotFoundError: no module numpy")
    with stated, patch("watchdogd.daemon.dropins.crontab.replace", lambda said, **_: said):
        yield (
            "a plugin that cannot be loaded",
            seen("cron.hourly/count.py", crontab._plugin(script, entry, "x")),
        )


def _results(parameters: dict[str, Any], state: Followed) -> Iterator[Result]:
    found = dropin_jobs.script.function(**parameters, state=state, now=START)
    return (each for each in found if isinstance(each, Result))


def broken_off() -> Said:
    """Of checks that broke off."""
    runner: Any = CheckRunner.__new__(CheckRunner)
    runner._clock, runner._unended, runner._memories = (lambda: START), {}, {}
    entry = SimpleNamespace(declared=SimpleNamespace(jobs=False), wants=(), foreign=True)
    check: Any = SimpleNamespace(name="waiting-jobs", run_name="", target="waiting-jobs", entry=entry)
    wrong = Reply("k", trouble="raised KeyError: 'partition' (plugins/waiting_jobs.py:8)")
    yield "a plugin of one's own broke off", runner._observed(check, wrong, {})[0]
    late = Reply("k", trouble="did not end within 20s", late=True)
    yield "a plugin of one's own does not end", runner._observed(check, late, {})[0]
