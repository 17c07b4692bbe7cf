"""[channels.NAME]: one model for each type of channel."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from watchdogd.config.fields import PathText, SecretField, Section, SendingRate


class ChannelSection(Section):
    """What every channel has: its sending rate (messages a second; None: as fast as it goes)."""

    rate: SendingRate = 1.0


class SlackChannel(ChannelSection):
    """type = "slack": an incoming webhook, or bot_token and channel (then one thread an incident)."""

    type: Literal["slack"]
    webhook_url: SecretField | None = None
    bot_token: SecretField | None = None
    channel: str | None = None
    api: str = "https://slack.com/api"

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
    smtp: Annotated[tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)]
    sender: str = Field(alias="from", min_length=1)
    to: Annotated[tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)] = Field(
        min_length=1
    )
    user: str | None = None
    password: SecretField | None = None

    @model_validator(mode="after")
    def _servers(self) -> EmailChannel:
        for server in self.smtp:
            if not re.match(r"smtps?://[^/\s]+$", server):
                raise ValueError(f"smtp '{server}' is no server: write smtp://host:25 or smtps://host:465")
        return self


class AppriseChannel(ChannelSection):
    """type = "apprise": any service that apprise knows."""

    type: Literal["apprise"]
    url: SecretField


class WebhookChannel(ChannelSection):
    """type = "webhook": a JSON body by POST."""

    type: Literal["webhook"]
    url: SecretField


class AlertmanagerChannel(ChannelSection):
    """type = "alertmanager": the base URL of a Prometheus Alertmanager."""

    type: Literal["alertmanager"]
    url: SecretField


class ConsoleChannel(ChannelSection):
    """type = "console": the daemon's own standard output."""

    type: Literal["console"]
    rate: SendingRate = None


class StatuslogChannel(ChannelSection):
    """type = "statuslog": one line a message, appended to a file."""

    type: Literal["statuslog"]
    path: PathText
    rate: SendingRate = None


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
