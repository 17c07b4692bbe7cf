"""What people ask of the watchdog about its incidents, as it is handed in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Order:
    """What a person asks for, given at `at`: to `ack` an `incident`, to `silence` or `unsilence` a `target`.

    A silence lasts `until` (seconds since the epoch) and replaces an earlier one of the same target.
    """

    verb: Literal["ack", "silence", "unsilence"]
    by: str
    at: float
    incident: int | None = None
    target: str = ""
    until: float = 0.0
    reason: str = ""
