"""Stacks of all Python processes of a job on this node, or below given processes, taken by py-spy.

Started on every node at once, it prints `@@ node NAME`, and then each process as soon as it is done, in short
lines (srun mixes up long lines of several nodes): `@@ part PID NUMBER OF DATA`. A process that is not done by
the deadline is reported with that as its trouble. `packages` writes this format, `parcels` reads it.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import contextlib
import json
import os
import re
import sys
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from watchdogd.parsers import pyspy
from watchdogd.parsers.stack_models import StackDump
from watchdogd.system import command
from watchdogd.system.codec import codec_of
from watchdogd.system.number import digits
from watchdogd.system.smallfile import parse_json

RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
"""Environment variables that hold a process's rank, most reliable first."""
_CLUSTER = ("SLURM_CLUSTER_NAME", "SLURM_CONF", "SLURM_JOB_UID")
_CLOCKS = 120.0
"""Seconds by which a node's clock may lag behind the controller's."""
_AT_ONCE = 8
_LONGEST = 10.0
"""Seconds allowed for one run of py-spy."""
_STOPPED = 1.0
"""Seconds after which a process that is stopped counts as such."""
_PARTS, _UNPACKED = 100_000, 32 * 1024 * 1024
"""Limits of one parcel in parts and in bytes; anything larger is not a parcel."""
_LETTERS = 700
_OURS = re.compile(r"(?:^|/)watchdogd$|(?:^|from )watchdogd\.(?!training\b|integrations\b|demo\b)\w")
_PRINTING = threading.Lock()


@dataclass(frozen=True, slots=True)
class TrainingProcess:
    """A process as /proc describes it. `ranks` are the variables of RANKS in its environment."""

    pid: int
    parent: int
    ranks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Parcel:
    """Report on one process: its samples, or why there are none and its state in /proc."""

    found: TrainingProcess
    samples: tuple[StackDump, ...] = ()
    trouble: str = ""
    state: str = ""


def main(words: Sequence[str] | None = None) -> int:
    """Print the stacks of all processes; return 0 if there was at least one."""
    args = _arguments(words)
    until = time.monotonic() + args.deadline
    print(f"@@ node {os.environ.get('SLURMD_NODENAME') or os.uname().nodename}", flush=True)
    found = of_job(args.job, args.since) if args.job else below(args.below)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for future in [pool.submit(_look_and_tell, each, args, until) for each in found]:
            future.result()
    return 0 if found else 1


def of_job(job: str, since: float = 0.0) -> list[TrainingProcess]:
    """Return the job's Python processes on this node, as far as this user may see them; `job` is the raw id.

    Job ids are reused, by other clusters or after Slurm's counter was reset. Processes that began before
    `since` (seconds since the epoch, the job's start), or that another cluster's Slurm started, are left out.
    """
    node = os.environ.get("SLURMD_NODENAME", "")
    found = []
    for pid in _pids():
        env = environ(pid)
        here = env.get("SLURM_JOB_ID") == job and env.get("SLURMD_NODENAME", node) == node
        if here and _one_cluster(env) and began(pid) >= since - _CLOCKS:
            found += _python(pid, env)
    return found


def _one_cluster(env: Mapping[str, str]) -> bool:
    """Return False if the process was started by another cluster's Slurm than this one."""
    ours = os.environ
    return all(env[name] == ours[name] for name in _CLUSTER if name in env and name in ours)


def began(pid: int) -> float:
    """Return when a process began (seconds since the epoch, this node's clock); 0.0 if it has ended."""
    fields = of_proc(pid, "stat").rpartition(")")[2].split()
    booted = re.search(r"^btime (\d+)$", _read("/proc/stat"), re.MULTILINE)
    if len(fields) < 20 or not booted:
        return 0.0
    return int(booted[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def below(roots: Sequence[int]) -> list[TrainingProcess]:
    """Return the Python processes among these and their descendants."""
    parents = {pid: _parent(pid) for pid in _pids()}
    family = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return [found for pid in sorted(family) for found in _python(pid, environ(pid))]


def state(pid: int, *, stack: bool = True) -> str:
    """Return `D (disk sleep), waits in nfs_wait_bit_killable`, with the kernel's `stack` if readable."""
    found = re.search(r"^State:\s*(.+)$", of_proc(pid, "status"), re.MULTILINE)
    if not found:
        return ""
    wait = of_proc(pid, "wchan").strip()
    kernel = re.findall(r"^\[<.*?>\] (\S+?)\+", of_proc(pid, "stack"), re.MULTILINE) if stack else []
    parts = [found[1], f"waits in {wait}" if wait not in ("", "0") else ""]
    return ", ".join(filter(None, parts)) + (f" (kernel: {' < '.join(kernel[:6])})" if kernel else "")


def packages(parcel: Parcel) -> Iterator[str]:
    return parts(parcel.found.pid, codec_of(Parcel).dump(parcel))


def parcels(text: str) -> list[Parcel]:
    """Read the processes in the output of one node; incomplete ones are left out."""
    read = codec_of(Parcel).load
    return [parcel for value in values(text).values() if (parcel := read(value))]


def parts(number: int, value: object) -> Iterator[str]:
    """Yield a JSON value in short lines, which `values` reads."""
    data = base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()
    pieces = [data[begin : begin + _LETTERS] for begin in range(0, len(data), _LETTERS)]
    for place, piece in enumerate(pieces, 1):
        yield f"@@ part {number} {place} {len(pieces)} {piece}"


def values(text: str) -> dict[int, Any]:
    """Return the values that `parts` wrote, by number; incomplete ones are left out."""
    lines: dict[int, dict[int, str]] = defaultdict(dict)
    counts: dict[int, int] = {}
    for name, place, count, data in re.findall(r"^@@ part (\d+) (\d+) (\d+) (\S+)$", text, re.MULTILINE):
        lines[digits(name)][digits(place)] = data
        counts[digits(name)] = min(digits(count), _PARTS)
    found = {}
    for number, pieces in lines.items():
        with contextlib.suppress(ValueError, LookupError, RecursionError, binascii.Error, zlib.error):
            data = "".join(pieces[place] for place in range(1, counts[number] + 1))
            found[number] = parse_json(_unpacked(data))
    return found


def _look_and_tell(found: TrainingProcess, args: argparse.Namespace, until: float) -> None:
    lines = "\n".join(packages(_look(found, args, until)))
    with _PRINTING:
        print(lines, flush=True)


def _look(found: TrainingProcess, args: argparse.Namespace, until: float) -> Parcel:
    """Take all samples of one process, `every` seconds apart, counted from the start of the program."""
    begin = until - args.deadline
    samples: list[StackDump] = []
    trouble = ""
    for number in range(args.samples):
        wait = begin + number * args.every - time.monotonic()
        if number and (trouble or time.monotonic() + wait > until):
            break
        time.sleep(max(wait, 0.0))
        dump, trouble = _dump(found.pid, args, until)
        samples += [dump] if dump else []
    process_state = state(found.pid) if trouble and not samples else ""
    return Parcel(found, tuple(samples), "" if samples else trouble, process_state)


def _dump(pid: int, args: argparse.Namespace, until: float) -> tuple[StackDump | None, str]:
    """Take one sample; also return why there is none. A process in state D cannot be stopped for it."""
    now = _lasting_state(pid)
    if not now or now.startswith("Z"):
        return None, "it is a zombie: ended, and not yet collected" if now else "it has ended"
    if now.startswith("T"):  # py-spy would hang
        return None, f"it is stopped: kill -CONT {pid}"
    options = (["--nonblocking"] if now.startswith("D") else []) + (["--native"] if args.native else [])
    answer, silence = _ask(pid, args.py_spy, options, until)
    if answer.trouble and answer.trouble.kind == "native":
        answer, silence = _ask(pid, args.py_spy, [word for word in options if word != "--native"], until)
    dump = next((each for each in answer.dumps if each.threads), None)
    return dump, "" if dump else silence or str(answer.trouble or "py-spy showed no thread")


def _lasting_state(pid: int) -> str:
    """Return its state; that it is stopped only where that lasts, since a debugger stops it for a moment."""
    until = time.monotonic() + _STOPPED
    while (now := state(pid)).startswith("T") and time.monotonic() < until:
        time.sleep(0.1)
    return now


def _ask(pid: int, tool: str, options: list[str], until: float) -> tuple[pyspy.PyspyAnswer, str]:
    left = max(min(_LONGEST, until - time.monotonic()), 0.5)
    said = command.ask([tool, "dump", "--json", "--pid", str(pid), *options], deadline=round(left, 1))
    return pyspy.read(said.output, said.errors), said.trouble


def _python(pid: int, env: Mapping[str, str]) -> list[TrainingProcess]:
    """Return the process if it runs Python and is not a part of watchdogd."""
    words = of_proc(pid, "cmdline").split("\0")[:-1]
    if not words or any(_OURS.search(word) for word in words[:4]):
        return []
    if not _is_python(pid):
        return []
    ranks = {name: int(env[name]) for name in RANKS if env.get(name, "").isdecimal()}
    return [TrainingProcess(pid, _parent(pid), ranks)]


def _is_python(pid: int) -> bool:
    """Return True if the program is Python, or has its library loaded (embedded interpreters)."""
    try:
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return False
    return "python" in program.lower() or "libpython" in of_proc(pid, "maps")


def _pids() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid())


def environ(pid: int) -> dict[str, str]:
    """Return the environment a process was started with; empty if it belongs to another user or has ended."""
    pairs = (entry.partition("=") for entry in of_proc(pid, "environ").split("\0"))
    return {name: value for name, equals, value in pairs if equals}


def _parent(pid: int) -> int:
    fields = of_proc(pid, "stat").rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def of_proc(pid: int, name: str) -> str:
    """Read a file of /proc; empty if the process has ended or belongs to another user."""
    return _read(f"/proc/{pid}/{name}")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _unpacked(data: str) -> bytes:
    """Decompress a parcel. Raise ValueError if it is larger than any process can need."""
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(base64.b64decode(data, validate=True), _UNPACKED)
    if not unpacking.eof:
        raise ValueError("it does not end")
    return text


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="watchdogd.stacks.node_stacks")
    parser.add_argument("--py-spy", required=True)
    whose = parser.add_mutually_exclusive_group(required=True)
    whose.add_argument("--job")
    parser.add_argument("--since", type=float, default=0.0)
    whose.add_argument("--below", type=int, nargs="+")
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--every", type=float, default=2.0)
    parser.add_argument("--deadline", type=float, default=20.0)
    parser.add_argument("--native", action="store_true")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
