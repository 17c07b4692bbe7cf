"""The daemon's own standard output as a channel."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from watchdogd.errors import DeliveryError
from watchdogd.system.text import plain
from watchdogd.units import iso

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from watchdogd.notify.notification import Notification


class Console:
    """`type = "console"`. Messages are plain already; a terminal that lacks a character shows `?`."""

    threaded = False

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def send(self, notification: Notification, _roots: Sequence[Notification], /) -> str:
        """Print it, with an empty line after it."""
        message = notification.message
        _write(self._stream, f"{iso(message.at)} {plain(message.headline)}\n{plain(message.body)}\n\n")
        return ""

    def close(self) -> None:
        """Standard output is not ours."""


def _write(stream: TextIO | None, text: str) -> None:
    stream = stream or sys.stdout
    try:
        stream.write(text.encode(stream.encoding or "utf-8", "replace").decode(stream.encoding or "utf-8"))
        stream.flush()
    except (OSError, ValueError) as error:  # ValueError: it is closed
        raise DeliveryError(f"standard output cannot be written: {error}") from None
