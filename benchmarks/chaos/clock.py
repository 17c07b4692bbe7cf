"""The time of day of a campaign: a wall clock that is set, and a zone with daylight saving time. Seconds."""

from __future__ import annotations

import mmap
import struct
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")
SIZE, PAIR = 4096, 16
SUMMER = 3600


PRELOADING = (
    "import os, sys; own = {own!r}; own.items() <= os.environ.items() or "
    "os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | own)\n"
)
"""What Python does at its start, a line of site's: it begins anew with a library preloaded."""


class WallClock:
    """The wall clock of a Python that has it, and of what that starts; the machine's own is never touched."""

    def __init__(self, folder: Path) -> None:
        library, settings = folder / "clock.so", folder / "clock"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
        settings.write_bytes(bytes(SIZE))
        with settings.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), SIZE)
        self._settings: list[tuple[float, float]] = []
        self._env = {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(settings)}

    def enter(self, site: Path) -> None:
        """Give it to the Python of these site-packages, whatever starts it."""
        (site / "chaos_clock.pth").write_text(PRELOADING.format(own=self._env))

    def set(self, ahead: float) -> None:
        """From now on it is so many seconds ahead of the machine's."""
        now = time.time()
        self._settings.append((now, ahead))
        number = len(self._settings)
        pair = struct.pack("<2q", int(now * 1e9), int(ahead * 1e9))
        self._shared[number * PAIR - 8 : number * PAIR + 8] = pair
        self._shared[:8] = struct.pack("<q", number)  # the count last: nobody reads half of a setting

    def shown(self, at: float) -> float:
        """What it showed when the machine's showed `at`."""
        return at + next((ahead for since, ahead in reversed(self._settings) if since <= at), 0.0)


def zone(changes: Sequence[tuple[float, bool]]) -> bytes:
    """Return a file for TZ (RFC 8536): Central Europe, where summer begins or ends at `changes`."""
    kinds = struct.pack(">iBBiBB", SUMMER, 0, 0, 2 * SUMMER, 1, 4)
    names = b"CET\0CEST\0"
    body = b"".join(struct.pack(">i", int(at)) for at, _ in changes) + bytes(summer for _, summer in changes)
    counts = struct.pack(">6I", 0, 0, 0, len(changes), 2, len(names))
    return b"TZif\0" + bytes(15) + counts + body + kinds + names
