"""Messages between the daemon and its workers: lists of Calls out, a Reply back for each.

`RECALL` asks for the calls that have not begun; they come back as Returned. The daemon's end of the socket
never blocks. Call and Reply have no slots: pickle is twice as fast without.
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
"""Memory, as JSON, of a plugin that remembers nothing."""
FAILED = "failed looks"
"""Key in a memory for the number of consecutive unfinished executions; hidden from plugins."""


@dataclass(frozen=True)
class Call:
    """Function to run in a worker. `key`: its name, unique among outstanding calls.

    `injected` values go to plugins by parameter name, as does their own `memory` (JSON); plain functions get
    `parameters` only. `timeout` in seconds. `alone`: in a process of its own (a user's code). Others share a
    worker with calls of their `lane`, so that slow programs do not delay quick checks.
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
    """Keys of calls that a worker returns without having begun them."""

    keys: frozenset[str]


@dataclass(frozen=True)
class Reply:
    """Outcome of a Call: `value` (a plugin's results, a function's return value), or `trouble` in one line.

    `memory`: the plugin's memory (JSON) if it changed. `late`: no answer within the deadline. `unanswered`: a
    file system or tool did not answer. `left`: ids of processes of the call that could not be killed; `hang`:
    a description of them.
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
"""Length prefix of a message of `multiprocessing.connection`."""
_CHUNK = 262_144


class Wire:
    """Non-blocking socket that sends and receives pickled values; unsent data is buffered.

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
        """Return whether there is unsent data."""
        return bool(self._out)

    def send(self, value: Any) -> None:
        """Send a value now or at the next `flush`. A closed other end raises nothing here."""
        packed = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        self._out += _HEAD.pack(len(packed)) + packed
        self.flush()

    def flush(self) -> None:
        with contextlib.suppress(OSError):  # full: sent later; closed: `receive` notices
            while self._out:
                sent = self._socket.send(memoryview(self._out)[:_CHUNK])
                del self._out[:sent]

    def receive(self) -> list[Any]:
        """Return the complete values that have arrived. EOFError, OSError where the other end is closed."""
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
