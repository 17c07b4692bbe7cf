"""Dead man's switch: a ping after each round, by which a service (healthchecks.io) watches the watchdog.

A POST to URL reports a good round, one to URL/fail a bad one, with the reason as body
(https://healthchecks.io/docs/http_api/). A daemon that hands over to the next link sends no farewell: its
successor pings on, and only a dead chain is silent.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from watchdogd.config.models import Config
from watchdogd.errors import ConfigError, DeliveryError
from watchdogd.system import startup
from watchdogd.system.text import plain, shortened

if TYPE_CHECKING:
    from watchdogd.notify.http_client import Web

log = logging.getLogger(__name__)

BODY_LIMIT = 10_000
"""Bytes of a ping's body that healthchecks.io keeps at least."""


class Heartbeat:
    """Sender of pings, on a thread of its own so that no round waits. Without a URL it does nothing.

    `every`: seconds between equal pings; a change is sent at once. `trouble`: why the last ping failed, or
    empty. ConfigError where the URL is invalid.
    """

    def __init__(self, url: str, every: float, timeout: float | None = None) -> None:
        self.trouble = ""
        self._url = url
        self._every = every
        self._web = _web(url, timeout) if url else None
        self._changed = threading.Condition()
        self._next: str | None = None
        self._said: tuple[bool, float] | None = None
        self._sending = False
        self._ended = False
        self._thread: threading.Thread | None = None

    def good(self) -> None:
        """Report a good round."""
        self._round("")

    def bad(self, reason: str) -> None:
        """Report a bad round, with the reason."""
        self._round(reason or "the round did not go well")

    def stop(self, timeout: float) -> None:
        """Wait for a ping in progress, `timeout` seconds at most, and stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._next is None and not self._sending, timeout)
            self._ended = True
            self._changed.notify_all()
        if self._thread:
            self._thread.join(1.0)

    def _round(self, reason: str) -> None:
        now = time.monotonic()
        with self._changed:
            if self._web is None or self._ended or not self._due(not reason, now):
                return
            self._said = (not reason, now)
            self._next = reason  # replaces one that has not been sent
            if self._thread is None or not self._thread.is_alive():
                self._begin(self._web)
            self._changed.notify_all()

    def _begin(self, web: Web) -> None:
        thread = threading.Thread(target=self._run, args=(web,), name="heartbeat", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the next round tries again
            self.trouble, self._said = f"heartbeat: {startup.NO_THREAD}", None
        else:
            self._thread = thread

    def _due(self, good: bool, now: float) -> bool:
        """Return whether a ping is due; 10 % early counts, so that a round's jitter skips none."""
        return self._said is None or self._said[0] is not good or now - self._said[1] >= self._every * 0.9

    def _run(self, web: Web) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._next is not None or self._ended)
                if self._next is None:
                    web.close()
                    return
                reason, self._next, self._sending = self._next, None, True
            self._ping(web, reason)
            with self._changed:
                self._sending = False
                self._changed.notify_all()

    def _ping(self, web: Web, reason: str) -> None:
        try:
            body = shortened(plain(reason), BODY_LIMIT // 4)  # a character has four bytes at most
            answer = web.post(_failing(self._url) if reason else self._url, body)
            if not 200 <= answer.status < 300:
                raise answer.error(web.host)
            self.trouble = ""
        except DeliveryError as error:
            with self._changed:
                self._said = None  # the next round tries again, whatever `every` says
            self.trouble = f"heartbeat: {error}"
            log.warning("%s", self.trouble)


def heartbeat_of(config: Config, *, go_on: bool = False) -> Heartbeat:
    """Return the configured heartbeat, or one that does nothing.

    ConfigError where the secret is missing, unless `go_on` without a heartbeat.
    """
    if config.heartbeat is None:
        return Heartbeat("", 0.0)
    try:
        return Heartbeat(config.heartbeat.url.reveal(), config.heartbeat.every)
    except ConfigError as error:
        if go_on:
            return Heartbeat("", 0.0)
        raise ConfigError(f"heartbeat.url: {error}") from None


def _web(url: str, timeout: float | None) -> Web:
    """Return the HTTP client; imported late, since requests is slow to import on a network file system."""
    from watchdogd.notify.channel import TIMEOUT
    from watchdogd.notify.http_client import Web

    return Web(url, "url of the heartbeat", TIMEOUT if timeout is None else timeout)


def _failing(url: str) -> str:
    """Return URL/fail; a query stays at the end."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/fail"))
