"""What is quoted of an output that no reader understands."""

from __future__ import annotations

_LONGEST = 200


def first_line(text: str) -> str:
    """The first line that says something, 200 characters of it; `no output` where none does."""
    said = (line.strip() for line in text.splitlines() if any(each.isalnum() for each in line))
    return next((line[:_LONGEST] for line in said), "no output")
