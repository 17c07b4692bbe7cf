"""E-mail by SMTP: plain text and HTML, threads by References, each recipient's delivery recorded."""

from __future__ import annotations

import contextlib
import email.utils
import functools
import hashlib
import html
import re
import smtplib
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from watchdogd.config.secret import masked, without_passwords
from watchdogd.home.layout import Home
from watchdogd.notify.channel import (
    CONNECT_TIMEOUT,
    TIMEOUT,
    AnswerReader,
    AnswersFrom,
    Channel,
    ConfigError,
    DeliveryError,
    Message,
    Notification,
    OneLine,
    OneLines,
    PartlyDeliveredError,
    SecretField,
    Sender,
)
from watchdogd.system.text import one_line, paragraphs
from watchdogd.system.times import Deadline

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Servers on this machine, to which a password may travel unencrypted."""

Refused = dict[str, tuple[int, bytes]]


class EmailChannel(Channel):
    """Keys of type email: one server, or several tried in order."""

    example: ClassVar[str] = """
[channels.mail]
type = "email"
smtp = "smtp://localhost:25"            # STARTTLS where offered; smtps:// for TLS; a list is tried in order
from = "watchdog@example.org"
to   = ["team@example.org"]
user = "watchdog"                       # where the server wants a login
password = "file:~/.smtp-password"
imap = "imaps://mail.example.org"       # where replies come: one acknowledges, "silence 2h" silences
imap_user = "watchdog"                  # left out, as the password: user and password above
imap_password = "file:~/.imap-password"
imap_folder = "INBOX"
answers_from = ["alice@example.org"]    # whose replies count, or "all"
"""

    smtp: OneLines
    sender: OneLine = Field(alias="from")
    to: OneLines
    user: str | None = None
    password: SecretField | None = None
    imap: OneLine | None = None
    imap_user: OneLine | None = None
    imap_password: SecretField | None = None
    imap_folder: Annotated[OneLine, Field(pattern=r'^[^"\\]+$')] = "INBOX"
    answers_from: AnswersFrom | None = None

    @model_validator(mode="after")
    def _servers(self) -> EmailChannel:
        for server in self.smtp:
            if "@" in server:
                raise ValueError(
                    f"smtp '{without_passwords(server)}' has a login in it: write user and password below it"
                )
            if not _is_mail_server(server):
                raise ValueError(
                    f"smtp '{without_passwords(server)}' is no server: write smtp://host:25 or smtps://host:465"
                )
        return self

    @model_validator(mode="after")
    def _replies(self) -> EmailChannel:
        if (self.imap is None) != (self.answers_from is None):
            raise ValueError(
                "imap and answers_from go together: where replies come, and whose count, such as "
                'answers_from = ["alice@example.org"], or "all"'
            )
        if self.imap is None:
            return self
        if not re.fullmatch(r"imaps?://[^/\s@]+/?", self.imap):
            raise ValueError(
                f"imap '{without_passwords(self.imap)}' is no mailbox: write imaps://host, and imap_user and "
                "imap_password below it"
            )
        if not (self.imap_user or self.user) or not (self.imap_password or self.password):
            raise ValueError("imap needs imap_user and imap_password, where user and password are no others")
        return self

    def make_answers(self, _home: Home) -> AnswerReader | None:
        """Return a reader of replies where a mailbox is configured."""
        secret = self.imap_password or self.password
        if self.imap is None or self.answers_from is None or secret is None:
            return None
        from watchdogd.notify.mail_replies import MailboxAccount, MailReplies

        account = MailboxAccount(
            self.imap, self.imap_user or self.user or "", secret.reveal(), self.imap_folder
        )
        if not (account.user + account.password).isascii():
            raise ConfigError("imap_user and imap_password: a mail server takes letters of ASCII alone")
        letters = Account(self.smtp, self.sender, self.to)
        return MailReplies(account, self.answers_from, lambda each: _id(each, letters))

    def make_sender(self, _home: Home) -> Sender:
        password = self.password.reveal() if self.password else ""
        return Mail(Account(self.smtp, self.sender, self.to, self.user or "", password))

    def try_connection(self, _home: Home) -> str:
        """Greet the servers in order; one answer is enough."""
        troubles = []
        for server in self.smtp:
            host = urlsplit(server).netloc
            if not (trouble := greet(server)):
                return f"{host} greets us"
            troubles.append(f"{host} {trouble}")
        raise DeliveryError("; ".join(troubles), fix="correct smtp")


def _is_mail_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            re.fullmatch(r"smtps?://[^/\s]+", url) is not None
            and parts.hostname is not None
            and parts.port != 0
        )
    except ValueError:  # a port that is none
        return False


def greet(server: str) -> str:
    """Connect, send EHLO, and disconnect. Return why it failed, or empty."""
    parts = urlsplit(server)
    secure = parts.scheme == "smtps"
    late = f"does not answer within {CONNECT_TIMEOUT:g} s"
    try:
        kind = smtplib.SMTP_SSL if secure else smtplib.SMTP
        with kind(
            parts.hostname or "", parts.port or (465 if secure else 25), timeout=CONNECT_TIMEOUT
        ) as smtp:
            code, said = smtp.ehlo()
        return "" if code == 250 else f"answered {code} {said.decode('utf-8', 'replace')[:80]}"
    except ssl.SSLError:
        return "has a certificate that is not trusted here, or speaks no TLS"
    except TimeoutError:
        return late
    except smtplib.SMTPServerDisconnected as error:  # also for a greeting that does not come
        return late if "timed out" in str(error) else "closed the connection"
    except OSError as error:  # includes smtplib's other errors
        return f"cannot be reached: {error.strerror or error}"


@dataclass(frozen=True, slots=True)
class Account:
    """Sender, recipients and servers (smtp:// with STARTTLS where offered, or smtps://), tried in order."""

    servers: tuple[str, ...]
    sender: str
    to: tuple[str, ...]
    user: str = ""
    password: str = ""


class Mail:
    """Sender by SMTP. The receipt lists the addresses that have it, separated by spaces."""

    def __init__(self, account: Account, timeout: float = TIMEOUT) -> None:
        for address in (account.sender, *account.to):
            bare = _address(address)
            if "@" not in bare or not bare.isascii() or not address.isprintable():
                raise ConfigError(f"'{one_line(address, 100)}' is no mail address: write it as name@host")
        if not (account.user + account.password).isascii():
            raise ConfigError("user and password: a mail server takes letters of ASCII alone")
        self._account = account
        self._timeout = timeout

    def send(self, notification: Notification, roots: Sequence[Notification], /) -> str:
        """Send to all recipients who do not have it yet, by the first server that accepts it."""
        have = notification.receipt.split()
        lack = [address for address in map(_address, self._account.to) if address not in have]
        letter = compose(notification, roots, self._account)
        refused = self._handed_over(letter, lack)
        have += [address for address in lack if address not in refused]
        if refused:
            raise _refusal(refused, have, self._account)
        return " ".join(have)

    def _handed_over(self, letter: EmailMessage, to: Sequence[str]) -> Refused:
        """Return the recipients that the first answering server refused. DeliveryError where none accepts."""
        if not to:
            return {}
        failures: list[DeliveryError] = []
        for server in self._account.servers:
            try:
                return self._at(server, letter, to)
            except DeliveryError as error:
                failures.append(error)
        raise DeliveryError(
            "; ".join(str(error) for error in failures), permanent=all(error.permanent for error in failures)
        )

    def _at(self, server: str, letter: EmailMessage, to: Sequence[str]) -> Refused:
        """Send by one server."""
        name = urlsplit(server).hostname or server
        try:
            with _connected(server, self._timeout) as smtp:
                self._login(smtp, server)
                return _transaction(smtp, letter, _address(self._account.sender), to)
        except smtplib.SMTPResponseException as error:
            permanent = 500 <= error.smtp_code < 600
            said = f"{error.smtp_code} {_said(error.smtp_error, self._account)}"
            raise DeliveryError(f"{name} refused: {said}", permanent=permanent) from None
        except ssl.SSLError:
            raise DeliveryError(f"{name}: its certificate is not trusted here, or it speaks no TLS") from None
        except smtplib.SMTPNotSupportedError as error:
            raise DeliveryError(f"{name}: {one_line(str(error), 200)}", permanent=True) from None
        except TimeoutError:
            raise DeliveryError(f"{name}: no answer within {self._timeout:g} s") from None
        except OSError as error:  # includes smtplib's own errors
            raise DeliveryError(f"{name}: {one_line(error.strerror or str(error), 200)}") from None

    def _login(self, smtp: smtplib.SMTP, server: str) -> None:
        """Start TLS where offered, then log in; a password never travels unencrypted over a network."""
        smtp.ehlo_or_helo_if_needed()
        near = urlsplit(server).hostname in LOOPBACK
        secure = isinstance(smtp, smtplib.SMTP_SSL)
        if not secure and smtp.has_extn("starttls"):
            context = ssl.create_default_context()
            if near or not self._account.user:
                # As mail servers do (RFC 7435): no worse than no TLS; many relays sign their own.
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            smtp.starttls(context=context)
            smtp.ehlo()
            secure = True
        if self._account.user:
            if not secure and not near:
                raise smtplib.SMTPNotSupportedError("offers no STARTTLS for the password: use smtps://")
            smtp.login(self._account.user, self._account.password)

    def close(self) -> None:
        """Do nothing: no connection is kept, since servers end idle sessions and mails are rare."""


@contextlib.contextmanager
def _connected(server: str, timeout: float) -> Iterator[smtplib.SMTP]:
    """Open a session with one server, shut down after `timeout` seconds even if bytes arrive now and then."""
    parts = urlsplit(server)
    smtp: smtplib.SMTP
    if parts.scheme == "smtps":
        context = ssl.create_default_context()
        smtp = smtplib.SMTP_SSL(local_hostname=_own_name(), timeout=timeout * 2 / 3, context=context)
    else:
        smtp = smtplib.SMTP(local_hostname=_own_name(), timeout=timeout * 2 / 3)
    ended = threading.Event()
    threading.Thread(target=_cut, args=(smtp, Deadline(timeout), ended), daemon=True).start()
    try:
        # smtplib takes a host only with the connection; starttls needs it for the certificate.
        smtp._host = parts.hostname  # type: ignore[attr-defined]  # has no public name
        code, said = smtp.connect(parts.hostname or "", parts.port or smtp.default_port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, said)
        yield smtp
    finally:
        ended.set()
        smtp.close()


@functools.cache
def _own_name() -> str:
    """Return this machine's name for EHLO; cached, since the lookup can take seconds."""
    return socket.getfqdn()


def _cut(smtp: smtplib.SMTP, deadline: Deadline, ended: threading.Event) -> None:
    """Shut a session down at its deadline, from another thread, unless it has ended."""
    while left := deadline.left():
        if ended.wait(left):
            return
    with contextlib.suppress(OSError):  # it is closed already
        if smtp.sock is not None:  # SSLSocket's own method is not thread-safe
            socket.socket.shutdown(smtp.sock, socket.SHUT_RDWR)


def _transaction(smtp: smtplib.SMTP, letter: EmailMessage, sender: str, to: Sequence[str]) -> Refused:
    """Send one letter; return the recipients that the server refused (RFC 5321, 3.3)."""
    try:
        refused = smtp.sendmail(sender, list(to), letter.as_bytes())
    except smtplib.SMTPRecipientsRefused as error:
        refused = error.recipients
    with contextlib.suppress(OSError, smtplib.SMTPException):  # the letter is accepted already
        smtp.quit()
    return refused


def _refusal(refused: Refused, have: Sequence[str], account: Account) -> DeliveryError:
    """Return the error for a letter that was refused for some recipients, or for all."""
    told = "; ".join(
        f"{address} refused: {code} {_said(text, account)}" for address, (code, text) in refused.items()
    )
    permanent = all(500 <= code < 600 for code, _ in refused.values())
    if have:
        return PartlyDeliveredError(told, receipt=" ".join(have), permanent=permanent)
    return DeliveryError(told, permanent=permanent)


def _said(answer: bytes | str, account: Account) -> str:
    """Return a server's reply in one line, with the password masked, alone or as in AUTH PLAIN."""
    text = answer if isinstance(answer, str) else answer.decode("utf-8", "replace")
    sent = f"\0{account.user}\0{account.password}" if account.password else ""
    return one_line(masked(text, (account.password, sent)), 200)


def compose(notification: Notification, roots: Sequence[Notification], account: Account) -> EmailMessage:
    """Return the letter: headers by RFC 5322, threaded to `roots`. No text can inject a header."""
    message = notification.message
    letter = EmailMessage(policy=SMTP.clone(max_line_length=78))
    letter["From"] = account.sender
    letter["To"] = ", ".join(account.to)
    # email decodes encoded-words (RFC 2047) in a text, with the line breaks and escapes in them
    letter["Subject"] = one_line(message.headline, 400).replace("=?", "= ?")
    letter["Date"] = email.utils.formatdate(message.at, localtime=True)
    letter["Message-ID"] = _id(notification, account)
    references = list(dict.fromkeys(_id(root, account) for root in roots if root.key != notification.key))
    if references:
        letter["In-Reply-To"] = references[0]
        letter["References"] = " ".join(references[:10])
    letter["Auto-Submitted"] = "auto-generated"  # RFC 3834: no absence notices
    letter.set_content(f"{message.headline}\n\n{message.body}\n", cte="quoted-printable")
    letter.add_alternative(_page(message), subtype="html", cte="quoted-printable")
    return letter


def _id(notification: Notification, account: Account) -> str:
    """Return a Message-ID that is the same for the same notification, so that a mail server can see a repeat.

    64 characters at most: Python's email package mangles In-Reply-To where it does not fit in a line.
    """
    domain = _address(account.sender).rpartition("@")[2]
    while len(domain) > 36 and "." in domain:
        domain = domain.partition(".")[2]
    return f"<{hashlib.sha256(notification.key.encode()).hexdigest()[:24]}@{domain[:36]}>"


def _address(text: str) -> str:
    """Return the bare address of `Name <name@host>`."""
    return email.utils.parseaddr(text)[1]


_COLOURS = {
    "CRITICAL": "#c62828", "WARNING": "#f9a825", "UNKNOWN": "#757575", "REMINDER": "#ef6c00",
    "ACTION": "#6a1b9a", "INFO": "#1565c0",
}  # fmt: skip


def _page(message: Message) -> str:
    """Return the message as simple HTML for all mail programs."""
    colour = _COLOURS.get(message.colour, "#2e7d32")
    parts = [
        f'<h3 style="border-left:6px solid {colour};padding-left:8px">{html.escape(message.headline)}</h3>'
    ]
    for verbatim, text in paragraphs(message.body):
        if verbatim:
            parts.append(
                f'<pre style="background:#f5f5f5;padding:8px;overflow-x:auto">{html.escape(text)}</pre>'
            )
        else:
            parts.append(f"<p>{html.escape(text).replace(chr(10), '<br>')}</p>")
    return '<html><body style="font-family:sans-serif">' + "\n".join(parts) + "</body></html>\n"
