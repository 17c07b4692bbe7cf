"""The core file that a process of a job left where the job was started."""

from __future__ import annotations

import glob
import os


def core_file(folder: str, since: float) -> str:
    """The newest `core`, `core.PID` or `PROGRAM.core` that was written after `since`, or empty."""
    found = []
    for path in glob.glob(f"{glob.escape(folder)}/core*") + glob.glob(f"{glob.escape(folder)}/*.core"):
        try:
            seen = os.stat(path)
        except OSError:
            continue  # gone, or out of reach: it helps nobody then
        if os.path.isfile(path) and seen.st_mtime >= since:
            found.append((seen.st_mtime, path))
    return max(found, default=(0.0, ""))[1] if folder else ""
