"""What `status` knows as the one line of a Nagios plugin, for other monitors."""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime
from typing import Any

from watchdogd.cli.output import one_line

_COUNTED = ("CRITICAL", "WARNING", "UNKNOWN")


def verdict(picture: dict[str, Any], code: int) -> str:
    """`watchdogd CRITICAL - 2 open, first ... | critical=1 warning=1 unknown=0 last_round=12s`."""
    incidents = picture["incidents"]
    counts = Counter(incident["status"] for incident in incidents)
    word = ("OK", "WARNING", "CRITICAL", "UNKNOWN")[code]
    said = [f"alive: {picture['holder']}" if picture["alive"] else "not alive: watchdogd start"]
    said += picture["troubles"] if picture.get("unread") else []
    if incidents:
        said.append(f"{len(incidents)} open, first {incidents[0]['check']}: {incidents[0]['summary']}")
    numbers = [f"{status.lower()}={counts[status]}" for status in _COUNTED]
    if picture["last_round"]:
        age = time.time() - datetime.fromisoformat(picture["last_round"]).timestamp()
        numbers.append(f"last_round={max(0.0, age):.0f}s")
    # What stands behind a bar is numbers to whoever reads it.
    return f"watchdogd {word} - {one_line('; '.join(said)).replace('|', '/')} | {' '.join(numbers)}"
