"""One line a message, appended to a file: for people who tail, and for programs that read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from watchdogd.errors import DeliveryError
from watchdogd.notify.text import one_line
from watchdogd.units import iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.home import Home
    from watchdogd.notify.notification import Notification


FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
"""Not blocking: a pipe without a reader would wait for one for ever."""


class Statuslog:
    """`type = "statuslog"`: `TIME [STATUS] TARGET: summary`."""

    threaded = False

    def __init__(self, path: str, home: Home | None = None) -> None:
        """`home` where the file lies in it: then it has home's rights, else what the umask leaves of 0660."""
        self._path = path
        self._home = home

    def send(self, notification: Notification, _roots: Sequence[Notification], /) -> str:
        """Append the line in one write, so that several writers do not mix."""
        message = notification.message
        line = f"{iso(message.at)} {one_line(message.headline, 500)}\n"
        try:
            if self._home:
                self._home.make_file(Path(self._path))
            descriptor = os.open(self._path, FLAGS, 0o660)
            try:
                whole = os.write(descriptor, line.encode("utf-8", "replace")) >= len(line)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise DeliveryError(f"{self._path} cannot be written: {error.strerror}") from None
        if not whole:
            raise DeliveryError(f"{self._path} takes no more: its disk is full")
        return ""

    def close(self) -> None:
        """Nothing is kept open: the file may be rotated."""
