"""The content of a switch file: one JSON object a touch and line, or anything, or nothing (a plain touch)."""

from __future__ import annotations

from dataclasses import dataclass

from watchdogd.document import document
from watchdogd.readers.number import moment, real


@dataclass(frozen=True, slots=True)
class Touch:
    """Who pressed a switch, where, when (seconds since the epoch; None: not said) and why."""

    by: str = ""
    reason: str = ""
    at: float | None = None
    host: str = ""


def read(text: str) -> tuple[Touch, ...]:
    """The touches in the order of the file; lines that are no JSON object say nothing."""
    found = (_touch(line) for line in text.splitlines())
    return tuple(touch for touch in found if touch is not None)


def _touch(line: str) -> Touch | None:
    try:
        said = document(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    by, reason, host = (" ".join(str(said.get(key) or "").split())[:200] for key in ("by", "reason", "host"))
    return Touch(by, reason, _time(said.get("at")), host)


def _time(value: object) -> float | None:
    return moment(value) if isinstance(value, str) else real(value)
