"""The kill switch of a run as it lies on its file systems."""

from __future__ import annotations

import contextlib
import os
import stat

from watchdogd.checks.past import Switch
from watchdogd.home import touchfile


def kill_switch(*places: str) -> Switch | None:
    """The kill switch as it was set first in one of its places, or None.

    One that cannot be read is set all the same. A folder is none: it is a mistake in config.toml, and no
    Guard stops for it.
    """
    touches = []
    for path in filter(None, places):
        with contextlib.suppress(OSError):
            if not stat.S_ISDIR(os.stat(path).st_mode):
                touches.append(touchfile.read(path))
    first = min(touches, key=lambda touch: touch.time, default=None)
    return None if first is None else Switch(first.time, first.who, first.reason)
