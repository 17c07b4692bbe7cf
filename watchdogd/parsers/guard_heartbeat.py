"""A heartbeat that the Guard left in the inbox: how far a training is, and its loss."""

from __future__ import annotations

from dataclasses import dataclass

from watchdogd.errors import UnreadableError
from watchdogd.home.touchfile import one_line
from watchdogd.system.number import real, whole
from watchdogd.system.smallfile import parse_json

_TEXT_LIMIT = 500


@dataclass(frozen=True, slots=True)
class GuardHeartbeat:
    """`written`: the file's time, by its file server's clock. `job`: the batch system's id, or empty.

    `losses`: how many beats brought a new one, None where the Guard is of an earlier version. `asked`: why
    the loop was asked to save, empty where it was not.
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
    """One beat. UnreadableError where it is none."""
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
    """Return the number of a loss, which may be NaN and infinite."""
    return value if isinstance(value, float) else real(value)
