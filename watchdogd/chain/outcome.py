"""What came of starting or ending the watchdog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdogd.batch.models import Job


@dataclass(frozen=True, slots=True)
class Outcome:
    """Lines to print; `link` is the job that was submitted or found."""

    lines: tuple[str, ...]
    changed: bool
    link: Job | None = None
    warnings: tuple[str, ...] = ()
