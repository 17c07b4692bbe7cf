"""NCCL's RAS port: the query to a training's own processes. It only reads."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Collection, Iterator

from watchdogd.errors import UnreadableError
from watchdogd.parsers import nccl_ras_reports
from watchdogd.parsers.nccl_ras_reports import RasReport

USUAL = "localhost:28028"
"""Default address, unless NCCL_RAS_ADDR is set."""
_LEG = 2
"""Seconds for which RAS waits for a process that does not answer; its default of 5 is too long here."""
_COMMANDS = f"timeout {_LEG}\nverbose status\n"
"""Not as JSON, though that has more: up to 2.30 each such query leaks memory in the training, and a job of
three processes with NCCL 2.28.9 did not answer it, while the text came at once."""
_FIRST = 1.0
"""Seconds in which a living process accepts the first command."""
_TRIES = 4
_ANSWER_LIMIT = 64 << 20


def ask_ras(address: str, own: Collection[str], deadline: float) -> RasReport | None:
    """Query RAS at `address` (host:port) for `deadline` seconds at most; None without such an answer.

    `own`: this node's addresses; no other is ever contacted, whatever a job's environment says. All processes
    of a node listen on one port: a stopped one accepts the call and is silent, so it is tried again.
    """
    until = time.monotonic() + deadline
    for family, place in list(_addresses_of(address, own)) * _TRIES:
        try:
            return nccl_ras_reports.read(_talk(family, place, until))
        except (OSError, UnreadableError):
            continue
    return None


def _addresses_of(address: str, own: Collection[str]) -> Iterator[tuple[int, tuple[str, int]]]:
    host, _, port = address.strip().rpartition(":")
    host = host.strip("[]") or "localhost"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICSERV)
    except (OSError, UnicodeError):
        return
    for family, _, _, _, place in found:
        name = str(place[0])
        if ipaddress.ip_address(name.partition("%")[0]).is_loopback or name in own:
            yield family, (name, int(place[1]))


def _talk(family: int, place: tuple[str, int], until: float) -> str:
    """Return the whole answer. OSError, also where it takes too long."""
    chunks: list[bytes] = []
    size = 0
    with socket.socket(family, socket.SOCK_STREAM) as talk:
        first = min(until, time.monotonic() + _FIRST)
        talk.settimeout(_left(first))
        talk.connect(place)
        talk.sendall(_COMMANDS.encode())
        while chunk := _more(talk, until if chunks else first):
            chunks.append(chunk)
            size += len(chunk)
            if size > _ANSWER_LIMIT:
                raise OSError("it says more than any job has to say")
    return b"".join(chunks).decode("utf-8", "replace")


def _more(talk: socket.socket, until: float) -> bytes:
    talk.settimeout(_left(until))
    return talk.recv(65536)


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
