"""The stacks of 64 simulated nodes with 8 ranks each: of one node by py-spy, of all at once, and folded.

A stand-in for `srun` starts the probes of all nodes here, at once, as Slurm does on the nodes; they look at
the same eight processes. One py-spy at a time may stop a process, and 1,536 of them are more than a few cores
carry: the 64 probes hear what py-spy said of each process just before, from a program that prints it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from benchmarks import measure
from benchmarks.table import Line
from watchdogd.batch.live_job import LiveJob
from watchdogd.batch.models import Job
from watchdogd.plugin import Run
from watchdogd.stacks import stack_collection
from watchdogd.stacks.stack_collection import Sampling
from watchdogd.stacks.stack_folding import StackSummary, fold

NODES, RANKS, JOB, WISH = 64, 8, "4711", Sampling(deadline=180.0)
_DEPTH = 20
_PROGRAM = f"""import threading, time
def deeper(left):
    deeper(left - 1) if left else time.sleep(900)
threading.Thread(target=deeper, args=({_DEPTH},), daemon=True).start()
deeper({_DEPTH})
"""
_SRUN = """#!/bin/sh
for word in "$@"; do
    shift
    case $word in --nodelist=*) nodes=${word#*=} ;; --) break ;; esac
done
task=0
for node in $(echo "$nodes" | tr , ' '); do
    SLURMD_NODENAME=$node "$@" | sed -u "s/^/$task: /" &
    task=$((task + 1))
done
wait
"""


def lines() -> Iterator[Line]:
    """Three rows of the table."""
    looks = f"{WISH.samples} samples {WISH.every:g} s apart"
    with measure.folder() as folder, _ranks(folder):
        tool = stack_collection.py_spy()
        if tool is None:
            raise RuntimeError(stack_collection.MISSING)
        yield Line(
            f"stacks of one node with {RANKS} ranks by py-spy, {looks}",
            f"{_taken(folder, 1, tool)[1]:.1f} s",
            reach="≤ 15 s",
        )
        folded, lasted = _taken(folder, NODES, _recorded(folder, tool))
    yield Line(
        f"stacks of {NODES} simulated nodes × {RANKS} ranks, {looks}: all probes here, "
        "py-spy's answers recorded",
        f"{lasted:.1f} s",
        reach="≤ 15 s",
    )
    processes = [member for group in folded.groups for member in group.members]
    [folding] = measure.in_turn(9, lambda: measure.wall(lambda: fold(processes, folded.seconds)))
    yield Line(
        f"folding the stacks of {NODES} nodes × {RANKS} ranks",
        f"{folding * 1e3:.1f} ms",
        reach="≤ 200 ms",
    )


@contextmanager
def _ranks(folder: Path) -> Iterator[None]:
    """Processes of the job that stand still, and an srun on PATH."""
    srun = folder / "srun"
    srun.write_text(_SRUN)
    srun.chmod(0o755)
    start = f"for rank in $(seq {RANKS}); do RANK=$rank '{sys.executable}' -c '{_PROGRAM}' & done; wait"
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    with (
        mock.patch.dict(os.environ, path),
        measure.running(["sh", "-c", start], env={**os.environ, "SLURM_JOB_ID": JOB}),
    ):
        time.sleep(5)
        yield


def _taken(folder: Path, nodes: int, tool: str) -> tuple[StackSummary, float]:
    """What `watchdogd stacks` sees of these nodes, and in how many seconds. RuntimeError unless it is all."""
    job = Job(JOB, JOB, "run", "user", "RUNNING", nodes=f"node[1-{nodes}]", node_count=nodes)
    with mock.patch.object(stack_collection, "py_spy", return_value=tool):
        begin = time.perf_counter()
        taken = stack_collection.take(str(folder), LiveJob(Run("run", "run"), (job,)), WISH)
        lasted = time.perf_counter() - begin
    samples = sum(len(each.samples) for group in taken.folded.groups for each in group.members)
    if samples != nodes * RANKS * WISH.samples:
        troubles = sorted({each.trouble for each in taken.folded.unread})
        raise RuntimeError(f"{samples} stacks of {nodes} × {RANKS} ranks; {troubles}; {taken.notes}")
    return taken.folded, lasted


def _recorded(folder: Path, tool: str) -> str:
    """A program that prints what py-spy says of the processes now."""
    pids = [pid for pid in os.listdir("/proc") if pid.isdecimal() and _is_rank(pid)]
    for pid in pids:
        words = [tool, "dump", "--json", "--pid", pid]
        (folder / pid).write_bytes(subprocess.run(words, capture_output=True, check=True, timeout=60).stdout)
    program = folder / "py-spy"
    program.write_text(f'#!/bin/sh\nexec cat {shlex.quote(str(folder))}/"$4"\n')
    program.chmod(0o755)
    return str(program)


def _is_rank(pid: str) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"SLURM_JOB_ID={JOB}".encode() in environ and any(each.startswith(b"RANK=") for each in environ)
