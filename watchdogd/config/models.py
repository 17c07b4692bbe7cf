"""Models of the tables of config.toml, except channels, runs and disks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from watchdogd.config.channels import Channel
from watchdogd.config.fields import (
    HourOfDay,
    Name,
    OneLine,
    PathText,
    Positive,
    RecipientsField,
    Section,
    WebSecretField,
    ZoneName,
)
from watchdogd.config.secret import Secret
from watchdogd.config.target_models import DiskSection, RunSection
from watchdogd.errors import WatchdogError
from watchdogd.home.layout import DEFAULT_URL
from watchdogd.system.text import nearest
from watchdogd.system.times import CronTimes, parse_walltime
from watchdogd.units import Duration


def _walltime(value: object) -> object:
    if isinstance(value, str):
        parse_walltime(value)
    return value


def _history_url(value: object) -> object:
    """Check that a URL names a database; it may hold a password, so the message does not repeat it."""
    if isinstance(value, str) and not re.match(r"(sqlite|postgresql)(\+\w+)?://", value):
        raise ValueError("is no database: write sqlite:///history.db or postgresql://user@host/database")
    return value


def _cron(value: object) -> object:
    if isinstance(value, str):
        CronTimes(value)
    return value


Walltime = Annotated[str, BeforeValidator(_walltime)]
HistoryUrl = Annotated[str, BeforeValidator(_history_url)]
CronText = Annotated[OneLine, BeforeValidator(_cron)]


class DaemonSection(Section):
    """The table [daemon]."""

    name: Name = "watchdogd"
    interval: Positive = 60.0
    confirm: int = Field(2, ge=1, strict=True)
    timeout: Positive = 30.0
    dropin_timeout: Positive = 600.0
    keep_logs: Positive = 7 * 86400.0
    daily_at: HourOfDay | None = None
    timezone: ZoneName | None = None
    group: str | None = None
    empty: bool = False


class SlurmSection(Section):
    """The table [slurm]."""

    partition: OneLine | None = None
    account: OneLine | None = None
    time: Walltime | None = None
    options: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    group: str | None = None
    min_poll: Duration = 30.0

    @model_validator(mode="after")
    def _one_of_both(self) -> SlurmSection:
        if self.users and self.group is not None:
            raise ValueError("give users or group, not both: group counts all its members")
        return self


class HistorySection(Section):
    """The table [history]."""

    url: HistoryUrl = DEFAULT_URL
    keep: Positive = 90 * 86400.0


class Maintenance(Section):
    """Maintenance window: from each time of `cron`, for `length` seconds, these targets send no alerts.

    `timezone`: zone of `cron`'s times; default: this machine's.
    """

    cron: CronText
    length: Positive = Field(alias="for")
    targets: tuple[str, ...] = ()
    timezone: ZoneName | None = None


class AlertsSection(Section):
    """The table [alerts]."""

    channels: tuple[str, ...] | None = None
    repeat_every: Positive = 4 * 3600.0
    escalate_after: Positive | None = None
    escalate_to: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    expire: Positive = 86400.0
    digest_above: int = Field(20, ge=1, strict=True)
    maintenance: tuple[Maintenance, ...] = ()

    @model_validator(mode="after")
    def _escalation(self) -> AlertsSection:
        if self.escalate_after is not None and not self.escalate_to:
            raise ValueError('escalate_after needs escalate_to = ["CHANNEL"]: whom to tell then')
        if self.escalate_to and self.escalate_after is None:
            raise ValueError('escalate_to needs escalate_after = "30m": when to tell them')
        return self


class ActionsSection(Section):
    """The table [actions]."""

    dry_run: bool = False
    max_per_day: int = Field(3, ge=0, strict=True)


class HeartbeatSection(Section):
    """The table [heartbeat]."""

    url: WebSecretField
    every: Positive = 60.0


class ReportSection(Section):
    """The table [report]."""

    path: PathText
    every: Positive = 3600.0


class DigestSection(Section):
    """The table [digest]: the morning message, at a time in `[daemon] timezone`."""

    at: HourOfDay
    channels: tuple[str, ...] | None = None


class PrometheusSection(Section):
    """The table [prometheus]."""

    textfile: PathText


class CheckSection(Section):
    """[checks.NAME], and the keys common to all checks; other keys are the plugin's parameters."""

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True)

    plugin: str | None = None
    every: Positive | None = None
    timeout: Positive | None = None
    confirm: int | None = Field(None, ge=1, strict=True)
    enabled: bool = True
    run: str | None = None
    channels: RecipientsField | None = None
    runbook: OneLine | None = None


class Config(Section):
    """All of config.toml."""

    daemon: DaemonSection = DaemonSection()
    slurm: SlurmSection = SlurmSection()
    history: HistorySection = HistorySection()
    alerts: AlertsSection = AlertsSection()
    actions: ActionsSection = ActionsSection()
    channels: dict[str, Channel] = Field(default_factory=dict)
    heartbeat: HeartbeatSection | None = None
    report: ReportSection | None = None
    prometheus: PrometheusSection | None = None
    digest: DigestSection | None = None
    runs: dict[str, RunSection] = Field(default_factory=dict)
    disks: dict[str, DiskSection] = Field(default_factory=dict)
    checks: dict[str, CheckSection] = Field(default_factory=dict)

    @property
    def watches_nothing(self) -> bool:
        """Return whether it names no run, disk or check."""
        return not (self.runs or self.disks or self.checks)

    def run(self, name: str) -> RunSection:
        """Return one run's table. WatchdogError, with the nearest name, where there is none."""
        if name not in self.runs:
            raise WatchdogError(f"there is no run '{name}'{nearest(name, sorted(self.runs))}")
        return self.runs[name]

    @property
    def default_channels(self) -> tuple[str, ...]:
        """Default recipients: `[alerts] channels`, else all but those for escalation and fallback."""
        if self.alerts.channels is not None:
            return self.alerts.channels
        held_back = {*self.alerts.escalate_to, *self.alerts.fallback}
        return tuple(name for name in self.channels if name not in held_back)

    @property
    def digest_channels(self) -> tuple[str, ...]:
        """Recipients of the morning message: those named, else default ones that get INFO; no pagers."""
        if self.digest is not None and self.digest.channels is not None:
            return self.digest.channels
        known = ((name, self.channels[name]) for name in self.default_channels if name in self.channels)
        return tuple(
            name for name, each in known if not each.standing and (each.only is None or "INFO" in each.only)
        )

    def secrets(self, *, relayed: bool = True) -> Iterator[tuple[str, Secret]]:
        """Yield every secret with its key; unless `relayed`, only those that the daemon needs."""
        for name, channel in self.channels.items():
            for key, value in channel.secrets() if relayed or not channel.relay else ():
                yield f"channels.{name}.{key}", value
        if self.heartbeat:
            yield "heartbeat.url", self.heartbeat.url
