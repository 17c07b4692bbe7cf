"""Tests of channels and the heartbeat (nothing is sent), and of secrets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from watchdogd.config.secret import Secret, exposed
from watchdogd.doctor.diagnosis import Diagnosis, Installation, broken, fine, warning
from watchdogd.errors import ConfigError, DeliveryError
from watchdogd.notify.http_client import greet
from watchdogd.notify.senders import channel_of
from watchdogd.system.text import one_line

_RELAY = "deliver from a machine that has a way out: watchdogd relay"


def look(installation: Installation) -> Iterator[Diagnosis]:
    """Test the channels and the heartbeat; missing secrets are reported by `look_at_secrets`."""
    for name in installation.config.channels:
        yield from _channel(installation, name)
    heartbeat = installation.config.heartbeat
    if heartbeat is None:
        text = "none: nobody is notified when the watchdog itself dies"
        yield warning("heartbeat", text, "add [heartbeat] with a URL of healthchecks.io's kind")
        return
    try:
        url = heartbeat.url.reveal()
    except ConfigError:
        return
    try:
        yield fine("heartbeat", f"its server: {greet(url)}")
    except DeliveryError as error:
        fix = f"{error.fix}; or name a server that is reached from here"
        yield broken("heartbeat", f"its server: {error.what}", fix)
    except ConfigError as error:
        yield broken("heartbeat", f"its server: {error.what}", error.fix)


def _channel(installation: Installation, name: str) -> Iterator[Diagnosis]:
    """Yield the result of a channel's own connectivity test."""
    here = f"under [channels.{name}]"
    try:
        for _, secret in installation.config.channels[name].secrets():
            secret.reveal()
    except ConfigError:
        return
    try:
        channel = channel_of(installation.config, name)
        said = channel.try_connection(installation.home)
    except DeliveryError as error:
        fixes = (error.fix, _RELAY)
        yield broken("channels", f"{name}: {error.what}", "; or ".join(fix for fix in fixes if fix))
    except ConfigError as error:
        yield broken("channels", f"{name}: {error.what}", error.fix or f"correct its keys {here}")
    except Exception as error:  # noqa: BLE001 - of another package: the other tests go on
        why = one_line(f"{type(error).__name__}: {error}", 200)
        yield broken("channels", f"{name}: its connectivity test failed within: {why}", "report it there")
    else:
        more = "" if channel.local else f" ('notify --test {name}' sends one)"
        yield fine("channels", f"{name}: {one_line(said, 200)}{more}")


SECRETS = "secrets"


def look_at_secrets(installation: Installation) -> Iterator[Diagnosis]:
    """Judge each secret, named by its key."""
    config = installation.config
    if installation.slurm and installation.site:
        yield from judge_exported(tuple(config.secrets(relayed=False)), installation.site)
    yield from judge_secrets(
        tuple(config.secrets()), installation.home.group, dict(config.secrets(relayed=False))
    )


def judge_exported(secrets: Sequence[tuple[str, Secret]], site: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Warn where accounting stores the environment of links (slurm.conf(5), AccountingStoreFlags)."""
    exported = [key for key, secret in secrets if secret.variable]
    if exported and "job_env" in site.get("AccountingStoreFlags", "").lower():
        text = f"the site's accounting keeps the environment of jobs, and so of links: {', '.join(exported)}"
        yield warning(SECRETS, text, "give them as file:PATH")


def judge_secrets(
    secrets: Sequence[tuple[str, Secret]], group: int | None, needed: Collection[str] | None = None
) -> Iterator[Diagnosis]:
    """Judge secrets without showing anything of them.

    `needed`: keys of those that must be here (None: all); a relay's may be elsewhere.
    """
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
