"""All tables of config.toml but the channels; defaults are the contract's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from watchdogd.config.channels import Channel
from watchdogd.config.fields import PathText, Pattern, Positive, SecretField, Section
from watchdogd.secret import Secret
from watchdogd.units import AmountField, Duration, Rate, Share

if TYPE_CHECKING:
    from collections.abc import Iterator


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


class HeartbeatSection(Section):
    """[heartbeat]"""

    url: SecretField
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

    def secrets(self) -> Iterator[tuple[str, Secret]]:
        """Every secret with the key it stands under."""
        for name, channel in self.channels.items():
            for key, value in channel:
                if isinstance(value, Secret):
                    yield f"channels.{name}.{key}", value
        if self.heartbeat:
            yield "heartbeat.url", self.heartbeat.url
