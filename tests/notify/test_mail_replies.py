"""Replies to our letters: who acknowledges and who silences, from a real Dovecot."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from email.utils import make_msgid
from pathlib import Path

import pytest

from tests.notify.drip import dripping
from tests.notify.values import letter
from tests.servers.imap import PASSWORD, USER, ImapServer
from watchdogd.config.loading import parse
from watchdogd.errors import ConfigError, DeliveryError
from watchdogd.home.layout import Home
from watchdogd.notify.answers import EVERYBODY
from watchdogd.notify.channels.email import Account, compose
from watchdogd.notify.mail_replies import SIZE, MailboxAccount, MailReplies, reply_of
from watchdogd.notify.senders import channel_of

ALICE = "alice@example.org"
SENT = replace(letter(channel="mail"), state="sent", receipt="team@example.org")
ACCOUNT = Account(("smtp://localhost:25",), "watchdog@example.org", ("team@example.org",))
OURS = compose(SENT, (), ACCOUNT)["Message-ID"]


def _reply(
    text: str = "on it", sender: str = f"Alice <{ALICE}>", to: str = OURS, **headers: str
) -> EmailMessage:
    """A reply to our letter, as mail programs write it."""
    made = EmailMessage()
    made["From"], made["To"], made["Message-ID"] = sender, USER, make_msgid()
    made["In-Reply-To"] = to
    made["References"] = f"<first@example.org> {to}"
    made["Subject"] = "Re: [CRITICAL] run-17: no new line for 25m"
    for name, value in headers.items():
        made[name.replace("_", "-")] = value
    made.set_content(text)
    return made


@pytest.mark.parametrize(
    ("text", "verb", "seconds"),
    [
        ("on it", "ack", 3600),
        ("", "ack", 3600),
        ("\nOK!\n\nAm 29.11. schrieb watchdog:\n> [CRITICAL] run-17\n> silence it with:", "ack", 3600),
        ("> silence\n\nlooking", "ack", 3600),
        ("silence", "silence", 3600),
        ("Am 29.11. schrieb watchdog:\n> [CRITICAL] run-17\n\nsilence 2h", "silence", 7200),
        (
            "On Sun, 29 Nov, watchdog\n<w@example.org> wrote:\n\n> it\n>\n\nmute",
            "silence",
            3600,
        ),
        ("silence:\n> [CRITICAL] run-17", "ack", 3600),
        ("looking:\nsilence", "ack", 3600),
        ("Silence for 2h please", "silence", 7200),
        ("mute 90m", "silence", 5400),
        ("\N{BELL WITH CANCELLATION STROKE}", "silence", 3600),
        ("silence the fan in my office", "silence", 3600),
        ("silencer works", "ack", 3600),
        ("silence 99999999999999d", "silence", 3600),
    ],
)
def test_a_reply_acknowledges_or_silences(text: str, verb: str, seconds: float) -> None:
    answer = reply_of(_reply(text), SENT, (ALICE,))
    assert answer
    assert (answer.verb, answer.by, answer.seconds) == (verb, "Alice", seconds)


@pytest.mark.parametrize(
    ("headers", "sender"),
    [
        ({"Auto_Submitted": "auto-replied"}, ALICE),
        ({"Auto_Submitted": "auto-generated"}, ALICE),
        ({"Precedence": "bulk"}, ALICE),
        ({"Auto_Submitted": "auto-replied; owner-email=alice@example.org"}, ALICE),
        ({"X_Autoreply": "yes"}, ALICE),
        ({"Return_Path": "<>"}, ALICE),
        ({"Authentication_Results": "mx.example.org; spf=pass; dmarc=fail (p=none) header.from=a"}, ALICE),
        ({}, "mallory@example.org"),
        ({}, "alice@example.org.evil.example"),
        ({}, "alice@example.org <mallory@example.org>"),
        ({}, ""),
    ],
)
def test_what_programs_and_others_write_does_not_count(headers: dict[str, str], sender: str) -> None:
    raw = _reply(sender="SENDER", **headers).as_bytes().replace(b"SENDER", sender.encode())
    letter = message_from_bytes(raw, _class=EmailMessage, policy=default)
    assert reply_of(letter, SENT, (ALICE,)) is None


def test_a_reply_as_html_alone_and_one_in_no_known_letters_count() -> None:
    html = _reply()
    html.set_content("<html><body><p>silence 2h</p><blockquote>it was</blockquote></body></html>", "html")
    answer = reply_of(html, SENT, EVERYBODY)
    assert answer
    assert (answer.verb, answer.seconds) == ("silence", 7200)
    outlook = _reply()
    outlook.set_content(
        "<html><head><style>p {margin: 0}</style></head><body><p>&nbsp;</p>"
        "<p><span>si</span>lence&nbsp;for <b>2h</b></p></body></html>",
        "html",
    )
    answer = reply_of(outlook, SENT, EVERYBODY)
    assert answer
    assert (answer.verb, answer.seconds) == ("silence", 7200)
    odd = _reply()
    odd.replace_header("Content-Type", 'text/plain; charset="klingon"')
    assert reply_of(odd, SENT, EVERYBODY)


def test_a_letter_that_came_back_is_no_answer() -> None:
    bounced = _reply(sender="MAILER-DAEMON@mail.example.org")
    bounced.set_type("multipart/report")
    assert reply_of(bounced, SENT, EVERYBODY) is None


@pytest.fixture(scope="module")
def server() -> Iterator[ImapServer]:
    """One Dovecot for all: no test asks for what another one put there."""
    with ImapServer() as server:
        yield server


def _reader(url: str, password: str = PASSWORD, folder: str = "INBOX", timeout: float = 15.0) -> MailReplies:
    account = MailboxAccount(url, USER, password, folder)
    return MailReplies(account, (ALICE,), lambda each: compose(each, (), ACCOUNT)["Message-ID"], timeout)


@pytest.mark.server
def test_the_mailbox_is_read_and_left_as_it_is(server: ImapServer) -> None:
    other = replace(letter(18, channel="mail", name="other"), state="sent")
    server.put(_reply(), _reply(to="<something@else.example>"), _reply(sender="mallory@example.org"))
    reader = _reader(server.url)
    for _ in range(2):
        found = reader.read((SENT, other))
        assert [(each.verb, each.by, each.message.key) for each in found.found] == [
            ("ack", "Alice", SENT.key)
        ]
        assert found.looked == frozenset()
    server.put(_reply("silence 2h", to=compose(other, (), ACCOUNT)["Message-ID"]))
    assert {each.verb for each in reader.read((SENT, other)).found} == {"ack", "silence"}
    assert {each.verb for each in _reader(server.url).read((other,)).found} == {"silence"}
    assert b"Seen" not in server.flags()


@pytest.mark.server
def test_another_folder(server: ImapServer) -> None:
    server.put(_reply("mute"), folder="watchdog")
    assert [each.verb for each in _reader(server.url, folder="watchdog").read((SENT,)).found] == ["silence"]
    with pytest.raises(DeliveryError, match="there is no folder elsewhere") as caught:
        _reader(server.url, folder="elsewhere").read((SENT,))
    assert caught.value.permanent


@pytest.mark.server
def test_a_wrong_password_is_permanent_and_not_shown(server: ImapServer) -> None:
    with pytest.raises(DeliveryError) as caught:
        _reader(server.url, "wr0ng-password").read((SENT,))
    assert caught.value.permanent
    assert "refused" in str(caught.value)
    assert "wr0ng" not in str(caught.value)


@pytest.mark.server
def test_a_certificate_that_nobody_signed_is_not_trusted(server: ImapServer) -> None:
    with pytest.raises(DeliveryError, match="its certificate is not trusted here"):
        _reader(server.secure_url).read((SENT,))


def test_a_server_that_is_away_is_tried_again() -> None:
    with pytest.raises(DeliveryError, match=r"127\.0\.0\.1: Connection refused") as caught:
        _reader("imap://127.0.0.1:1").read((SENT,))
    assert not caught.value.permanent


@pytest.mark.parametrize("greeting", [b"", b"* OK hello\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_server_that_drips_is_cut_off_in_time(greeting: bytes) -> None:
    with dripping(greeting, b"x") as port, pytest.raises(DeliveryError):
        _reader(f"imap://127.0.0.1:{port}", timeout=0.6).read((SENT,))


MAIL = '[channels.mail]\ntype = "email"\nsmtp = "smtp://localhost"\nfrom = "w@x.org"\nto = "t@x.org"\n'
IMAP = 'imap = "imaps://mail.example.org"\nanswers_from = ["alice@example.org"]\n'


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        (IMAP + 'imap_user = "w"\nimap_password = "p"', ""),
        (IMAP + 'user = "w"\npassword = "p"', ""),
        (IMAP, "imap needs imap_user and imap_password"),
        ('imap = "imaps://mail.example.org"', "imap and answers_from go together"),
        ('answers_from = "all"', "imap and answers_from go together"),
        ('imap = "mail.example.org"\nanswers_from = "all"', "is no mailbox"),
        ('imap = "imaps://u:s3cr3t@mail.example.org"\nanswers_from = "all"', "is no mailbox"),
        (IMAP + 'imap_user = "w"\nimap_password = "p"\nimap_folder = "a\\"b"', "imap_folder"),
    ],
)
def test_a_mailbox_that_cannot_be_is_an_error(keys: str, wrong: str, tmp_path: Path) -> None:
    if not wrong:
        config = parse(MAIL + keys, tmp_path / "config.toml")
        assert channel_of(config, "mail").make_answers(Home(tmp_path)) is not None
        return
    with pytest.raises(ConfigError) as caught:
        parse(MAIL + keys, tmp_path / "config.toml")
    assert wrong in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("piece", ["<", "<head ", "<a ", "a:\n", "> \n", ":\n \t"])
def test_no_letter_takes_long(piece: str) -> None:
    """A second here is as long as a minute of a careless pattern."""
    letter = _reply()
    letter.set_content(piece * (SIZE // len(piece)), "html")
    begin = time.process_time()
    assert reply_of(letter, SENT, EVERYBODY)
    assert time.process_time() - begin < 1
