"""Answers from the chat and by mail, from the message to the incident, by a daemon's own rounds."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.notify.values import NOON, incident, letter
from tests.servers.slack import Posted, SlackServer
from tests.waiting import wait_until
from watchdogd.chain.leadership import DaemonLeadership
from watchdogd.config.loading import parse
from watchdogd.daemon import chat_answers
from watchdogd.daemon.chat_answers import FILE, AnswerLook, ChannelAnswers, TakenAnswer, look
from watchdogd.daemon.daemon import Daemon, ServiceManager
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.wiring import assembled
from watchdogd.errors import DeliveryError
from watchdogd.home import inbox
from watchdogd.home.layout import Home
from watchdogd.incidents.models import Incident
from watchdogd.notify.answers import PersonAnswer, ReadAnswers
from watchdogd.notify.channels.slack import Bot
from watchdogd.notify.dead_mans_switch import heartbeat_of
from watchdogd.notify.slack_reactions import SlackReactions
from watchdogd.system.account import user_name
from watchdogd.system.bounded_io import BoundedIO

CONFIG = """
[daemon]
interval = "0.2s"
confirm = 1
[channels.slack]
type = "slack"
bot_token = "{token}"
channel = "#alerts"
api = "{api}"
rate = "none"
answers_from = ["U0000A11CE"]
[disks.scratch]
path = "{path}"
quota = "statvfs"
"""
ALICE = "U0000A11CE"


@pytest.fixture
def home(slack: SlackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home that watches a disk which is not there, and tells it in Slack."""
    monkeypatch.setattr(chat_answers, "EVERY", 0.0)
    slack.people = {ALICE: {"id": ALICE, "name": "alice"}}
    home = Home(tmp_path / "home")
    home.make()
    text = CONFIG.format(token=slack.token, api=slack.api, path=tmp_path / "scratch")
    home.config.write_text(text)
    return home


@pytest.fixture
def daemon(home: Home) -> Iterator[Daemon]:
    """A daemon that holds its lease; its rounds are ours to make."""
    setup = Setup.load(home)
    leadership = DaemonLeadership(home, setup.config)
    leadership.begin()
    with assembled(home, setup) as parts:
        daemon = Daemon(parts, leadership, heartbeat_of(setup.config), ServiceManager())
        daemon._outbox.start()
        yield daemon
        daemon._outbox.stop(30)
        daemon._answers.wait(30)
        daemon._answers.close()
    leadership.end()


def _incident(daemon: Daemon) -> Incident | None:
    states = daemon._engine.alerts.states.values()
    return next((each.incident for each in states if each.incident and each.target == "scratch"), None)


def _rounds(daemon: Daemon, condition: Callable[[], object], what: str) -> None:
    def done() -> bool:
        daemon.round()
        daemon._answers.wait(30)
        return bool(condition())

    wait_until(done, 120, what, every=0.05)


def _opened(slack: SlackServer) -> Posted | None:
    return next(
        (each for each in slack.messages if "scratch" in each.text and each.via != "chat.update"), None
    )


@pytest.mark.slow
def test_answers_count_in_the_name_of_who_gave_them_and_are_answered_when_it_recovers(
    slack: SlackServer, daemon: Daemon, tmp_path: Path, home: Home
) -> None:
    _rounds(daemon, lambda: _opened(slack), "the incident is told")
    posted = _opened(slack)
    assert posted
    slack.react(posted, "eyes", "U00STRANGE")
    slack.react(posted, "eyes", ALICE)
    _rounds(daemon, lambda: (found := _incident(daemon)) and found.acknowledged_by, "it is acknowledged")
    found = _incident(daemon)
    assert found
    assert found.acknowledged_by == "alice (slack)"
    slack.react(posted, "no_bell", ALICE)
    _rounds(daemon, lambda: daemon._engine.alerts.silences, "it is silenced")
    [silence] = daemon._engine.alerts.silences
    assert (silence.target, silence.by) == ("scratch/disk_quota", "alice (slack)")
    assert silence.until - silence.at == 3600
    assert len(json.loads((home.path / FILE).read_text())) == 2
    (tmp_path / "scratch").mkdir()
    _rounds(daemon, lambda: "white_check_mark" in slack.reactions(posted), "the recovery is shown")
    assert json.loads((home.path / FILE).read_text()) == []
    said = [each.text for each in slack.messages if each.via == "chat.postMessage"]
    assert len([text for text in said if "acknowledged by alice (slack)" in text]) == 1


def test_a_bot_without_the_right_is_a_trouble_that_says_what_to_do(slack: SlackServer, home: Home) -> None:
    with closing(Bot(slack.token, "#alerts", slack.api)) as bot:
        sent = replace(letter(), receipt=bot.send(letter(), ()))
    with closing(SlackReactions(slack.token, slack.api, (ALICE,))) as reader:
        channel = _channel(home, lambda: reader.read([sent]))
        for scope, trouble in (("none", "give the bot the scope reactions:read"), ("reactions:read", "")):
            slack.scopes = {scope}
            channel.begin({17: incident()}, NOON)
            channel.wait(60)
            assert trouble in channel.trouble
        assert channel.trouble == ""


def test_a_secret_that_is_missing_is_said(tmp_path: Path) -> None:
    text = '[channels.mail]\ntype = "email"\nsmtp = "smtp://localhost"\nfrom = "w@x.org"\nto = "t@x.org"\n'
    text += 'imap = "imaps://mail.example.org"\nimap_user = "w"\nanswers_from = "all"\n'
    text += 'imap_password = "env:NO_SUCH_IMAP_PASSWORD"\n'
    config = parse(text, tmp_path / "config.toml")
    patient = BoundedIO("home")
    answers = chat_answers.ChatAnswers(config, Home(tmp_path), patient, lambda _: [])
    patient.close()
    said = "answers of channel mail cannot be read: environment variable NO_SUCH_IMAP_PASSWORD is not set"
    assert answers.trouble.startswith(said)


def test_a_server_that_hangs_holds_up_no_round(home: Home) -> None:
    released = threading.Event()
    channel = _channel(home, lambda: released.wait(60) and ReadAnswers())
    for _ in range(3):
        channel.begin({17: incident()}, NOON)
    assert [thread.name for thread in threading.enumerate()].count("answers slack") == 1
    released.set()
    channel.wait(60)


def test_a_reader_that_breaks_is_a_trouble_until_it_works_again(home: Home) -> None:
    broken = [True, False]

    def read() -> ReadAnswers:
        if broken.pop(0):
            raise KeyError("ts")
        return ReadAnswers()

    channel = _channel(home, read)
    for trouble in ("answers of channel slack cannot be read: it failed within: KeyError", ""):
        channel._next = 0.0
        channel.begin({17: incident()}, NOON)
        channel.wait(60)
        assert channel.trouble == trouble


def test_a_failure_for_a_moment_is_none_and_one_that_lasts_is(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> ReadAnswers:
        raise DeliveryError("no answer within 15 s")

    channel = _channel(home, fail)
    for bearable, trouble in (
        (600.0, ""),
        (0.0, "answers of channel slack cannot be read: no answer within"),
    ):
        monkeypatch.setattr(chat_answers, "BEARABLE", bearable)
        channel._next = 0.0
        channel.begin({17: incident()}, NOON)
        channel.wait(60)
        assert channel.trouble.startswith(trouble)
        assert bool(channel.trouble) is bool(trouble)


def _channel(home: Home, answers: Callable[[], Any]) -> ChannelAnswers:
    class Reader:
        def read(self, *_: object) -> ReadAnswers:
            return answers()  # type: ignore[no-any-return]  # the tests' own

        def confirm(self, _receipt: str) -> None: ...

        def close(self) -> None: ...

    class Book:
        def read(self) -> tuple[TakenAnswer, ...]:
            return ()

        def write(self, *_: object) -> None: ...

    sent = replace(letter(), state="sent", receipt="#alerts 1")
    return ChannelAnswers("slack", Reader(), home, Book(), lambda _: [sent])  # type: ignore[arg-type]


def _answer(key: str, number: int = 17) -> PersonAnswer:
    return PersonAnswer(key, "ack", "alice", replace(letter(number), receipt=f"C {number}"))


def _taken(key: str, number: int = 17, channel: str = "slack") -> TakenAnswer:
    return TakenAnswer(key, channel, f"C {number}", (number,))


FRESH = AnswerLook((_answer("a"),), (), (_taken("a"),))


@pytest.mark.parametrize(
    ("known", "found", "looked", "opened", "expected"),
    [
        ([], [_answer("a")], {"C 17"}, {17}, FRESH),
        ([_taken("a")], [_answer("a")], {"C 17"}, {17}, AnswerLook((), (), (_taken("a"),))),
        ([_taken("a")], [], {"C 17"}, {17}, AnswerLook((), (), ())),  # taken back
        ([_taken("a")], [], set(), {17}, AnswerLook((), (), (_taken("a"),))),  # not looked at
        ([_taken("a")], [], set(), set(), AnswerLook((), ("C 17",), ())),  # recovered
        ([_taken("a"), _taken("b")], [], set(), {18}, AnswerLook((), ("C 17",), ())),
        (
            [_taken("a", channel="mail")],
            [_answer("a")],
            {"C 17"},
            {17},
            AnswerLook((_answer("a"),), (), (_taken("a"),)),
        ),
    ],
)
def test_each_answer_is_taken_in_once(
    known: list[TakenAnswer],
    found: list[PersonAnswer],
    looked: set[str],
    opened: Collection[int],
    expected: AnswerLook,
) -> None:
    incidents = {number: incident(number) for number in opened}
    assert look("slack", known, ReadAnswers(tuple(found), frozenset(looked)), incidents) == expected


def test_only_the_daemons_own_submission_speaks_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    home.make()
    both = replace(letter(), message=replace(letter().message, incidents=(17, 18, 19)))
    answer = PersonAnswer("k", "ack", "Alice", both)
    chat_answers.hand_in(home, "slack", answer, {17: incident(17), 18: incident(18, acknowledged_by="bob")})
    [submission], complaints = inbox.take(home)
    assert (submission.by, submission.said["id"], complaints) == ("Alice (slack)", 17, [])
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    [submission], _ = inbox.take(home)
    assert submission.by == user_name(os.getuid()), "whoever handed it in is who did it"
