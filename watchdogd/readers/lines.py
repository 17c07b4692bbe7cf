"""Bytes of a training's log as clean lines: progress bars cut apart, colours and rank prefixes taken off."""

from __future__ import annotations

import re
from typing import NamedTuple

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*+\x07")
_REDRAW = re.compile(r"\x1b\[(?:\d*[AFG]|2[JK]|(?:\d+;\d+)?[Hf])|\x08+")
"""What a bar writes before its next state instead of a carriage return: cursor moved, line erased."""
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
"""Bytes kept of the end of a line that never ends."""


LONGEST = 8192
"""Letters of a line that are read: of a longer one its two ends."""


class Line(NamedTuple):
    """One line without its prefix. `rank` is what that said (`3`, `rank3`, `n1:3`, `Actor pid=7`), or empty.

    `final`: the last state of a progress bar, or a whole line: worth showing to people. `open`: it may go on.
    """

    text: str
    rank: str = ""
    final: bool = True
    open: bool = False


def read_lines(data: bytes) -> tuple[list[Line], int]:
    """The lines in `data`, and how many of its bytes are done with.

    An unfinished last line is read too (a progress bar never finishes its line), less a number that may be
    cut at its end, but it is not done with: its end comes again when more was written.
    """
    done = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    redrawn = b"\x1b[" in data or b"\b" in data
    for drawn in _REDRAW_BYTES.finditer(data, done) if redrawn else ():
        done = drawn.end()
    text = data[:done].decode("utf-8", "replace")
    lines: list[Line] = []
    for raw in (_REDRAW.sub("\r", text) if redrawn else text).split("\n"):
        if "\r" in raw:
            _add(lines, raw)
        elif raw and not raw.isspace():
            lines.append(_line(raw, final=True))
    rest = data[done:][-OPEN_AT_MOST:]
    text = rest.decode("utf-8", "replace").rstrip(_CUT_NUMBER)
    if text.strip():
        lines.append(_line(text, final=True)._replace(open=True))
    return lines, len(data) - len(rest)


def _add(lines: list[Line], raw: str) -> None:
    """The states of a bar that wrote over itself."""
    parts = [part for part in raw.split("\r") if part and not part.isspace()]
    for number, part in enumerate(parts, 1):
        lines.append(_line(part, final=number == len(parts)))


def _line(text: str, *, final: bool) -> Line:
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    match = _RANK.match(text) if text[:1] in " [(0123456789" else None
    if not match:
        return Line(text.rstrip(), "", final)
    if match["ray"]:
        match = _RANK.match(text, match.end()) or match
    rank = match["ray"] + (match["ip"] or "") if match["ray"] else match[match.lastindex or 0]
    return Line(text[match.end() :].rstrip(), rank, final)
