"""HTTP for channels: one session that keeps its connection, a deadline that holds, errors without secrets."""

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

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from urllib3.connectionpool import ConnectionPool

ANSWER_LIMIT = 65_536
"""Bytes of an answer that are read; no service of ours says more."""

# It warns of answers with strange headers, and names the whole address, which may be a secret.
logging.getLogger("urllib3").setLevel(logging.ERROR)

_PASSING = frozenset({408, 425, 429})
"""Statuses below 500 after which another try is of use (RFC 9110, RFC 8470, RFC 6585)."""


class WebReply:
    """Answer of a server: its status, the beginning of its text, its headers by names in small letters."""

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
        """Return the failure in one line, with what follows from it."""
        said = one_line(self.text, 200)
        return DeliveryError(
            f"{host} answered {self.status}{': ' if said else ''}{said}",
            permanent=300 <= self.status < 500 and self.status not in _PASSING,
            retry_after=self.retry_after,
        )


class Web:
    """Posts to one URL's server. Proxies and certificates are those of the environment.

    What of the URL may be a secret, the `token` that is sent and what else is `withheld` are masked in what
    the server says. ConfigError, naming no more than `what`, where the URL is none.
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
        if not all(ord(character) < 256 for character in login):  # requests has them in Latin-1
            raise ConfigError(f"{what}: its login has characters that HTTP cannot send")
        self._timeout = timeout
        self._secrets = (*secret_parts(url), token, *withheld)
        self._session = requests.Session()
        self._requests: dict[str, requests.PreparedRequest] = {}
        # Asked for once: requests would read netrc files and the environment anew for each message.
        settings = self._session.merge_environment_settings(url, {}, None, None, None)
        self._proxies, self._verify = settings["proxies"], settings["verify"] or True
        self._deadline = _Deadline()
        adapter = _Adapter()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, adapter)
        try:
            request = self._prepared(url)
        except requests.RequestException:  # its text has the whole address, which may be a secret
            raise ConfigError(f"{what} is no address: write it as https://host/path") from None
        # Made before the first message, which would wait for it; where it cannot be, that is its failure.
        with contextlib.suppress(requests.RequestException, HTTPError, ValueError, OSError):
            adapter.get_connection_with_tls_context(request, self._verify, proxies=self._proxies)

    def post(self, url: str, body: str | object, headers: Mapping[str, str] | None = None) -> WebReply:
        """POST a text, or anything else as JSON; DeliveryError where no whole answer came in time."""
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
        if self._deadline.passed:  # what was cut off may look like an answer that ended
            raise DeliveryError(f"{self.host}: {self._reason(TimeoutError())}")
        return answer

    def _exchange(self, url: str, data: bytes, headers: Mapping[str, str]) -> WebReply:
        # Straight to the adapter: we want neither cookies nor redirects, which cost requests half its time.
        request = self._prepared(url).copy()
        request.headers.update({**headers, "Content-Length": str(len(data))})
        request.body = data
        with self._session.get_adapter(url).send(
            request,
            stream=True,
            timeout=self._timeout * 2 / 3,  # of one read; the deadline is for all of them
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
        """Return why, without the URL, which requests' own texts carry and which may be a secret."""
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
    """Ask for the head of the server's root, by the environment's proxy; any answer will do: `HOST answers`.

    The path is left out: with some services it is the secret, and asking for it might send something.
    DeliveryError where there is no answer; ConfigError where the URL is none.
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
    """Return the system's own words: requests' carry the whole URL."""
    try:
        socket.create_connection((host, port), timeout=CONNECT_TIMEOUT).close()
    except OSError as error:
        return f": {error.strerror or 'no answer'}"
    return ": it closed the connection"


def _root(error: BaseException) -> str:
    """Return the operating system's word for it, where there is one."""
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
    """Ends a conversation at a time, also with a server that says one byte now and then.

    Timeouts of sockets are for one read each; so the connection itself is shut down from outside, by a
    duplicate of its socket, since TLS takes the socket itself away. One thread watches over all
    conversations of a channel: a thread for each would cost a third of the time of a quick one.
    """

    def __init__(self) -> None:
        self.passed = False
        self._until: float | None = None
        self._idle = False
        self._changed = threading.Condition()
        self._watched = self._closed = False
        self._connection: HTTPConnection | None = None
        self._twin: socket.socket | None = None

    def start(self, seconds: float) -> None:
        """Begin to count; what this thread connects to from now on is ours."""
        _here.deadline = self
        self.passed = False
        with self._changed:
            self._until, self._closed = time.monotonic() + seconds, False
            if not self._watched:
                # Thread.start would wait until it runs: on a busy machine for longer than a message takes.
                with contextlib.suppress(RuntimeError):  # no thread: the timeouts of sockets have to do
                    _thread.start_new_thread(self._watch, ())
                    self._watched = True
            elif self._idle:
                self._changed.notify_all()

    def watch(self, connection: HTTPConnection, opened: socket.socket) -> socket.socket:
        """Take in the connection that is to be ended."""
        with self._changed:
            self._forget()
            self._connection, self._twin = connection, opened.dup()
        return opened

    def end(self) -> None:
        """Note that it came to its own end; a connection that is kept is still known."""
        with self._changed:
            self._until = None
            if self._connection and self._connection.sock is None:
                self._forget()

    def close(self) -> None:
        """Let go of everything."""
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
        """Sleep through quick conversations: look again when the first that was seen would be over."""
        with self._changed:
            while not self._closed:
                left = None if self._until is None else self._until - time.monotonic()
                if left is None or left > 0:
                    self._idle = left is None
                    self._changed.wait(left)
                    continue
                self.passed, self._until = True, None
                if self._twin:
                    with contextlib.suppress(OSError):  # it was closed already
                        self._twin.shutdown(socket.SHUT_RDWR)
            self._watched = False
            self._changed.notify_all()


class _Here(threading.local):
    """The deadline under which this thread speaks."""

    deadline: _Deadline


_here = _Here()


class _Http(HTTPConnection):
    """A connection that this thread's deadline can end."""

    def _new_conn(self) -> socket.socket:
        return _here.deadline.watch(self, super()._new_conn())

    def request(self, *args: Any, **options: Any) -> None:
        super().request(*args, **options)
        _acknowledge_at_once(self.sock)


class _Https(_Http, HTTPSConnection):
    """The same over TLS."""


def _acknowledge_at_once(opened: socket.socket | None) -> None:
    """Acknowledge at once: a server that writes head and body apart waits 40 ms for that between them."""
    if opened is not None:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


class _Adapter(HTTPAdapter):
    """The way of requests, over connections that a deadline can end; by a proxy too."""

    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> ConnectionPool:
        """Return the pool that requests would use."""
        pool = super().get_connection_with_tls_context(*args, **options)
        if isinstance(pool, HTTPConnectionPool):
            pool.ConnectionCls = _Https if pool.scheme == "https" else _Http
        return pool
