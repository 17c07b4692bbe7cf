"""Senders from the configuration. Libraries are imported for the channels that are there alone."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from watchdogd.config.channels import (
    AlertmanagerChannel,
    AppriseChannel,
    ConsoleChannel,
    EmailChannel,
    SlackChannel,
    StatuslogChannel,
    WebhookChannel,
)
from watchdogd.errors import ConfigError
from watchdogd.home.layout import absolute
from watchdogd.notify.pager import SCHEMAS, schemas
from watchdogd.notify.quiet import QuietHours
from watchdogd.notify.retry import Policy
from watchdogd.notify.sender import Misconfigured, RelayOnly
from watchdogd.system.times import LOCAL_ZONE, zone_named

if TYPE_CHECKING:
    from watchdogd.config.channels import Channel, QuietHoursSection
    from watchdogd.config.models import Config
    from watchdogd.home.layout import Home
    from watchdogd.notify.sender import Sender


def build(config: Config, home: Home, *, go_on: bool = False) -> dict[str, Sender]:
    """A sender for each channel; ConfigError, naming the channel, where one cannot be made.

    What `watchdogd relay` alone can deliver has one that leaves it to that. `go_on`: what cannot be made has
    one that says so at each try, as any channel that does not deliver.
    """
    senders: dict[str, Sender] = {}
    for name, channel in config.channels.items():
        try:
            senders[name] = RelayOnly() if channel.relay else sender_of(name, channel, home)
        except ConfigError as error:
            if not go_on:
                raise
            senders[name] = Misconfigured(str(error))
    return senders


def policy(config: Config) -> Policy:
    """How delivery goes on, as configured."""
    return Policy(
        expire=config.alerts.expire,
        fallback=config.alerts.fallback,
        tell=_hearers(config),
        rates={name: channel.rate for name, channel in config.channels.items()},
        standing=standing(config),
        quiet={name: _quiet(each.quiet_hours) for name, each in config.channels.items() if each.quiet_hours},
        name=config.daemon.name,
    )


def _quiet(hours: QuietHoursSection) -> QuietHours:
    zone = zone_named(hours.timezone) if hours.timezone else LOCAL_ZONE
    return QuietHours(hours.begin, hours.end, zone, frozenset(hours.excepted))


def _hearers(config: Config) -> tuple[str, ...]:
    """The channels that hear of others that do not deliver: WARNINGs, which some do not get, if others do."""
    names = config.default_channels + config.alerts.fallback
    known = [(name, config.channels[name].only) for name in names if name in config.channels]
    return tuple(name for name, only in known if only is None or "WARNING" in only) or names


def standing(config: Config) -> frozenset[str]:
    """The channels on which what was told stands until it is told to be over: Alertmanagers and pagers."""
    return frozenset(name for name, channel in config.channels.items() if _stands(channel))


def _stands(channel: Channel) -> bool:
    if isinstance(channel, AppriseChannel):
        with suppress(ConfigError):  # its secret is missing, which is said elsewhere
            return bool(schemas(channel.url.reveal()) & SCHEMAS)
    return isinstance(channel, AlertmanagerChannel)


def sender_of(name: str, channel: Channel, home: Home) -> Sender:
    """The channel's own sender, wherever we are; ConfigError, naming it, where it cannot be made."""
    try:
        return _sender(channel, home)
    except ConfigError as error:
        raise ConfigError(f"channels.{name}: {error}") from None


def _sender(channel: Channel, home: Home) -> Sender:
    if isinstance(channel, SlackChannel):
        return _slack(channel)
    if isinstance(channel, EmailChannel):
        return _mail(channel)
    if isinstance(channel, WebhookChannel):
        from watchdogd.notify.webhook import JsonWebhook

        return JsonWebhook(channel.url.reveal())
    if isinstance(channel, AlertmanagerChannel):
        from watchdogd.notify.alertmanager import Alertmanager

        return Alertmanager(channel.url.reveal())
    if isinstance(channel, AppriseChannel):
        from watchdogd.notify.apprise import Apprise

        return Apprise(channel.url.reveal(), f"watchdogd-{home.id}-")
    return _local(channel, home)


def _local(channel: ConsoleChannel | StatuslogChannel, home: Home) -> Sender:
    """What goes nowhere beyond this machine's files."""
    if isinstance(channel, StatuslogChannel):
        from watchdogd.notify.statuslog import Statuslog

        return Statuslog(absolute(home, channel.path), home)
    from watchdogd.notify.console import Console

    return Console()


def _slack(channel: SlackChannel) -> Sender:
    from watchdogd.notify.slack import Bot, Webhook

    if channel.webhook_url is not None:
        return Webhook(channel.webhook_url.reveal())
    assert channel.bot_token is not None
    return Bot(channel.bot_token.reveal(), channel.channel or "", channel.api)


def _mail(channel: EmailChannel) -> Sender:
    from watchdogd.notify.mail import Account, Mail

    password = channel.password.reveal() if channel.password else ""
    return Mail(Account(channel.smtp, channel.sender, channel.to, channel.user or "", password))
