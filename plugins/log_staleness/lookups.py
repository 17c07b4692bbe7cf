"""Look-ups for a cause that a log names: the node at the other end of a connection, a core file."""

from __future__ import annotations

import glob
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.batch import slurmtext
from watchdogd.parsers.logs import log_lines
from watchdogd.plugins.log_staleness.run_log import Peer
from watchdogd.system.command import ask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from watchdogd.plugin import Job
    from watchdogd.plugins.log_staleness.run_log import RunLog

DEADLINE = 3.0
"""Seconds for each question to the name service."""
_AT_ONCE = 256


def looked_up(log: RunLog, job: Job | None) -> RunLog:
    """Look up what the present cause of a job asks for.

    Looked up are, once, which node has an address; at each look, the core file that the job left.
    """
    seen = log.told.cause
    if seen is None or job is None:
        return log
    told, cause = log.told, seen.cause
    if cause.peer and (told.peer is None or told.peer.address != cause.peer):
        told = replace(told, peer=Peer(cause.peer, _node(cause.peer, job.nodes, log.files.addresses)))
    if cause.kind == "segmentation fault" and not cause.core:
        core = core_file(job.work_dir, job.started_at or 0.0)
        told = replace(told, cause=replace(seen, core=core))
    return log if told is log.told else replace(log, told=told)


def core_file(folder: str, since: float) -> str:
    """Find the newest `core`, `core.PID` or `PROGRAM.core` that was written after `since`, or empty."""
    found = []
    for path in glob.glob(f"{glob.escape(folder)}/core*") + glob.glob(f"{glob.escape(folder)}/*.core"):
        try:
            seen = os.stat(path)
        except OSError:
            continue  # gone, or out of reach: it helps nobody then
        if os.path.isfile(path) and seen.st_mtime >= since:
            found.append((seen.st_mtime, path))
    return max(found, default=(0.0, ""))[1] if folder else ""


def _node(peer: str, nodes: str, told: Mapping[str, str]) -> str:
    """Return the node's name, ready for `--exclude`, or empty.

    Asked in this order: the log itself (`told`: NCCL names its addresses), the name service for the address,
    the name service for all nodes of the job.
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
    return [host for line in answer.output.splitlines() for host in line.split()[1:]]


def _forward(names: Sequence[str]) -> dict[str, str]:
    """Map each address to its node; getent names the first of the lines of each name."""
    if not names:
        return {}
    answer = ask(["getent", "hosts", *names[:_AT_ONCE]], deadline=DEADLINE)
    lines = (line.split() for line in answer.output.splitlines())
    found = (
        (words[0], [log_lines.node(host, names) for host in words[1:]]) for words in lines if len(words) > 1
    )
    return {address: next(filter(None, known), "") for address, known in found}
