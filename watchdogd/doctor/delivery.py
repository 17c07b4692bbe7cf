"""Channels and the heartbeat can be reached from here (nothing is sent), and their secrets are kept."""

from __future__ import annotations

import smtplib
import socket
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from watchdogd.config.channels import (
    AlertmanagerChannel,
    AppriseChannel,
    EmailChannel,
    SlackChannel,
    WebhookChannel,
)
from watchdogd.config.secret import exposed
from watchdogd.doctor.diagnosis import Diagnosis, broken, fine, warning
from watchdogd.errors import ConfigError, WatchdogError
from watchdogd.notify import channels
from watchdogd.system.text import web_host

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from watchdogd.config.channels import Channel
    from watchdogd.config.secret import Secret
    from watchdogd.doctor.diagnosis import Installation


TIMEOUT = 6.0
"""Seconds for one server."""
_LATE = f"does not answer within {TIMEOUT:g} s"
_PROXY = "set https_proxy, where there is a proxy"
_RELAY = "deliver from a machine that has a way out: watchdogd relay"


def look(scene: Installation) -> Iterator[Diagnosis]:
    """Each channel, then the heartbeat; a secret that is not set is told by another piece."""
    for name, channel in scene.config.channels.items():
        yield from _channel(scene, name, channel)
    heartbeat = scene.config.heartbeat
    if heartbeat is None:
        text = "none: nobody is told when the watchdog itself dies"
        yield warning("heartbeat", text, "add [heartbeat] with a URL of healthchecks.io's kind")
        return
    try:
        url = heartbeat.url.reveal()
    except ConfigError:
        return
    yield _greeted("heartbeat", "its server", url, "name a server that is reached from here")


def _channel(scene: Installation, name: str, channel: Channel) -> Iterator[Diagnosis]:
    topic = "channels"
    try:
        if isinstance(channel, EmailChannel):
            yield _mail(name, channel)
        elif isinstance(channel, SlackChannel):
            url = channel.webhook_url.reveal() if channel.webhook_url else channel.api
            yield _greeted(topic, name, url, _RELAY)
        elif isinstance(channel, WebhookChannel | AlertmanagerChannel):
            yield _greeted(topic, name, channel.url.reveal(), _RELAY)
        elif isinstance(channel, AppriseChannel):
            yield _understood(scene, name)
        else:
            yield fine(topic, f"{name}: {channel.type}, on this machine")
    except ConfigError:
        return


def _mail(name: str, channel: EmailChannel) -> Diagnosis:
    """One server that greets us is enough: they are tried in order."""
    troubles = []
    for server in channel.smtp:
        trouble = greet_smtp(server)
        if not trouble:
            host = _server(server)
            return fine("channels", f"{name}: {host} greets us (notify --test {name} sends one)")
        troubles.append(f"{_server(server)} {trouble}")
    return broken(
        "channels", f"{name}: {'; '.join(troubles)}", f"correct smtp under [channels.{name}], or {_RELAY}"
    )


def _server(url: str) -> str:
    """Its host and port, without a password that somebody wrote before them."""
    return urlsplit(url).netloc.rpartition("@")[2]


def greet_smtp(server: str) -> str:
    """Connect, EHLO, and leave. Returns why it failed, or empty."""
    parts = urlsplit(server)
    secure = parts.scheme == "smtps"
    try:
        kind = smtplib.SMTP_SSL if secure else smtplib.SMTP
        with kind(parts.hostname or "", parts.port or (465 if secure else 25), timeout=TIMEOUT) as smtp:
            code, said = smtp.ehlo()
        return "" if code == 250 else f"answered {code} {said.decode('utf-8', 'replace')[:80]}"
    except ssl.SSLError:
        return "has a certificate that is not trusted here, or speaks no TLS"
    except TimeoutError:
        return _LATE
    except smtplib.SMTPServerDisconnected as error:  # so smtplib calls a greeting that does not come, too
        return _LATE if "timed out" in str(error) else "closed the connection"
    except OSError as error:  # smtplib's other errors are too
        return f"cannot be reached: {error.strerror or error}"


def _greeted(topic: str, name: str, url: str, instead: str) -> Diagnosis:
    host = web_host(url)
    if not host:
        return broken(topic, f"{name}: its URL is no address", "write it as https://host/path")
    trouble = greet_http(url)
    if trouble:
        return broken(topic, f"{name}: {host} {trouble}", f"{_PROXY}; or {instead}")
    return fine(topic, f"{name}: {host} answers")


def greet_http(url: str) -> str:
    """HEAD of the server's root, by the environment's proxy: any answer will do. Why it failed, or empty.

    The path is left out: with some services it is the secret, and asking for it might send something.
    """
    import requests

    parts = urlsplit(url)
    root = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/"
    try:
        requests.head(root, timeout=TIMEOUT, allow_redirects=False).close()
    except requests.exceptions.ProxyError:
        return "cannot be reached: the proxy of the environment does not connect"
    except requests.exceptions.SSLError:
        return "has a certificate that is not trusted here, or speaks no TLS"
    except requests.Timeout:
        return _LATE
    except requests.RequestException:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return f"cannot be reached{_why(parts.hostname or '', port)}"
    return ""


def _why(host: str, port: int) -> str:
    """The system's own words: requests' carry the whole URL."""
    try:
        socket.create_connection((host, port), timeout=TIMEOUT).close()
    except OSError as error:
        return f": {error.strerror or 'no answer'}"
    return ": it closed the connection"


def _understood(scene: Installation, name: str) -> Diagnosis:
    """apprise has services without number: it says itself whether it takes the address."""
    one = scene.config.model_copy(update={"channels": {name: scene.config.channels[name]}})
    try:
        channels.build(one, scene.home)[name].close()
    except WatchdogError as error:
        return broken("channels", f"{name}: {error}", f"correct url under [channels.{name}]")
    return fine("channels", f"{name}: apprise takes its address; 'notify --test {name}' shows more")


SECRETS = "secrets"


def look_at_secrets(scene: Installation) -> Iterator[Diagnosis]:
    """Each secret by the key it stands under."""
    config = scene.config
    if scene.slurm and scene.site:
        yield from judge_exported(tuple(config.secrets(relayed=False)), scene.site)
    yield from judge_secrets(tuple(config.secrets()), scene.home.group, dict(config.secrets(relayed=False)))


def judge_exported(secrets: Sequence[tuple[str, Secret]], site: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Whether the site keeps what a link's environment holds (slurm.conf(5), AccountingStoreFlags)."""
    exported = [key for key, secret in secrets if secret.variable]
    if exported and "job_env" in site.get("AccountingStoreFlags", "").lower():
        text = f"the site's accounting keeps the environment of jobs, and so of links: {', '.join(exported)}"
        yield warning(SECRETS, text, "give them as file:PATH")


def judge_secrets(
    secrets: Sequence[tuple[str, Secret]], group: int | None, needed: Collection[str] | None = None
) -> Iterator[Diagnosis]:
    """What is wrong with them; nothing of a secret is shown. `needed` are the keys of those that have to
    be here (all): what a relay alone sends with may lie elsewhere."""
    here = [(key, secret) for key, secret in secrets if needed is None or key in needed]
    found = [finding for key, secret in here for finding in _there(key, secret)]
    found += [warning(SECRETS, problem.what, problem.fix) for problem in exposed(secrets, group)]
    yield from found
    if here and not found:
        yield fine(SECRETS, f"{len(here)} {'is' if len(here) == 1 else 'are'} set, and nobody else's to read")


def _there(key: str, secret: Secret) -> Iterator[Diagnosis]:
    try:
        secret.reveal()
    except ConfigError as error:
        fix = error.fix or f"write it into {secret.path}, and chmod 600 it"
        yield broken(SECRETS, f"{key}: {error.what}", fix)
        return
    if not secret.variable and not secret.path:
        yield warning(SECRETS, f"{key} stands readable in config.toml", "use file:PATH or env:NAME")
