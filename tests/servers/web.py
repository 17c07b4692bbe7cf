"""A real HTTP server on loopback that logs its requests and misbehaves on demand."""

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from types import TracebackType
from typing import Any, Self

from tests.ports import port_of, reserve_port
from tests.servers.behaviours import Behaviours


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came; `arrived` in seconds since the epoch."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    arrived: float

    def json(self) -> Any:
        """The body as JSON; raises ValueError where it is none."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: status, text and extra headers."""

    status: int = 200
    text: str = "ok"
    headers: tuple[tuple[str, str], ...] = ()


class Fault(Enum):
    """What a server does instead of answering."""

    HANG = "reads the request, does nothing and never answers, until released"
    DROP = "reads the request, does nothing and closes the connection without a byte"
    CUT = "does what was asked, and closes the connection in the middle of its answer"


NORMAL = None
"""The behaviour of a server with which nothing is wrong."""

Behaviour = Answer | Fault | Callable[[Request], Answer] | None


class _Listener(ThreadingHTTPServer):
    """The listening half; knows its open connections, so that it can end those that clients keep."""

    daemon_threads = False  # closing joins the threads: none may outlive its test
    request_queue_size = 64

    def __init__(self, port: int, serve: Callable[["_Handler", Request], None]) -> None:
        self.serve = serve
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def server_bind(self) -> None:
        """Binds without HTTPServer's look-up of the host's name, which can take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Notes the connection, then gives it to a thread of its own."""
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forgets the connection, then closes it."""
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """Ends all connections, so that the threads which wait for a next request come home."""
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # its client was faster

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of the server's; anything else is printed."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept, as real services do
    server: _Listener

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, self.rfile.read(length), time.time())
        self.server.serve(self, request)

    do_GET = do_POST = do_PUT = do_HEAD = _handle  # noqa: N815  # http.server looks for these names

    def answer(self, answer: Answer, *, cut: bool = False) -> None:
        """Sends an answer; `cut` breaks off after the first half of its text."""
        body = answer.text.encode()
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is http.server's
        """Nothing on stderr: the log is `requests`."""


class WebServer:
    """An HTTP server on a port of its own that answers 200 `ok`, unless `behave` says otherwise."""

    def __init__(self) -> None:
        self._holder = reserve_port()
        self._behaviours: Behaviours[Behaviour] = Behaviours(NORMAL)
        self._requests: list[Request] = []
        self._released = threading.Event()
        self._listener: _Listener | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where to send; http://127.0.0.1:PORT."""
        return self.base

    @property
    def base(self) -> str:
        """http://127.0.0.1:PORT, without a slash at its end."""
        return f"http://127.0.0.1:{port_of(self._holder)}"

    @property
    def requests(self) -> list[Request]:
        """All that arrived so far, whatever the answer was."""
        return list(self._requests)

    def behave(self, wish: Behaviour | Sequence[Behaviour]) -> None:
        """An Answer (or what makes one of a request), a Fault or NORMAL.

        One stands until the next call; a list is for the next requests, after which all is normal.
        """
        self._behaviours.set(wish)

    def respond(self, request: Request) -> Answer:
        """The normal answer; what a service of its own overrides."""
        return Answer()

    def release(self) -> None:
        """Ends the hanging of those who hang now: their connections close without an answer."""
        self._released.set()
        self._released = threading.Event()

    def up(self) -> None:
        """Listens, always on the same port."""
        self._released = threading.Event()
        self._listener = _Listener(port_of(self._holder), self._serve)
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.02,), name=self.base)
        self._thread.start()

    def down(self) -> None:
        """Ends all connections; from now on they are refused, until `up`."""
        if self._listener is None or self._thread is None:
            return
        self._listener.shutdown()
        self._thread.join(240)
        self._released.set()
        self._listener.hang_up()
        self._listener.server_close()
        self._listener = self._thread = None

    def close(self) -> None:
        """Goes down for good and gives its port back."""
        self.down()
        self._holder.close()

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _serve(self, handler: _Handler, request: Request) -> None:
        behaviour, released = self._behaviours.next(), self._released
        self._requests.append(request)
        if behaviour is Fault.HANG:
            released.wait(240)
        elif behaviour is not Fault.DROP:
            handler.answer(self._answer(behaviour, request), cut=behaviour is Fault.CUT)
        if isinstance(behaviour, Fault):
            handler.close_connection = True

    def _answer(self, behaviour: Behaviour, request: Request) -> Answer:
        if isinstance(behaviour, Answer):
            return behaviour
        if behaviour is NORMAL or isinstance(behaviour, Fault):
            return self.respond(request)
        return behaviour(request)
