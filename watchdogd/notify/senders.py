"""The senders and the policy of delivery that config.toml asks for."""

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
"""Tried each minute: that a relay delivered is heard of without that, and a tick waits for none."""


class Undeliverable:
    """Sender of a channel by which nothing goes from here: that is reported, and messages go another way."""

    def __init__(self, why: DeliveryError) -> None:
        self._why = why

    def send(self, _notification: Notification, _roots: Sequence[Notification], /) -> str:
        """Fail."""
        raise self._why.with_traceback(None)

    def close(self) -> None:
        """Close nothing: nothing is open."""


def build(config: Config, home: Home, *, go_on: bool = False) -> dict[str, Sender]:
    """Return a sender for each channel; ConfigError, naming the channel, where one cannot be made.

    What `watchdogd relay` alone can deliver has one that leaves it to that: what no relay takes in time goes
    the way of every channel that fails. `go_on`: what cannot be made (its secret was there when the
    configuration was tried, and is gone) has one that says so at each try.
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
    """Return the channel's own sender, wherever we are; ConfigError, naming it, where it cannot be made."""
    try:
        return channel_of(config, name).make_sender(home)
    except ConfigError as error:
        raise ConfigError(f"channels.{name}: {error}") from None
    except Exception as error:  # of another package: nothing else stops
        raise ConfigError(f"channels.{name}: it failed within: {type(error).__name__}: {error}") from error


def channel_of(config: Config, name: str) -> Channel:
    """Return one channel with all that its type can do. ConfigError where its class is none of a channel."""
    section = config.channels[name]
    if not isinstance(section, Channel):
        raise ConfigError(f"its class is none of {Channel.__module__}.{Channel.__name__}")
    return section


def policy(config: Config) -> Policy:
    """Return how delivery goes on, as configured."""
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
    """Return the channels on which others are reported: those that get WARNINGs, if there are any."""
    names = config.default_channels + config.alerts.fallback
    known = [(name, config.channels[name].only) for name in names if name in config.channels]
    return tuple(name for name, only in known if only is None or "WARNING" in only) or names


def standing(config: Config) -> frozenset[str]:
    """Return the channels on which what was sent stands until its end is sent: Alertmanagers and pagers."""
    return frozenset(name for name, channel in config.channels.items() if channel.standing)
