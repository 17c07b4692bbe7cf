"""Bytes of a training's log as clean lines: progress bars cut apart, colours and rank prefixes taken off."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_RANK = re.compile(
    r"\s*(?:"
    r"(?P<srun>\d{1,6}): "  # srun --label
    r"|\[(?P<torch>(?:rank|Rank |default)\d+)\]:? ?"  # torchrun --tee, PyTorch's own
    r"|\[(?P<mpi>\d+,\d+)\]<std(?:out|err)>: ?"  # Open MPI --tag-output
    r"|\[(?P<node>[\w.-]+:\d+)\]:? "  # [node:rank]
    r"|\[(?P<pod>[a-z0-9-]+-\d+)\] "  # a pod's name
    r")"
)
_CUT_NUMBER = re.compile(r"[\d.,]+$")
SHOWN_AT_MOST = 300


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its prefix. `rank` is what the prefix said (`3`, `rank3`, `node1:3`), or empty.

    `final`: the last state of a progress bar, or a whole line: worth showing to people.
    """

    text: str
    rank: str = ""
    final: bool = True


def read_lines(data: bytes) -> tuple[list[Line], int]:
    """The lines in `data`, and how many of its bytes are done with.

    An unfinished last line is read too (a progress bar never finishes its line), less a number that may be
    cut at its end, but it is not done with: it comes again when more was written.
    """
    done = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    lines: list[Line] = []
    for raw in data[:done].decode("utf-8", "replace").split("\n"):
        _add(lines, raw)
    rest = data[done:].decode("utf-8", "replace")
    if rest.strip():
        _add(lines, _CUT_NUMBER.sub("", rest))
    return lines, done


def _add(lines: list[Line], raw: str) -> None:
    bars = raw.split("\r") if "\r" in raw else (raw,)
    parts = [part for part in bars if part and not part.isspace()]
    for number, part in enumerate(parts, 1):
        lines.append(_line(part, final=number == len(parts)))


def _line(text: str, *, final: bool) -> Line:
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    match = _RANK.match(text) if text[:1] in " [0123456789" else None
    if not match:
        return Line(text.rstrip(), "", final)
    return Line(text[match.end() :].rstrip(), match[match.lastindex or 0], final)
