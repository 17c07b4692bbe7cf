"""Which node of a job has the address that a broken connection names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.batch import hostlist
from watchdogd.readers import peers
from watchdogd.system.command import ask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEADLINE = 3.0
"""Seconds for each question to the name service."""
_AT_ONCE = 256


def find(peer: str, nodes: str, told: Mapping[str, str]) -> str:
    """The node's name, ready for `--exclude`, or empty.

    Asked in this order: the log itself (`told`: NCCL names its addresses), the name service for the address,
    the name service for all nodes of the job.
    """
    names = hostlist.expand(nodes)
    if not peers.is_address(peer):
        return peers.node(peer, names)
    if peer in told and (known := peers.node(told[peer], names)):
        return known
    for host in _reverse(peer):
        if known := peers.node(host, names):
            return known
    return _forward(names).get(peer, "")


def _reverse(address: str) -> list[str]:
    answer = ask(["getent", "hosts", address], deadline=DEADLINE)
    return [host for line in answer.output.splitlines() for host in line.split()[1:]]


def _forward(names: Sequence[str]) -> dict[str, str]:
    """Address → node. getent names the first of the lines of each name."""
    if not names:
        return {}
    answer = ask(["getent", "hosts", *names[:_AT_ONCE]], deadline=DEADLINE)
    lines = (line.split() for line in answer.output.splitlines())
    found = ((words[0], [peers.node(host, names) for host in words[1:]]) for words in lines if len(words) > 1)
    return {address: next(filter(None, known), "") for address, known in found}
