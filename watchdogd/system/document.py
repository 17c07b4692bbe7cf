"""JSON that somebody else wrote: a value, or ValueError and nothing else."""

from __future__ import annotations

import json
from typing import Any


def document(text: str | bytes) -> Any:
    """What the text means. ValueError where it is no JSON, holds endless digits, or is nested without end."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested without end") from None
