"""Channel to the daemon's standard output."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import ClassVar, TextIO

from watchdogd.home.layout import Home
from watchdogd.notify.channel import Channel, DeliveryError, Notification, Sender, SendingRate
from watchdogd.system.text import plain
from watchdogd.units import local_time


class ConsoleChannel(Channel):
    """Keys of type console."""

    example: ClassVar[str] = """
[channels.console]
type = "console"              # standard output of the daemon
"""
    local: ClassVar[bool] = True

    rate: SendingRate = None

    def make_sender(self, _home: Home) -> Sender:
        return Console()

    def try_connection(self, _home: Home) -> str:
        """Return the name: there is nothing to connect to."""
        return "console, on this machine"


class Console:
    """Sender to standard output; a character that the terminal lacks becomes `?`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def send(self, notification: Notification, _roots: Sequence[Notification], /) -> str:
        """Print the message and an empty line."""
        message = notification.message
        _write(self._stream, f"{local_time(message.at)} {plain(message.headline)}\n{plain(message.body)}\n\n")
        return ""

    def close(self) -> None:
        """Do nothing."""


def _write(stream: TextIO | None, text: str) -> None:
    stream = stream or sys.stdout
    try:
        stream.write(text.encode(stream.encoding or "utf-8", "replace").decode(stream.encoding or "utf-8"))
        stream.flush()
    except (OSError, ValueError) as error:  # ValueError: it is closed
        raise DeliveryError(f"standard output cannot be written: {error}") from None
