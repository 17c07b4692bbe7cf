"""config.toml as values. Every error is one line: file, key, what is wrong, and the nearest right key.

Durations are seconds, sizes bytes, paths absolute (relative ones hang on home). Defaults are the contract's.
"""

from __future__ import annotations

import os
import re
import tomllib
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)

from watchdogd.errors import ConfigError
from watchdogd.nearest import nearest
from watchdogd.secret import Secret
from watchdogd.units import AmountField, Duration, Rate, Share

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from watchdogd.home import Home


def _secret(value: object) -> Secret:
    if not isinstance(value, str) or not value:
        raise ValueError("give a secret as env:NAME or file:PATH")
    return Secret(value)


def _pattern(value: object) -> object:
    if isinstance(value, str):
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"'{value}' is no regular expression: {error}") from None
    return value


def _rate(value: object) -> object:
    """Messages per second of `1/s`, `30/m`, or None of `none`."""
    if value is None or value == "none":
        return None
    if isinstance(value, int | float) and value > 0:
        return float(value)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*/\s*(s|m|h)", str(value))
    if not match or float(match[1]) == 0:
        raise ValueError(f"'{value}' is no sending rate: write it as 1/s, 30/m or none")
    return float(match[1]) / {"s": 1, "m": 60, "h": 3600}[match[2]]


def _expand(value: object) -> object:
    return os.path.expandvars(os.path.expanduser(value)) if isinstance(value, str) else value


SecretField = Annotated[Secret, BeforeValidator(_secret), PlainSerializer(str)]
Pattern = Annotated[str, BeforeValidator(_pattern)]
SendingRate = Annotated[float | None, BeforeValidator(_rate)]
PathText = Annotated[str, BeforeValidator(_expand), Field(min_length=1)]
Positive = Annotated[Duration, Field(gt=0)]


class Section(BaseModel):
    """One table of config.toml: unknown keys are errors, values do not change."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, populate_by_name=True
    )


class DaemonSection(Section):
    """[daemon]"""

    name: str = Field("watchdogd", min_length=1)
    interval: Positive = 60.0
    confirm: int = Field(2, ge=1)
    timeout: Positive = 30.0
    dropin_timeout: Positive = 600.0
    keep_logs: Positive = 7 * 86400.0
    group: str | None = None


class SlurmSection(Section):
    """[slurm]"""

    partition: str | None = None
    account: str | None = None
    time: str | None = None
    options: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    group: str | None = None
    min_poll: Duration = 30.0


class HistorySection(Section):
    """[history]"""

    url: str = "sqlite:///history.db"
    keep: Positive = 90 * 86400.0


class Maintenance(Section):
    """One maintenance window: from each time of `cron`, for so long, these targets are silent."""

    cron: str
    length: Positive = Field(alias="for")
    targets: tuple[str, ...] = ()


class AlertsSection(Section):
    """[alerts]"""

    channels: tuple[str, ...] | None = None
    repeat_every: Positive = 4 * 3600.0
    escalate_after: Positive | None = None
    escalate_to: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    expire: Positive = 86400.0
    digest_above: int = Field(20, ge=1)
    maintenance: tuple[Maintenance, ...] = ()


class ActionsSection(Section):
    """[actions]"""

    dry_run: bool = False
    max_per_day: int = Field(3, ge=0)


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


class HeartbeatSection(Section):
    """[heartbeat]"""

    url: SecretField
    every: Positive = 60.0


class Quiet(Section):
    """A phase that may be silent for longer than `stale_after`."""

    match: Pattern
    allow: Positive


class MustSee(Section):
    """A line that has to appear soon after a job's start."""

    match: Pattern
    within: Positive


class Act(Section):
    """An action with an argument: a command to run, or a script to submit again."""

    exec: tuple[str, ...] | None = None
    resubmit: str | None = None

    @model_validator(mode="after")
    def _one(self) -> Act:
        if (self.exec is None) == (self.resubmit is None):
            raise ValueError('write { exec = ["command"] } or { resubmit = "script.slurm" }')
        return self


ActionField = Literal["stacks", "save-switch", "kill-switch", "cancel", "requeue"] | Act


class RunSection(Section):
    """[runs.NAME]: all keys are optional; what is left out is not judged."""

    job_name: str | None = None
    user: str | None = None
    backend: Literal["slurm", "pbs", "process"] | None = None
    pid_file: PathText | None = None
    command: Pattern | None = None
    log: PathText | None = None
    stale_after: Duration | Literal["auto"] | None = None
    progress: Pattern | None = None
    quiet: tuple[Quiet, ...] = ()
    must_see: tuple[MustSee, ...] = ()
    must_not_see: tuple[Pattern, ...] = ()
    node_disks: tuple[str, ...] = ()
    absent_after: Duration | None = None
    kill_switch: PathText | None = None
    save_switch: PathText | None = None
    checkpoints: PathText | None = None
    checkpoint_every: Positive | None = None
    gpus_per_node: int | None = Field(None, ge=1)
    memory_free: AmountField | None = None
    min_queued: int | None = Field(None, ge=0)
    channels: tuple[str, ...] | None = None
    on_hang: tuple[ActionField, ...] = ()
    on_spike: tuple[ActionField, ...] = ()
    on_gone: tuple[ActionField, ...] = ()
    on_memory: tuple[ActionField, ...] = ()
    on_disk: tuple[ActionField, ...] = ()
    runbook: str | None = None
    pulse: PathText | None = None
    checks: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _process(self) -> RunSection:
        if self.backend == "process" and not (self.pid_file or self.command):
            raise ValueError('backend = "process" needs pid_file or command')
        return self


class QuotaCommand(Section):
    """A site's own quota tool: prints JSON, or text on which `pattern` has named groups."""

    command: tuple[str, ...] = Field(min_length=1)
    pattern: Pattern | None = None


class DiskSection(Section):
    """[disks.NAME]"""

    path: PathText
    quota: Literal["auto", "statvfs", "lustre", "gpfs", "beegfs", "posix", "cephfs", "du"] | QuotaCommand = (
        "auto"
    )
    warn_free: AmountField | None = None
    crit_free: AmountField | None = None
    warn_inodes_free: AmountField | None = None
    crit_inodes_free: AmountField | None = None
    usable: Share | None = None
    full_within: Positive | None = None
    growth: Rate | None = None
    channels: tuple[str, ...] | None = None
    runbook: str | None = None
    checks: dict[str, dict[str, Any]] = Field(default_factory=dict)


class CheckSection(Section):
    """[checks.NAME], and the keys of every check; all others are the plugin's own parameters."""

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True)

    plugin: str | None = None
    every: Positive | None = None
    timeout: Positive | None = None
    confirm: int | None = Field(None, ge=1)
    enabled: bool = True
    run: str | None = None
    channels: tuple[str, ...] | None = None
    runbook: str | None = None


class Config(Section):
    """All of config.toml."""

    daemon: DaemonSection = DaemonSection()
    slurm: SlurmSection = SlurmSection()
    history: HistorySection = HistorySection()
    alerts: AlertsSection = AlertsSection()
    actions: ActionsSection = ActionsSection()
    channels: dict[str, Channel] = Field(default_factory=dict)
    heartbeat: HeartbeatSection | None = None
    runs: dict[str, RunSection] = Field(default_factory=dict)
    disks: dict[str, DiskSection] = Field(default_factory=dict)
    checks: dict[str, CheckSection] = Field(default_factory=dict)

    @property
    def default_channels(self) -> tuple[str, ...]:
        """Where messages go: `[alerts] channels`, else every channel that is not held back for later."""
        if self.alerts.channels is not None:
            return self.alerts.channels
        held_back = {*self.alerts.escalate_to, *self.alerts.fallback}
        return tuple(name for name in self.channels if name not in held_back)

    def secrets(self) -> Iterator[tuple[str, Secret]]:
        """Every secret with the key it stands under."""
        for name, channel in self.channels.items():
            for key, value in channel:
                if isinstance(value, Secret):
                    yield f"channels.{name}.{key}", value
        if self.heartbeat:
            yield "heartbeat.url", self.heartbeat.url


def load(home: Home) -> Config:
    """The configuration of a home. ConfigError, one line, where it is missing or broken."""
    path = home.config
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}; make one with 'watchdogd init'"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is no UTF-8: save the file as UTF-8") from None
    return parse(text, path)


def parse(text: str, path: Path) -> Config:
    """The configuration in `text`; `path` is named in errors, and relative paths hang on its folder."""
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from None
    try:
        config = Config.model_validate(tables)
    except ValidationError as error:
        raise ConfigError(f"{path}: {_sentence(error, tables)}") from None
    _known_channels(config, path)
    return config


def absolute(home: Home, text: str) -> str:
    """A path of the configuration: relative ones hang on home."""
    return os.path.normpath(os.path.join(home.path, text))


def _sentence(error: ValidationError, tables: Mapping[str, Any]) -> str:
    """The first thing that pydantic found, as one line."""
    first = error.errors(include_url=False)[0]
    where = _written_keys(first["loc"], tables)
    key = ".".join(where) or "the file"
    wrong = str(first.get("ctx", {}).get("error", "")) or first["msg"]
    if first["type"] == "extra_forbidden":
        return f"{key}: unknown key{nearest(where[-1], _known_keys(where[:-1]))}"
    if first["type"] == "missing":
        return f"{key}: is missing"
    if first["type"].startswith("union_tag"):
        return f"{key}: type must be one of slack, email, apprise, webhook, alertmanager, console, statuslog"
    more = error.error_count() - 1
    return f"{key}: {wrong}" + (f" (and {more} more)" if more else "")


def _written_keys(location: tuple[int | str, ...], tables: Any) -> list[str]:
    """The keys as the user wrote them: pydantic's location has names of union members in between."""
    found: list[str] = []
    for part in location:
        inside = isinstance(tables, dict) and part in tables
        if inside or (isinstance(tables, list) and isinstance(part, int) and part < len(tables)):
            tables = tables[part]
        elif part != location[-1] or not isinstance(tables, dict):
            continue
        found.append(str(part))
    return found


_TABLES: dict[str, type[Section]] = {"runs": RunSection, "disks": DiskSection, "checks": CheckSection}
_CHANNELS = (
    SlackChannel,
    EmailChannel,
    AppriseChannel,
    WebhookChannel,
    AlertmanagerChannel,
    StatuslogChannel,
)


def _known_keys(where: list[str]) -> list[str]:
    """The keys that may stand in a table."""
    if not where:
        return _keys(Config)
    if where[0] == "channels":
        return sorted({key for channel in _CHANNELS for key in _keys(channel)})
    if where[0] in _TABLES:
        return _keys(_TABLES[where[0]])
    annotation = Config.model_fields[where[0]].default if where[0] in Config.model_fields else None
    return _keys(type(annotation)) if isinstance(annotation, Section) else _keys(HeartbeatSection)


def _keys(section: type[Section]) -> list[str]:
    return [field.alias or name for name, field in section.model_fields.items()]


def _known_channels(config: Config, path: Path) -> None:
    """ConfigError where a channel is named that is not configured."""
    named = {
        "alerts.channels": config.alerts.channels or (),
        "alerts.escalate_to": config.alerts.escalate_to,
        "alerts.fallback": config.alerts.fallback,
    }
    for table, sections in (("runs", config.runs), ("disks", config.disks), ("checks", config.checks)):
        for name, section in sections.items():
            named[f"{table}.{name}.channels"] = section.channels or ()
    for key, channels in named.items():
        for channel in channels:
            if channel not in config.channels:
                raise ConfigError(
                    f"{path}: {key}: there is no [channels.{channel}]"
                    f"{nearest(channel, list(config.channels))}"
                )
