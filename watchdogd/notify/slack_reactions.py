"""Reactions to a bot's messages in Slack: eyes acknowledge, no_bell silences.

Methods reactions.get, reactions.add and users.info (docs.slack.dev) need the scopes reactions:read,
reactions:write and users:read; without the last, people are named by their IDs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlencode

from watchdogd.errors import DeliveryError
from watchdogd.notify.answers import EVERYBODY, PersonAnswer, ReadAnswers, counts
from watchdogd.notify.http_client import Web
from watchdogd.notify.notification import Notification
from watchdogd.system.text import one_line

VERBS: Mapping[str, Literal["ack", "silence"]] = {"eyes": "ack", "no_bell": "silence"}
RECOVERED = "white_check_mark"
LOOKED_AT = 20
"""Number of messages read at once: Slack permits fifty calls a minute."""
_NO_MESSAGE = frozenset({"message_not_found", "channel_not_found", "already_reacted", "too_many_reactions"})

log = logging.getLogger(__name__)


class SlackReactions:
    """Reader of reactions to messages with a receipt `CHANNEL-ID TS`."""

    def __init__(self, token: str, api: str, allowed: Sequence[str]) -> None:
        self._api = api.rstrip("/")
        self._web = Web(self._api, "api of Slack", token=token)
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/x-www-form-urlencoded",  # reading methods take no JSON
        }
        self._allowed = allowed
        self._people: dict[str, str] = {}

    def read(self, messages: Sequence[Notification], /) -> ReadAnswers:
        """Return the reactions to the first of these messages."""
        found: list[PersonAnswer] = []
        looked = [message for message in messages if len(message.receipt.split()) == 2][:LOOKED_AT]
        for message in looked:
            found += self._answers(message)
        return ReadAnswers(tuple(found), frozenset(message.receipt for message in looked))

    def _answers(self, message: Notification) -> Iterator[PersonAnswer]:
        channel, ts = message.receipt.split()
        said = self._call("reactions.get", channel=channel, timestamp=ts, full="true")
        shown = said.get("message")
        for reaction in _dicts(shown.get("reactions") if isinstance(shown, dict) else None):
            verb = VERBS.get(str(reaction.get("name")).partition("::")[0])  # `eyes::skin-tone-2`
            users = reaction.get("users")
            for user in users if verb and isinstance(users, list) else ():
                if verb and counts(str(user), self._allowed) and (by := self._name(str(user))):
                    yield PersonAnswer(f"{message.receipt} {verb} {user}", verb, by, message)

    def _name(self, user: str) -> str:
        """Return a member's name; empty for a bot where everybody may answer."""
        if user not in self._people:
            person = self._call("users.info", user=user, optional=True).get("user")
            known = person if isinstance(person, dict) else {}
            profile = known["profile"] if isinstance(known.get("profile"), dict) else {}
            names = (profile.get("display_name"), known.get("real_name"), known.get("name"), user)
            name = next(one_line(each, 100) for each in names if isinstance(each, str) and each.strip())
            program = known.get("is_bot") is True and tuple(self._allowed) == EVERYBODY
            self._people[user] = "" if program else name
        return self._people[user]

    def confirm(self, receipt: str, /) -> None:
        """React with a check mark."""
        channel, ts = receipt.split()
        self._call("reactions.add", channel=channel, timestamp=ts, name=RECOVERED)

    def _call(self, method: str, *, optional: bool = False, **fields: str) -> Mapping[str, Any]:
        """Return Slack's answer; an empty one where the message is gone, or where it is `optional`."""
        answer = self._web.post(f"{self._api}/{method}", urlencode(fields), self._headers)
        said = answer.json()
        if answer.status == 200 and (said.get("ok") is True or said.get("error") in _NO_MESSAGE):
            return said
        word = said.get("error")
        if answer.status != 200 or not isinstance(word, str):
            raise answer.error(self._web.host)
        if optional:
            log.info("%s: %s", method, word)
            return {}
        needed = said.get("needed")
        fix = f"give the bot the scope {one_line(needed, 100)}" if isinstance(needed, str) else ""
        raise DeliveryError(
            f"{method}: {one_line(word, 100)}",
            permanent=word != "ratelimited",
            retry_after=answer.retry_after,
            fix=fix,
        )

    def close(self) -> None:
        """Close the connection."""
        self._web.close()


def _dicts(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
