"""The page live, for one person's browser: on loopback only, for whoever knows the token."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from watchdogd.errors import WatchdogError

LOOPBACK = "127.0.0.1"
COOKIE = "watchdogd"
SLOW = 20.0
"""Seconds that a browser may take to send its request."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Document:
    """Document under a path: its type, and the function that makes it, which may raise WatchdogError."""

    content_type: str
    make: Callable[[], str]


class Server(ThreadingHTTPServer):
    """Server of documents by path. `port` 0: any free one. Raise OSError if the port is taken."""

    daemon_threads = True

    def __init__(self, documents: Mapping[str, Document], token: str, port: int = 0) -> None:
        self.documents = documents
        self.token = token
        super().__init__((LOOPBACK, port), _PageHandler)

    @property
    def address(self) -> str:
        """The address to type into a browser."""
        return f"http://{LOOPBACK}:{self.server_port}/?token={self.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the library's form
        """Log a request that broke off: browsers may leave at any time."""
        log.debug("a request broke off", exc_info=True)


class _PageHandler(BaseHTTPRequestHandler):
    server: Server
    server_version = "watchdogd"
    sys_version = ""
    timeout = SLOW

    def do_GET(self) -> None:
        """Answer with a document, if the token is right; a token in the address becomes a cookie."""
        url = urlsplit(self.path)
        token = parse_qs(url.query).get("token", [""])[0]
        # a foreign name for this address (DNS rebinding) must not reach the page
        if self.headers.get("Host", "").partition(":")[0] not in (LOOPBACK, "localhost"):
            self._answer(HTTPStatus.FORBIDDEN, "ask for 127.0.0.1 or localhost\n")
        elif not self._known(token):
            self._answer(HTTPStatus.UNAUTHORIZED, "the address needs its token: 'watchdogd web' prints it\n")
        elif url.path not in self.server.documents:
            self._answer(HTTPStatus.NOT_FOUND, f"there is {' and '.join(self.server.documents)}\n")
        elif token and "text/html" in self.server.documents[url.path].content_type:
            cookie = f"{COOKIE}={self.server.token}; HttpOnly; SameSite=Strict; Path=/"
            self._answer(HTTPStatus.SEE_OTHER, "", {"Location": url.path, "Set-Cookie": cookie})
        else:
            self._document(self.server.documents[url.path])

    do_HEAD = do_GET  # noqa: N815 - the name is the library's

    def _known(self, token: str) -> bool:
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
        given = (token, cookie.value if cookie else "", bearer)
        return any(hmac.compare_digest(each.encode(), self.server.token.encode()) for each in given if each)

    def _document(self, document: Document) -> None:
        try:
            text = document.make()
        except WatchdogError as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n")
            return
        self._answer(HTTPStatus.OK, text, content_type=document.content_type)

    def _answer(
        self,
        status: HTTPStatus,
        text: str,
        headers: Mapping[str, str] | None = None,
        content_type: str = "text/plain; charset=utf-8",
    ) -> None:
        data = text.encode("utf-8", "replace")
        self.send_response(status)
        common = {
            "Content-Type": content_type,
            "Content-Length": str(len(data)),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
        }
        for name, value in {**common, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Log nothing: the address contains the token."""
