"""Bytes of a training's log as clean lines: progress bars split, colours and rank prefixes removed.

Dots and spinners, which a program draws while it waits, can be removed too: they are no sign of progress.
This module also finds network addresses in lines: which host has which, and to whom a connection failed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*+\x07")
_REDRAW = re.compile(r"\x1b\[(?:\d*[AFG]|2[JK]|(?:\d+;\d+)?[Hf])|\x08+")
"""Sequences that a bar writes before its next state in place of a carriage return: move the cursor, erase."""
_REDRAW_BYTES = re.compile(_REDRAW.pattern.encode())
_RANK = re.compile(
    r"\s*(?:"
    r"(?P<srun>\d{1,6}): "  # srun --label
    r"|\[(?P<torch>(?:rank|Rank |default)\d+)\]:? ?"  # torchrun --tee, PyTorch's own
    r"|\[(?P<mpi>\d+(?:,[\w.:,-]+)?)\]<std(?:out|err)>: ?"  # Open MPI --tag-output, Horovod, SageMaker
    r"|\[(?P<node>[\w.-]+:\d+)\]:? "  # [node:rank]
    r"|\[(?P<pod>[a-z0-9-]+-\d+)\] "  # a pod's name
    r"|\((?P<ray>raylet|(?:\w+ )?pid=\d+)(?P<ip>, ip=[\d.]+)?\) "  # an actor of Ray, whose own may follow
    r")"
)
_CUT_NUMBER = "0123456789.,"
SHOWN_AT_MOST = 300
OPEN_AT_MOST = 4096
"""Bytes kept from the end of an unfinished line."""


STATES = 100
"""States of one bar that are read in one round: the last ones."""
NOISE, _LOST = 4, "\ufffd"
"""A line in which one character in so many is not text is skipped."""
LONGEST = 8192
"""Characters of a line that are read; of a longer one, its beginning and its end."""


class LogLine(NamedTuple):
    """One line of a log without its prefix.

    `rank` is the rank in the prefix (`3`, `rank3`, `n1:3`, `Actor pid=7`), or empty. `final`: a whole line or
    the last state of a progress bar, worth showing to people. `open`: the line may not be finished.
    """

    text: str
    rank: str = ""
    final: bool = True
    open: bool = False


def read_lines(data: bytes) -> tuple[list[LogLine], int]:
    """Return the lines in `data`, and how many of its bytes need not be read again.

    An unfinished last line is returned too (a progress bar never finishes its line), without a number at its
    end that may be cut; its bytes are not counted, so that it comes again when more was written.
    """
    done = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    redrawn = b"\x1b[" in data or b"\b" in data
    for drawn in _REDRAW_BYTES.finditer(data, done) if redrawn else ():
        done = drawn.end()
    text = _decoded(data[:done])
    noisy = _LOST in text
    lines: list[LogLine] = []
    for raw in (_REDRAW.sub("\r", text) if redrawn else text).split("\n"):
        if noisy and raw.count(_LOST) * NOISE > len(raw):
            continue
        if "\r" in raw:
            _add(lines, raw)
        elif raw and not raw.isspace():
            lines.append(_line(raw, final=True))
    rest = data[done:][-OPEN_AT_MOST:]
    text = _decoded(rest).rstrip(_CUT_NUMBER)
    if text.strip() and text.count(_LOST) * NOISE <= len(text):
        lines.append(_line(text, final=True)._replace(open=True))
    return lines, len(data) - len(rest)


def _decoded(data: bytes) -> str:
    """Return the text without the NUL bytes that a file server leaves if two programs write to one file."""
    text = data.decode("utf-8", "replace")
    return text.replace("\0", "") if "\0" in text else text


def _add(lines: list[LogLine], raw: str) -> None:
    """Add the last states of a bar that overwrote itself."""
    states = raw.rsplit("\r", STATES)
    parts = [part for part in states[-STATES:] if part and not part.isspace()]
    for number, part in enumerate(parts, 1):
        lines.append(_line(part, final=number == len(parts)))


def _line(text: str, *, final: bool) -> LogLine:
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    match = _RANK.match(text) if text[:1] in " [(0123456789" else None
    if not match:
        return LogLine(text.rstrip(), "", final)
    if match["ray"]:
        match = _RANK.match(text, match.end()) or match
    rank = match["ray"] + (match["ip"] or "") if match["ray"] else match[match.lastindex or 0]
    return LogLine(text[match.end() :].rstrip(), rank, final)


_DOTS = "\\s.\u2026\u00b7\u2022"
_TURNING = "\u2800-\u28ff\u25d0-\u25d3\u25f4-\u25f7"
_BARS = r"\-|/\\"
_SPINNER = re.compile(rf"[{_DOTS}{_TURNING}]+|(?<![{_BARS}])[{_BARS}](?![{_BARS}])")
"""Dots in any number, braille and quartered circles, and one single `-\\|/` (several are a filling bar)."""
_REDRAWN = (b"\r", b"\b", b"\x1b")


def without(text: str) -> str:
    """Return a text without dots and spinners."""
    return _SPINNER.sub("", text)


def redraws(data: bytes) -> bool:
    """Return True if the bytes overwrite text in their line."""
    return any(sign in data for sign in _REDRAWN)


KEPT = 512
_IPV4 = r"(?:\d{1,3}\.){3}\d{1,3}"
_IPV6 = r"(?:[0-9a-fA-F]{0,4}:){2,8}[0-9a-fA-F.]{0,15}"
_ADDRESS = re.compile(
    rf"\[?(?:::ffff:)?(?<![\d.])({_IPV4})(?![\d.]*\d)|\[({_IPV6})(?:%\w+)?\]:\d+|(?<![\w:])({_IPV6})(?:%\w+)?<\d+>"
)
_NAME = re.compile(
    r"(?:connect(?:ing|ion|ed)?(?:\(\))? (?:to|with|from)|remote(?: peer| process)?(?: on)?|peer"
    r"|to host|address of)\b[ =]*(?:host )?"
    r"[\[(]?([A-Za-z][\w.-]*)(?:\]?[:<]\d|, \d| port \d)"
)
_TELLS = re.compile(
    rf"^([\w.-]++):\d+:\d+ \[\d+\] NCCL INFO .*?(?<![\w.])[\w.]{{1,80}}:({_IPV4}|{_IPV6})(?:%\w+)?<\d+>"
)


def learn(lines: Sequence[LogLine], addresses: dict[str, str]) -> None:
    """Add NCCL's report of a host's own network interfaces to `addresses` (address to host)."""
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
    """Return the host, by name or address, to which a line reports a failed connection, or empty."""
    named = _NAME.search(text)
    if named:
        return named[1]
    address = _ADDRESS.search(text)
    return next((part for part in address.groups() if part), "") if address else ""


def is_address(peer: str) -> bool:
    return re.fullmatch(rf"{_IPV4}|{_IPV6}", peer) is not None


def node(host: str, nodes: Sequence[str]) -> str:
    """Return the job's node with that host name, or empty; `n12.example.org` and `n12-ib0` are n12."""
    for name in sorted(nodes, key=len, reverse=True):
        if host == name or re.match(rf"{re.escape(name)}[-.]", host):
            return name
    return ""
