"""Checks for drop-ins: each is named `cron.hourly/FILE` and runs at its folder's interval."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from watchdogd.batch.models import OWN_MARK
from watchdogd.config.fields import Recipients
from watchdogd.config.models import CheckSection, Config
from watchdogd.daemon.dependencies import queue_name
from watchdogd.daemon.dropins import dropins
from watchdogd.daemon.dropins.dropin_jobs import DEADLINE as SLURM_DEADLINE
from watchdogd.daemon.dropins.dropins import DAILY, DropIn, DropInKind, Stamp
from watchdogd.daemon.registry import check_factory as checks_module
from watchdogd.daemon.registry.check_factory import Check
from watchdogd.daemon.registry.plugin_registry import PluginEntry, Source, scout
from watchdogd.errors import ConfigError, Problem
from watchdogd.home.layout import Home
from watchdogd.plugin import Advice, Result, Status, unknown
from watchdogd.system import account
from watchdogd.system.pathname import file_name
from watchdogd.system.times import LOCAL_ZONE, CronTimes, zone_named

MARGIN = 10.0
"""Seconds beyond a program's own deadline for the worker to kill it and to reply."""
CHORE = 3600.0
"""Seconds between two runs from which on an executable may be a chore, which does not run again before its
time: one result counts. What runs more often is a check, and is looked at again to confirm what it says."""
_EXECUTABLE = Source("watchdogd.daemon.dropins.dropins", "executable")
_STATED = Source("watchdogd.daemon.dropins.dropins", "stated")
_SCRIPT = Source("watchdogd.daemon.dropins.dropin_jobs", "script")
_CORRECT = Advice("Correct it, or install what it imports.")
_ROOM = Advice("If the disk is full, make room; to see how full it is:", "df -h")


@dataclass(slots=True)
class Scouts:
    """Plugins defined in Python drop-ins, listed once for each version of a file."""

    _known: dict[tuple[str, Stamp], tuple[PluginEntry, ...]] = field(default_factory=dict)

    def of(self, dropin: DropIn) -> tuple[PluginEntry, ...]:
        """Return the plugins in a file; one with `skipped` set where it cannot be loaded."""
        key = (dropin.path, dropin.stamp)
        if key not in self._known:
            self._known = {kept: found for kept, found in self._known.items() if kept[0] != dropin.path}
            self._known[key] = tuple(scout(dropin.path, dropin.path))
        return self._known[key]


def build(dropins: Iterable[DropIn], config: Config, home: Home, scouts: Scouts) -> tuple[Check, ...]:
    """Return the checks of all drop-ins; a refused or broken one has a check that reports that.

    Never raises because of a drop-in.
    """
    builder = _CrontabBuilder(config, home, scouts)
    return tuple(builder.timed(check, dropin) for dropin in dropins for check in builder.of(dropin))


def is_dropin(check: str) -> bool:
    return check.startswith("cron.")


def harmless(check: Check) -> Check:
    """Replace a check for a dry run: no program is started, no job is submitted."""
    if check.entry.source == _EXECUTABLE:
        entry = replace(check.entry, source=_STATED)
        return replace(check, entry=entry, parameters={"status": int(Status.OK), "summary": "would be run"})
    return submitting_nothing(check)


def submitting_nothing(check: Check) -> Check:
    """Replace a check so that a Slurm script's job is followed but none is submitted."""
    if check.entry.source == _SCRIPT:
        return replace(check, parameters={**check.parameters, "dry": True})
    return check


def members(home: Home) -> frozenset[str]:
    """Return the users whose daemons may have submitted jobs for a group's home; empty: only this user."""
    if home.group is None:
        return frozenset()
    return account.group_members(home.group) | {
        account.user_name(uid) for uid in (os.geteuid(), home.path.stat().st_uid)
    }


@dataclass(frozen=True, slots=True)
class _CrontabBuilder:
    """Builder of checks from drop-ins."""

    config: Config
    home: Home
    scouts: Scouts

    def of(self, dropin: DropIn) -> list[Check]:
        if dropin.refused:
            return [self._stated(dropin, dropins.refused(dropin.path, str(self.home.path), dropin.refused))]
        match dropin.kind:
            case DropInKind.EXECUTABLE:
                return [self._executable(dropin)]
            case DropInKind.SLURM:
                try:
                    return [self._script(dropin)]
                except OSError as error:
                    why = f"its job is not submitted, home cannot be written: {error.strerror}"
                    return [self._stated(dropin, unknown(why).saying(advice=[_ROOM]))]
            case DropInKind.PYTHON:
                return self._python(dropin)
        return []

    def timed(self, check: Check, dropin: DropIn) -> Check:
        """Set the folder's time of day, if it has one and the check no interval of its own."""
        at = self._at(dropin)
        if at is None or check.every != dropin.every:
            return check
        return replace(check, at=at, since=dropin.since)

    def _at(self, dropin: DropIn) -> CronTimes | None:
        daemon = self.config.daemon
        hour = dropin.hour or (daemon.daily_at if dropin.folder == DAILY else "")
        if not hour:
            return None
        hours, minutes = map(int, hour.split(":"))
        zone = zone_named(daemon.timezone) if daemon.timezone else LOCAL_ZONE
        return CronTimes(f"{minutes} {hours} * * *", zone)

    def _executable(self, dropin: DropIn) -> Check:
        deadline = min(dropin.every, self.config.daemon.dropin_timeout)
        parameters = {"path": dropin.path, "home": str(self.home.path), "deadline": deadline}
        entry = PluginEntry(dropin.name, dropin.path, _EXECUTABLE, program=True)
        check = self._check(dropin, entry, parameters, dropin.every, deadline + MARGIN)
        daemon = self.config.daemon
        slow = check.every >= CHORE and check.every > daemon.confirm * daemon.interval
        return replace(check, confirm=1) if slow else check

    def _script(self, dropin: DropIn) -> Check:
        folder, _, file = dropin.name.partition("/")
        name = f"{folder}/{file_name(file)}"
        slurm = self.config.slurm
        parameters = {
            "path": dropin.path,
            "comment": f"{OWN_MARK}{self.home.id} {name}",
            "home": str(self.home.path),
            "output": str(self.home.logs / name.replace("/", ".")),
            "partition": slurm.partition or "",
            "account": slurm.account or "",
            "every": dropin.every,
            "users": members(self.home),
            "edited": dropin.stamp[0],
            "at": self._at(dropin),
            "since": dropin.since,
        }
        # A short built-in call in a shared worker; it looks after the job at the daemon's interval.
        entry = PluginEntry(dropin.name, "built-in", _SCRIPT, wants=frozenset({"state", "now"}))
        every = min(dropin.every, self.config.daemon.interval)
        check = self._check(dropin, entry, parameters, every, SLURM_DEADLINE)
        return replace(check, follows=(queue_name("slurm"),))

    def _python(self, dropin: DropIn) -> list[Check]:
        entries = self.scouts.of(dropin)
        several = len(entries) > 1
        return [
            self._plugin(dropin, entry, f"{dropin.name}/{entry.name}" if several else dropin.name)
            for entry in entries
        ]

    def _plugin(self, dropin: DropIn, entry: PluginEntry, name: str) -> Check:
        section = CheckSection(every=entry.every or dropin.every)
        reason = entry.skipped
        if not reason:
            try:
                return checks_module.with_defaults(name, entry, section, dropin.name, self.config, self.home)
            except ConfigError as error:
                reason = str(error)
        why = reason if isinstance(reason, Problem) else Problem(reason)
        said = unknown(why.what).saying(dropin.path, advice=[Advice.of(why) if why.fix else _CORRECT])
        return replace(self._stated(dropin, said), name=name)

    def _stated(self, dropin: DropIn, said: Result) -> Check:
        entry = PluginEntry(dropin.name, "built-in", _STATED)
        parameters = {
            "status": int(said.status),
            "summary": said.summary,
            "facts": said.facts,
            "advice": said.advice,
        }
        return self._check(dropin, entry, parameters, self.config.daemon.interval, self.config.daemon.timeout)

    def _check(
        self, dropin: DropIn, entry: PluginEntry, parameters: dict[str, Any], every: float, timeout: float
    ) -> Check:
        return Check(
            name=dropin.name,
            entry=entry,
            parameters=parameters,
            target=dropin.name,
            run=None,
            every=every,
            timeout=timeout,
            confirm=self.config.daemon.confirm,
            channels=Recipients(self.config.default_channels),
        )
