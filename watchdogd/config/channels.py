"""[channels.NAME]: one model for each type of channel."""

from __future__ import annotations

import re
from datetime import time
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from watchdogd.config.fields import (
    OneLine,
    OneLines,
    PathText,
    SecretField,
    Section,
    SendingRate,
    SeveritiesField,
    WebSecretField,
    ZoneName,
)
from watchdogd.config.secret import veiled


def _clock(value: object) -> object:
    if isinstance(value, time):
        return value
    if not isinstance(value, str) or not re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d", value):
        raise ValueError(f'{value!r} is no time of day: write it as "22:00"')
    hours, _, minutes = value.partition(":")
    return time(int(hours), int(minutes))


Clock = Annotated[time, BeforeValidator(_clock), PlainSerializer(lambda value: f"{value:%H:%M}")]


class QuietHoursSection(Section):
    """quiet_hours of a channel: what comes between these times of day waits, and is told as one message.

    `except`: the severities that do not wait. `timezone` is the zone of the times; left out: this machine's.
    """

    begin: Clock = Field(alias="from")
    end: Clock = Field(alias="to")
    excepted: SeveritiesField = Field((), alias="except")
    timezone: ZoneName | None = None

    @model_validator(mode="after")
    def _some_time(self) -> QuietHoursSection:
        if self.begin == self.end:
            raise ValueError("from and to are the same time: leave quiet_hours out, or write another")
        return self


class ChannelSection(Section):
    """What every channel has: its sending rate (messages a second; None: as fast as it goes).

    `relay`: the daemon cannot reach it from where it runs, and leaves it to `watchdogd relay`. `only`: the
    severities that come here; None: all. `quiet_hours`: when the rest waits.
    """

    rate: SendingRate = 1.0
    relay: bool = False
    only: SeveritiesField | None = None
    quiet_hours: QuietHoursSection | None = None


class SlackChannel(ChannelSection):
    """type = "slack": an incoming webhook, or bot_token and channel (then one thread an incident)."""

    type: Literal["slack"]
    webhook_url: WebSecretField | None = None
    bot_token: SecretField | None = None
    channel: OneLine | None = None
    api: OneLine = "https://slack.com/api"

    @model_validator(mode="after")
    def _one_way(self) -> SlackChannel:
        if (self.webhook_url is None) == (self.bot_token is None):
            raise ValueError("give webhook_url, or bot_token and channel")
        if self.bot_token is not None and not self.channel:
            raise ValueError('bot_token needs channel = "#name"')
        return self


class EmailChannel(ChannelSection):
    """type = "email": one server, or several tried in order."""

    type: Literal["email"]
    smtp: OneLines
    sender: OneLine = Field(alias="from")
    to: OneLines
    user: str | None = None
    password: SecretField | None = None

    @model_validator(mode="after")
    def _servers(self) -> EmailChannel:
        for server in self.smtp:
            if "@" in server:
                raise ValueError(
                    f"smtp '{veiled(server)}' has a login in it: write user and password below it"
                )
            if not _is_mail_server(server):
                raise ValueError(
                    f"smtp '{veiled(server)}' is no server: write smtp://host:25 or smtps://host:465"
                )
        return self


class AppriseChannel(ChannelSection):
    """type = "apprise": any service that apprise knows."""

    type: Literal["apprise"]
    url: SecretField


class WebhookChannel(ChannelSection):
    """type = "webhook": a JSON body by POST."""

    type: Literal["webhook"]
    url: WebSecretField


class AlertmanagerChannel(ChannelSection):
    """type = "alertmanager": the base URL of a Prometheus Alertmanager."""

    type: Literal["alertmanager"]
    url: WebSecretField


class ConsoleChannel(ChannelSection):
    """type = "console": the daemon's own standard output."""

    type: Literal["console"]
    rate: SendingRate = None


class StatuslogChannel(ChannelSection):
    """type = "statuslog": one line a message, appended to a file."""

    type: Literal["statuslog"]
    path: PathText
    rate: SendingRate = None


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


Channel = Annotated[
    SlackChannel
    | EmailChannel
    | AppriseChannel
    | WebhookChannel
    | AlertmanagerChannel
    | ConsoleChannel
    | StatuslogChannel,
    Field(discriminator="type"),
]
