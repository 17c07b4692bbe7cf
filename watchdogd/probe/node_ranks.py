"""Evidence on one node of who delays a job. It only reads, and ends within its deadline.

Started on every node at once, it prints `@@ node NAME` and, in short lines, a NodeRanks: the job's ranks with
their state, the answer of NCCL's RAS (asked twice, since only what does not move is suspicious), the GPUs,
and errors that links count meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import socket
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from watchdogd.parsers import nccl_ras
from watchdogd.parsers.gpu import node_script
from watchdogd.parsers.gpu.models import Gpu
from watchdogd.parsers.nccl_ras import BEHIND, Accused
from watchdogd.parsers.nccl_ras_reports import RasReport
from watchdogd.probe.nccl_ras_port import USUAL, ask_ras
from watchdogd.stacks import node_stacks
from watchdogd.stacks.node_stacks import TrainingProcess
from watchdogd.system import command
from watchdogd.system.codec import codec_of
from watchdogd.system.number import count
from watchdogd.system.startup import own_python
from watchdogd.system.text import split_lines

_PORTS = "/sys/class/infiniband"
_COUNTED = re.compile(
    r"symbol_error|link_error_recovery|link_downed|port_rcv_errors|local_link_integrity_errors"
    r"|excessive_buffer_overrun_errors|roce_(?:adp|slow)_retrans|packet_seq_err|local_ack_timeout_err"
)
_GPU = re.compile(r"GPU (\d+):")
_LINK = re.compile(r"\s*(?:GPU \d+, )?Link (\d+): (.*\bErrors?\b.*?): (\d+)\s*")


def port_errors(ports: str = _PORTS) -> dict[str, int]:
    """Return error counts by port (InfiniBand, RoCE) and error; unreadable ports are left out.

    Only a growing counter is suspicious: counters hold errors of months, such as those of a pulled cable.
    """
    found = {}
    for path in Path(ports).glob("*/ports/*/*counters/*"):
        device, _, port, _, name = path.parts[-5:]
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if _COUNTED.fullmatch(name) and (number := count(path.read_text())) is not None:
                found[f"{device} port {port}, {name}"] = number
    return found


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return the growth of counters that are in both readings."""
    return {name: after[name] - seen for name, seen in before.items() if after.get(name, 0) > seen}


def nvlink_errors(seconds: float) -> dict[str, int]:
    """Return nonzero error counts since the driver was loaded, by link and error.

    To read them takes a second, so they are read once, and prove nothing.
    """
    if not shutil.which("nvidia-smi"):
        return {}
    return read_nvlink(command.ask(("nvidia-smi", "nvlink", "-e"), deadline=seconds).output)


def read_nvlink(text: str) -> dict[str, int]:
    """Parse `nvidia-smi nvlink -e`: `GPU 0: ...`, and below it `Link 0: Replay Errors: 0`."""
    gpu, found = "", {}
    for line in split_lines(text):
        if match := _GPU.match(line):
            gpu = match[1]
        if (match := _LINK.match(line)) and (number := count(match[3])):
            found[f"GPU {gpu} NVLink {match[1]}, {match[2]}"] = number
    return found


_TOLD = re.compile(r"(?:TORCH_(?:FR|NCCL)_\w+|NCCL_RAS_\w+|WORLD_SIZE|XDG_CACHE_HOME|HOME)$")
"""Environment variables that are reported; they hold no secrets."""
_SMI = ("nvidia-smi", "amd-smi", "rocm-smi")
_STILL = 1.0
"""Seconds between two readings of NCCL's counts, and of ports."""
LOOKS, _GROWING, _LATE = 6, 0.5, 2 / 3
"""Readings of growing counts, seconds between them, and the share of them in which a slow rank is behind."""
_ACCUSED = 64
_HALTED = ("T", "t", "D", "Z", "X")
"""States in /proc of a process that does not run."""
_LAST = 0.5


@dataclass(frozen=True, slots=True)
class RankProcess:
    """First process of a rank; `rank` is None where it has no number.

    `python`: its interpreter; `state`: as in /proc; `pids`: its ids here and in containers.
    """

    pid: int
    rank: int | None
    state: str
    pids: tuple[int, ...] = ()
    python: str = ""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeRanks:
    """Ranks of one node, and the answer of NCCL's RAS.

    ras      version of NCCL that answered, or empty
    moving   some of its counts grew meanwhile, so that no accusation is certain
    lagging  ranks that were behind in most of LOOKS readings, where counts grew
    even     all ranks answered, and had launched the same
    total    GPUs of the job that RAS knows, 0: unknown
    links    growth of its links' error counts; `nvlinks`: counts since the driver was loaded
    """

    node: str
    addresses: tuple[str, ...]
    processes: tuple[RankProcess, ...]
    ras: str = ""
    accused: tuple[Accused, ...] = ()
    moving: bool = False
    gpus: tuple[Gpu, ...] = ()
    lagging: tuple[Accused, ...] = ()
    even: bool = True
    total: int = 0
    links: Mapping[str, int] = field(default_factory=dict)
    nvlinks: Mapping[str, int] = field(default_factory=dict)


def argv(whose: Sequence[str], deadline: float) -> list[str]:
    """Return the command for a node; `whose` as in `main`."""
    return own_python(
        "from watchdogd.probe.node_ranks import main; main()", *whose, "--deadline", f"{deadline:.1f}"
    )


def read(text: str) -> NodeRanks | None:
    """Parse `main`'s output; None where it is incomplete."""
    return codec_of(NodeRanks).load(node_stacks.values(text).get(0))


def main(words: Sequence[str] | None = None) -> None:
    args = _arguments(words)
    name = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    print(f"@@ node {name}", flush=True)
    found = node_stacks.of_job(args.job, args.since) if args.job else node_stacks.below(args.below)
    ranks = look(name, found, time.monotonic() + args.deadline)
    print("\n".join(node_stacks.parts(0, codec_of(NodeRanks).dump(ranks))), flush=True)
    os._exit(0)  # hanging threads are left behind


def look(name: str, found: Sequence[TrainingProcess], until: float) -> NodeRanks:
    addresses = _addresses()
    pids = {number for each in found for number in _numbers(each.pid)}
    environments = {each.pid: node_stacks.environ(each.pid) for each in found}
    pool = ThreadPoolExecutor(8)
    asked = {pool.submit(_ras, place, addresses, pids, until) for place in _places(environments.values())}
    shown = pool.submit(_gpus, until)
    links, nvlinks = pool.submit(_port_errors, until), pool.submit(_nvlink_errors, until)
    seen = time.monotonic()
    first = [_process(each, rank, environments[each.pid]) for each, rank in _first(found)]
    heard = [answer for each in asked if (answer := _value(each, until))]
    reports: tuple[RasReport, ...] = heard[0] if heard else ()
    moving = nccl_ras.moving(reports)
    gpus = _used(_value(shown, until) or (), pids)
    return NodeRanks(
        name,
        addresses,
        _looked_at_again(first, seen, until),
        (reports[-1].version or "?") if reports else "",
        nccl_ras.agreed(reports)[:_ACCUSED],
        bool(moving),
        gpus,
        _lagging(reports, moving),
        all(each.even for each in reports),
        max((each.gpus for each in reports), default=0),
        _value(links, until) or {},
        _value(nvlinks, until) or {},
    )


def _looked_at_again(processes: Sequence[RankProcess], seen: float, until: float) -> tuple[RankProcess, ...]:
    """Return them with a lasting state: a running process may be stopped for a moment."""
    if any(each.state.startswith(_HALTED) for each in processes):
        time.sleep(max(min(seen + _STILL, until - _LAST) - time.monotonic(), 0.0))
    return tuple(
        replace(each, state=lasting(each.state, node_stacks.state(each.pid, stack=False)))
        for each in processes
    )


def lasting(before: str, now: str) -> str:
    """Return the state of two readings: stopped only where both agree."""
    if now.startswith(_HALTED) and before[:1] != now[:1]:
        return "" if before.startswith(_HALTED) else before
    return now


def _lagging(reports: Sequence[RasReport], moving: Collection[str]) -> tuple[Accused, ...]:
    """Return the ranks that are behind in most readings of growing counts; none with too few readings."""
    behind = [
        each
        for report in reports
        for each in nccl_ras.accused(report)
        if each.how == BEHIND and not each.held and each.communicator in moving
    ]
    times = Counter(each.member.process or each.member.rank for each in behind)
    latest = {each.member.process or each.member.rank: each for each in behind}
    late = [replace(each, looks=times[who]) for who, each in latest.items() if times[who] >= _LATE * LOOKS]
    return tuple(late)[:_ACCUSED] if len(reports) == LOOKS else ()


def _value(future: Future[Any], until: float) -> Any:
    try:
        return future.result(max(until - _LAST - time.monotonic(), 0.0))
    except Exception:  # noqa: BLE001 - late, or failed: the others count all the same
        return None


def _first(found: Sequence[TrainingProcess]) -> list[tuple[TrainingProcess, int | None]]:
    """Return the process of each rank that started its others (data loaders); launchers have no rank."""
    known = {name for each in found for name in each.ranks}
    source = next((name for name in node_stacks.RANKS if name in known), "")
    ranks = {each.pid: each.ranks.get(source) for each in found}
    return [
        (each, ranks[each.pid])
        for each in found
        if (not source or ranks[each.pid] is not None) and ranks.get(each.parent, -1) != ranks[each.pid]
    ]


def _process(found: TrainingProcess, rank: int | None, env: Mapping[str, str]) -> RankProcess:
    environment = {name: value[:400] for name, value in env.items() if _TOLD.match(name)}
    pids, state = tuple(_numbers(found.pid)), node_stacks.state(found.pid, stack=False)
    return RankProcess(found.pid, rank, state, pids, _python(found.pid, env), environment)


def _python(pid: int, env: Mapping[str, str]) -> str:
    """Return the interpreter as it was called, by which it finds its packages."""
    word = node_stacks.of_proc(pid, "cmdline").partition("\0")[0]
    try:
        if os.sep in word:
            return os.path.join(os.readlink(f"/proc/{pid}/cwd"), word)
        return shutil.which(word, path=env.get("PATH", "")) or os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def _numbers(pid: int) -> list[int]:
    """Return its process id here, and those in its containers (proc(5), NSpid)."""
    found = re.search(r"^NSpid:\s*(.+)$", node_stacks.of_proc(pid, "status"), re.MULTILINE)
    inner = (count(word) for word in (found[1].split() if found else ()))
    return [pid, *(number for number in inner if number is not None)]


def _places(environments: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the RAS addresses of the job's processes, usually one for all."""
    places = [
        env.get("NCCL_RAS_ADDR") or USUAL for env in environments if env.get("NCCL_RAS_ENABLE", "1") != "0"
    ]
    return list(dict.fromkeys(places))[:4]


def _ras(place: str, own: Collection[str], pids: Collection[int], until: float) -> tuple[RasReport, ...]:
    """Return two answers a moment apart, more where counts grow; none of another job listening there."""
    reports: list[RasReport] = []
    while len(reports) < _enough(reports) and (left := until - 2 * _LAST - time.monotonic()) > 0:
        report = ask_ras(place, own, left)
        if report is None or _foreign(report, own, pids):
            break
        reports.append(report)
        if len(reports) < _enough(reports):
            pause = _STILL if len(reports) == 1 else _GROWING
            time.sleep(min(pause, max(until - 2 * _LAST - time.monotonic(), 0.0)))
    return tuple(reports)


def _enough(reports: Sequence[RasReport]) -> int:
    return LOOKS if len(reports) > 1 and reports[0].counts != reports[1].counts else 2


def _foreign(report: RasReport, own: Collection[str], pids: Collection[int]) -> bool:
    """Return whether the report names processes on this node, and none is of this job."""
    named = [each for comm in report.communicators for each in (*comm.members, *comm.absent)]
    here = [each.pid for each in (*named, *report.absent) if each.host in own and each.pid is not None]
    return bool(here) and not any(pid in pids for pid in here)


def _gpus(until: float) -> tuple[Gpu, ...]:
    if not any(map(shutil.which, _SMI)):
        return ()
    left = until - _LAST - time.monotonic()
    answer = command.ask(node_script.argv(max(left / 2, 1.0)), deadline=left)
    return node_script.read(answer.output).readout.gpus


def _port_errors(until: float) -> dict[str, int]:
    """Return the growth of the ports' error counts between two readings."""
    if not (before := port_errors()):
        return {}
    time.sleep(min(_STILL, max(until - 2 * _LAST - time.monotonic(), 0.0)))
    return grown(before, port_errors())


def _nvlink_errors(until: float) -> dict[str, int]:
    return nvlink_errors(until - _LAST - time.monotonic())


def _used(gpus: Sequence[Gpu], pids: Collection[int]) -> tuple[Gpu, ...]:
    """Leave out GPUs of other processes, where the tool names processes."""
    mine = {gpu.index for gpu in gpus if not set(pids).isdisjoint(gpu.pids)}
    return tuple(gpu for gpu in gpus if gpu.index in mine or not any(each.pids for each in gpus))


def _addresses() -> tuple[str, ...]:
    found = [each for some in psutil.net_if_addrs().values() for each in some]
    inet = [each.address for each in found if each.family in (socket.AF_INET, socket.AF_INET6)]
    return tuple(dict.fromkeys(each.partition("%")[0] for each in inet))


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="watchdogd.probe.node_ranks")
    whose = parser.add_mutually_exclusive_group(required=True)
    whose.add_argument("--job")
    parser.add_argument("--since", type=float, default=0.0)
    whose.add_argument("--below", type=int, nargs="+")
    parser.add_argument("--deadline", type=float, default=6.0)
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
