"""All tables of config.toml but the channels; defaults are the contract's."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from watchdogd.config.channels import Channel
from watchdogd.config.fields import Name, OneLine, PathText, Pattern, Positive, Section, WebSecretField
from watchdogd.history import DEFAULT_URL
from watchdogd.secret import Secret
from watchdogd.slurm.walltime import parse_walltime
from watchdogd.units import Amount, AmountField, Duration, Rate, Share

if TYPE_CHECKING:
    from collections.abc import Iterator


def _walltime(value: object) -> object:
    if isinstance(value, str):
        parse_walltime(value)
    return value


def _history_url(value: object) -> object:
    """What the history can be kept in. The address may hold a password: it is not repeated."""
    if isinstance(value, str) and not re.match(r"(sqlite|postgresql)(\+\w+)?://", value):
        raise ValueError("is no database: write sqlite:///history.db or postgresql://user@host/database")
    return value


Walltime = Annotated[str, BeforeValidator(_walltime)]
HistoryUrl = Annotated[str, BeforeValidator(_history_url)]


class DaemonSection(Section):
    """[daemon]"""

    name: Name = "watchdogd"
    interval: Positive = 60.0
    confirm: int = Field(2, ge=1, strict=True)
    timeout: Positive = 30.0
    dropin_timeout: Positive = 600.0
    keep_logs: Positive = 7 * 86400.0
    group: str | None = None


class SlurmSection(Section):
    """[slurm]"""

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
    """[history]"""

    url: HistoryUrl = DEFAULT_URL
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
    """[actions]"""

    dry_run: bool = False
    max_per_day: int = Field(3, ge=0, strict=True)


class HeartbeatSection(Section):
    """[heartbeat]"""

    url: WebSecretField
    every: Positive = 60.0


class ReportSection(Section):
    """[report]"""

    path: PathText
    every: Positive = 3600.0


class PrometheusSection(Section):
    """[prometheus]"""

    textfile: PathText


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

    exec: tuple[str, ...] | None = Field(None, min_length=1)
    resubmit: PathText | None = None

    @model_validator(mode="after")
    def _one(self) -> Act:
        if (self.exec is None) == (self.resubmit is None):
            raise ValueError('write { exec = ["command"] } or { resubmit = "script.slurm" }')
        return self


ActionField = Literal["stacks", "save-switch", "kill-switch", "cancel", "requeue"] | Act


def _progress(value: object) -> object:
    if isinstance(value, str) and not re.compile(value).groups:
        raise ValueError(f"'{value}' has no group: put the number in brackets, as in 'iteration\\s+(\\d+)'")
    return value


def _quota_pattern(value: object) -> object:
    known = {"used", "limit", "files", "files_limit"}
    if isinstance(value, str) and not known & set(re.compile(value).groupindex):
        raise ValueError(
            f"'{value}' names no group: it needs (?P<used>...), and may have limit, files and files_limit"
        )
    return value


Progress = Annotated[Pattern, AfterValidator(_progress)]
QuotaPattern = Annotated[Pattern, AfterValidator(_quota_pattern)]


class RunSection(Section):
    """[runs.NAME]: all keys are optional; what is left out is not judged."""

    job_name: str | None = None
    user: str | None = None
    backend: Literal["slurm", "pbs", "process"] | None = None
    pid_file: PathText | None = None
    command: Annotated[Pattern, Field(min_length=1)] | None = None
    log: PathText | None = None
    stale_after: Duration | Literal["auto"] | None = None
    progress: Progress | None = None
    quiet: tuple[Quiet, ...] = ()
    must_see: tuple[MustSee, ...] = ()
    must_not_see: tuple[Pattern, ...] = ()
    node_disks: tuple[str, ...] = ()
    absent_after: Duration | None = None
    kill_switch: PathText | None = None
    save_switch: PathText | None = None
    checkpoints: PathText | None = None
    checkpoint_every: Positive | None = None
    gpus_per_node: int | None = Field(None, ge=1, strict=True)
    memory_free: AmountField | None = None
    min_queued: int | None = Field(None, ge=0, strict=True)
    channels: tuple[str, ...] | None = None
    on_hang: tuple[ActionField, ...] = ()
    on_spike: tuple[ActionField, ...] = ()
    on_gone: tuple[ActionField, ...] = ()
    on_memory: tuple[ActionField, ...] = ()
    on_disk: tuple[ActionField, ...] = ()
    runbook: OneLine | None = None
    pulse: PathText | None = None
    checks: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _sense(self) -> RunSection:
        if self.kill_switch and os.path.normpath(self.kill_switch) == os.path.normpath(
            self.save_switch or ""
        ):
            raise ValueError(
                f"kill_switch and save_switch are one file, {self.kill_switch}: give each its own"
            )
        if self.backend == "process" and not (self.pid_file or self.command):
            raise ValueError('backend = "process" needs pid_file or command')
        return self


class QuotaCommand(Section):
    """A site's own quota tool: prints JSON, or text on which `pattern` has named groups."""

    command: tuple[str, ...] = Field(min_length=1)
    pattern: QuotaPattern | None = None


def is_above(one: Amount | None, other: Amount | None) -> bool:
    """Whether one threshold is above another; sizes and shares cannot be compared."""
    if one is None or other is None:
        return False
    if one.absolute is not None and other.absolute is not None:
        return one.absolute > other.absolute
    return one.share is not None and other.share is not None and one.share > other.share


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
    warn_used: AmountField | None = None
    crit_used: AmountField | None = None
    warn_inodes_used: AmountField | None = None
    crit_inodes_used: AmountField | None = None
    usable: Share | None = None
    full_within: Positive | None = None
    growth: Rate | None = None
    write_probe: bool | None = None
    write_within: Positive | None = None
    channels: tuple[str, ...] | None = None
    runbook: OneLine | None = None
    checks: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _right_way_round(self) -> DiskSection:
        for warn, crit in (("warn_free", "crit_free"), ("warn_inodes_free", "crit_inodes_free")):
            if is_above(getattr(self, crit), getattr(self, warn)):
                raise ValueError(
                    f"{crit} = {getattr(self, crit)} is above {warn} = {getattr(self, warn)}: "
                    "CRITICAL would come first; give the smaller one to crit"
                )
        for warn, crit in (("warn_used", "crit_used"), ("warn_inodes_used", "crit_inodes_used")):
            if is_above(getattr(self, warn), getattr(self, crit)):
                raise ValueError(
                    f"{warn} = {getattr(self, warn)} is above {crit} = {getattr(self, crit)}: "
                    "CRITICAL would come first; give the larger one to crit"
                )
        if self.usable == 0:
            raise ValueError("usable = 0%: nothing would ever be free; 80% is wise on Lustre")
        return self


class CheckSection(Section):
    """[checks.NAME], and the keys of every check; all others are the plugin's own parameters."""

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True)

    plugin: str | None = None
    every: Positive | None = None
    timeout: Positive | None = None
    confirm: int | None = Field(None, ge=1, strict=True)
    enabled: bool = True
    run: str | None = None
    channels: tuple[str, ...] | None = None
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

    def secrets(self, *, relayed: bool = True) -> Iterator[tuple[str, Secret]]:
        """Every secret with the key it stands under; without `relayed` those alone that the daemon needs."""
        for name, channel in self.channels.items():
            for key, value in channel:
                if isinstance(value, Secret) and (relayed or not channel.relay):
                    yield f"channels.{name}.{key}", value
        if self.heartbeat:
            yield "heartbeat.url", self.heartbeat.url
