"""Replies to our mails, read by IMAP: a reply acknowledges, one that begins with `silence` silences.

The mailbox is opened read-only: nothing in it is marked, moved or removed. Automatic answers (RFC 3834) do
not count, nor does a sender that a mail server found forged (RFC 8601), nor a reply to a mail that is not
ours.
"""

from __future__ import annotations

import contextlib
import email
import html
import imaplib
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.errors import InvalidHeaderDefect
from email.message import EmailMessage
from email.policy import default as modern
from typing import Any
from urllib.parse import urlsplit

from watchdogd.config.secret import masked
from watchdogd.errors import DeliveryError
from watchdogd.notify.answers import SILENCE, PersonAnswer, ReadAnswers, counts
from watchdogd.notify.channel import TIMEOUT
from watchdogd.notify.notification import Notification
from watchdogd.system.text import one_line, split_lines
from watchdogd.units import LONGEST, parse_duration

LOOKED_AT = 200
"""Number of newest mails whose headers are read at once."""
SIZE = 65_536
"""Bytes of a reply that are read."""
_HEADS = "(BODY.PEEK[HEADER.FIELDS (MESSAGE-ID IN-REPLY-TO REFERENCES)])"
_SILENCE = re.compile(
    r"(?:/?(?:silence|mute|snooze)\b|\N{BELL WITH CANCELLATION STROKE})(?:\s+for\b)?\s*(\w*)", re.I
)
_UNWRITTEN = re.compile(r"<(head|style|script|blockquote)\b.*?(?:</\1\s*>|\Z)", re.I | re.S)
_INLINE = re.compile(r"</?(?:a|b|i|u|em|span|strong|font)\b[^<>]*>", re.I)
_TAG = re.compile(r"<[^<>]*>")
_QUOTE = re.compile(r"(?:^(?:\S.*\n){0,2}.*:[ \t]*\n\s*)?(?:^[ \t]*>.*\n?)+", re.M)
_ID = re.compile(r"<[^<>\s]+>")
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class MailboxAccount:
    """Mailbox for replies: imaps://, or imap:// with STARTTLS."""

    server: str
    user: str
    password: str
    folder: str = "INBOX"


class MailReplies:
    """Reader of replies; `id_of` returns the Message-ID of a notification's mail."""

    def __init__(
        self,
        account: MailboxAccount,
        allowed: Sequence[str],
        id_of: Callable[[Notification], str],
        timeout: float = TIMEOUT,
    ) -> None:
        self._account, self._allowed, self._id_of, self._timeout = account, allowed, id_of, timeout
        self._seen: set[tuple[bytes, bytes]] = set()
        self._found: dict[str, PersonAnswer] = {}

    def read(self, messages: Sequence[Notification], /) -> ReadAnswers:
        """Return the replies to these messages."""
        letters = {self._id_of(message): message for message in messages}
        try:
            with _opened(self._account, self._timeout) as mailbox:
                self._take_in(mailbox, letters)
        except ssl.SSLError:
            raise self._failure("its certificate is not trusted here, or it speaks no TLS") from None
        except TimeoutError:
            raise self._failure(f"no answer within {self._timeout:g} s") from None
        except imaplib.IMAP4.abort as error:
            raise self._failure(str(error)) from None
        except imaplib.IMAP4.error as error:
            raise self._failure(f"refused: {error}", permanent=True) from None
        except OSError as error:
            raise self._failure(error.strerror or str(error)) from None
        except (LookupError, ValueError, TypeError):
            raise self._failure("it does not answer as a mailbox does") from None
        known = {message.key for message in messages}
        return ReadAnswers(tuple(each for each in self._found.values() if each.message.key in known))

    def _failure(self, why: str, *, permanent: bool = False) -> DeliveryError:
        host = urlsplit(self._account.server).hostname
        said = one_line(masked(why, (self._account.password,)), 200)
        return DeliveryError(f"{host}: {said}", permanent=permanent)

    def _take_in(self, mailbox: imaplib.IMAP4, letters: Mapping[str, Notification]) -> None:
        """Read the mails since the first of these messages that were not read before."""
        validity = (mailbox.response("UIDVALIDITY")[1] or [b""])[0] or b""
        first = min(message.created_at for message in letters.values())
        day = time.strftime("%d-", time.gmtime(first - 86_400)) + _month(first - 86_400)
        found = mailbox.uid("SEARCH", "SINCE", day)[1][0] or b""
        fresh = [uid for uid in found.split()[-LOOKED_AT:] if (validity, uid) not in self._seen]
        for uid in fresh:
            head = _parsed(mailbox.uid("FETCH", uid.decode(), _HEADS)[1])
            said = " ".join(_header(head, name) for name in ("In-Reply-To", "References"))
            about = next((letters[each] for each in reversed(_ID.findall(said)) if each in letters), None)
            if about is not None:
                whole = _parsed(mailbox.uid("FETCH", uid.decode(), f"(BODY.PEEK[]<0.{SIZE}>)")[1])
                if answer := reply_of(whole, about, self._allowed):
                    self._found[answer.key] = answer
        self._seen |= {(validity, uid) for uid in fresh}

    def confirm(self, _receipt: str, /) -> None:
        """Do nothing: the mail on the recovery is in the same thread."""

    def close(self) -> None:
        """Do nothing: no connection is kept."""


def reply_of(letter: EmailMessage, about: Notification, allowed: Sequence[str]) -> PersonAnswer | None:
    """Return the answer in a mail; None where it is automatic, unauthorised or malformed."""
    try:
        return _reply_of(letter, about, allowed)
    except Exception:  # noqa: BLE001 - Python's mail parser raises errors of any kind for malformed ones
        return None


def _reply_of(letter: EmailMessage, about: Notification, allowed: Sequence[str]) -> PersonAnswer | None:
    name, address = _author(letter)
    if _automatic(letter) or _forged(letter) or not address or not counts(address, allowed):
        return None
    key = one_line(str(letter.get("Message-ID", "")), 200) or f"{address} {letter.get('Date', '')}"
    by = one_line(name or address, 100)
    if said := _SILENCE.match(_first_line(letter)):
        return PersonAnswer(key, "silence", by, about, _seconds(said[1]))
    return PersonAnswer(key, "ack", by, about)


def _automatic(letter: EmailMessage) -> bool:
    """Return whether a program wrote it: an absence notice, a list, a bounce."""
    return (
        _said(letter, "Auto-Submitted") not in ("", "no")
        or _said(letter, "Precedence") in ("bulk", "junk", "auto_reply")
        or _said(letter, "Return-Path") == "<>"
        or letter.get_content_type() == "multipart/report"
        or any(name in letter for name in ("X-Autoreply", "X-Autorespond"))
    )


def _forged(letter: EmailMessage) -> bool:
    """Return whether a mail server found that the sender's domain did not send it."""
    return any("dmarc=fail" in str(each).lower() for each in letter.get_all("Authentication-Results", ()))


def _header(letter: EmailMessage, name: str) -> str:
    try:
        return str(letter.get(name, ""))
    except Exception:  # noqa: BLE001 - as in `reply_of`
        return ""


def _said(letter: EmailMessage, header: str) -> str:
    return _header(letter, header).partition(";")[0].strip().lower()


def _author(letter: EmailMessage) -> tuple[str, str]:
    """Return name and address of the sender; empty where the header is ambiguous."""
    header = letter["From"]
    broken = header is None or any(isinstance(each, InvalidHeaderDefect) for each in header.defects)
    if broken or len(header.addresses) != 1:
        return "", ""
    return header.addresses[0].display_name, header.addresses[0].addr_spec


def _seconds(word: str) -> float:
    with contextlib.suppress(ValueError):
        return min(parse_duration(word), LONGEST) or SILENCE
    return SILENCE


def _first_line(letter: EmailMessage) -> str:
    """Return the first line that the author wrote, without quotations and their introductions."""
    part = letter.get_body(("plain", "html"))
    try:
        text = part.get_content() if part else ""
    except (LookupError, ValueError):
        return ""
    if part and part.get_content_subtype() == "html":
        text = html.unescape(_TAG.sub("\n", _INLINE.sub("", _UNWRITTEN.sub("\n", text))))
    written = _QUOTE.sub("\n", str(text).replace("\r", ""))
    return next((line for line in map(str.strip, split_lines(written)) if line), "")


def _parsed(answer: Sequence[object]) -> EmailMessage:
    """Return the mail, or its headers, of a FETCH; an empty one where it is gone."""
    for part in answer:
        if isinstance(part, tuple) and len(part) == 2 and isinstance(part[1], bytes):
            return email.message_from_bytes(part[1], _class=EmailMessage, policy=modern)
    return EmailMessage()


def _month(at: float) -> str:
    """Return month and year in IMAP's form, whatever the locale."""
    moment = time.gmtime(at)
    names = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    return f"{names[moment.tm_mon - 1]}-{moment.tm_year}"


class _Timed(imaplib.IMAP4):
    """IMAP session that is shut down after so many seconds."""

    def __init__(self, seconds: float, host: str, port: int, **options: Any) -> None:
        self.timer = threading.Timer(seconds, _cut, [self])
        self.timer.daemon = True
        self.timer.start()
        options["timeout"] = seconds * 2 / 3
        super().__init__(host, port, **options)


class _TimedTls(_Timed, imaplib.IMAP4_SSL):
    """The same over TLS."""


@contextlib.contextmanager
def _opened(account: MailboxAccount, timeout: float) -> Iterator[imaplib.IMAP4]:
    """Open the folder read-only, within `timeout` seconds; a password never travels unencrypted."""
    parts = urlsplit(account.server)
    host, secure = parts.hostname or "", parts.scheme == "imaps"
    context = ssl.create_default_context()
    mailbox = (
        _TimedTls(timeout, host, parts.port or 993, ssl_context=context)
        if secure
        else _Timed(timeout, host, parts.port or 143)
    )
    try:
        if not secure and "STARTTLS" in mailbox.capabilities:
            if host in LOOPBACK:  # its certificate is self-signed
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            mailbox.starttls(ssl_context=context)
        elif not secure and host not in LOOPBACK:
            raise imaplib.IMAP4.error("it offers no STARTTLS for the password: use imaps://")
        mailbox.login(account.user, account.password)
        if mailbox.select(f'"{account.folder}"', readonly=True)[0] != "OK":
            raise imaplib.IMAP4.error(f"there is no folder {account.folder}")
        yield mailbox
    finally:
        with contextlib.suppress(OSError, imaplib.IMAP4.error):
            mailbox.logout()
        mailbox.timer.cancel()


def _cut(mailbox: imaplib.IMAP4) -> None:
    """Shut a session down from another thread."""
    if (opened := getattr(mailbox, "sock", None)) is not None:
        with contextlib.suppress(OSError):  # it is closed already
            socket.socket.shutdown(opened, socket.SHUT_RDWR)
