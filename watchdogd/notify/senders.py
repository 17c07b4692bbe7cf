"""Senders and delivery policy, built from config.toml."""

from __future__ import annotations

from collections.abc import Sequence

from watchdogd.config.channels import QuietHoursSection
from watchdogd.config.models import Config
from watchdogd.errors import ConfigError, DeliveryError
from watchdogd.home.layout import Home
from watchdogd.notify.channel import Channel, Sender
from watchdogd.notify.channel_state import Policy, QuietHours
from watchdogd.notify.notification import Notification
from watchdogd.system.times import LOCAL_ZONE, zone_named

_LEFT = DeliveryError("it is left to 'watchdogd relay', which has not taken it yet", retry_after=60.0)
"""Error of a relay-only channel, tried each minute; a relay's delivery is noticed without that."""


class Undeliverable:
    """Sender that always fails, so that messages go to the fallback and the failure is reported."""

    def __init__(self, why: DeliveryError) -> None:
        self._why = why

    def send(self, _notification: Notification, _roots: Sequence[Notification], /) -> str:
        raise self._why.with_traceback(None)

    def close(self) -> None:
        """Do nothing."""


def build(config: Config, home: Home, *, go_on: bool = False) -> dict[str, Sender]:
    """Return a sender for each channel; ConfigError, naming the channel, where one cannot be made.

    A relay-only channel has a sender that fails, so that messages which no relay takes in time are handled as
    on any failing channel. `go_on`: a channel that cannot be made (its secret is gone) has one, too.
    """
    senders: dict[str, Sender] = {}
    for name, channel in config.channels.items():
        try:
            senders[name] = Undeliverable(_LEFT) if channel.relay else sender_of(config, name, home)
        except ConfigError as error:
            if not go_on:
                raise
            senders[name] = Undeliverable(DeliveryError(str(error), permanent=True))
    return senders


def sender_of(config: Config, name: str, home: Home) -> Sender:
    """Return the channel's own sender; ConfigError, naming the channel, where it cannot be made."""
    try:
        return channel_of(config, name).make_sender(home)
    except ConfigError as error:
        raise ConfigError(f"channels.{name}: {error}") from None
    except Exception as error:  # of another package: the others go on
        raise ConfigError(f"channels.{name}: it failed within: {type(error).__name__}: {error}") from error


def channel_of(config: Config, name: str) -> Channel:
    """Return a channel. ConfigError where its class is not derived from Channel."""
    section = config.channels[name]
    if not isinstance(section, Channel):
        raise ConfigError(f"its class is none of {Channel.__module__}.{Channel.__name__}")
    return section


def policy(config: Config) -> Policy:
    """Return the configured delivery policy."""
    return Policy(
        expire=config.alerts.expire,
        fallback=config.alerts.fallback,
        tell=_hearers(config),
        rates={name: channel.rate for name, channel in config.channels.items()},
        standing=standing(config),
        quiet={name: _quiet(each.quiet_hours) for name, each in config.channels.items() if each.quiet_hours},
        digest_above=config.alerts.digest_above,
        name=config.daemon.name,
    )


def _quiet(hours: QuietHoursSection) -> QuietHours:
    zone = zone_named(hours.timezone) if hours.timezone else LOCAL_ZONE
    return QuietHours(hours.begin, hours.end, zone, frozenset(hours.excepted))


def _hearers(config: Config) -> tuple[str, ...]:
    """Return the channels for reports on others: those that get WARNINGs, if there are any."""
    names = config.default_channels + config.alerts.fallback
    known = [(name, config.channels[name].only) for name in names if name in config.channels]
    return tuple(name for name, only in known if only is None or "WARNING" in only) or names


def standing(config: Config) -> frozenset[str]:
    """Return the channels that show an alert until its end is sent: Alertmanagers and pagers."""
    return frozenset(name for name, channel in config.channels.items() if channel.standing)
