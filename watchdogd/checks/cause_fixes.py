"""What to change before a run starts again, by the kind of cause that ended or stalled it. Pure."""

from __future__ import annotations

from watchdogd.parsers.logs.failure_patterns import CONSEQUENCES, PROGRAM
from watchdogd.parsers.logs.root_causes import MISMATCH
from watchdogd.plugin import Advice

_LESS = "Lower its memory use first"
_CODE = "Correct the error in the program first: it would fail again."
_ROOM = "Make room first: it would fail again."
_FIRST = {
    "GPU out of memory": f"{_LESS} (batch size, sequence length, activation checkpointing).",
    "host out of memory": f"{_LESS} (workers of its data loaders), or ask for more (--mem).",
    "disk quota exceeded": _ROOM,
    "no space left on device": _ROOM,
    PROGRAM: _CODE,
    MISMATCH: _CODE,
}


def first_fixes(kind: str) -> tuple[Advice, ...]:
    """Return what to change first, if it would only happen again."""
    return (Advice(_FIRST[kind]),) if kind in _FIRST else ()


def explains(kind: str) -> bool:
    """Return whether a cause of this kind says why the run stands still, and not only that others do."""
    return bool(kind) and kind not in CONSEQUENCES
