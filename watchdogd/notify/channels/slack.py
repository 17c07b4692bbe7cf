"""Slack: an incoming webhook, or a bot with one thread an incident.

Formats and errors as in Slack's public documentation: incoming webhooks, Block Kit, chat.postMessage,
chat.update, rate limits (docs.slack.dev).
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
"""First messages that one message updates: the end of a storm would else be hundreds of calls."""

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
"""The Web API's errors after which another try is of use."""

_MENTION = re.compile(r"<!(here|channel|everyone)>|<@[UW][A-Z0-9]+>|<!subteam\^S[A-Z0-9]+>")
_NAME = re.compile(r"@[\w.-]+")
"""A mention as Mattermost and Rocket.Chat know it; to Slack it is mere text."""
_MENTIONS = (
    ': write "<!here>", "<!channel>", "<@U024BE7LH>" (a member) or "<!subteam^S0614TZR7>" (a group); '
    '"@name" is for servers with blocks = false'
)
_AT = re.compile(r"(?<![\w.])@(?=\w)")

_WRONG = frozenset(
    {"no_text", "user_not_found", "no_active_hooks", "no_team", "posting_to_general_channel_denied"}
)
"""A webhook's words with 400 that no other form of the message changes."""

_GONE = frozenset({"thread_not_found", "message_not_found", "cannot_reply_to_message"})
"""The Web API's errors where somebody deleted the message that a thread hangs on."""


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
        """Return what reads the reactions, where somebody's count."""
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
    """Form of what is posted: whom it calls where it is CRITICAL, and whether the server shows blocks."""

    mention: str = ""
    blocks: bool = True

    def payload(self, message: Message) -> dict[str, Any]:
        """Return text and blocks; all as text where the server shows no blocks."""
        if not self.blocks:
            return {"text": self.whole(message)}
        calls = [_section(called)] if (called := self._called(message)) else []
        first, *rest = blocks(message)
        return {"text": _text(message), "blocks": [first, *calls, *rest][:BLOCKS]}

    def whole(self, message: Message) -> str:
        """Return all of it without blocks; Slack cuts at TEXT_LIMIT, and escaping may have grown it."""
        headline, body = message.headline, message.body
        if not self.blocks:  # such servers call whoever stands behind an @, also in a log's line
            headline, body = (_AT.sub("@\N{WORD JOINER}", text) for text in (headline, body))
        called = self._called(message)
        head = f"{escape(headline)}\n{called}" if called else escape(headline)
        return shortened(f"{head}\n\n{escape(body)}", TEXT_LIMIT)

    def _called(self, message: Message) -> str:
        return self.mention if message.status == "CRITICAL" and not message.quiet else ""


class Webhook:
    """Sender by an incoming webhook. `hint` is what the server says of the configuration."""

    def __init__(self, url: str, form: Form = Form()) -> None:
        from watchdogd.notify.http_client import Web

        self._url = url
        self._form = form
        self._web = Web(url, "webhook_url of Slack")
        self.hint = ""

    def send(self, notification: Notification, _roots: Sequence[Notification], /) -> str:
        """Post it; where the server dislikes the blocks, as bare text."""
        message = notification.message
        answer = self._web.post(self._url, self._form.payload(message))
        dropped = _drops_blocks(answer)
        if self._form.blocks and answer.status == 400 and answer.text.strip() not in _WRONG:
            answer = self._web.post(self._url, {"text": self._form.whole(message)})
            dropped = "this server takes no blocks" if answer.status == 200 else ""
        if self._form.blocks and dropped:
            self.hint = f"{dropped}, so that only first lines are seen there: write blocks = false"
        # A proxy's login page is 200 too: only Slack says ok, and Rocket.Chat success.
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

    What follows in an incident's life is said in its thread and, unless quiet, in the channel too; the
    thread's first message is updated to show how it stands.
    """

    def __init__(self, token: str, channel: str, api: str, form: Form = Form()) -> None:
        from watchdogd.notify.http_client import Web

        self._form = form
        self._channel = channel
        self._api = api.rstrip("/")
        self._web = Web(self._api, "api of Slack", token=token)
        self._headers = {"Authorization": f"Bearer {token}"}

    def send(self, notification: Notification, roots: Sequence[Notification], /) -> str:
        """Update the threads' first messages, then post; in the thread unless something new begins."""
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
        """Have the first message of a thread say how its incident stands; what it said stays readable."""
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
            raise self._refusal(answer)  # nothing was posted yet: all of it is tried again

    def _checked(self, answer: WebReply, payload: Mapping[str, Any], message: Message) -> Mapping[str, Any]:
        """Return what Slack said of a post that went well; bare text goes where it dislikes the blocks."""
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
    """Text as Slack shows it: no mention (`<!channel>`), link or entity of its own."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def blocks(message: Message) -> list[dict[str, Any]]:
    """Block Kit that a phone shows well: a bold first line, short paragraphs, evidence as code."""
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
    """Return that this server shows the text alone, where it says who it is; else empty."""
    if "x-version-id" in answer.headers:
        return "this server is a Mattermost, which shows no blocks"
    if answer.json().get("success") is True:
        return "this server is a Rocket.Chat, which shows no blocks"
    return ""


def _bold(headline: str) -> str:
    return escape(headline.replace("*", "∗"))  # an asterisk would end the bold


def _code(text: str) -> list[str]:
    """Verbatim text in pieces; three backticks in it would end the code."""
    return [f"```{piece}```" for piece in _pieces(text.replace("```", "'''"), BLOCK_LIMIT - 6)]


def _prose(text: str, runbooks: tuple[str, ...]) -> list[str]:
    """Sentences in pieces; the runbook can be tapped."""
    known = filter(_ADDRESS.fullmatch, runbooks)
    links = {escape(f"Runbook: {link}"): f"Runbook: <{escape(link)}>" for link in known}
    return [links.get(piece, piece) for piece in _pieces(text, BLOCK_LIMIT - 2)]


def _pieces(text: str, limit: int) -> list[str]:
    """Escaped text, cut between lines (or inside one that is too long) so that each piece fits."""
    pieces: list[str] = []
    room = limit // 5  # what surely fits: an escaped character has five at most
    for line in text.split("\n"):
        for part in [line[at : at + room] for at in range(0, len(line), room)] or [""]:
            escaped = escape(part)
            if pieces and len(pieces[-1]) + 1 + len(escaped) <= limit:
                pieces[-1] += "\n" + escaped
            else:
                pieces.append(escaped)
    return [piece for piece in pieces if piece.strip()]


def _standing(root: Message, message: Message) -> str:
    """Return how the incidents that `root` told of stand after `message`."""
    words = [message.status, *(item.status for item in message.items[1:])]  # the first is what it is about
    told = zip(words, message.items, strict=False)
    stand = [f"[{word}] {item.summary}" for word, item in told if item.incident in root.incidents]
    return escape("; ".join(stand[:5]) or message.headline)
