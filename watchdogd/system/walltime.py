"""The walltime of a link: as people and Slurm write it, and what a partition allows."""

from __future__ import annotations

import re

from watchdogd.errors import UnitError
from watchdogd.system.number import digits
from watchdogd.units import parse_duration

LONGEST = 86400.0
"""A link's walltime where nobody names one and the partition allows more, in seconds."""
SHORTEST = 120.0
"""Slurm counts in minutes, and a hand-over needs one."""
_DURATION = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(?:(\d+):)?(\d+)(?:\.\d+)?")


def parse_walltime(text: str) -> float:
    """Seconds of `12h`, and of what sbatch takes: minutes, `MM:SS`, `HH:MM:SS`, `D-HH[:MM[:SS]]`."""
    compact = text.strip()
    if re.fullmatch(r"\d+", compact):
        return float(digits(compact)) * 60
    if re.fullmatch(r"\d+-\d+(:\d+){0,2}", compact):
        days, _, rest = compact.partition("-")
        hours, minutes, seconds = (*rest.split(":"), "0", "0")[:3]
        return float(((digits(days) * 24 + digits(hours)) * 60 + digits(minutes)) * 60 + digits(seconds))
    seconds_found = slurm_duration(compact) if ":" in compact else None
    if seconds_found is not None:
        return seconds_found
    try:
        return parse_duration(compact)
    except UnitError:
        raise UnitError(f"'{text}' is no walltime: write it as 12h, 30m, 12:00:00 or 1-00:00:00") from None


def slurm_duration(field: str) -> float | None:
    """Seconds of `[DAYS-][[HOURS:]MINUTES:]SECONDS`; None of UNLIMITED, NOT_SET, Partition_Limit."""
    match = _DURATION.fullmatch(field.strip())
    if not match:
        return None
    days, first, second, seconds = (digits(part or "0") for part in match.groups())
    hours, minutes = (first, second) if match[3] is not None else (0, first)
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def format_walltime(seconds: float) -> str:
    """`12:00:00` or `1-00:00:00`, as Slurm writes it."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{days}-{hour:02d}:{minute:02d}:{second:02d}" if days else f"{hour:02d}:{minute:02d}:{second:02d}"


def margin(walltime: float) -> float:
    """Seconds before a link's end from which its successor may start: a tenth, one minute to thirty."""
    return min(max(walltime / 10, 60.0), 1800.0)
