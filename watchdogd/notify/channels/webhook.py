"""Generic webhook: a JSON body by POST, or the output of a template.

The body (version 1; times in ISO 8601 with offset; `incident`, `since` and `subject` may be null or empty):

    {"version": 1, "key": "incident-17-opened-...@hook", "status": "CRITICAL", "target": "run-17",
     "headline": "[CRITICAL] run-17: ...", "body": "Since ...", "at": "2026-11-28T03:12:00+01:00",
     "thread": "incident-17", "quiet": false,
     "items": [{"incident": 17, "status": "CRITICAL", "check": "run-17/log_staleness", "subject": "",
                "summary": "...", "since": "2026-11-28T03:02:00+01:00"}]}

A template (Jinja2, sandboxed) has these fields as variables. `key` is the same when a message is repeated,
and is also sent as Idempotency-Key. With `secret`, the header X-Hub-Signature-256 is `sha256=` and the
HMAC-SHA256 of the body in hexadecimal, as on GitHub and in WebSub. Any 2xx is success; 408, 425, 429 and 5xx
are tried again, and Retry-After is obeyed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from watchdogd.config.secret import Secret
from watchdogd.home.layout import Home
from watchdogd.notify.channel import (
    Channel,
    ConfigError,
    DeliveryError,
    Item,
    Message,
    Notification,
    SecretField,
    Sender,
    WebSecretField,
)
from watchdogd.system.text import nearest, one_line
from watchdogd.units import iso

if TYPE_CHECKING:
    from jinja2 import Template

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~\w-]+", re.ASCII)
"""Name of a header (RFC 9110, 5.1)."""


def _header(value: Secret) -> Secret:
    if re.search(r"\b(env|file):", value.reference) and not (value.variable or value.path):
        raise ValueError(
            "the whole value is the secret: write env:NAME or file:PATH alone, and 'Bearer ...' into it"
        )
    return value


def _named(value: Mapping[str, Secret]) -> Mapping[str, Secret]:
    for name in value:
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a header")
    return value


def _rendered_once(text: str) -> str:
    """Test the template. ValueError, in one line, where it is invalid or uses an unknown variable."""
    items = (Item("CRITICAL", "run-17/a_check", "stalled", incident=17, since=0.0),)
    message = Message("[CRITICAL] run-17: stalled", "Since noon.", "CRITICAL", "run-17", "incident-17", 0.0)
    for kind, tried in (("", replace(message, items=items)), (" (in a message without items)", message)):
        try:
            rendered(text, Notification("trial@hook", "hook", tried, 0.0))
        except ValueError as error:
            raise ValueError(f"{error}{kind}") from None
    return text


Headers = Annotated[dict[str, Annotated[SecretField, AfterValidator(_header)]], AfterValidator(_named)]


class WebhookChannel(Channel):
    """Keys of type webhook."""

    example: ClassVar[str] = """
[channels.hook]
type = "webhook"                        # a JSON body by POST
url  = "env:HOOK_URL"
headers = { Authorization = "env:HOOK_AUTHORIZATION" }   # such as: Bearer TOKEN
secret = "file:~/.hook-secret"          # signs the body: X-Hub-Signature-256, as GitHub's
body = '{"text": {{ headline | tojson }}, "level": {{ status | tojson }}}'   # Jinja2; left out: all fields
"""

    url: WebSecretField
    headers: Headers = Field(default_factory=dict)
    secret: SecretField | None = None
    body: Annotated[str, AfterValidator(_rendered_once)] | None = None

    def secrets(self) -> Iterator[tuple[str, Secret]]:
        """Yield the secrets, including those of the headers."""
        yield from super().secrets()
        for name, value in self.headers.items():
            yield f"headers.{name}", value

    def make_sender(self, _home: Home) -> Sender:
        headers = {name: value.reveal() for name, value in self.headers.items()}
        for name, value in headers.items():
            if not (value.isprintable() and all(ord(character) < 256 for character in value)):
                raise ConfigError(f"headers.{name} has characters that HTTP cannot send")
        secret = self.secret.reveal() if self.secret else ""
        return JsonWebhook(self.url.reveal(), headers, secret, self.body)

    def try_connection(self, _home: Home) -> str:
        from watchdogd.notify.http_client import greet

        return greet(self.url.reveal())


class JsonWebhook:
    """Sender of JSON bodies, or of the output of `template`; signed if there is a `secret`."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        secret: str = "",
        template: str | None = None,
    ) -> None:
        from watchdogd.notify.http_client import Web

        self._url, self._headers, self._secret, self._template = url, dict(headers or {}), secret, template
        words = [
            word for value in self._headers.values() for word in (value, *value.split()) if len(word) > 7
        ]
        self._web = Web(url, "url of the webhook", withheld=(secret, *words))

    def send(self, notification: Notification, _roots: Sequence[Notification], /) -> str:
        text, kind = self._text(notification)
        sent = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Idempotency-Key": notification.key,
            **self._headers,
        }
        if self._secret:
            digest = hmac.new(self._secret.encode(), text.encode(), hashlib.sha256).hexdigest()
            sent["X-Hub-Signature-256"] = f"sha256={digest}"
        answer = self._web.post(self._url, text, sent)
        if not 200 <= answer.status < 300:
            raise answer.error(self._web.host)
        return ""

    def _text(self, notification: Notification) -> tuple[str, str]:
        if self._template is None:
            return json.dumps(body(notification)), "application/json"
        try:
            text = rendered(self._template, notification)
        except ValueError as error:
            raise DeliveryError(f"its body cannot be made: {error}", permanent=True) from None
        return text, "application/json" if _is_json(text) else "text/plain"

    def close(self) -> None:
        """Close the connection."""
        self._web.close()


def rendered(template: str, notification: Notification) -> str:
    """Return the template's output for a notification. ValueError, in one line, where it fails."""
    from jinja2 import TemplateError, TemplateSyntaxError, UndefinedError

    known = body(notification)
    try:
        return _compiled(template).render(known)
    except TemplateSyntaxError as error:
        raise ValueError(f"line {error.lineno} is no Jinja2: {one_line(error.message or '', 200)}") from None
    except UndefinedError as error:
        said = one_line(error.message or "", 200)
        word = re.match(r"'(\w+)' is undefined$", said)
        raise ValueError(f"{said}{nearest(word[1], list(known)) if word else ''}") from None
    except (
        TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError,
        MemoryError,
    ) as error:  # fmt: skip
        raise ValueError(one_line(f"{type(error).__name__}: {error}", 200)) from None


@lru_cache(maxsize=64)
def _compiled(template: str) -> Template:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(undefined=StrictUndefined).from_string(template)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


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
