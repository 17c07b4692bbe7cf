"""Who holds something of home: a process, known again on its node, and as the text of one record."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from watchdogd.system.smallfile import host_name, parse_json

if TYPE_CHECKING:
    from typing import Any

RECORD_SIZE = 1024
"""Bytes of a record."""
_PIDS = 1 << 31


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease. `node` tells boot and pid namespace apart, `born` a pid that is used anew."""

    id: str
    host: str
    node: str
    pid: int
    born: str
    job_id: str = ""
    released: bool = False

    def __str__(self) -> str:
        """`process 4711 on login2 (job 88)`."""
        return f"process {self.pid} on {self.host}" + (f" (job {self.job_id})" if self.job_id else "")


def myself(job_id: str = "") -> Holder:
    """This process as a holder."""
    return Holder(os.urandom(8).hex(), host_name(), _node(), os.getpid(), _born(os.getpid()), job_id)


def lives(holder: Holder | None) -> bool | None:
    """Whether the holder's process is there; None where that cannot be seen from this node."""
    if holder is None or not holder.node or holder.node != _node():
        return None
    return bool(holder.born) and _born(holder.pid) == holder.born


NOBODY = Holder("", "another node", "", 0, "")
"""Somebody of whom no more is known."""


def record_text(holder: Holder, *, released: bool = False) -> str:
    """A record; always of one size, so that it can be overwritten where nothing is free any more."""
    return json.dumps({**asdict(holder), "released": released}).ljust(RECORD_SIZE - 1) + "\n"


def read_record(text: bytes) -> Holder | None:
    """The record of a lease file, or None where it is none (yet)."""
    try:
        return holder_from(parse_json(text))
    except (ValueError, KeyError, TypeError):
        return None


def holder_from(said: dict[str, Any]) -> Holder:
    """Who is told of so. ValueError, KeyError or TypeError where it makes no sense."""
    told = {each.name: said[each.name] for each in fields(Holder)}
    texts = [told[name] for name in ("id", "host", "node", "born", "job_id")]
    if not all(isinstance(text, str) and (not text or text.isprintable()) for text in texts):
        raise TypeError("a holder is told of in texts of one line")
    if type(told["pid"]) is not int or not 0 <= told["pid"] < _PIDS or type(told["released"]) is not bool:
        raise TypeError("that is the id of no process")
    return Holder(**told)


def _node(proc: str = "/proc") -> str:
    """This boot and pid namespace: where equal, pids can be compared. Empty where they cannot be told."""
    try:
        with open(f"{proc}/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink(f'{proc}/self/ns/pid')}"
    except OSError:
        return ""


def _born(pid: int) -> str:
    """When the process started, in ticks since boot (proc(5), stat field 22); empty where none lives."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            after_name = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if after_name[0] in "ZX" else after_name[19]
