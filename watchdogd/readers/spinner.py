"""What a program draws to show that it waits: dots, and a sign that turns. Neither says that it gets on."""

from __future__ import annotations

import re

_DOTS = "\\s.\u2026\u00b7\u2022"
_TURNING = "\u2800-\u28ff\u25d0-\u25d3\u25f4-\u25f7"
_BARS = r"\-|/\\"
_SPINNER = re.compile(rf"[{_DOTS}{_TURNING}]+|(?<![{_BARS}])[{_BARS}](?![{_BARS}])")
"""Dots of any number, braille and quartered circles, and one of `-\\|/` alone: many are a bar that fills."""
_REDRAWN = (b"\r", b"\b", b"\x1b")


def without(text: str) -> str:
    """What a text says beside dots and spinners."""
    return _SPINNER.sub("", text)


def redraws(data: bytes) -> bool:
    """Whether the bytes draw over what stands in their line."""
    return any(sign in data for sign in _REDRAWN)
