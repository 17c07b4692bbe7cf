"""The daemon's own standard output as a channel."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import ClassVar, TextIO

from watchdogd.home.layout import Home
from watchdogd.notify.channel import Channel, DeliveryError, Notification, Sender, SendingRate
from watchdogd.system.text import plain
from watchdogd.units import local_time


class ConsoleChannel(Channel):
    """Keys of type console: the daemon's own standard output."""

    example: ClassVar[str] = """
[channels.console]
type = "console"              # standard output of the daemon
"""
    local: ClassVar[bool] = True

    rate: SendingRate = None

    def make_sender(self, _home: Home) -> Sender:
        """Return its sender."""
        return Console()

    def try_connection(self, _home: Home) -> str:
        """Return what it is: nothing can be asked."""
        return "console, on this machine"


class Console:
    """Sender to standard output. Messages are plain already; a terminal that lacks a character shows `?`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def send(self, notification: Notification, _roots: Sequence[Notification], /) -> str:
        """Print it, with an empty line after it."""
        message = notification.message
        _write(self._stream, f"{local_time(message.at)} {plain(message.headline)}\n{plain(message.body)}\n\n")
        return ""

    def close(self) -> None:
        """Close nothing: standard output is not ours."""


def _write(stream: TextIO | None, text: str) -> None:
    stream = stream or sys.stdout
    try:
        stream.write(text.encode(stream.encoding or "utf-8", "replace").decode(stream.encoding or "utf-8"))
        stream.flush()
    except (OSError, ValueError) as error:  # ValueError: it is closed
        raise DeliveryError(f"standard output cannot be written: {error}") from None
