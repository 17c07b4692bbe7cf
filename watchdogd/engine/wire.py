"""The daemon's end of a worker's socket: it never waits for the worker, neither to send nor to receive."""

from __future__ import annotations

import contextlib
import pickle
import socket
import struct
from typing import Any

_HEAD = struct.Struct("!i")
"""What `multiprocessing.connection` puts before each message: its length."""
_CHUNK = 262_144


class Wire:
    """Socket that sends and receives whole values; what it does not take at once waits here.

    The other end is a `multiprocessing.connection.Connection`.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._out = bytearray()
        self._in = bytearray()

    def fileno(self) -> int:
        """Return the socket's descriptor, for a selector."""
        return self._socket.fileno()

    @property
    def waiting(self) -> bool:
        """Return whether something is still to be sent."""
        return bool(self._out)

    def send(self, value: Any) -> None:
        """Send a value, now or when `flush` is called. Raises nothing for an end that is closed."""
        packed = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        self._out += _HEAD.pack(len(packed)) + packed
        self.flush()

    def flush(self) -> None:
        """Send as much as the socket takes."""
        with contextlib.suppress(OSError):  # full: later; closed: `receive` tells so
            while self._out:
                sent = self._socket.send(memoryview(self._out)[:_CHUNK])
                del self._out[:sent]

    def receive(self) -> list[Any]:
        """Return the values that have come whole. EOFError, OSError where the other end is closed."""
        chunk = self._socket.recv(_CHUNK)
        if not chunk:
            raise EOFError
        self._in += chunk
        values, at = [], 0
        while len(self._in) >= at + _HEAD.size:
            end = at + _HEAD.size + _HEAD.unpack_from(self._in, at)[0]
            if len(self._in) < end:
                break
            values.append(pickle.loads(self._in[at + _HEAD.size : end]))  # noqa: S301 - our own worker's
            at = end
        del self._in[:at]
        return values

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
