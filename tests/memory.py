"""What a check keeps between its executions, as the daemon stores it."""

from __future__ import annotations

from typing import Any

from watchdogd.plugin import STATE
from watchdogd.system.codec import codec_of


def memory_of(state: Any) -> dict[str, Any]:
    """The memory of a check that remembers this."""
    return {STATE: codec_of(type(state)).dump(state)}
