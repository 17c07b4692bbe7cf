"""A server that speaks as Slack does: incoming webhooks, chat.postMessage, chat.update and reactions.

Answers as in Slack's public documentation (docs.slack.dev: "Sending messages using incoming webhooks",
"Rate limits", the methods' pages): a webhook says `ok` or one word with an HTTP status; the Web API says
200 with {"ok": false, "error": WORD}, except for 429 and failures of its own.
"""

import json
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from tests.servers.web import Answer, Request, WebServer

WEBHOOK = "/services/T0000/B0000/webhook-secret"
API = "/api/"
TOKEN = "xoxb-bot-token"  # the form of a real bot's token
_ABOUT_PEOPLE = {
    "reactions.get": "reactions:read",
    "reactions.add": "reactions:write",
    "users.info": "users:read",
}
"""Methods, and the scope that each needs; arguments of those that read come as a form, never as JSON."""
CONTENT = ("text", "blocks", "attachments")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A "no" of Slack's: its word, the webhook's HTTP status, and the seconds of Retry-After."""

    word: str
    status: int
    retry_after: int | None = None

    def __call__(self, request: Request) -> Answer:
        """The refusal as the webhook or the Web API words it."""
        headers = () if self.retry_after is None else (("Retry-After", str(self.retry_after)),)
        if not request.path.startswith(API):
            return Answer(self.status, self.word, headers)
        status = self.status if self.status == 429 or self.status >= 500 else 200
        return Answer(status, json.dumps({"ok": False, "error": self.word}), headers)


INVALID_PAYLOAD = Refusal("invalid_payload", 400)
NO_TEXT = Refusal("no_text", 400)
ACTION_PROHIBITED = Refusal("action_prohibited", 403)
NOT_AUTHED = Refusal("not_authed", 403)
INVALID_AUTH = Refusal("invalid_auth", 403)
NO_SERVICE = Refusal("no_service", 404)
UNKNOWN_METHOD = Refusal("unknown_method", 404)
CHANNEL_NOT_FOUND = Refusal("channel_not_found", 404)
MESSAGE_NOT_FOUND = Refusal("message_not_found", 404)
CHANNEL_IS_ARCHIVED = Refusal("channel_is_archived", 410)
SERVER_ERROR = Refusal("internal_error", 500)


def rate_limited(seconds: int) -> Refusal:
    """429: come back after so many seconds."""
    return Refusal("ratelimited", 429, seconds)


@dataclass(frozen=True, slots=True)
class Posted:
    """What Slack took; `via` is "webhook" or the API's method, `arrived` in seconds since the epoch."""

    via: str
    payload: Mapping[str, Any]
    arrived: float
    ts: str

    @property
    def text(self) -> str:
        """The fallback text; empty where there is none."""
        return str(self.payload.get("text", ""))


class SlackServer(WebServer):
    """Slack on loopback: `url` is the webhook, `api` the base of the Web API, `token` the bot's."""

    token = TOKEN

    def __init__(self) -> None:
        super().__init__()
        self._posted: list[Posted] = []
        self._reactions: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        self.people: dict[str, Mapping[str, Any]] = {}
        self.scopes = {"chat:write", "reactions:read", "reactions:write", "users:read"}
        """What users.info says of members, by their IDs, and what the bot may do."""

    @property
    def url(self) -> str:
        """The incoming webhook's URL."""
        return self.base + WEBHOOK

    @property
    def api(self) -> str:
        """The base URL of the Web API, ending with a slash."""
        return self.base + API

    @property
    def messages(self) -> list[Posted]:
        """What was posted or updated so far; refused attempts stand in `requests` alone."""
        return list(self._posted)

    def react(self, posted: Posted, name: str, user: str) -> None:
        """A member reacts to a message."""
        self._reactions[posted.payload["channel"], posted.ts][name].append(user)

    def take_back(self, posted: Posted, name: str, user: str) -> None:
        """A member takes a reaction back."""
        self._reactions[posted.payload["channel"], posted.ts][name].remove(user)

    def reactions(self, posted: Posted) -> Mapping[str, list[str]]:
        """Who reacted to a message, by the reactions' names."""
        found = self._reactions[posted.payload["channel"], posted.ts]
        return {name: users for name, users in found.items() if users}

    def respond(self, request: Request) -> Answer:
        """As Slack does with a well-meant request."""
        if request.path.startswith(API):
            return self._call(request)
        if request.path != WEBHOOK or request.method != "POST":
            return NO_SERVICE(request)
        payload = _payload(request)
        if not any(payload.get(part) for part in CONTENT):
            return INVALID_PAYLOAD(request)
        self._take("webhook", payload, request)
        return Answer(200, "ok")

    def _call(self, request: Request) -> Answer:
        method, payload = request.path.removeprefix(API), _payload(request)
        refusal = self._objection(method, payload, request)
        if refusal:
            return refusal(request)
        if method in _ABOUT_PEOPLE:
            return Answer(200, json.dumps(self._about_people(method, payload)))
        posted = self._take(method, payload, request)
        answer = {"ok": True, "channel": payload["channel"], "ts": posted.ts, "message": dict(payload)}
        return Answer(200, json.dumps(answer), (("Content-Type", "application/json"),))

    def _objection(self, method: str, payload: Mapping[str, Any], request: Request) -> Refusal | None:
        authorization = request.headers.get("authorization", "")
        faults = {
            NOT_AUTHED: not authorization,
            INVALID_AUTH: authorization != f"Bearer {self.token}",
            UNKNOWN_METHOD: method not in {"chat.postMessage", "chat.update", *_ABOUT_PEOPLE},
            CHANNEL_NOT_FOUND: not payload.get("channel") and method != "users.info",
            NO_TEXT: method not in _ABOUT_PEOPLE and not any(payload.get(part) for part in CONTENT),
            MESSAGE_NOT_FOUND: method in {"chat.update", "reactions.get", "reactions.add"}
            and not self._stands(payload),
        }
        return next((refusal for refusal, holds in faults.items() if holds), None)

    def _about_people(self, method: str, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        if (needed := _ABOUT_PEOPLE[method]) not in self.scopes:
            return {"ok": False, "error": "missing_scope", "needed": needed, "provided": "chat:write"}
        if method == "users.info":
            known = self.people.get(payload["user"])
            return {"ok": True, "user": known} if known else {"ok": False, "error": "user_not_found"}
        found = self._reactions[payload["channel"], payload["timestamp"]]
        if method == "reactions.add":
            if "UBOT" in found[payload["name"]]:
                return {"ok": False, "error": "already_reacted"}
            found[payload["name"]].append("UBOT")
            return {"ok": True}
        shown = [{"name": name, "users": who, "count": len(who)} for name, who in found.items() if who]
        message = {"ts": payload["timestamp"], **({"reactions": shown} if shown else {})}
        return {"ok": True, "type": "message", "channel": payload["channel"], "message": message}

    def _stands(self, payload: Mapping[str, Any]) -> bool:
        return any(
            each.ts == payload.get("ts", payload.get("timestamp"))
            and each.payload.get("channel") == payload.get("channel")
            for each in self._posted
        )

    def _take(self, via: str, payload: Mapping[str, Any], request: Request) -> Posted:
        ts = str(payload["ts"]) if via == "chat.update" else _timestamp()
        posted = Posted(via, payload, request.arrived, ts)
        self._posted.append(posted)
        return posted


def _timestamp() -> str:
    """A message's `ts`: seconds and microseconds since the epoch, its name within the channel."""
    return f"{time.time():.6f}"


def _payload(request: Request) -> Mapping[str, Any]:
    """The fields of a JSON object, or of a form as Slack takes it too; none where neither can be read."""
    if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        fields: dict[str, Any] = dict(parse_qsl(request.body.decode(errors="replace")))
        return _json_object(fields["payload"].encode()) if "payload" in fields else fields
    return _json_object(request.body)


def _json_object(text: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
