"""The one table: what was measured, ours, the peer's, their ratio, and what is to be reached."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table, in words but for `ratio` (None: there is no peer)."""

    what: str
    ours: str
    peer: str = ""
    ratio: float | None = None
    reach: str = ""


def head() -> str:
    """The first two rows of a Markdown table."""
    return "| what | ours | the peer's | ratio | reach |\n| --- | --- | --- | --- | --- |"


def row(line: Line) -> str:
    """One more."""
    ratio = "" if line.ratio is None else f"{line.ratio:.3g} ×"
    return f"| {line.what} | {line.ours} | {line.peer} | {ratio} | {line.reach} |"
