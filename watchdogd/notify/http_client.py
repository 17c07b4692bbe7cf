"""HTTP client of channels: a kept connection, a hard deadline, and errors without secrets."""

from __future__ import annotations

import _thread
import contextlib
import email.utils
import json
import logging
import socket
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from watchdogd.config.secret import masked, secret_parts
from watchdogd.errors import ConfigError, DeliveryError
from watchdogd.notify.channel import CONNECT_TIMEOUT, TIMEOUT
from watchdogd.system.number import count
from watchdogd.system.smallfile import parse_json
from watchdogd.system.text import one_line, web_host
from watchdogd.system.times import Deadline

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from urllib3.connectionpool import ConnectionPool

ANSWER_LIMIT = 65_536
"""Maximum bytes of an answer that are read."""

# urllib3 warns of answers with strange headers, and names the whole URL, which may be a secret.
logging.getLogger("urllib3").setLevel(logging.ERROR)

_PASSING = frozenset({408, 425, 429})
"""Statuses below 500 after which another try is useful (RFC 9110, RFC 8470, RFC 6585)."""


class WebReply:
    """Answer of a server: status, beginning of its text, and headers by lower-case names."""

    def __init__(
        self, status: int, text: str, retry_after: float | None, headers: Mapping[str, str] | None = None
    ) -> None:
        self.headers = headers or {}
        self.status = status
        self.text = text
        self.retry_after = retry_after

    def json(self) -> Mapping[str, Any]:
        """Return the text as a JSON object; an empty one where it is none."""
        try:
            found = parse_json(self.text)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def error(self, host: str) -> DeliveryError:
        """Return the answer as an error in one line."""
        said = one_line(self.text, 200)
        return DeliveryError(
            f"{host} answered {self.status}{': ' if said else ''}{said}",
            permanent=300 <= self.status < 500 and self.status not in _PASSING,
            retry_after=self.retry_after,
        )


class Web:
    """Client that posts to one URL's server, with the proxies and certificates of the environment.

    Secret parts of the URL, `token` and `withheld` words are masked in answers. ConfigError, which names only
    `what`, where the URL is invalid.
    """

    def __init__(
        self,
        url: str,
        what: str,
        timeout: float = TIMEOUT,
        *,
        token: str = "",
        withheld: Iterable[str] = (),
    ) -> None:
        self.host = web_host(url)
        if not self.host:
            raise ConfigError(f"{what} is no address: write it as https://host/path")
        login = unquote(urlsplit(url).netloc.rpartition("@")[0]) + token
        if not all(ord(character) < 256 for character in login):  # requests encodes it in Latin-1
            raise ConfigError(f"{what}: its login has characters that HTTP cannot send")
        self._timeout = timeout
        self._secrets = (*secret_parts(url), token, *withheld)
        self._session = requests.Session()
        self._requests: dict[str, requests.PreparedRequest] = {}
        # Read once: requests would read netrc files and the environment for each message.
        settings = self._session.merge_environment_settings(url, {}, None, None, None)
        self._proxies, self._verify = settings["proxies"], settings["verify"] or True
        self._deadline = _Deadline()
        adapter = _Adapter()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, adapter)
        try:
            request = self._prepared(url)
        except requests.RequestException:  # its text has the whole URL, which may be a secret
            raise ConfigError(f"{what} is no address: write it as https://host/path") from None
        # The connection pool is made now, so that the first message is not delayed; errors come up there.
        with contextlib.suppress(requests.RequestException, HTTPError, ValueError, OSError):
            adapter.get_connection_with_tls_context(request, self._verify, proxies=self._proxies)

    def post(self, url: str, body: str | object, headers: Mapping[str, str] | None = None) -> WebReply:
        """POST a text, or other values as JSON; DeliveryError where no complete answer came in time."""
        kind = "text/plain" if isinstance(body, str) else "application/json"
        data = body if isinstance(body, str) else json.dumps(body)
        sent = {"Content-Type": f"{kind}; charset=utf-8", "User-Agent": "watchdogd", **(headers or {})}
        self._deadline.start(self._timeout)
        try:
            answer = self._exchange(url, data.encode(), sent)
        except (requests.RequestException, HTTPError, OSError) as error:
            raise DeliveryError(f"{self.host}: {self._reason(error)}") from None
        finally:
            self._deadline.end()
        if self._deadline.passed:  # a truncated answer may look complete
            raise DeliveryError(f"{self.host}: {self._reason(TimeoutError())}")
        return answer

    def _exchange(self, url: str, data: bytes, headers: Mapping[str, str]) -> WebReply:
        # By the adapter: cookies and redirects, which are not needed, cost half of requests' time.
        request = self._prepared(url).copy()
        request.headers.update({**headers, "Content-Length": str(len(data))})
        request.body = data
        with self._session.get_adapter(url).send(
            request,
            stream=True,
            timeout=self._timeout * 2 / 3,  # for one read; the deadline is for all
            verify=self._verify,
            proxies=self._proxies,
        ) as response:
            read = response.raw.read(ANSWER_LIMIT, decode_content=True)
            text = masked(read.decode("utf-8", "replace"), self._secrets)
            after = _retry_after(response.headers.get("Retry-After"), time.time())
            said = {name.lower(): value for name, value in response.headers.items()}
            return WebReply(response.status_code, text, after, said)

    def _prepared(self, url: str) -> requests.PreparedRequest:
        if url not in self._requests:
            self._requests[url] = requests.Request("POST", url).prepare()
        return self._requests[url]

    def _reason(self, error: Exception) -> str:
        """Return the reason without the URL, which requests' texts have and which may be a secret."""
        if self._deadline.passed or isinstance(error, requests.Timeout):
            return f"no whole answer within {self._timeout:g} s"
        if isinstance(error, requests.exceptions.ProxyError):
            return "the proxy of the environment does not connect"
        if isinstance(error, requests.exceptions.SSLError):
            return "its certificate is not trusted here, or it speaks no TLS"
        if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.InvalidSchema):
            return "the address cannot be used"
        return _root(error)

    def close(self) -> None:
        """Close the connection."""
        self._session.close()
        self._deadline.close()


def greet(url: str) -> str:
    """Send HEAD to the server's root, by the environment's proxy; return `HOST answers` for any answer.

    The path is left out: it may be a secret, and may trigger something. DeliveryError where there is no
    answer; ConfigError where the URL is invalid.
    """
    host = web_host(url)
    if not host:
        raise ConfigError("its URL is no address", fix="write it as https://host/path")
    parts = urlsplit(url)
    root = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/"
    try:
        requests.head(root, timeout=CONNECT_TIMEOUT, allow_redirects=False).close()
    except requests.exceptions.ProxyError:
        why = "cannot be reached: the proxy of the environment does not connect"
    except requests.exceptions.SSLError:
        why = "has a certificate that is not trusted here, or speaks no TLS"
    except requests.Timeout:
        why = f"does not answer within {CONNECT_TIMEOUT:g} s"
    except requests.RequestException:
        why = f"cannot be reached{_why(host, parts.port or (443 if parts.scheme == 'https' else 80))}"
    else:
        return f"{host} answers"
    raise DeliveryError(f"{host} {why}", fix="set https_proxy, where there is a proxy")


def _why(host: str, port: int) -> str:
    """Return the system's error: requests' texts have the whole URL."""
    try:
        socket.create_connection((host, port), timeout=CONNECT_TIMEOUT).close()
    except OSError as error:
        return f": {error.strerror or 'no answer'}"
    return ": it closed the connection"


def _root(error: BaseException) -> str:
    """Return the operating system's error behind an exception, if there is one."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.strerror and not isinstance(seen, requests.RequestException):
            return f"cannot be reached: {seen.strerror}"
        inner = [cause for cause in seen.args if isinstance(cause, BaseException)]
        seen = seen.__cause__ or seen.__context__ or (inner[0] if inner else None)
    return "closed the connection before it had answered"


def _retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds of a Retry-After header: a number, or a date (RFC 9110, 10.2.3)."""
    if value is None:
        return None
    if (seconds := count(value)) is not None:
        return float(seconds)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None


class _Deadline:
    """Deadline of an exchange, also with a server that sends a byte now and then.

    A socket's timeout is for one read; so the connection is shut down from another thread, by a duplicate of
    its socket, since TLS detaches the socket itself. One thread watches all exchanges of a channel: a thread
    for each would cost a third of the time of a quick one.
    """

    def __init__(self) -> None:
        self.passed = False
        self._until: Deadline | None = None
        self._idle = False
        self._changed = threading.Condition()
        self._watched = self._closed = False
        self._connection: HTTPConnection | None = None
        self._twin: socket.socket | None = None

    def start(self, seconds: float) -> None:
        """Start the deadline; it applies to connections that this thread opens from now on."""
        _here.deadline = self
        self.passed = False
        with self._changed:
            self._until, self._closed = Deadline(seconds), False
            if not self._watched:
                # Thread.start would wait until it runs: on a busy machine longer than a message takes.
                with contextlib.suppress(RuntimeError):  # no thread: socket timeouts must do
                    _thread.start_new_thread(self._watch, ())
                    self._watched = True
            elif self._idle:
                self._changed.notify_all()

    def watch(self, connection: HTTPConnection, opened: socket.socket) -> socket.socket:
        """Register a connection."""
        with self._changed:
            self._forget()
            self._connection, self._twin = connection, opened.dup()
        return opened

    def end(self) -> None:
        """Stop the deadline; a kept connection stays registered."""
        with self._changed:
            self._until = None
            if self._connection and self._connection.sock is None:
                self._forget()

    def close(self) -> None:
        """End the thread and forget the connection."""
        with self._changed:
            self._until, self._closed = None, True
            self._forget()
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._watched, 1.0)

    def _forget(self) -> None:
        if self._twin:
            self._twin.close()
        self._connection = self._twin = None

    def _watch(self) -> None:
        """Shut the connection down at the deadline; sleeps through quick exchanges."""
        with self._changed:
            while not self._closed:
                left = None if self._until is None else self._until.left()
                if left is None or left > 0:
                    self._idle = left is None
                    self._changed.wait(left)
                    continue
                self.passed, self._until = True, None
                if self._twin:
                    with contextlib.suppress(OSError):  # it is closed already
                        self._twin.shutdown(socket.SHUT_RDWR)
            self._watched = False
            self._changed.notify_all()


class _Here(threading.local):
    """Deadline of this thread's exchange."""

    deadline: _Deadline


_here = _Here()


class _Http(HTTPConnection):
    """Connection registered with this thread's deadline."""

    def _new_conn(self) -> socket.socket:
        return _here.deadline.watch(self, super()._new_conn())

    def request(self, *args: Any, **options: Any) -> None:
        super().request(*args, **options)
        _acknowledge_at_once(self.sock)


class _Https(_Http, HTTPSConnection):
    """The same over TLS."""


def _acknowledge_at_once(opened: socket.socket | None) -> None:
    """Acknowledge at once: a server that sends head and body apart waits 40 ms for it between them."""
    if opened is not None:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


class _Adapter(HTTPAdapter):
    """Adapter of requests whose connections a deadline can end, also by a proxy."""

    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> ConnectionPool:
        """Return the pool that requests would use, with such connections."""
        pool = super().get_connection_with_tls_context(*args, **options)
        if isinstance(pool, HTTPConnectionPool):
            pool.ConnectionCls = _Https if pool.scheme == "https" else _Http
        return pool
