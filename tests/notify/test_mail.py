"""E-mail on a real SMTP server: headers, threads, recipients, servers, TLS, login, misbehaviour."""

import re
import time
from dataclasses import replace
from email.message import EmailMessage

import pytest

from tests.notify.drip import dripping
from tests.notify.values import NOON, letter, message
from tests.servers.smtp import Drop, Hang, Mailbox, Refuse, Security, refuse_recipient
from tests.waiting import AT_ONCE
from watchdogd.errors import ConfigError, DeliveryError, PartlyDeliveredError
from watchdogd.notify.channels.email import Account, Mail, compose
from watchdogd.notify.notification import Notification

TO = ("alice@example.org", "bob@example.org")


def _account(mailbox: Mailbox, **changes: object) -> Account:
    values: dict[str, object] = {"servers": (mailbox.url,), "sender": "Watch <watch@example.org>", "to": TO}
    return Account(**values | changes)  # type: ignore[arg-type]  # tests name fields freely


def _refused(mail: Mail, notification: Notification | None = None) -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        mail.send(notification or letter(), ())
    return caught.value


def _text(mail: EmailMessage, kind: str) -> str:
    part = mail.get_body((kind,))
    assert part is not None
    return str(part.get_content())


def test_a_letter_arrives_with_all_that_it_needs(mailbox: Mailbox) -> None:
    receipt = Mail(_account(mailbox)).send(letter(), ())
    taken = mailbox.messages[0]
    assert receipt.split() == list(TO)
    assert taken.recipients == TO
    assert taken.sender == "watch@example.org"
    mail = taken.message
    assert mail["Subject"] == "[CRITICAL] run-17: no new line for 25m"
    assert mail["From"] == "Watch <watch@example.org>"
    assert mail["To"] == "alice@example.org, bob@example.org"
    assert mail["Date"].datetime.timestamp() == NOON
    assert mail["Date"].datetime.utcoffset() is not None
    assert re.fullmatch(r"<[0-9a-f]{24}@example\.org>", mail["Message-ID"])
    assert mail["In-Reply-To"] is None
    assert mail["Auto-Submitted"] == "auto-generated"
    assert "    iteration 812" in _text(mail, "plain")
    assert "<pre" in _text(mail, "html")
    assert "iteration 812" in _text(mail, "html")


def test_later_letters_reply_to_the_first_also_after_a_restart(mailbox: Mailbox) -> None:
    root = letter()
    Mail(_account(mailbox)).send(root, ())
    Mail(_account(mailbox)).send(letter(name="resolved", opens=False), (replace(root, state="sent"),))
    first, second = (taken.message for taken in mailbox.messages)
    assert second["In-Reply-To"] == first["Message-ID"]
    assert second["References"] == first["Message-ID"]
    assert second["Message-ID"] != first["Message-ID"]


def test_a_repeat_has_the_same_message_id(mailbox: Mailbox) -> None:
    for _ in range(2):
        Mail(_account(mailbox)).send(letter(), ())
    first, second = (taken.message for taken in mailbox.messages)
    assert first["Message-ID"] == second["Message-ID"]


def test_what_is_not_ascii_arrives_as_it_was(mailbox: Mailbox) -> None:
    told = message(
        headline="[CRITICAL] tr11-größe: 数 🙂 " + "ü" * 200, body="é\n\n    日本語\n.\n..\nFrom x"
    )
    Mail(_account(mailbox, sender="Wächter <w@example.org>")).send(replace(letter(), message=told), ())
    mail = mailbox.messages[0].message
    assert mail["Subject"] == told.headline
    assert mail["From"].addresses[0].display_name == "Wächter"
    assert _text(mail, "plain").replace("\r\n", "\n") == f"{told.headline}\n\n{told.body}\n"
    assert "日本語" in _text(mail, "html")


def test_no_text_adds_a_header_or_a_tag(mailbox: Mailbox) -> None:
    evil = "x\r\nBcc: eve@example.org\n\n<script>alert(1)</script>"
    Mail(_account(mailbox)).send(replace(letter(), message=message(headline=evil, body=evil)), ())
    taken = mailbox.messages[0]
    assert taken.message["Bcc"] is None
    assert taken.recipients == TO
    assert taken.message["Subject"] == "x Bcc: eve@example.org <script>alert(1)</script>"
    assert "<script>" not in _text(taken.message, "html")


@pytest.mark.parametrize(
    "word", ["q?x=0D=0ABcc:_eve=40evil.test?=", "b?DQpCY2M6IGV2ZUBldmlsLnRlc3QNCg0KPGh0bWw+?="]
)
def test_an_encoded_word_from_outside_stays_text(mailbox: Mailbox, word: str) -> None:
    headline = f"[CRITICAL] a: =?utf-8?{word} {'ä' * 40} ==?utf-8?{word}"
    Mail(_account(mailbox)).send(replace(letter(), message=message(headline=headline)), ())
    taken = mailbox.messages[0].message
    assert taken["Bcc"] is None
    assert taken["Subject"].split() == headline.replace("=?utf", "= ?utf").split()


def test_lines_stay_within_the_limits_of_mail() -> None:
    account = Account(("smtp://x",), "w@a.very.long.department.of.a.university.example.org", TO)
    long = replace(letter(), message=message(headline="x" * 390, body="y" * 15_000))
    raw = compose(long, [letter(n, name=f"root{n}") for n in range(12)], account).as_bytes()
    assert max(len(line) for line in raw.split(b"\r\n")) <= 400  # RFC 5322: 998; a subject without spaces
    assert b"In-Reply-To: <" in raw
    assert raw.count(b"@of.a.university.example.org>") == 1 + 1 + 10


@pytest.mark.parametrize("address", ["nobody", "", "a@x.org\nBcc: b@x.org", "Name only <>", "ü@example.org"])
def test_what_is_no_address_is_a_configuration_error(mailbox: Mailbox, address: str) -> None:
    with pytest.raises(ConfigError, match="no mail address"):
        Mail(_account(mailbox, to=(address,)))
    with pytest.raises(ConfigError, match="no mail address"):
        Mail(_account(mailbox, sender=address))


@pytest.mark.parametrize("stage", ["MAIL", "RCPT", "DATA"])
@pytest.mark.parametrize(("code", "permanent"), [(451, False), (550, True)])
def test_a_server_that_refuses(mailbox: Mailbox, stage: str, code: int, permanent: bool) -> None:
    mailbox.behave([Refuse(code, stage)])  # type: ignore[arg-type]  # the parameters are its stages
    mail = Mail(_account(mailbox))
    error = _refused(mail)
    assert error.permanent is permanent
    assert str(code) in str(error)
    mail.send(letter(), ())
    assert len(mailbox.messages) == 1


@pytest.mark.parametrize("stage", ["MAIL", "RCPT", "DATA"])
def test_a_server_that_breaks_off(mailbox: Mailbox, stage: str) -> None:
    mailbox.behave([Drop(stage)])  # type: ignore[arg-type]  # the parameters are its stages
    assert not _refused(Mail(_account(mailbox))).permanent
    assert mailbox.messages == []


@pytest.mark.parametrize("stage", ["MAIL", "DATA"])
def test_a_server_that_hangs_is_left_in_time(mailbox: Mailbox, stage: str) -> None:
    mailbox.behave([Hang(stage)])  # type: ignore[arg-type]  # the parameters are its stages
    began = time.monotonic()
    assert not _refused(Mail(_account(mailbox), timeout=0.6)).permanent
    assert time.monotonic() - began < AT_ONCE
    mailbox.release()
    Mail(_account(mailbox)).send(letter(), ())
    assert len(mailbox.messages) == 1, "the second try alone delivers"


@pytest.mark.parametrize("beginning", [b"", b"220 x\r\n250-"])
def test_a_server_that_drips_is_cut_off_in_time(mailbox: Mailbox, beginning: bytes) -> None:
    with dripping(beginning, b"2") as port:
        account = _account(mailbox, servers=(f"smtp://127.0.0.1:{port}",))
        began = time.monotonic()
        assert not _refused(Mail(account, timeout=0.6)).permanent
        assert time.monotonic() - began < AT_ONCE


def test_a_server_that_is_down_is_tried_again(mailbox: Mailbox) -> None:
    mailbox.down()
    error = _refused(Mail(_account(mailbox)))
    assert str(error) == "127.0.0.1: Connection refused"
    assert not error.permanent
    mailbox.up()


def test_the_next_server_takes_what_the_first_does_not(mailbox: Mailbox) -> None:
    Mail(_account(mailbox, servers=("smtp://127.0.0.1:1", mailbox.url))).send(letter(), ())
    assert len(mailbox.messages) == 1


def test_where_no_server_takes_it_each_is_named(mailbox: Mailbox) -> None:
    mailbox.behave(Refuse(550, "MAIL"))
    error = _refused(Mail(_account(mailbox, servers=("smtp://localhost:1", mailbox.url))))
    assert "localhost: Connection refused" in str(error)
    assert "127.0.0.1 refused: 550" in str(error)
    assert not error.permanent


def test_one_refused_recipient_costs_the_others_nothing(mailbox: Mailbox) -> None:
    mailbox.behave([refuse_recipient("bob@example.org", 550)])
    error = _refused(Mail(_account(mailbox)))
    assert isinstance(error, PartlyDeliveredError)
    assert error.permanent
    assert error.receipt == "alice@example.org"
    assert str(error).startswith("bob@example.org refused: 550")
    assert mailbox.messages[0].recipients == ("alice@example.org",)


def test_who_was_refused_for_now_gets_it_later_and_nobody_twice(mailbox: Mailbox) -> None:
    mailbox.behave([refuse_recipient("bob@example.org", 450)])
    error = _refused(Mail(_account(mailbox)))
    assert isinstance(error, PartlyDeliveredError)
    assert not error.permanent
    again = replace(letter(), receipt=error.receipt)
    assert Mail(_account(mailbox)).send(again, ()).split() == list(TO)
    assert [taken.recipients for taken in mailbox.messages] == [("alice@example.org",), ("bob@example.org",)]


def test_starttls_is_used_where_it_is_offered(mailbox: Mailbox) -> None:
    mailbox.require(Security(starttls="offered"))
    Mail(_account(mailbox)).send(letter(), ())
    assert mailbox.messages[0].encrypted


def test_login_over_starttls(mailbox: Mailbox) -> None:
    mailbox.require(Security(starttls="required", login=("watch", "pass-word")))
    Mail(_account(mailbox, user="watch", password="pass-word")).send(letter(), ())
    assert mailbox.messages[0].encrypted
    assert mailbox.messages[0].user == "watch"


def test_a_wrong_password_is_permanent_and_not_shown(mailbox: Mailbox) -> None:
    mailbox.require(Security(login=("watch", "pass-word")))
    error = _refused(Mail(_account(mailbox, user="watch", password="wrong-secret")))
    assert error.permanent
    assert "535" in str(error)
    assert "secret" not in str(error)


def test_a_login_that_is_asked_for_and_not_given_is_told(mailbox: Mailbox) -> None:
    mailbox.require(Security(login=("watch", "pass-word")))
    assert "530" in str(_refused(Mail(_account(mailbox))))


def test_smtps_with_a_certificate_that_is_trusted(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(mailbox.certificate))
    mailbox.require(Security(implicit=True))
    Mail(_account(mailbox)).send(letter(), ())
    assert mailbox.messages[0].encrypted


def test_smtps_with_a_certificate_that_is_not_trusted_is_refused(mailbox: Mailbox) -> None:
    mailbox.require(Security(implicit=True))
    error = _refused(Mail(_account(mailbox)))
    assert "certificate" in str(error)
    assert mailbox.messages == []


def test_a_password_never_travels_readable(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox.require(Security(login=("watch", "pass-word")))
    monkeypatch.setattr("watchdogd.notify.channels.email.LOOPBACK", ())
    error = _refused(Mail(_account(mailbox, user="watch", password="pass-word")))
    assert error.permanent
    assert "use smtps://" in str(error)
    assert mailbox.messages == []
