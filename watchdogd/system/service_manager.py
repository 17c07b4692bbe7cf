"""Service manager that started this process, for units of `Type=notify` (sd_notify(3))."""

from __future__ import annotations

import contextlib
import os
import socket

_PATIENCE = 1.0
"""Seconds for a message to it."""


class ServiceManager:
    """Reporter of the service's state to systemd; without systemd it does nothing.

    systemd's variables are removed from the environment, so that no check or drop-in can report instead.
    """

    def __init__(self) -> None:
        self._address = os.environ.pop("NOTIFY_SOCKET", "")
        given = os.environ.pop("WATCHDOG_USEC", "")
        self._deadline = int(given) / 1e6 if given.isdecimal() else 0.0

    def working(self, status: str, pause: float) -> None:
        """Report that the service works, in one line how, and again within about `pause` seconds.

        The unit's WatchdogSec is raised where it is shorter.
        """
        lines = ["READY=1", "WATCHDOG=1", f"STATUS={status}"]
        if 0 < self._deadline < 3 * pause:
            self._deadline = 3 * pause
            lines.append(f"WATCHDOG_USEC={self._deadline * 1e6:.0f}")
        self._send(lines)

    def ending(self) -> None:
        """Say that it ends on purpose.

        A service that ends before it said that it is ready counts as failed, and would be started again.
        """
        self._send(["READY=1"])
        self._send(["STOPPING=1", "STATUS=ending"])

    def _send(self, lines: list[str]) -> None:
        if not self._address:
            return
        # A socket in the abstract namespace is written with an @ (unix(7)).
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wire:
            wire.settimeout(_PATIENCE)
            wire.sendto("\n".join(lines).encode(errors="replace"), address)
