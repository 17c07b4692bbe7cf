"""Reactions to a bot's messages: who acknowledges and who silences, on a server that speaks as Slack does."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.notify.conftest import Keep
from tests.notify.values import letter
from tests.servers import slack as slack_server
from tests.servers.slack import Posted, SlackServer
from watchdogd.config.loading import parse
from watchdogd.errors import ConfigError, DeliveryError
from watchdogd.home.layout import Home
from watchdogd.notify.answers import EVERYBODY
from watchdogd.notify.channels.slack import Bot
from watchdogd.notify.notification import Notification
from watchdogd.notify.senders import channel_of
from watchdogd.notify.slack_reactions import SlackReactions

ALICE, BOB, BOT = "U0000A11CE", "U000000B0B", "U000000B07"
Read = Callable[..., list[tuple[str, str]]]


@pytest.fixture
def sent(slack: SlackServer, keep: Keep) -> Notification:
    """A message that a bot posted."""
    slack.people = {
        ALICE: {"id": ALICE, "name": "alice", "profile": {"display_name": "Alice"}},
        BOT: {"id": BOT, "name": "helper", "is_bot": True},
    }
    row = letter()
    return replace(row, state="sent", receipt=keep(Bot(slack.token, "#alerts", slack.api)).send(row, ()))


@pytest.fixture
def read(slack: SlackServer, keep: Keep) -> Read:
    """What the reactions to some messages say, and by whom."""

    def read(*messages: Notification, allowed: Sequence[str] = (ALICE, BOB)) -> list[tuple[str, str]]:
        reader = keep(SlackReactions(slack.token, slack.api, allowed))
        return [(answer.verb, answer.by) for answer in reader.read(messages).found]

    return read


@pytest.fixture
def posted(slack: SlackServer, sent: Notification) -> Posted:
    """The same, as the server has it."""
    return slack.messages[0]


def test_eyes_acknowledge_and_a_bell_with_a_stroke_silences(
    slack: SlackServer, sent: Notification, posted: Posted, read: Read
) -> None:
    assert read(sent) == []
    slack.react(posted, "eyes", ALICE)
    slack.react(posted, "no_bell", BOB)
    slack.react(posted, "tada", BOB)
    assert read(sent) == [("ack", "Alice"), ("silence", BOB)], "who is not known is named by the ID"


def test_who_is_not_named_does_not_count(
    slack: SlackServer, sent: Notification, posted: Posted, read: Read
) -> None:
    for user in (ALICE, BOB, BOT):
        slack.react(posted, "eyes", user)
    assert read(sent, allowed=[BOB]) == [("ack", BOB)]
    assert read(sent, allowed=EVERYBODY) == [("ack", "Alice"), ("ack", BOB)], "a program is nobody"


def test_without_the_right_to_read_names_the_ids_stand(
    slack: SlackServer, sent: Notification, posted: Posted, read: Read
) -> None:
    slack.scopes.remove("users:read")
    slack.react(posted, "eyes", ALICE)
    assert read(sent) == [("ack", ALICE)]


def test_without_the_right_to_read_reactions_the_fix_is_said(
    slack: SlackServer, sent: Notification, read: Read
) -> None:
    slack.scopes.remove("reactions:read")
    with pytest.raises(DeliveryError, match="give the bot the scope reactions:read") as caught:
        read(sent)
    assert caught.value.permanent


def test_a_limit_of_the_rate_is_obeyed(slack: SlackServer, sent: Notification, read: Read) -> None:
    slack.behave([slack_server.rate_limited(30)])
    with pytest.raises(DeliveryError) as caught:
        read(sent)
    assert (caught.value.permanent, caught.value.retry_after) == (False, 30.0)


def test_a_message_that_was_deleted_has_no_answers(
    slack: SlackServer, sent: Notification, posted: Posted, read: Read
) -> None:
    slack.react(posted, "eyes", ALICE)
    gone = replace(sent, receipt="#alerts 1.000000")
    assert read(gone, replace(sent, receipt=""), sent) == [("ack", "Alice")]


def test_what_recovered_gets_a_check_mark_once(
    slack: SlackServer, sent: Notification, posted: Posted, keep: Keep
) -> None:
    reader = keep(SlackReactions(slack.token, slack.api, EVERYBODY))
    for _ in range(2):
        reader.confirm(sent.receipt)
    assert slack.reactions(posted) == {"white_check_mark": ["UBOT"]}


SLACK = '[channels.slack]\ntype = "slack"\n'
BOT_KEYS = 'bot_token = "xoxb-1"\nchannel = "#a"\n'


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        (BOT_KEYS + 'answers_from = ["U024BE7LH"]', ""),
        (BOT_KEYS + 'answers_from = "all"', ""),
        (BOT_KEYS + 'answers_from = "U024BE7LH"', ""),
        (BOT_KEYS + 'answers_from = ["alice"]', "'alice' is no member's ID"),
        (BOT_KEYS + "answers_from = []", "answers_from"),
        ('webhook_url = "https://hooks.example.org/x"\nanswers_from = "all"', "needs bot_token"),
    ],
)
def test_whose_answers_count_is_checked_when_it_is_read(keys: str, wrong: str, tmp_path: Path) -> None:
    if wrong:
        with pytest.raises(ConfigError) as caught:
            parse(SLACK + keys, tmp_path / "config.toml")
        assert wrong in str(caught.value)
    else:
        reader = channel_of(parse(SLACK + keys, tmp_path / "config.toml"), "slack").make_answers(
            Home(tmp_path)
        )
        assert reader is not None
        reader.close()


def test_nobodys_answers_are_read_unless_somebody_is_named(tmp_path: Path) -> None:
    config = parse(SLACK + BOT_KEYS, tmp_path / "config.toml")
    assert channel_of(config, "slack").make_answers(Home(tmp_path)) is None
