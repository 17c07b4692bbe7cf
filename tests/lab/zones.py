"""Time zones as shells set them: names, files, POSIX rules, and nonsense."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = "CET-1CEST,M3.5.0,M10.5.0/3"
"""Central Europe, for a machine that has no tzdata."""
ODD = (
    RULE,
    "",
    ":",
    ":/etc/localtime",
    "/etc/passwd",
    "Nowhere/Bad",
    "Europe",
    "<+1245>-12:45",
    "ABC24",
    "A-23B-25,M8.1.0,M9.1.0",
    "\udcff\udc80",
    "x" * 3000,
)


@contextmanager
def local(name: str) -> Iterator[None]:
    """This process with such a TZ."""
    before = os.environ.get("TZ")
    _use(name)
    try:
        yield
    finally:
        _use(before)


def _use(name: str | None) -> None:
    if name is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = name
    time.tzset()
