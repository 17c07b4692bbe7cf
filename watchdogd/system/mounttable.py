"""What is mounted here, read again only where the kernel says that it changed."""

from __future__ import annotations

import os
import select
import threading
from typing import TYPE_CHECKING

from watchdogd.system.mounts import mount_of, read_mounts

if TYPE_CHECKING:
    from watchdogd.system.mounts import Mount

MOUNTINFO = "/proc/self/mountinfo"
_CHANGED = select.POLLPRI | select.POLLOUT
"""What poll(2) says of it after a change (proc(5)); a file that cannot tell says that it can be written."""


class MountTable:
    """/proc/self/mountinfo: to ask whether it changed takes a fiftieth of reading it."""

    def __init__(self, path: str = MOUNTINFO) -> None:
        self._path = path
        self._changed: select.poll | None = None
        self._alone = threading.Lock()  # each file system that may hang is asked on a thread of its own
        self._text = ""

    def text(self) -> str:
        """All of it as it is now; empty without Linux's /proc."""
        with self._alone:
            try:
                if self._changed is None:
                    self._changed = _sensor(self._path)
                    self._text = _read(self._path)
                elif self._changed.poll(0):
                    self._text = _read(self._path)
            except OSError:
                self._changed, self._text = None, ""
            return self._text


def _sensor(path: str) -> select.poll:
    sensor = select.poll()
    sensor.register(os.open(path, os.O_RDONLY | os.O_CLOEXEC), _CHANGED)  # open as long as the process is
    return sensor


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


mount_table = MountTable()
"""This process's."""


def mount_at(path: str) -> Mount | None:
    """What a path lies on, links followed; None without Linux's /proc. Hangs where the file system does."""
    return mount_of(os.path.realpath(path), read_mounts(mount_table.text()))
