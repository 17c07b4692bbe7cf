"""Record of a lease: the process that holds it, so that it can be recognised on its node."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from typing import Any

from watchdogd.system.smallfile import host_name, parse_json

RECORD_SIZE = 1024
"""Bytes of a record."""
_PIDS = 1 << 31


@dataclass(frozen=True, slots=True)
class Holder:
    """Holder of a lease. `node` identifies boot and pid namespace, `born` tells a reused pid."""

    id: str
    host: str
    node: str
    pid: int
    born: str
    job_id: str = ""
    released: bool = False

    def __str__(self) -> str:
        """Return `process 4711 on login2 (job 88)`."""
        return f"process {self.pid} on {self.host}" + (f" (job {self.job_id})" if self.job_id else "")


def myself(job_id: str = "") -> Holder:
    return Holder(os.urandom(8).hex(), host_name(), _node(), os.getpid(), _born(os.getpid()), job_id)


def lives(holder: Holder | None) -> bool | None:
    """Return whether the holder's process exists; None where that cannot be seen from this node."""
    if holder is None or not holder.node or holder.node != _node():
        return None
    return bool(holder.born) and _born(holder.pid) == holder.born


NOBODY = Holder("", "another node", "", 0, "")
"""Unknown holder."""


def record_text(holder: Holder, *, released: bool = False) -> str:
    """Return a record of fixed size, so that it can be overwritten on a full disk."""
    return json.dumps({**asdict(holder), "released": released}).ljust(RECORD_SIZE - 1) + "\n"


def read_record(text: bytes) -> Holder | None:
    """Return the holder in a lease file, or None where there is none (yet)."""
    try:
        return holder_from(parse_json(text))
    except (ValueError, KeyError, TypeError):
        return None


def holder_from(said: dict[str, Any]) -> Holder:
    """Return the holder with these fields. ValueError, KeyError or TypeError where they are invalid."""
    values = {each.name: said[each.name] for each in fields(Holder)}
    texts = [values[name] for name in ("id", "host", "node", "born", "job_id")]
    if not all(isinstance(text, str) and (not text or text.isprintable()) for text in texts):
        raise TypeError("a holder is told of in texts of one line")
    if (
        type(values["pid"]) is not int
        or not 0 <= values["pid"] < _PIDS
        or type(values["released"]) is not bool
    ):
        raise TypeError("that is the id of no process")
    return Holder(**values)


def _node(proc: str = "/proc") -> str:
    """Return an id of this boot and pid namespace, within which pids are unique; empty if unknown."""
    try:
        with open(f"{proc}/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink(f'{proc}/self/ns/pid')}"
    except OSError:
        return ""


def _born(pid: int) -> str:
    """Return when the process started, in ticks since boot (proc(5)); empty where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            after_name = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if after_name[0] in "ZX" else after_name[19]
