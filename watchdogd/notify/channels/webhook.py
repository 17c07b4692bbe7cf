"""A generic webhook: one JSON body by POST, for whatever takes it.

The body (version 1; times in ISO 8601 with offset; `incident`, `since` and `subject` may be null or empty):

    {"version": 1, "key": "incident-17-opened-...@hook", "status": "CRITICAL", "target": "run-17",
     "headline": "[CRITICAL] run-17: ...", "body": "Since ...", "at": "2026-11-28T03:12:00+01:00",
     "thread": "incident-17", "quiet": false,
     "items": [{"incident": 17, "status": "CRITICAL", "check": "run-17/log_staleness", "subject": "",
                "summary": "...", "since": "2026-11-28T03:02:00+01:00"}]}

`key` is the same when a message comes a second time, and is the header Idempotency-Key too. Any answer of
2xx is success; 408, 425, 429 and 5xx are tried again, Retry-After is obeyed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from watchdogd.home.layout import Home
from watchdogd.notify.channel import Channel, Item, Notification, Sender, WebSecretField
from watchdogd.units import iso


class WebhookChannel(Channel):
    """Keys of type webhook."""

    example: ClassVar[str] = """
[channels.hook]
type = "webhook"                        # a JSON body by POST
url  = "env:HOOK_URL"
"""

    url: WebSecretField

    def make_sender(self, _home: Home) -> Sender:
        """Return its sender."""
        return JsonWebhook(self.url.reveal())

    def try_connection(self, _home: Home) -> str:
        """Greet the server."""
        from watchdogd.notify.http_client import greet

        return greet(self.url.reveal())


class JsonWebhook:
    """Sender of JSON bodies."""

    def __init__(self, url: str) -> None:
        from watchdogd.notify.http_client import Web

        self._url = url
        self._web = Web(url, "url of the webhook")

    def send(self, notification: Notification, _roots: Sequence[Notification], /) -> str:
        """Post it."""
        answer = self._web.post(self._url, body(notification), {"Idempotency-Key": notification.key})
        if not 200 <= answer.status < 300:
            raise answer.error(self._web.host)
        return ""

    def close(self) -> None:
        """Close the connection."""
        self._web.close()


def body(notification: Notification) -> dict[str, Any]:
    """Return the JSON body as documented above."""
    message = notification.message
    return {
        "version": 1,
        "key": notification.key,
        "status": message.status,
        "target": message.target,
        "headline": message.headline,
        "body": message.body,
        "at": iso(message.at),
        "thread": message.thread,
        "quiet": message.quiet,
        "items": [_item(item) for item in message.items],
    }


def _item(item: Item) -> dict[str, Any]:
    return {
        "incident": item.incident,
        "status": item.status,
        "check": item.check,
        "subject": item.subject,
        "summary": item.summary,
        "since": None if item.since is None else iso(item.since),
    }
