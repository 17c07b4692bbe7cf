"""Slack on a real server: what arrives, how it is escaped, and every way in which Slack says no."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.notify.conftest import Keep
from tests.notify.values import letter, message
from tests.servers import slack as slack_server
from tests.servers.slack import SlackServer
from tests.servers.web import Answer, Fault, WebServer
from watchdogd.config.loading import parse
from watchdogd.errors import ConfigError, DeliveryError
from watchdogd.notify.channel import Sender
from watchdogd.notify.channels.slack import (
    BLOCK_LIMIT,
    BLOCKS,
    TEXT_LIMIT,
    Bot,
    Form,
    Webhook,
    _standing,
    blocks,
)
from watchdogd.notify.notification import Item, Notification


def _refused(sender: Sender, notification: Notification | None = None) -> DeliveryError:
    """How a sender failed."""
    with pytest.raises(DeliveryError) as caught:
        sender.send(notification or letter(), ())
    return caught.value


def test_a_webhook_takes_headline_and_blocks(slack: SlackServer, keep: Keep) -> None:
    keep(Webhook(slack.url)).send(letter(), ())
    posted = slack.messages[0]
    assert posted.text == "[CRITICAL] run-17: no new line for 25m"
    texts = [block["text"]["text"] for block in posted.payload["blocks"]]
    assert texts[0].endswith("*[CRITICAL] run-17: no new line for 25m*")
    assert texts[1:] == ["Since noon.", "```iteration 812```", "Answer with:", "```watchdogd ack 17```"]


@pytest.mark.parametrize(
    ("refusal", "permanent", "retry_after"),
    [
        (slack_server.ACTION_PROHIBITED, True, None),
        (slack_server.NO_SERVICE, True, None),
        (slack_server.CHANNEL_IS_ARCHIVED, True, None),
        (slack_server.INVALID_PAYLOAD, True, None),
        (slack_server.SERVER_ERROR, False, None),
        (slack_server.rate_limited(30), False, 30.0),
    ],
)
def test_what_slack_says_no_with(
    slack: SlackServer, refusal: slack_server.Refusal, permanent: bool, retry_after: float | None, keep: Keep
) -> None:
    slack.behave(refusal)
    error = _refused(keep(Webhook(slack.url)))
    assert (error.permanent, error.retry_after) == (permanent, retry_after)
    assert str(refusal.status) in str(error)
    assert refusal.word in str(error)
    assert "webhook-secret" not in str(error)
    assert slack.messages == []


def test_where_slack_dislikes_the_blocks_the_bare_text_goes(slack: SlackServer, keep: Keep) -> None:
    slack.behave([slack_server.INVALID_PAYLOAD])
    keep(Webhook(slack.url)).send(letter(), ())
    assert "blocks" not in slack.messages[0].payload
    assert "iteration 812" in slack.messages[0].text


@pytest.mark.parametrize("fault", [Fault.DROP, Fault.CUT])
def test_a_connection_that_breaks_is_tried_again(slack: SlackServer, fault: Fault, keep: Keep) -> None:
    slack.behave([fault])
    hook = keep(Webhook(slack.url))
    error = _refused(hook)
    assert not error.permanent
    assert "webhook-secret" not in str(error)
    hook.send(letter(), ())


def test_a_server_that_is_down_is_tried_again(slack: SlackServer, keep: Keep) -> None:
    slack.down()
    error = _refused(keep(Webhook(slack.url)))
    assert not error.permanent
    assert str(error) == "127.0.0.1: cannot be reached: Connection refused"
    slack.up()


def test_a_login_page_with_200_is_no_delivery(endpoint: WebServer, keep: Keep) -> None:
    endpoint.behave(Answer(200, "<html>Please accept the terms of this network</html>"))
    error = _refused(keep(Webhook(endpoint.url)))
    assert not error.permanent
    assert "not as Slack does" in str(error)


@pytest.mark.parametrize(
    "url", ["", "hooks.slack.com/services/secret", "ftp://x/secret", "http://[::1/secret"]
)
def test_what_is_no_address_is_a_configuration_error_that_shows_no_secret(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Webhook(url)
    assert "secret" not in str(caught.value)


def test_outside_text_mentions_nobody(slack: SlackServer, keep: Keep) -> None:
    evil = "<!channel> <@U024BE7LH> <https://evil|click> & ``` *x*"
    changes: dict[str, Any] = {"headline": f"[CRITICAL] run: {evil}", "body": f"{evil}\n\n    {evil}"}
    keep(Webhook(slack.url)).send(replace(letter(), message=message(**changes)), ())
    payload = slack.messages[0].payload
    shown = json.dumps(payload)
    assert "<!" not in shown
    assert "<@" not in shown
    assert "<https" not in shown
    assert "&lt;!channel&gt;" in payload["text"]
    assert payload["blocks"][0]["text"]["text"].count("*") == 2
    assert payload["blocks"][2]["text"]["text"].count("```") == 2


def test_the_runbook_can_be_tapped() -> None:
    link = "https://example.org/a?b=1&c=2"
    found = blocks(message(body=f"Runbook: {link}", runbooks=(link,)))
    assert found[1]["text"]["text"] == "Runbook: <https://example.org/a?b=1&amp;c=2>"
    found = blocks(message(body="Runbook: https://example.org/x"))
    assert found[1]["text"]["text"] == "Runbook: https://example.org/x", "somebody's words are no runbook"
    link = "javascript:alert(1) <!here>"
    found = blocks(message(body=f"Runbook: {link}", runbooks=(link,)))
    assert found[1]["text"]["text"] == "Runbook: javascript:alert(1) &lt;!here&gt;"


@given(st.text(st.sampled_from("a<&>`*\n ö"), max_size=30_000), st.booleans())
def test_blocks_keep_to_slacks_limits(text: str, verbatim: bool) -> None:
    body = text.replace("\n", "\n    ") if verbatim else text
    found = blocks(message(body=body))
    assert len(found) <= BLOCKS
    assert all(0 < len(block["text"]["text"]) <= BLOCK_LIMIT for block in found)


def test_a_text_keeps_to_slacks_limit(slack: SlackServer, keep: Keep) -> None:
    slack.behave([slack_server.INVALID_PAYLOAD])
    keep(Webhook(slack.url)).send(letter(body="<" * 16_000), ())
    assert len(slack.messages[0].text) <= TEXT_LIMIT


def _bot(slack: SlackServer, token: str = SlackServer.token) -> Bot:
    return Bot(token, "#alerts", slack.api)


@pytest.fixture
def bot(slack: SlackServer, keep: Keep) -> Bot:
    """A bot of that Slack, with a token that it takes."""
    made: Bot = keep(_bot(slack))
    return made


def _delivered(bot: Bot, notification: Notification, *roots: Notification) -> Notification:
    """The notification with its receipt, as the outbox keeps it."""
    return replace(notification, state="sent", receipt=bot.send(notification, roots))


def test_the_first_message_says_what_people_did_under_the_word_of_that() -> None:
    item = Item("CRITICAL", "run/log_staleness", "incident 17 acknowledged by alice", incident=17)
    said = letter(status="INFO", items=(item,)).message
    assert _standing(letter().message, said) == "[INFO] incident 17 acknowledged by alice"


def test_a_bot_opens_a_thread_goes_on_in_it_and_updates_its_first_message(
    slack: SlackServer, keep: Keep, bot: Bot
) -> None:
    root = _delivered(bot, letter())
    opened = slack.messages[0]
    assert root.receipt == f"#alerts {opened.ts}"
    ended = letter(
        name="resolved",
        status="RESOLVED",
        opens=False,
        items=(Item("RESOLVED", "run/log_staleness", "the log grows again", incident=17),),
    )
    _delivered(keep(_bot(slack)), ended, root)  # another process: all that is known is the receipt
    update, reply = slack.messages[1:]
    assert (update.via, update.ts) == ("chat.update", opened.ts)
    assert update.text.startswith(
        "[CRITICAL] run-17: no new line for 25m\nNow: [RESOLVED] the log grows again"
    )
    assert "[RESOLVED] the log grows again" in json.dumps(update.payload["blocks"][1])
    assert "iteration 812" in json.dumps(update.payload["blocks"])
    assert reply.via == "chat.postMessage"
    assert reply.payload["thread_ts"] == opened.ts
    assert reply.payload["reply_broadcast"] is True


def test_what_is_quiet_stays_in_its_thread(slack: SlackServer, bot: Bot) -> None:
    root = _delivered(bot, letter())
    bot.send(letter(name="eased", opens=False, quiet=True), (root,))
    assert slack.messages[-1].payload["reply_broadcast"] is False


def test_something_new_begins_its_own_thread_beside_the_old(slack: SlackServer, bot: Bot) -> None:
    root = _delivered(bot, letter(1))
    bot.send(letter(2, name="two", incidents=(1, 2)), (root,))
    assert "thread_ts" not in slack.messages[-1].payload


def test_a_thread_that_somebody_deleted_is_begun_anew(slack: SlackServer, bot: Bot) -> None:
    root = _delivered(bot, letter())
    gone = slack_server.Refusal("message_not_found", 200)
    later = letter(name="later", opens=False)
    slack.behave([gone, slack_server.Refusal("thread_not_found", 200)])
    bot.send(later, (root,))
    assert slack.messages[-1].via == "chat.postMessage"
    assert "thread_ts" not in slack.messages[-1].payload


def test_a_failed_update_posts_nothing_so_that_all_of_it_is_tried_again(slack: SlackServer, bot: Bot) -> None:
    root = _delivered(bot, letter())
    slack.behave([slack_server.rate_limited(5)])
    with pytest.raises(DeliveryError) as caught:
        bot.send(letter(name="later", opens=False), (root,))
    assert caught.value.retry_after == 5
    assert len(slack.messages) == 1


@pytest.mark.parametrize("word", ["invalid_blocks", "msg_blocks_too_long"])
def test_a_bot_goes_on_without_blocks_where_slack_dislikes_them(
    slack: SlackServer, word: str, bot: Bot
) -> None:
    slack.behave([slack_server.Refusal(word, 200)])
    bot.send(letter(), ())
    assert "blocks" not in slack.messages[0].payload


def test_a_revoked_token_is_permanent_and_not_shown(slack: SlackServer, keep: Keep) -> None:
    error = _refused(keep(_bot(slack, "xoxb-revoked-secret")))
    assert error.permanent
    assert "invalid_auth" in str(error)
    assert "secret" not in str(error)


def test_errors_of_the_web_api_that_pass(slack: SlackServer, bot: Bot) -> None:
    for refusal, permanent in [
        (slack_server.SERVER_ERROR, False),
        (slack_server.rate_limited(9), False),
        (slack_server.CHANNEL_NOT_FOUND, True),
    ]:
        slack.behave([refusal])
        assert _refused(bot).permanent is permanent


HERE = "<!here> <@U024BE7LH>"


def _shown(payload: Mapping[str, Any]) -> str:
    """All that people see of what was posted."""
    return json.dumps([payload["text"], payload.get("blocks", [])])


@pytest.mark.parametrize("kind", ["webhook", "bot"])
@pytest.mark.parametrize("shows_blocks", [True, False])
@pytest.mark.parametrize(
    ("changes", "calls"),
    [
        ({}, True),
        ({"quiet": True}, False),
        ({"status": "WARNING"}, False),
        ({"status": "REMINDER"}, False),
        ({"status": "RESOLVED"}, False),
    ],
)
def test_what_is_critical_alone_calls_somebody(
    slack: SlackServer, keep: Keep, kind: str, shows_blocks: bool, changes: Mapping[str, Any], calls: bool
) -> None:
    form = Form(HERE, blocks=shows_blocks)
    sender = Webhook(slack.url, form) if kind == "webhook" else Bot(slack.token, "#a", slack.api, form)
    keep(sender).send(letter(**changes), ())
    [posted] = slack.messages
    assert (HERE in _shown(posted.payload)) is calls
    assert posted.text.startswith(letter(**changes).message.headline), "the first line stays what it is"


def test_nobody_is_called_by_default(slack: SlackServer, keep: Keep) -> None:
    keep(Webhook(slack.url)).send(letter(), ())
    assert "<" not in _shown(slack.messages[0].payload)


@pytest.mark.parametrize("kind", ["webhook", "bot"])
def test_without_blocks_the_whole_message_is_text(slack: SlackServer, keep: Keep, kind: str) -> None:
    form = Form(blocks=False)
    sender = keep(Webhook(slack.url, form) if kind == "webhook" else Bot(slack.token, "#a", slack.api, form))
    evil = "<!channel> @all @alice bob@example.org"
    root = replace(letter(body=f"    {evil}"), receipt="")
    root = replace(root, receipt=sender.send(root, ()))
    if kind == "bot":
        sender.send(letter(name="later", status="RESOLVED", opens=False), (root,))
    for posted in slack.messages:
        assert "blocks" not in posted.payload
    said = slack.messages[0].text
    assert "bob@example.org" in said, "an address stays as it is"
    assert not {"<!channel>", "@all", "@alice"} & set(said.split()), "a log's line calls nobody"


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (Answer(200, "ok", (("X-Version-Id", "9.11.0"),)), "Mattermost"),
        (Answer(200, '{"success":true}'), "Rocket.Chat"),
        (Answer(400, '{"message": "Unable to parse the request"}'), "takes no blocks"),
    ],
)
def test_a_server_that_drops_blocks_says_so(
    slack: SlackServer, keep: Keep, answer: Answer, hint: str
) -> None:
    slack.behave([answer])
    hook = keep(Webhook(slack.url))
    hook.send(letter(), ())
    assert hint in hook.hint
    assert "blocks = false" in hook.hint
    slack.behave([Answer(200, answer.text, answer.headers)] if answer.status == 200 else [])
    heeded = keep(Webhook(slack.url, Form(blocks=False)))
    heeded.send(letter(), ())
    assert heeded.hint == ""


def test_slack_itself_gets_no_hint(slack: SlackServer, keep: Keep) -> None:
    hook = keep(Webhook(slack.url))
    hook.send(letter(), ())
    assert hook.hint == ""


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ('mention = "<!here> <@U024BE7LH> <!subteam^S0614TZR7>"', ""),
        ('mention = "@here @alice.b"\nblocks = false', ""),
        ('mention = "@here"', "'@here' calls nobody"),
        ('mention = "alice"\nblocks = false', "'alice' calls nobody"),
        ('mention = "<!there>"', "'<!there>' calls nobody"),
        ('mention = "<@alice>"', "'<@alice>' calls nobody"),
        ('blocks = "maybe"', "blocks"),
    ],
)
def test_a_mention_that_calls_nobody_is_an_error(keys: str, wrong: str, tmp_path: Path) -> None:
    text = f'[channels.slack]\ntype = "slack"\nwebhook_url = "https://hooks.example.org/x"\n{keys}\n'
    if not wrong:
        parse(text, tmp_path / "config.toml")
        return
    with pytest.raises(ConfigError) as caught:
        parse(text, tmp_path / "config.toml")
    assert wrong in str(caught.value)
