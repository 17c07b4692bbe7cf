"""Tables [runs.NAME] and [disks.NAME] of config.toml."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from watchdogd.config.fields import OneLine, PathText, Pattern, Positive, RecipientsField, Section
from watchdogd.home import suspect_nodes
from watchdogd.units import Amount, AmountField, Duration, Rate, Share


class Quiet(Section):
    """Phase in which the log may be silent for longer than `stale_after`."""

    match: Pattern
    allow: Positive


class MustSee(Section):
    """Line that must appear within some time after a job's start."""

    match: Pattern
    within: Positive


class Requeue(Section):
    """Requeue that excludes suspect nodes: `max_excluded` at most, each for `exclude_for` seconds."""

    exclude: Literal["suspects"]
    max_excluded: int = Field(suspect_nodes.MOST, ge=1, strict=True)
    exclude_for: Positive = suspect_nodes.DAY


class Act(Section):
    """Action with an argument: a command, a script to resubmit, a Python that annotates, a requeue."""

    exec: tuple[str, ...] | None = Field(None, min_length=1)
    resubmit: PathText | None = None
    annotate: PathText | None = None
    requeue: Requeue | None = None

    @model_validator(mode="after")
    def _one(self) -> Act:
        if (self.exec, self.resubmit, self.annotate, self.requeue).count(None) != 3:
            raise ValueError(
                'write { exec = ["command"] }, { resubmit = "script.slurm" }, '
                '{ annotate = "/path/of/python" } or { requeue = { exclude = "suspects" } }'
            )
        return self

    @property
    def kind(self) -> str:
        """Return which of its keys is set, in words."""
        if self.requeue:
            return "requeue with exclude"
        return next(key for key in ("exec", "resubmit", "annotate") if getattr(self, key) is not None)


ActionField = (
    Literal["stacks", "save-switch", "kill-switch", "cancel", "requeue", "hold", "cancel-pending"] | Act
)


def _progress(value: object) -> object:
    if isinstance(value, str) and not re.compile(value).groups:
        raise ValueError(f"'{value}' has no group: put the number in brackets, as in 'iteration\\s+(\\d+)'")
    return value


def _quota_pattern(value: object) -> object:
    known = {"used", "limit", "files", "files_limit", "soft", "files_soft"}
    if isinstance(value, str) and not known & set(re.compile(value).groupindex):
        raise ValueError(
            f"'{value}' names no group: it needs (?P<used>...), and may have limit, soft, grace and files"
        )
    return value


Progress = Annotated[Pattern, AfterValidator(_progress)]
QuotaPattern = Annotated[Pattern, AfterValidator(_quota_pattern)]


class RunSection(Section):
    """The table [runs.NAME]: all keys are optional; a check without its key is off."""

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
    channels: RecipientsField | None = None
    on_hang: tuple[ActionField, ...] = ()
    on_spike: tuple[ActionField, ...] = ()
    on_gone: tuple[ActionField, ...] = ()
    on_memory: tuple[ActionField, ...] = ()
    on_disk: tuple[ActionField, ...] = ()
    on_crash_loop: tuple[ActionField, ...] = ()
    runbook: OneLine | None = None
    pulse: PathText | None = None
    flight_recorder: PathText | None = None
    checks: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _sense(self) -> RunSection:
        kill, save = self.kill_switch, self.save_switch
        if kill and save and os.path.normpath(kill) == os.path.normpath(save):
            raise ValueError(f"kill_switch and save_switch are one file, {kill}: give each its own")
        if self.backend == "process" and not (self.pid_file or self.command):
            raise ValueError('backend = "process" needs pid_file or command')
        process = self.backend is None and (self.pid_file or self.command)
        backend = "process" if process else self.backend or ""
        for key in (key for key in type(self).model_fields if key.startswith("on_")):
            for action in getattr(self, key):
                kind = action if isinstance(action, str) else action.kind
                if fault := _IMPOSSIBLE.get((backend, kind)):
                    raise ValueError(f"{key}: {fault}")
        return self


_NO_QUEUE = 'a plain process has no queue, so {} cannot be done: write "cancel" or {{ exec = ["command"] }}'
_IMPOSSIBLE = {
    **{
        ("process", kind): _NO_QUEUE.format(kind)
        for kind in ("requeue", "requeue with exclude", "resubmit", "hold", "cancel-pending")
    },
    ("pbs", "requeue with exclude"): 'only a job of Slurm can leave nodes out: write "requeue"',
    ("pbs", "resubmit"): 'scripts are submitted to Slurm alone: write { exec = ["qsub", "script"] }',
}
"""Actions that the batch system of a run cannot do, by that and by kind."""


class QuotaCommand(Section):
    """Site-specific quota tool that prints JSON, or text for the named groups of `pattern`.

    `row`: pattern of the rows to read, where the output lists several file systems.
    """

    command: tuple[str, ...] = Field(min_length=1)
    pattern: QuotaPattern | None = None
    row: Pattern | None = None


_WRONG_WAY_ROUND = (
    ("crit_free", "warn_free", "smaller"),
    ("crit_inodes_free", "warn_inodes_free", "smaller"),
    ("warn_used", "crit_used", "larger"),
    ("warn_inodes_used", "crit_inodes_used", "larger"),
)
"""Pairs of thresholds of which the first must not be above the second, and which of them `crit` must be."""


class DiskSection(Section):
    """The table [disks.NAME]."""

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
    channels: RecipientsField | None = None
    runbook: OneLine | None = None
    checks: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _right_way_round(self) -> DiskSection:
        for above, below, given in _WRONG_WAY_ROUND:
            if _is_above(getattr(self, above), getattr(self, below)):
                raise ValueError(
                    f"{above} = {getattr(self, above)} is above {below} = {getattr(self, below)}: "
                    f"CRITICAL would come first; give the {given} one to crit"
                )
        if self.usable == 0:
            raise ValueError("usable = 0%: nothing would ever be free; 80% is wise on Lustre")
        return self


def _is_above(one: Amount | None, other: Amount | None) -> bool:
    """Return whether one threshold is above another; a size and a share cannot be compared."""
    if one is None or other is None:
        return False
    if one.absolute is not None and other.absolute is not None:
        return one.absolute > other.absolute
    return one.share is not None and other.share is not None and one.share > other.share
