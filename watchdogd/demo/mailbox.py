"""The alerts that arrive: a webhook of this machine to which the daemon posts each message."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from watchdogd.system.text import paragraphs


@dataclass(frozen=True, slots=True)
class PostedAlert:
    """One message: its first line, all that is below it, when it happened, and which subjects it names."""

    status: str
    target: str
    headline: str
    body: str = ""
    at: str = ""
    subjects: frozenset[str] = frozenset()

    @classmethod
    def from_json(cls, posted: dict[str, Any]) -> PostedAlert:
        """Return the alert that a channel of type webhook posted."""
        subjects = frozenset(item["subject"] for item in posted["items"])
        words = {key: str(posted[key]) for key in ("status", "target", "headline", "body", "at")}
        return cls(**words, subjects=subjects)

    @property
    def clock(self) -> str:
        """The time of day at which it happened."""
        return datetime.fromisoformat(self.at).strftime("%H:%M:%S")

    @property
    def evidence(self) -> tuple[str, ...]:
        """The lines that are shown as they are, such as the last ones of a log."""
        found = [text for verbatim, text in paragraphs(self.body) if verbatim]
        return tuple(found[0].splitlines()) if found else ()


class Mailbox:
    """A server on loopback that keeps what it is sent; its `alerts` are all so far, oldest first."""

    def __init__(self) -> None:
        self._alerts: list[PostedAlert] = []
        keep = self._alerts.append

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                keep(PostedAlert.from_json(json.loads(self.rfile.read(length))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    @property
    def url(self) -> str:
        """The address to post to."""
        return f"http://127.0.0.1:{self._server.server_port}/"

    @property
    def alerts(self) -> tuple[PostedAlert, ...]:
        """The alerts so far, oldest first."""
        return tuple(self._alerts)

    def close(self) -> None:
        """Take no more."""
        self._server.shutdown()
        self._server.server_close()
