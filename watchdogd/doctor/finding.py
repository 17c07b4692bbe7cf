"""What one trial found: the value that every piece returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FINE, WARNING, BROKEN = "fine", "warning", "broken"
_EXIT = {FINE: 0, WARNING: 1, BROKEN: 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table. `state` is FINE, WARNING or BROKEN; the last two carry what mends it."""

    state: str
    topic: str
    text: str
    mend: str = ""

    def as_json(self) -> dict[str, Any]:
        """As `doctor --json` prints it."""
        return {"state": self.state, "topic": self.topic, "text": self.text, "mend": self.mend}


def fine(topic: str, text: str) -> Finding:
    """It works."""
    return Finding(FINE, topic, text)


def warning(topic: str, text: str, mend: str) -> Finding:
    """It works, but not as one may expect."""
    return Finding(WARNING, topic, text, mend)


def broken(topic: str, text: str, mend: str) -> Finding:
    """It does not work."""
    return Finding(BROKEN, topic, text, mend)


def from_json(value: dict[str, Any]) -> Finding:
    """What `as_json` made. KeyError where it is something else."""
    return Finding(*(str(value[key]) for key in ("state", "topic", "text", "mend")))


def exit_code(findings: tuple[Finding, ...]) -> int:
    """0 all fine, 1 a warning, 2 something broken."""
    return max((_EXIT[finding.state] for finding in findings), default=0)
