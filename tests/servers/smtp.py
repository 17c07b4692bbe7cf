"""A real SMTP server on loopback (aiosmtpd) that misbehaves on demand."""

import asyncio
import base64
import ssl
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.ports import port_of, reserve_port
from tests.servers.behaviours import Behaviours

Stage = Literal["MAIL", "RCPT", "DATA"]


@dataclass(frozen=True, slots=True)
class Mail:
    """One message that the server took; `arrived` in seconds since the epoch."""

    message: EmailMessage
    sender: str
    recipients: tuple[str, ...]
    arrived: float
    encrypted: bool
    user: str | None


@dataclass(frozen=True, slots=True)
class Refuse:
    """An answer of 4xx or 5xx at one stage; at RCPT for one recipient alone, where one is named."""

    code: int = 451
    at: Stage = "DATA"
    recipient: str | None = None

    @property
    def line(self) -> str:
        """The reply, with the enhanced status code of its class (RFC 3463)."""
        return f"{self.code} {self.code // 100}.3.0 refused at {self.at}"


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer at one stage, until released; at DATA that is after the whole message was sent."""

    at: Stage = "DATA"


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection breaks at one stage, without an answer."""

    at: Stage = "DATA"


class Normal(Enum):
    """Takes every message."""

    ACCEPT = "accept"


ACCEPT = Normal.ACCEPT
Behaviour = Refuse | Hang | Drop | Normal


def refuse_recipient(address: str, code: int = 550) -> Refuse:
    """The other recipients of the message are taken."""
    return Refuse(code, "RCPT", address)


@dataclass(frozen=True, slots=True)
class Security:
    """What the server asks of its clients; `implicit`: TLS from the first byte (smtps). `repeats`: a login
    that is refused is repeated in the refusal, in words and in base64."""

    starttls: Literal["none", "offered", "required"] = "none"
    login: tuple[str, str] | None = None
    implicit: bool = False
    repeats: bool = False


class Mailbox:
    """An SMTP server on a port of its own, and what came in; `folder` takes its certificate."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._holder = reserve_port()
        self._security = Security()
        self._behaviours: Behaviours[Behaviour] = Behaviours(ACCEPT)
        self._mails: list[Mail] = []
        self._attempts: list[float] = []
        self._service: _Service | None = None

    @property
    def port(self) -> int:
        """Stays the same however often the server goes down."""
        return port_of(self._holder)

    @property
    def url(self) -> str:
        """smtp://127.0.0.1:PORT, or smtps:// where TLS is implicit."""
        return f"{'smtps' if self._security.implicit else 'smtp'}://127.0.0.1:{self.port}"

    @property
    def messages(self) -> list[Mail]:
        """The messages that were taken so far."""
        return list(self._mails)

    @property
    def attempts(self) -> list[float]:
        """When each MAIL command came, in seconds since the epoch; refused ones count."""
        return list(self._attempts)

    @property
    def certificate(self) -> Path:
        """The self-signed certificate for localhost and 127.0.0.1, to be trusted by clients that shall."""
        certificate = self._folder / "certificate.pem"
        if not certificate.exists():
            _sign(certificate, self._folder / "key.pem")
        return certificate

    def behave(self, wish: Behaviour | Sequence[Behaviour]) -> None:
        """One behaviour stands until the next call; a list is for the next messages, then all is taken."""
        self._behaviours.set(wish)

    def require(self, security: Security) -> None:
        """Asks this of clients from now on; open connections end."""
        self.down()
        self._security = security
        self.up()

    def release(self) -> None:
        """Ends the hanging of those who hang now, with 451."""
        if self._service:
            self._service.release()

    def up(self) -> None:
        """Listens, always on the same port."""
        self._service = _Service(self, self._security, self._context())
        self._service.start()

    def down(self) -> None:
        """Ends all connections; from now on they are refused, until `up`."""
        if self._service:
            self._service.stop()
        self._service = None

    def begin(self) -> Behaviour:
        """The behaviour for the message that is just announced."""
        self._attempts.append(time.time())
        return self._behaviours.next()

    def take(self, mail: Mail) -> None:
        """Keeps a message."""
        self._mails.append(mail)

    def _context(self) -> ssl.SSLContext | None:
        if self._security.starttls == "none" and not self._security.implicit:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self._folder / "key.pem")
        return context

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()
        self._holder.close()


class _Service:
    """The listening half of a mailbox: an event loop in a thread of its own."""

    def __init__(self, mailbox: Mailbox, security: Security, context: ssl.SSLContext | None) -> None:
        self.mailbox = mailbox
        self.security = security
        self._context = context
        self._connections: list[SMTP] = []
        self.released: asyncio.Event
        self._ending: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name=mailbox.url)

    def start(self) -> None:
        self._thread.start()
        if not self._ready.wait(240):
            raise AssertionError(f"the SMTP server did not listen on {self.mailbox.url} within 10 s")

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(240)

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self._let_go)

    def _let_go(self) -> None:
        self.released.set()
        self.released = asyncio.Event()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ending, self.released = asyncio.Event(), asyncio.Event()
        implicit = self._context if self.security.implicit else None
        server = await self._loop.create_server(
            self._connect, "127.0.0.1", self.mailbox.port, ssl=implicit, reuse_address=True
        )
        self._ready.set()
        await self._ending.wait()
        server.close()
        for connection in self._connections:
            if isinstance(connection.transport, asyncio.Transport):
                with suppress(AttributeError):  # of TLS and closed already, in Python 3.11.2
                    connection.transport.abort()
        await server.wait_closed()

    def _connect(self) -> SMTP:
        plain = self.security.starttls == "none"
        connection = SMTP(
            _Handler(self),
            hostname="localhost",  # else looked up by name, which can take seconds
            enable_SMTPUTF8=True,
            tls_context=None if plain else self._context,
            require_starttls=self.security.starttls == "required",
            auth_require_tls=False,  # the handler asks for a login, over TLS or not, as configured
            authenticator=self._authenticate,
            loop=self._loop,
        )
        self._connections.append(connection)
        return connection

    def _authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object
    ) -> AuthResult:
        known = self.security.login
        right = isinstance(data, LoginPassword) and (data.login.decode(), data.password.decode()) == known
        said = _repeated(data) if self.security.repeats and isinstance(data, LoginPassword) else None
        return AuthResult(success=right, handled=False, message=None if right else said, auth_data=data)


def _repeated(data: LoginPassword) -> str:
    coded = [base64.b64encode(each).decode() for each in (data.password, b"\0".join((b"", *data)))]
    return f"535 5.7.8 {data.login.decode()}: not {data.password.decode()}, {', '.join(coded)}"


class _Handler:
    """One connection's conversation; aiosmtpd finds its methods by their names."""

    def __init__(self, service: _Service) -> None:
        self._service = service
        self._behaviour: Behaviour = ACCEPT

    async def handle_EHLO(  # noqa: N802  # aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, hostname: str, lines: list[str]
    ) -> list[str]:
        """Offers AUTH where there is a login only."""
        session.host_name = hostname
        return [line for line in lines if self._service.security.login or "AUTH" not in line]

    async def handle_MAIL(  # noqa: N802  # aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self._service.security.login and not session.authenticated:
            return "530 5.7.0 Authentication required"
        self._behaviour = self._service.mailbox.begin()
        refusal = await self._misbehave(server, "MAIL")
        if refusal:
            return refusal
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 2.1.0 OK"

    async def handle_RCPT(  # noqa: N802  # aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        refusal = await self._misbehave(server, "RCPT", address)
        if refusal:
            return refusal
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def handle_DATA(  # noqa: N802  # aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        refusal = await self._misbehave(server, "DATA")
        if refusal:
            return refusal
        self._service.mailbox.take(_mail(server, session, envelope))
        return "250 2.0.0 OK"

    async def _misbehave(self, server: SMTP, stage: Stage, recipient: str | None = None) -> str | None:
        """What is answered instead of 250; None where nothing is wrong at this stage."""
        wish = self._behaviour
        if isinstance(wish, Normal) or wish.at != stage:
            return None
        if isinstance(wish, Refuse):
            return wish.line if wish.recipient in {None, recipient} else None
        if isinstance(wish, Drop) and isinstance(server.transport, asyncio.Transport):
            server.transport.abort()
        await self._service.released.wait()
        return "451 4.3.0 hung, and was released"


def _mail(server: SMTP, session: Session, envelope: Envelope) -> Mail:
    content = envelope.original_content or b""
    transport = server.transport
    login = session.auth_data if session.authenticated else None
    return Mail(
        message=message_from_bytes(content, _class=EmailMessage, policy=policy.default),
        sender=envelope.mail_from or "",
        recipients=tuple(envelope.rcpt_tos),
        arrived=time.time(),
        encrypted=bool(transport and transport.get_extra_info("sslcontext")),
        user=login.login.decode() if isinstance(login, LoginPassword) else None,
    )


def _sign(certificate: Path, key: Path) -> None:
    """A self-signed certificate, made by openssl."""
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    argv = ["openssl", "req", *kind, *names, *files]
    subprocess.run(argv, check=True, capture_output=True, timeout=300)
