"""NCCL's RAS port: the question to a training's own processes, and what they answer. It only reads."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Collection, Iterator

from watchdogd.errors import UnreadableError
from watchdogd.parsers import nccl_ras
from watchdogd.parsers.nccl_ras_models import RasReport

USUAL = "localhost:28028"
"""Where it listens, unless NCCL_RAS_ADDR says otherwise."""
_LEG = 2
"""Seconds for which RAS waits for a process that does not answer; its own default of 5 is too long for us."""
_COMMANDS = f"timeout {_LEG}\nverbose status\n"
"""Not as JSON, though it says more: up to 2.30 each such question leaves memory behind in the training, and a
real job of three processes with NCCL 2.28.9 did not answer it, where the text came at once."""
_FIRST = 1.0
"""Seconds in which a process that lives takes the first command."""
_TRIES = 4
_ANSWER_LIMIT = 64 << 20


def ask_ras(address: str, own: Collection[str], deadline: float) -> RasReport | None:
    """Ask RAS at `address` (host:port) for at most `deadline` seconds; None where nobody answers so.

    `own` are this node's addresses: nothing else is ever asked, whatever a job's environment names. All
    processes of a node listen on one port: one that is stopped takes the call and says nothing, so that it
    is tried again.
    """
    until = time.monotonic() + deadline
    for family, place in list(_addresses_of(address, own)) * _TRIES:
        try:
            return nccl_ras.read(_talk(family, place, until))
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
    """Return all that is answered until the connection ends. OSError, also where that takes too long."""
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
