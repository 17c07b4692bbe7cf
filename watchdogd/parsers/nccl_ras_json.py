"""NCCL's RAS report as JSON (2.28.7 and later), which lists every rank of every communicator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from watchdogd.errors import UnreadableError
from watchdogd.parsers.nccl_ras_models import Communicator, RasMember, RasReport
from watchdogd.system.number import whole
from watchdogd.system.smallfile import parse_json

_ERRORS = {
    1: "Unhandled CUDA error",
    2: "System error",
    3: "Internal error",
    4: "Invalid argument",
    5: "Invalid usage",
    6: "Remote process error",
}
"""Values of ncclResult_t that are errors; 0 is success and 7 in progress."""


def read(text: str) -> RasReport:
    """Read a report. Raise UnreadableError if it is not a report of RAS."""
    try:
        said = parse_json(text)
        comms = tuple(_communicator(each) for each in said["communicators"] if whole(each["size"]))
        return RasReport(str(said["nccl_version"]), comms)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise UnreadableError(f"no answer of NCCL's RAS: {text[:80]!r}") from None


def _communicator(said: Mapping[str, Any]) -> Communicator:
    size = whole(said["size"]) or 0
    there = [(each, member) for each in said["ranks"] if (member := _member(each, size))]
    missing = [(each, member) for each in said["missing_ranks"] if (member := _member(each, size))]
    states = [(member, _state(each["status"])) for each, member in there]
    states += [(member, "NOCOMM") for each, member in missing if not each["status"]["unresponsive"]]
    launched = {
        kind: Counter(member.counts[kind] for _, member in there if kind in member.counts)
        for kind in sorted({kind for _, member in there for kind in member.counts})
    }
    return Communicator(
        str(said["hash"]).removeprefix("0x"),
        size,
        tuple(member for _, member in there),
        tuple(member for each, member in missing if each["status"]["unresponsive"]),
        launched,
        Counter(state for _, state in states),
        tuple(states),
        tuple((member, error) for each, member in there for error in _errors(each["status"])),
    )


def _member(said: Mapping[str, Any], size: int) -> RasMember | None:
    """Return a rank, or None if its number is not valid in a communicator of that size."""
    rank, pid, host = whole(said["rank"]), whole(said["pid"]), str(said["host"])
    gpu = whole(said.get("nvml_dev"))
    counts = {
        str(kind): number
        for kind, count in (said.get("collective_counts") or {}).items()
        if (number := whole(count)) is not None
    }
    if rank is None or not 0 <= rank < size:
        return None
    known = pid is not None and pid > 0
    return RasMember(
        rank,
        host.partition("%")[0] if known else "",
        pid if known else None,
        gpu if gpu is not None and gpu >= 0 else None,
        counts,
        bool(said["status"].get("considered_dead")),
    )


def _state(said: Mapping[str, Any]) -> str:
    if said["abort_flag"]:
        return "ABORT"
    if said["finalize_called"] or said["destroy_flag"]:
        return "FINALIZE"
    return "INIT" if said["init_state"] else "RUNNING"


def _errors(said: Mapping[str, Any]) -> Iterator[str]:
    for key in ("init_state", "async_error"):
        if error := _ERRORS.get(whole(said[key]) or 0):
            yield error
            return
