"""Slack: an incoming webhook, or a bot with one thread for each incident.

Formats and errors follow Slack's documentation: incoming webhooks, Block Kit, chat.postMessage, chat.update,
rate limits (docs.slack.dev).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator

from watchdogd.notify.answers import EVERYBODY
from watchdogd.notify.channel import (
    AnswersFrom,
    Channel,
    DeliveryError,
    OneLine,
    SecretField,
    WebSecretField,
)
from watchdogd.system.text import paragraphs, plain, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from watchdogd.home.layout import Home
    from watchdogd.notify.channel import AnswerReader, Message, Notification, Sender
    from watchdogd.notify.http_client import WebReply

TEXT_LIMIT = 40_000
BLOCK_LIMIT = 3_000
_ADDRESS = re.compile(r"https?://[^\s|]+")
BLOCKS = 50
UPDATES = 5
"""Maximum number of first messages that one message updates: the end of a storm would be hundreds."""

_SIGNS = {
    "CRITICAL": "\N{LARGE RED CIRCLE}",
    "WARNING": "\N{LARGE YELLOW CIRCLE}",
    "UNKNOWN": "\N{MEDIUM WHITE CIRCLE}",
    "REMINDER": "\N{LARGE ORANGE CIRCLE}",
    "RESOLVED": "\N{LARGE GREEN CIRCLE}",
    "ACTION": "\N{LARGE PURPLE CIRCLE}",
    "INFO": "\N{LARGE BLUE CIRCLE}",
    "OK": "\N{LARGE GREEN CIRCLE}",
}

_PASSING = frozenset(
    {"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"}
)
"""Errors of the Web API after which another try is useful."""

_MENTION = re.compile(r"<!(here|channel|everyone)>|<@[UW][A-Z0-9]+>|<!subteam\^S[A-Z0-9]+>")
_NAME = re.compile(r"@[\w.-]+")
"""Mention in Mattermost and Rocket.Chat; plain text to Slack."""
_MENTIONS = (
    ': write "<!here>", "<!channel>", "<@U024BE7LH>" (a member) or "<!subteam^S0614TZR7>" (a group); '
    '"@name" is for servers with blocks = false'
)
_AT = re.compile(r"(?<![\w.])@(?=\w)")

_WRONG = frozenset(
    {"no_text", "user_not_found", "no_active_hooks", "no_team", "posting_to_general_channel_denied"}
)
"""Errors of a webhook (status 400) that no other form of the message avoids."""

_GONE = frozenset({"thread_not_found", "message_not_found", "cannot_reply_to_message"})
"""Errors of the Web API for a deleted first message of a thread."""


class SlackChannel(Channel):
    """Keys of type slack: webhook_url, or bot_token and channel (then one thread an incident)."""

    example: ClassVar[str] = """
[channels.slack]
type = "slack"
webhook_url = "env:SLACK_WEBHOOK_URL"   # an incoming webhook
# bot_token = "file:~/.slack-token"     # or a bot: one thread an incident
# channel = "#training"
# answers_from = ["U024BE7LH"]          # whose reactions count, or "all": eyes acknowledges, no_bell silences
# mention = "<!here>"                   # on CRITICAL alone; or "<@U024BE7LH>", "<!subteam^S0614TZR7>"
# blocks = false                        # all as text: for Mattermost, Rocket.Chat and others that drop blocks
"""

    webhook_url: WebSecretField | None = None
    bot_token: SecretField | None = None
    channel: OneLine | None = None
    api: OneLine = "https://slack.com/api"
    mention: OneLine = ""
    blocks: bool = True
    answers_from: AnswersFrom | None = None

    @model_validator(mode="after")
    def _one_way(self) -> SlackChannel:
        if (self.webhook_url is None) == (self.bot_token is None):
            raise ValueError("give webhook_url, or bot_token and channel")
        if self.bot_token is not None and not self.channel:
            raise ValueError('bot_token needs channel = "#name"')
        if self.answers_from and self.bot_token is None:
            raise ValueError("answers_from needs bot_token and channel: a webhook cannot read reactions")
        for member in self.answers_from or ():
            if self.answers_from != EVERYBODY and not re.fullmatch(r"[UW][A-Z0-9]{2,}", member):
                raise ValueError(
                    f"answers_from: {member!r} is no member's ID such as U024BE7LH (in the profile's menu: "
                    'copy member ID); or "all"'
                )
        for word in self.mention.split():
            if not (_MENTION.fullmatch(word) or (_NAME.fullmatch(word) and not self.blocks)):
                raise ValueError(f"mention {word!r} calls nobody{_MENTIONS}")
        return self

    @property
    def threaded(self) -> bool:
        """Return whether it is a bot."""
        return self.bot_token is not None

    def make_sender(self, _home: Home) -> Sender:
        """Return a webhook's sender, or a bot's."""
        form = Form(self.mention, blocks=self.blocks)
        if self.webhook_url is not None:
            return Webhook(self.webhook_url.reveal(), form)
        token = self.bot_token.reveal() if self.bot_token else ""
        return Bot(token, self.channel or "", self.api, form)

    def make_answers(self, _home: Home) -> AnswerReader | None:
        """Return a reader of reactions, if any are allowed."""
        if self.bot_token is None or self.answers_from is None:
            return None
        from watchdogd.notify.slack_reactions import SlackReactions

        return SlackReactions(self.bot_token.reveal(), self.api, self.answers_from)

    def try_connection(self, _home: Home) -> str:
        """Greet the server."""
        from watchdogd.notify.http_client import greet

        return greet(self.webhook_url.reveal() if self.webhook_url else self.api)


@dataclass(frozen=True, slots=True)
class Form:
    """Form of a message: whom to mention where it is CRITICAL, and whether the server shows blocks."""

    mention: str = ""
    blocks: bool = True

    def payload(self, message: Message) -> dict[str, Any]:
        """Return text and blocks; text only where the server shows no blocks."""
        if not self.blocks:
            return {"text": self.whole(message)}
        calls = [_section(called)] if (called := self._called(message)) else []
        first, *rest = blocks(message)
        return {"text": _text(message), "blocks": [first, *calls, *rest][:BLOCKS]}

    def whole(self, message: Message) -> str:
        """Return the whole message as text; Slack cuts at TEXT_LIMIT, which escaping may exceed."""
        headline, body = message.headline, message.body
        if not self.blocks:  # such servers notify whoever follows an @, in a log line too
            headline, body = (_AT.sub("@\N{WORD JOINER}", text) for text in (headline, body))
        called = self._called(message)
        head = f"{escape(headline)}\n{called}" if called else escape(headline)
        return shortened(f"{head}\n\n{escape(body)}", TEXT_LIMIT)

    def _called(self, message: Message) -> str:
        return self.mention if message.status == "CRITICAL" and not message.quiet else ""


class Webhook:
    """Sender by an incoming webhook. `hint`: advice from a server's answer on the configuration."""

    def __init__(self, url: str, form: Form = Form()) -> None:
        from watchdogd.notify.http_client import Web

        self._url = url
        self._form = form
        self._web = Web(url, "webhook_url of Slack")
        self.hint = ""

    def send(self, notification: Notification, _roots: Sequence[Notification], /) -> str:
        """Post the message; as text only where the server rejects the blocks."""
        message = notification.message
        answer = self._web.post(self._url, self._form.payload(message))
        dropped = _drops_blocks(answer)
        if self._form.blocks and answer.status == 400 and answer.text.strip() not in _WRONG:
            answer = self._web.post(self._url, {"text": self._form.whole(message)})
            dropped = "this server takes no blocks" if answer.status == 200 else ""
        if self._form.blocks and dropped:
            self.hint = f"{dropped}, so that only first lines are seen there: write blocks = false"
        # A proxy's login page is 200 too: Slack answers ok, and Rocket.Chat success.
        if answer.status == 200 and answer.text.strip() != "ok" and answer.json().get("success") is not True:
            raise DeliveryError(f"{self._web.host} answered 200, but not as Slack does: is a proxy between?")
        if answer.status != 200:
            raise answer.error(self._web.host)
        return ""

    def close(self) -> None:
        """Close the connection."""
        self._web.close()


class Bot:
    """Sender by a bot: the receipt of a message is `CHANNEL-ID TS`.

    Later messages on an incident are replies in its thread and, unless quiet, shown in the channel too; the
    thread's first message is updated with the incident's present status.
    """

    def __init__(self, token: str, channel: str, api: str, form: Form = Form()) -> None:
        from watchdogd.notify.http_client import Web

        self._form = form
        self._channel = channel
        self._api = api.rstrip("/")
        self._web = Web(self._api, "api of Slack", token=token)
        self._headers = {"Authorization": f"Bearer {token}"}

    def send(self, notification: Notification, roots: Sequence[Notification], /) -> str:
        """Update the threads' first messages, then post in the thread, or in the channel for a new one."""
        message = notification.message
        known = [root for root in roots if len(root.receipt.split()) == 2]
        for root in known[:UPDATES]:
            self._update(root, message)
        payload = {"channel": self._channel, **self._form.payload(message)}
        if known and not message.opens:
            channel, ts = known[0].receipt.split()
            answer = self._call(
                "chat.postMessage",
                {**payload, "channel": channel, "thread_ts": ts, "reply_broadcast": not message.quiet},
            )
            if answer.json().get("error") in _GONE:
                answer = self._call("chat.postMessage", payload)
        else:
            answer = self._call("chat.postMessage", payload)
        said = self._checked(answer, payload, message)
        return f"{said.get('channel', self._channel)} {said.get('ts', '')}"

    def _update(self, root: Notification, message: Message) -> None:
        """Add the incident's present status to the first message of a thread."""
        channel, ts = root.receipt.split()
        now = _standing(root.message, message)
        if not self._form.blocks:
            text = shortened(f"{self._form.whole(root.message)}\n\nNow: {now}", TEXT_LIMIT)
            self._change({"channel": channel, "ts": ts, "text": text})
            return
        text = shortened(f"{_text(root.message)}\nNow: {now}", TEXT_LIMIT)
        block = {
            "type": "context",
            "elements": [{"type": "mrkdwn", "text": shortened(f"*Now:* {now}", 2000)}],
        }
        changed = [blocks(root.message)[0], block, *blocks(root.message)[1 : BLOCKS - 1]]
        self._change({"channel": channel, "ts": ts, "text": text, "blocks": changed})

    def _change(self, payload: Mapping[str, Any]) -> None:
        answer = self._call("chat.update", payload)
        if answer.status != 200 or answer.json().get("error") in _PASSING:
            raise self._refusal(answer)  # nothing is posted yet: all is tried again

    def _checked(self, answer: WebReply, payload: Mapping[str, Any], message: Message) -> Mapping[str, Any]:
        """Return Slack's answer to a successful post; post text only where it rejects the blocks."""
        if answer.json().get("error") in ("invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"):
            bare = {name: payload[name] for name in payload if name != "blocks"}
            answer = self._call("chat.postMessage", {**bare, "text": self._form.whole(message)})
        said = answer.json()
        if answer.status != 200 or said.get("ok") is not True:
            raise self._refusal(answer)
        return said

    def _refusal(self, answer: WebReply) -> DeliveryError:
        word = answer.json().get("error")
        if answer.status != 200 or not isinstance(word, str):
            return answer.error(self._web.host)
        return DeliveryError(
            f"{self._web.host} refused: {plain(word)}",
            permanent=word not in _PASSING,
            retry_after=answer.retry_after,
        )

    def _call(self, method: str, payload: Mapping[str, Any]) -> WebReply:
        return self._web.post(f"{self._api}/{method}", payload, self._headers)

    def close(self) -> None:
        """Close the connection."""
        self._web.close()


def escape(text: str) -> str:
    """Escape text for Slack, so that it has no mention (`<!channel>`), link or entity."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def blocks(message: Message) -> list[dict[str, Any]]:
    """Return Block Kit for a phone: a bold first line, short paragraphs, evidence as code."""
    sections = [_section(f"{_SIGNS.get(message.colour, '')} *{_bold(message.headline)}*")]
    for verbatim, text in paragraphs(message.body):
        sections += [
            _section(piece) for piece in (_code(text) if verbatim else _prose(text, message.runbooks))
        ]
    if len(sections) > BLOCKS:
        left = len(sections) - BLOCKS + 1
        sections = [*sections[: BLOCKS - 1], _section(f"… {left} parts left out …")]
    return sections


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _text(message: Message) -> str:
    return shortened(escape(message.headline), TEXT_LIMIT)


def _drops_blocks(answer: WebReply) -> str:
    """Return a sentence where the server says that it is one that shows no blocks; else empty."""
    if "x-version-id" in answer.headers:
        return "this server is a Mattermost, which shows no blocks"
    if answer.json().get("success") is True:
        return "this server is a Rocket.Chat, which shows no blocks"
    return ""


def _bold(headline: str) -> str:
    return escape(headline.replace("*", "∗"))  # an asterisk would end the bold


def _code(text: str) -> list[str]:
    """Split verbatim text into code blocks; three backticks in it would end a block."""
    return [f"```{piece}```" for piece in _pieces(text.replace("```", "'''"), BLOCK_LIMIT - 6)]


def _prose(text: str, runbooks: tuple[str, ...]) -> list[str]:
    """Split sentences into pieces; make links of runbooks."""
    known = filter(_ADDRESS.fullmatch, runbooks)
    links = {escape(f"Runbook: {link}"): f"Runbook: <{escape(link)}>" for link in known}
    return [links.get(piece, piece) for piece in _pieces(text, BLOCK_LIMIT - 2)]


def _pieces(text: str, limit: int) -> list[str]:
    """Split text into escaped pieces of at most `limit` characters, between lines where possible."""
    pieces: list[str] = []
    room = limit // 5  # an escaped character has five at most
    for line in text.split("\n"):
        for part in [line[at : at + room] for at in range(0, len(line), room)] or [""]:
            escaped = escape(part)
            if pieces and len(pieces[-1]) + 1 + len(escaped) <= limit:
                pieces[-1] += "\n" + escaped
            else:
                pieces.append(escaped)
    return [piece for piece in pieces if piece.strip()]


def _standing(root: Message, message: Message) -> str:
    """Return the status after `message` of the incidents that `root` reported."""
    words = [message.status, *(item.status for item in message.items[1:])]  # the first is the message's own
    told = zip(words, message.items, strict=False)
    stand = [f"[{word}] {item.summary}" for word, item in told if item.incident in root.incidents]
    return escape("; ".join(stand[:5]) or message.headline)
