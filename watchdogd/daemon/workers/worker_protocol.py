"""Messages between the daemon and its workers: Calls out, many in one; a Reply back for each.

`RECALL` asks for the calls that have not begun; they come back as Returned. The daemon's end of the socket
never waits for the worker, neither to send nor to receive. What travels has no slots: pickle takes the values
of such dataclasses by itself, those of others through Python code of `dataclasses`, in twice the time.
"""

from __future__ import annotations

import contextlib
import pickle
import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.daemon.registry.plugin_registry import Source


RECALL = None
NOTHING = "{}"
"""The memory, as JSON text, of a plugin that remembers nothing."""
FAILED = "failed looks"
"""Key in a memory: how many looks in a row did not end. It is the daemon's, plugins do not see it."""


@dataclass(frozen=True)
class Call:
    """One function to run in a worker. `key` is its name; no second call of a key runs beside the first.

    `injected` is given to plugins by name, and so is their own `memory`, which travels as JSON text; plain
    functions get `parameters` alone. `timeout` in seconds. `alone`: in a process of its own (foreign code).
    Others share workers with those of their `lane`: slow programs do not keep quick checks waiting.
    """

    key: str
    source: Source
    parameters: Mapping[str, Any] = field(default_factory=dict)
    injected: Mapping[str, Any] = field(default_factory=dict)
    memory: str = NOTHING
    timeout: float = 30.0
    alone: bool = False
    lane: str = ""


@dataclass(frozen=True, slots=True)
class Returned:
    """Keys of calls that a worker gives back without having begun them."""

    keys: frozenset[str]


@dataclass(frozen=True)
class Reply:
    """Outcome of a Call: `value` (a plugin's results, a function's return value), or `trouble` in one line.

    `memory` is the plugin's memory, as JSON text, where it changed. `late`: it did not answer in time.
    `unanswered`: what it looked at did not. `left`: ids of processes that the call started and that could not
    even be killed; `hang`: what to say of them.
    """

    key: str
    value: Any = None
    memory: str | None = None
    trouble: str = ""
    late: bool = False
    unanswered: bool = False
    left: tuple[int, ...] = ()
    hang: str = ""
    seconds: float = 0.0


_HEAD = struct.Struct("!i")
"""What `multiprocessing.connection` puts before each message: its length."""
_CHUNK = 262_144


class Wire:
    """Socket that sends and receives whole values; what it cannot send at once waits here.

    The other end is a `multiprocessing.connection.Connection`.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._out = bytearray()
        self._in = bytearray()

    def fileno(self) -> int:
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
        self._socket.close()
