"""Network addresses in a training's log: which host has which, and with whom a connection failed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.readers.lines import Line

KEPT = 512
_IPV4 = r"(?:\d{1,3}\.){3}\d{1,3}"
_IPV6 = r"(?:[0-9a-fA-F]{0,4}:){2,8}[0-9a-fA-F.]{0,15}"
_ADDRESS = re.compile(
    rf"(?:::ffff:)?(?<![\d.])({_IPV4})(?![\d.]*\d)|\[({_IPV6})(?:%\w+)?\]:\d+|(?<![\w:])({_IPV6})(?:%\w+)?<\d+>"
)
_NAME = re.compile(
    r"(?:connect(?:ing|ion|ed)?(?:\(\))? (?:to|with|from)|remote(?: peer| process)?(?: on)?|peer"
    r"|to host|address of)[ =]*"
    r"[\[(]?([A-Za-z][\w.-]*)(?:\]?[:<]\d|, \d)"
)
_TELLS = re.compile(
    rf"^([\w.-]++):\d+:\d+ \[\d+\] NCCL INFO .*?(?<![\w.])[\w.]{{1,80}}:({_IPV4}|{_IPV6})(?:%\w+)?<\d+>"
)


def learn(lines: Sequence[Line], addresses: dict[str, str]) -> None:
    """Add to `addresses` (address → host) what NCCL says of its own host's network interfaces."""
    for line in lines:
        if (
            "NCCL INFO" in line.text
            and ("Using" in line.text or "OOB" in line.text)
            and len(addresses) < KEPT
        ):
            match = _TELLS.match(line.text)
            if match:
                addresses[match[2]] = match[1]


def of(text: str) -> str:
    """The address or name of the host at the other end in a line about a failed connection, or empty."""
    named = _NAME.search(text)
    if named:
        return named[1]
    address = _ADDRESS.search(text)
    return next((part for part in address.groups() if part), "") if address else ""


def is_address(peer: str) -> bool:
    """True for an address, False for a name."""
    return re.fullmatch(rf"{_IPV4}|{_IPV6}", peer) is not None


def node(host: str, nodes: Sequence[str]) -> str:
    """Whose name a host's is, of the job's nodes: `n12.example.org` and `n12-ib0` are n12; or empty."""
    for name in sorted(nodes, key=len, reverse=True):
        if host == name or re.match(rf"{re.escape(name)}[-.]", host):
            return name
    return ""
