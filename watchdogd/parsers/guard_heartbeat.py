"""Heartbeats that a training's Guard writes to the inbox: its step and its loss."""

from __future__ import annotations

from dataclasses import dataclass

from watchdogd.errors import UnreadableError
from watchdogd.home.touchfile import one_line
from watchdogd.system.number import real, whole
from watchdogd.system.smallfile import parse_json

_TEXT_LIMIT = 500


@dataclass(frozen=True, slots=True)
class GuardHeartbeat:
    """One heartbeat of a training's Guard.

    `written` is the file's mtime, by the file server's clock; `job` the batch system's job id, or empty.
    `losses` counts the losses reported so far (None: a Guard too old to count them). `asked` is the reason
    for which the loop was asked to save, empty if it was not.
    """

    written: float
    run: str
    job: str
    host: str
    pid: int
    step: float | None = None
    loss: float | None = None
    losses: float | None = None
    asked: str = ""

    @property
    def where(self) -> str:
        return f"process {self.pid} on {self.host}"


def read(text: str, written: float) -> GuardHeartbeat:
    """Read one heartbeat. Raise UnreadableError if the text is not one."""
    try:
        said = parse_json(text)
        return GuardHeartbeat(
            written,
            str(said["run"]),
            str(said.get("job") or ""),
            str(said.get("host", "")),
            whole(said.get("pid")) or 0,
            real(said.get("step")),
            _number(said.get("loss")),
            _number(said.get("losses")),
            one_line(str(said.get("asked") or ""), _TEXT_LIMIT),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise UnreadableError(f"this is no heartbeat: {text[:80]!r}") from None


def _number(value: object) -> float | None:
    """Return a loss as a number; it may be NaN or infinite."""
    return value if isinstance(value, float) else real(value)
