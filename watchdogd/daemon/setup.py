"""Setup: all values derived from the configuration, rebuilt when config.toml changes."""

from __future__ import annotations

import logging
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice

from watchdogd.batch import commands
from watchdogd.config.loading import load
from watchdogd.config.models import Config, Maintenance
from watchdogd.daemon import dependencies
from watchdogd.daemon.dependencies import Dependency, MountMark
from watchdogd.daemon.dropins import crontab, dropins
from watchdogd.daemon.dropins.dropins import DropIn
from watchdogd.daemon.misplaced_keys import explained
from watchdogd.daemon.registry import check_factory as checks_module
from watchdogd.daemon.registry.check_factory import Check
from watchdogd.daemon.registry.plugin_registry import PluginEntry, discover, skipped
from watchdogd.errors import Problem, UnknownKeyError
from watchdogd.home.layout import Home
from watchdogd.incidents.models import DELIVERY, SELF, AlertPolicy
from watchdogd.notify.routing import MessageRules, Route
from watchdogd.notify.senders import standing
from watchdogd.system.bounded_io import BoundedIO, StuckError
from watchdogd.system.times import LOCAL_ZONE, CronTimes, short_time, zone_named


@dataclass(frozen=True, slots=True)
class Window:
    """One maintenance window, in seconds since the epoch."""

    begin: float
    end: float


class Windows:
    """Configured maintenance windows. Calling it returns why a target is silenced at a time, or empty."""

    def __init__(self, entries: Iterable[Maintenance]) -> None:
        self._entries = [(_times(entry), entry) for entry in entries]

    def __call__(self, target: str, check: str, now: float) -> str:
        """Return `maintenance until 04:00` in local time, or empty."""
        ends = [
            begin + entry.length
            for times, entry in self._entries
            if not entry.targets or target in entry.targets or check in entry.targets
            if (begin := times.last(now)) is not None
        ]
        end = max(ends, default=now)
        return f"maintenance until {short_time(end, now)}" if end > now else ""

    def ahead(self, now: float, count: int) -> Iterator[tuple[Maintenance, tuple[Window, ...]]]:
        """Yield each entry with its next windows; a current one is the first of them."""
        for times, entry in self._entries:
            last = times.last(now)
            lasting = [last] if last is not None and last + entry.length > now else []
            begins = [*lasting, *islice(times.after(now), count - len(lasting))]
            yield entry, tuple(Window(begin, begin + entry.length) for begin in begins)


def _times(entry: Maintenance) -> CronTimes:
    return CronTimes(entry.cron, zone_named(entry.timezone) if entry.timezone else LOCAL_ZONE)


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Setup:
    """Configuration, plugins, checks, and how each check's results are evaluated and sent.

    files     file systems that checks depend on, by the mount table in `mounts`
    gone      routes of unmounted file systems whose recovery is still to be reported
    dropped   those of `checks` that come from home's drop-in folders
    looked    whether those folders could be read
    whole     whether every configured check is valid
    expected  names of checks known before, until the folders can be read and all checks are valid
    """

    config: Config
    catalog: Mapping[str, PluginEntry]
    checks: tuple[Check, ...]
    maintenance: Windows
    rules: MessageRules
    files: Mapping[str, Dependency] = field(default_factory=dict)
    mounts: MountMark = field(default_factory=MountMark)
    gone: Mapping[str, Route] = field(default_factory=dict)
    dropped: tuple[Check, ...] = ()
    scouts: crontab.Scouts = field(default_factory=crontab.Scouts)
    looked: bool = False
    whole: bool = True
    expected: frozenset[str] = frozenset()

    @classmethod
    def load(cls, home: Home) -> Setup:
        """Load config.toml and build all from it. ConfigError in one line where something is wrong."""
        try:
            config = load(home)
        except UnknownKeyError as error:
            raise explained(error) from None
        return cls.of(config, home)

    @classmethod
    def of(cls, config: Config, home: Home, *, whole: bool = True) -> Setup:
        """Build a setup from a configuration and the drop-in folders.

        Unless `whole`, invalid checks are left out. ConfigError.
        """
        configured = cls._of(config, home, whole)
        patient = BoundedIO(str(home.path))
        try:
            return configured.with_dropins(patient.attempt(partial(dropins.look, home)), home)
        except (StuckError, OSError) as error:
            log.info("the drop-in folders cannot be looked at: %s", error)
            return configured
        finally:
            patient.close()

    @classmethod
    def _of(cls, config: Config, home: Home, whole: bool) -> Setup:
        catalog = discover(home)
        built = checks_module.build(config, catalog, home, commands.here(), whole=whole)
        checks, files, mounts = dependencies.placed(built)
        return cls(
            config=config,
            catalog=catalog,
            checks=checks,
            maintenance=Windows(config.alerts.maintenance),
            files=files,
            mounts=mounts,
            whole=whole,
            rules=MessageRules(
                channels=config.default_channels,
                escalate_to=config.alerts.escalate_to,
                threaded=frozenset(name for name, each in config.channels.items() if each.threaded),
                standing=standing(config),
                only={name: frozenset(each.only) for name, each in config.channels.items() if each.only},
                name=config.daemon.name,
                host=socket.gethostname(),
                command=home.program,
            ),
        )

    @cached_property
    def policies(self) -> Mapping[str, AlertPolicy]:
        alerts, daemon = self.config.alerts, self.config.daemon
        own = AlertPolicy(1, daemon.interval, alerts.repeat_every, alerts.escalate_after)
        missed = replace(own, confirm=daemon.confirm)
        dependency = replace(own, confirm=max(daemon.confirm, 2), blinds=True)
        followed = (*self.files, *_dependencies_of(self.checks))
        return (
            {SELF: own, DELIVERY: replace(own, escalate_after=None)}
            | dict.fromkeys(followed, dependency)
            | dict.fromkeys(self.expected, missed)
            | {check.name: checks_module.policy(check, self.config) for check in self.checks}
        )

    @cached_property
    def routes(self) -> Mapping[str, Route]:
        return (
            {SELF: Route(self.config.default_channels), DELIVERY: Route(), **self.gone}
            | {name: _route(name, self.checks, self.config) for name in _dependencies_of(self.checks)}
            | {
                each.name: Route(each.channels, each.runbook, each.entry.foreign, each.channels.only)
                for each in self.checks
            }
        )

    def with_dropins(self, found: Iterable[DropIn], home: Home) -> Setup:
        """Return a setup with the checks of these drop-ins in place of the previous ones."""
        own = tuple(check for check in self.checks if check not in self.dropped)
        taken = {check.name for check in own}
        built = crontab.build(found, self.config, home, self.scouts)
        fresh = tuple(check for check in built if check.name not in taken)
        return replace(self, checks=own + fresh, dropped=fresh, looked=True, expected=frozenset())

    def expecting(self, known: Iterable[str]) -> Setup:
        """Return a setup that keeps incidents of `known` checks open while some checks cannot be built."""
        if self.looked and self.whole:
            return self
        missing = (name for name in known if name not in self.policies)
        names = frozenset(name for name in missing if not self.whole or crontab.is_dropin(name))
        return replace(self, expected=self.expected | names)

    def remounted(self, needed: Collection[str]) -> Setup:
        """Return a setup for the present mounts; itself where they are unchanged.

        File systems of `needed` names are kept, so that the recovery of an unmounted one is reported.
        """
        if dependencies.mounted() == self.mounts.mounted:
            return self
        own = tuple(check for check in self.checks if check not in self.dropped)
        checks, files, mounts = dependencies.placed(own, self.mounts)
        stay = {name: dependency for name, dependency in self.files.items() if name in needed}
        gone = {name: self.routes[name] for name in stay}
        return replace(self, checks=checks + self.dropped, files=stay | files, mounts=mounts, gone=gone)

    def harmless(self) -> Setup:
        """Return a setup for a dry run: no drop-in is run, no script is submitted."""
        return replace(self, checks=tuple(crontab.harmless(check) for check in self.checks))

    @property
    def unusable(self) -> tuple[Problem, ...]:
        """Plugins of home and of packages that cannot be used, each with reason and fix."""
        return tuple(_unusable(entry) for entry in skipped(self.catalog.values()))


def _unusable(entry: PluginEntry) -> Problem:
    """Return why a plugin is not used; its own path is left out."""
    why = entry.skipped if isinstance(entry.skipped, Problem) else Problem(entry.skipped)
    what = why.what.replace(entry.origin, "it")
    fix, typed = (
        (why.fix, why.typed) if why.fix else (f"correct {entry.origin}, or install what it imports", False)
    )
    return Problem(f"plugin {entry.name} is not used: {what}", fix, typed=typed)


def _dependencies_of(checks: Iterable[Check]) -> list[str]:
    """Return the names of the daemon's own checks that others follow."""
    followed = dict.fromkeys(name for check in checks for name in check.follows)
    return [name for name in followed if name.startswith(f"{SELF}/")]


def _route(dependency: str, checks: Iterable[Check], config: Config) -> Route:
    """Return the route to all channels of the checks that depend on it."""
    channels = [channel for check in checks if dependency in check.follows for channel in check.channels]
    return Route(tuple(dict.fromkeys((*config.default_channels, *channels))))
