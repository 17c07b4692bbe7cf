"""This watchdogd as a command for processes of its own, here and on other nodes."""

from __future__ import annotations

import sys
from pathlib import Path


def python(start: str, *words: str) -> list[str]:
    """This interpreter, running `start` with this watchdogd from where it lies: no PATH need lead to either.

    `start` is Python, such as `from watchdogd.cli import main; main()`; `words` are its sys.argv[1:].
    """
    root = str(Path(__file__).resolve().parents[2])
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}); {start}", *words]
