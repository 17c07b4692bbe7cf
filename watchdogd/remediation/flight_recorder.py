"""Dumps of PyTorch's Flight Recorder: found, kept as evidence, and read by PyTorch's own analyser.

A dump is a pickle: reading one executes what is in it. So it is never read here, but by the run's own Python,
and only if that Python and all dumps belong to our own user.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from watchdogd.probe.node_ranks import RankProcess
from watchdogd.system import command
from watchdogd.system.smallfile import read_head
from watchdogd.units import format_size

PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
ON_TIMEOUT = "TORCH_NCCL_DUMP_ON_TIMEOUT"
"""Variables of PyTorch: where dumps go, how many entries are kept, whether a timeout dumps them; the names of
earlier releases last."""
NAMES = ("comm_lib_trace_rank_", "nccl_trace_rank_")
KEPT, LARGEST = 64 << 20, 16 << 20
"""KEPT: bytes of all dumps that are kept of an incident; LARGEST: of one."""
_RANKS = 100_000
_DEADLINE = 60.0
_ANALYSE = """import sys
try:
    from torch.distributed.flight_recorder.fr_trace import main
except ImportError:
    from tools.flight_recorder.fr_trace import main
main(sys.argv[1:])"""
_PREFIX = "rank_"
_CULPRIT = re.compile(r"error msg: (.*)")
_MISSING = re.compile(
    r"^Not all ranks joining collective, sequence number: (\d+)\n(?:[^\n]*\n){0,6}?collective: (\S+)\n"
    r"missing ranks: \{([\d, ]+)\}",
    re.MULTILINE,
)
_UNKNOWN_OPTION = "unrecognized arguments: --allow-incomplete-ranks"
_QUOTED = 40


@dataclass(frozen=True, slots=True)
class Dump:
    """One rank's dump; `owner` is a user id."""

    rank: int
    path: str
    size: int
    owner: int


@dataclass(frozen=True, slots=True)
class Analysis:
    """`mismatch`: the analyser's first finding in one line, or why there is none; `text`: all of it."""

    mismatch: str
    text: str = ""


def prefixes(processes: Iterable[RankProcess], configured: str = "") -> tuple[str, ...]:
    """Return the beginnings of dumps' paths: as configured, from the processes' environment, the default."""
    configured_by_run = [place for each in processes for place in _places(each.env)]
    usual = _places(os.environ) if not configured_by_run else []
    return tuple(dict.fromkeys([*([configured] if configured else []), *configured_by_run, *usual]))


def _places(env: Mapping[str, str]) -> list[str]:
    if named := next((env[name] for name in PREFIXES if env.get(name)), ""):
        return [named]
    cache = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME") or "/tmp", ".cache")  # noqa: S108 - as it does
    return [*(os.path.join(cache, "torch", name) for name in NAMES), f"/tmp/{NAMES[1]}"]  # noqa: S108


def find(places: Iterable[str], since: float) -> list[Dump]:
    """Return the dumps written since then, at the first place that has any."""
    for prefix in places:
        found = [
            dump for path in glob.glob(glob.escape(prefix) + "[0-9]*") if (dump := _dump(path, prefix, since))
        ]
        if found:
            return sorted(found, key=lambda each: each.rank)[:_RANKS]
    return []


def _dump(path: str, prefix: str, since: float) -> Dump | None:
    rank = path[len(prefix) :]
    with contextlib.suppress(OSError):
        seen = os.lstat(path)
        if stat.S_ISREG(seen.st_mode) and seen.st_mtime >= since and re.fullmatch(r"[0-9]{1,6}", rank):
            return Dump(int(rank), path, seen.st_size, seen.st_uid)
    return None


def contents(dumps: Sequence[Dump]) -> Iterator[tuple[Dump, bytes]]:
    """Yield dumps with their contents, as many as fit into KEPT; owners are checked while reading."""
    left = KEPT
    for dump in dumps:
        if dump.size <= min(left, LARGEST):
            with contextlib.suppress(OSError):
                data, seen = read_head(dump.path, LARGEST)
                left -= len(data)
                yield replace(dump, owner=seen.st_uid), data


def analyse(dumps: Sequence[Dump], python: str) -> Analysis:
    """Return what PyTorch's analyser, run by this interpreter, finds in them."""
    if not python:
        return Analysis("not analysed, since no process tells which Python is the run's")
    if not _ours(python):
        return Analysis(f"not analysed, since {python} is somebody else's")
    with tempfile.TemporaryDirectory(prefix="watchdogd-") as folder:
        for dump, data in contents(dumps):
            if dump.owner != os.geteuid():
                return Analysis("not analysed: to read a dump is to run what is in it, and it is not ours")
            Path(folder, f"{_PREFIX}{dump.rank}").write_bytes(data)
        answer = _run(python, folder, "--allow-incomplete-ranks")
        if _UNKNOWN_OPTION in answer.errors:
            answer = _run(python, folder)
    text = "\n".join(filter(None, [answer.output.strip(), answer.errors.strip()]))
    if mismatch := read_mismatch(text):
        return Analysis(mismatch, text)
    if not answer.ok:
        return Analysis(f"PyTorch's analyser failed: {answer.complaint()}", text)
    return Analysis("PyTorch's analyser finds no mismatch", text)


def read_mismatch(text: str) -> str:
    """Return the analyser's first finding in one line, or empty."""
    if found := _CULPRIT.search(text):
        return found[1].strip()
    if absent := _MISSING.search(text):
        number, operation, ranks = absent.groups()
        return f"missing from {operation}, sequence number {number}: rank {ranks}"
    return ""


def _run(python: str, folder: str, *options: str) -> command.Answer:
    words = [python, "-c", _ANALYSE, folder, "--prefix", _PREFIX, *options]
    return command.ask(words, deadline=_DEADLINE, env=command.environment(), cwd=folder, output_limit=1 << 20)


def _ours(python: str) -> bool:
    """Return True if nobody else can have put it there."""
    with contextlib.suppress(OSError):
        return os.stat(python).st_uid in (0, os.geteuid())
    return False


def words(dumps: Sequence[Dump], found: Analysis) -> str:
    """Return the evidence file: the list of dumps, and the analyser's output."""
    lines = [f"{each.path} {format_size(each.size)}" for each in dumps[:_QUOTED]]
    more = [f"and {len(dumps) - _QUOTED} more"] if len(dumps) > _QUOTED else []
    return "\n".join([*lines, *more, "", found.mismatch, "", found.text]).rstrip() + "\n"


def lacking(env: Mapping[str, str]) -> str:
    """Return which variables keep a process's Flight Recorder from being useful, or empty."""
    size = next((env[name] for name in SIZES if name in env), None)
    if size == "0":
        return f"{SIZES[0]} is 0, so that nothing is recorded"
    if env.get(ON_TIMEOUT, "1").lower() in ("0", "false", "n", "no"):
        return f"{ON_TIMEOUT} is off, so that nothing is dumped"
    if size is None:
        return f"{SIZES[0]} is not set: PyTorch before 2.9 then records nothing"
    if not any(env.get(name) for name in PREFIXES):
        return f"{PREFIXES[0]} is not set, so that dumps lie in the cache of each node's home"
    return ""
