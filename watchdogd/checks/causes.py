"""Causes that a log names: what to look up about one, and what to change before the next start."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence

from watchdogd.batch import slurmtext
from watchdogd.parsers.logs import log_lines
from watchdogd.parsers.logs.failure_patterns import CONSEQUENCES, PROGRAM
from watchdogd.parsers.logs.failures import Cause
from watchdogd.parsers.logs.root_causes import MISMATCH
from watchdogd.plugin import Advice
from watchdogd.system.command import ask
from watchdogd.system.text import split_lines

DEADLINE = 3.0
"""Seconds for each question to the name service."""
_AT_ONCE = 256


def words(cause: Cause, node: str = "", core: str = "") -> str:
    """Return a cause with the node to exclude (its peer's, or its own) or the core file, if known."""
    if node:
        which = "" if cause.node else f", which is {node}" if cause.peer else f", node {node}"
        return f"{cause.sentence}{which} (--exclude={node})"
    return f"{cause.sentence}, core file {core}" if core else cause.sentence


def core_file(folder: str, since: float) -> str:
    """Return the newest `core`, `core.PID` or `PROGRAM.core` written after `since`, or empty."""
    found = []
    for path in glob.glob(f"{glob.escape(folder)}/core*") + glob.glob(f"{glob.escape(folder)}/*.core"):
        try:
            seen = os.stat(path)
        except OSError:
            continue  # gone or unreadable: no help to anybody
        if os.path.isfile(path) and seen.st_mtime >= since:
            found.append((seen.st_mtime, path))
    return max(found, default=(0.0, ""))[1] if folder else ""


def peer_node(peer: str, nodes: str, told: Mapping[str, str]) -> str:
    """Return the name of the node at the other end, ready for `--exclude`, or empty.

    Sources, in this order: the log itself (`told`, since NCCL prints its addresses), the name service for the
    address, the name service for all nodes of the job.
    """
    names = slurmtext.expand_hostlist(nodes)
    if not log_lines.is_address(peer):
        return log_lines.node(peer, names)
    if peer in told and (known := log_lines.node(told[peer], names)):
        return known
    for host in _reverse(peer):
        if known := log_lines.node(host, names):
            return known
    return _forward(names).get(peer, "")


def _reverse(address: str) -> list[str]:
    answer = ask(["getent", "hosts", address], deadline=DEADLINE)
    return [host for line in split_lines(answer.output) for host in line.split()[1:]]


def _forward(names: Sequence[str]) -> dict[str, str]:
    """Map each address to its node; getent repeats the first name on every line."""
    if not names:
        return {}
    answer = ask(["getent", "hosts", *names[:_AT_ONCE]], deadline=DEADLINE)
    lines = (line.split() for line in split_lines(answer.output))
    found = (
        (words[0], [log_lines.node(host, names) for host in words[1:]]) for words in lines if len(words) > 1
    )
    return {address: next(filter(None, known), "") for address, known in found}


_X = 1


_LESS = "Lower its memory use first"
_CODE = "Correct the error in the program first: it would fail again."
_ROOM = "Make room first: it would fail again."
_FIRST = {
    "GPU out of memory": f"{_LESS} (batch size, sequence length, activation checkpointing).",
    "host out of memory": f"{_LESS} (workers of its data loaders), or ask for more (--mem).",
    "disk quota exceeded": _ROOM,
    "no space left on device": _ROOM,
    PROGRAM: _CODE,
    MISMATCH: _CODE,
}


def first_fixes(kind: str) -> tuple[Advice, ...]:
    """Return what to change first, if it would only happen again."""
    return (Advice(_FIRST[kind], recurs=True),) if kind in _FIRST else ()


def explains(kind: str) -> bool:
    """Return whether a cause of this kind says why the run stands still, and not only that others do."""
    return bool(kind) and kind not in CONSEQUENCES
