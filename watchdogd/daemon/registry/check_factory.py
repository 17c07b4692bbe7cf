"""Construction of checks from the configuration: plugin, parameters, target and schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from watchdogd.batch.run_models import run_of
from watchdogd.config.fields import Recipients
from watchdogd.config.models import CheckSection, Config
from watchdogd.config.target_models import DiskSection, RunSection
from watchdogd.config.validation import validation_error
from watchdogd.daemon.registry.plugin_registry import PluginEntry
from watchdogd.errors import ConfigError
from watchdogd.home.layout import Home, absolute
from watchdogd.incidents.models import AlertPolicy
from watchdogd.plugin import REQUIRED, Parameter, Run
from watchdogd.system.text import nearest
from watchdogd.system.times import CronTimes

_PATHS = frozenset({"log", "path", "kill_switch", "save_switch", "pid_file", "checkpoints"})
_SHARED_KEYS = frozenset(CheckSection.model_fields)


@dataclass(frozen=True, slots=True)
class Check:
    """One check, ready to run: parameters are validated, times are in seconds.

    `at`: times of day at which it runs, instead of every so many seconds; the first one after `since`.
    `where`: its table in config.toml.
    """

    name: str
    entry: PluginEntry
    parameters: Mapping[str, Any]
    target: str
    run: Run | None
    every: float
    timeout: float
    confirm: int
    channels: Recipients
    runbook: str = ""
    follows: tuple[str, ...] = ()
    at: CronTimes | None = None
    since: float = 0.0
    where: str = ""

    @property
    def run_name(self) -> str:
        return self.run.name if self.run else ""


def build(
    config: Config,
    catalog: Mapping[str, PluginEntry],
    home: Home,
    default_backend: str,
    *,
    whole: bool = True,
) -> tuple[Check, ...]:
    """Return all enabled checks. ConfigError names the key that does not fit its plugin.

    Unless `whole`, a check with such a key is left out instead.
    """
    checks: tuple[Check, ...] = ()
    for section in _Builder(config, catalog, home, default_backend).sections():
        try:
            checks += tuple(section)
        except ConfigError:
            if whole:
                raise
    twice = next((name for name, count in Counter(check.name for check in checks).items() if count > 1), None)
    if twice is not None:
        raise ConfigError(f"{home.config}: checks.{twice}: another check has this name already: rename it")
    return checks


def with_defaults(
    name: str, entry: PluginEntry, section: CheckSection, target: str, config: Config, home: Home
) -> Check:
    """Return a check with its plugin's default parameters. ConfigError where one has no default."""
    for parameter in entry.parameters.values():
        if parameter.default is REQUIRED:
            raise ConfigError(f"{entry.name}: parameter '{parameter.name}' has no default: give it one")
    [made] = _Builder(config, {}, home, "none").made(name, entry, {}, section, name, None, target)
    return replace(made, where="")


def policy(check: Check, config: Config) -> AlertPolicy:
    alerts = config.alerts
    return AlertPolicy(
        confirm=check.confirm,
        every=check.every,
        repeat_every=alerts.repeat_every,
        escalate_after=alerts.escalate_after,
        follows=check.follows,
        patience=check.confirm * config.daemon.interval + check.timeout,
        patient=f"confirm under [{check.where}]" if check.where else "",
        limit=next(
            (f"{key} under {_table_of(key, check)}" for key in _LIMITS if key in check.entry.parameters), ""
        ),
    )


_LIMITS = ("stale_after", "checkpoint_every")
"""Parameters by which a result without a subject comes later, the higher they are."""


def _table_of(key: str, check: Check) -> str:
    """Return the table in which a key of a check is usually written: its run's, else its own."""
    above = check.where.partition(".checks.")[0]
    return f"[{above if key in RunSection.model_fields else check.where}]"


def written(config: Config, home: Home) -> tuple[str, ...]:
    """Return the files that watchdogd writes where logs may be: `pulse` files and status logs."""
    pulses = [run.pulse for run in config.runs.values() if run.pulse]
    logs = [path for each in config.channels.values() for path in each.written]
    return tuple(dict.fromkeys(absolute(home, path) for path in (*pulses, *logs)))


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builder of checks from the sections of config.toml."""

    config: Config
    catalog: Mapping[str, PluginEntry]
    home: Home
    default_backend: str

    def sections(self) -> Iterator[Iterator[Check]]:
        """Yield the checks of each section of config.toml."""
        ours = written(self.config, self.home)
        for name, run_section in self.config.runs.items():
            yield self._of_run(name, run_section, ours)
        for name, disk in self.config.disks.items():
            yield self._of_disk(name, disk)
        for name, section in self.config.checks.items():
            yield self._other(name, section)

    def _of_run(self, name: str, section: RunSection, ours: tuple[str, ...]) -> Iterator[Check]:
        run = run_of(name, section, self.config, self.home, self.default_backend)
        brought = self._watching("run")
        self._tuned(section, brought, f"runs.{name}")
        for entry in brought:
            if entry.name in section.checks or _wished(entry, section, run):
                yield from self._check(entry, section, f"runs.{name}", name, run, {"written": ours})

    def _of_disk(self, name: str, section: DiskSection) -> Iterator[Check]:
        brought = self._watching("disk")
        self._tuned(section, brought, f"disks.{name}")
        patterns = [run.checkpoints for run in self.config.runs.values() if run.checkpoints]
        saved = {"checkpoints": [absolute(self.home, pattern) for pattern in dict.fromkeys(patterns)]}
        for entry in brought:
            if entry.name in section.checks or _wished(entry, section):
                yield from self._check(entry, section, f"disks.{name}", name, None, saved)

    def _watching(self, kind: str) -> list[PluginEntry]:
        """Return plugins enabled for each run or disk; those that others follow come first."""
        found = [each for each in self.catalog.values() if each.declared.watches == kind and not each.skipped]
        return sorted(found, key=lambda entry: (not entry.declared.jobs, bool(entry.follows), entry.name))

    def _tuned(self, section: RunSection | DiskSection, brought: Collection[PluginEntry], where: str) -> None:
        """Raise ConfigError for a tuned check that its section does not enable."""
        for plugin in section.checks:
            entry = self._entry(plugin, f"{where}.checks.{plugin}")
            if entry not in brought:
                from watchdogd.daemon.misplaced_keys import home_of

                fault = f"{where}.checks.{plugin}: [{where}] brings no such check: write {home_of(entry)}"
                raise ConfigError(f"{self.home.config}: {fault}")

    def _other(self, name: str, section: CheckSection) -> Iterator[Check]:
        where = f"checks.{name}"
        run = None
        if section.run is not None:
            if section.run not in self.config.runs:
                hint = nearest(section.run, list(self.config.runs))
                raise ConfigError(f"{self.home.config}: {where}.run: there is no run '{section.run}'{hint}")
            run = run_of(
                section.run, self.config.runs[section.run], self.config, self.home, self.default_backend
            )
        given = dict(section.__pydantic_extra__ or {})
        entry = self._entry(section.plugin or name, where)
        yield from self.made(name, entry, given, section, where, run, name)

    def _check(
        self,
        entry: PluginEntry,
        section: RunSection | DiskSection,
        where: str,
        target: str,
        run: Run | None,
        known: Mapping[str, Any],
    ) -> Iterator[Check]:
        """Yield a check of the `target`, a run or a disk.

        Its parameters are the section's keys, then those tuned under `checks`. `known` are parameters taken
        from other sections.
        """
        where = f"{where}.checks.{entry.name}"
        given = {key: value for key, value in known.items() if key in entry.parameters} | {
            key: _plain(value)
            for key, value in section
            if key in entry.parameters and key in section.model_fields_set
        }
        raw = section.checks.get(entry.name, {})
        tuning = self._tuning(raw, where)
        given |= {key: value for key, value in raw.items() if key not in _SHARED_KEYS}
        tuned = tuning.model_copy(
            update={
                "channels": tuning.channels or section.channels,
                "runbook": tuning.runbook or section.runbook,
            }
        )
        yield from self.made(f"{target}/{entry.name}", entry, given, tuned, where, run, target)

    def _tuning(self, raw: Mapping[str, Any], where: str) -> CheckSection:
        shared = {key: value for key, value in raw.items() if key in _SHARED_KEYS}
        try:
            return CheckSection.model_validate(shared)
        except ValidationError as error:
            errors = error.errors(include_url=False)
            key = errors[0]["loc"][0]
            here = [each for each in errors if each["loc"][0] == key]
            raise ConfigError(f"{self.home.config}: {where}.{key}: {validation_error(here)}") from None

    def made(
        self,
        name: str,
        entry: PluginEntry,
        given: dict[str, Any],
        section: CheckSection,
        where: str,
        run: Run | None,
        target: str,
    ) -> Iterator[Check]:
        if not section.enabled:
            return
        daemon = self.config.daemon
        default = Recipients(self.config.default_channels)
        run_channels = self.config.runs[run.name].channels if run else None
        follows = tuple(f"{run.name}/{leader}" for leader in entry.follows) if run else ()
        yield Check(
            name=name,
            entry=entry,
            parameters=self._parameters(entry, given, where),
            target=target,
            run=run,
            every=section.every or entry.every or daemon.interval,
            timeout=section.timeout or entry.timeout or daemon.timeout,
            confirm=section.confirm or daemon.confirm,
            channels=(section.channels or run_channels or default).beside(default),
            runbook=section.runbook or "",
            follows=follows,
            where=where,
        )

    def _entry(self, plugin: str, where: str) -> PluginEntry:
        entry = self.catalog.get(plugin)
        if entry is None:
            hint = nearest(plugin, [name for name, known in self.catalog.items() if not known.skipped])
            raise ConfigError(f"{self.home.config}: {where}: there is no plugin '{plugin}'{hint}")
        if entry.skipped:
            raise ConfigError(f"{self.home.config}: {where}: plugin '{plugin}' {entry.skipped}")
        return entry

    def _parameters(self, entry: PluginEntry, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        for key in given:
            if key not in entry.parameters:
                known = [*entry.parameters, *sorted(_SHARED_KEYS)]
                raise ConfigError(
                    f"{self.home.config}: {where}.{key}: unknown key{self._meant(key, where, known)}"
                )
        values = {}
        for key, parameter in entry.parameters.items():
            if key not in given and parameter.default is REQUIRED:
                raise ConfigError(f"{self.home.config}: {where}.{key}: is missing")
            value = given.get(key, parameter.default)
            values[key] = self._value(parameter, value, f"{where}.{key}", given=key in given)
        crossed = "" if entry.foreign else _crossed(values)
        if crossed:
            raise ConfigError(f"{self.home.config}: {where}: {crossed}")
        return values

    def _meant(self, key: str, where: str, known: list[str]) -> str:
        from watchdogd.daemon.misplaced_keys import hint  # needed for a mistake only

        kind, _, name = where.partition(".")
        above, _, plugin = name.rpartition(".checks.")
        path = (kind, above, "checks", plugin) if plugin and above else (kind, name)
        return hint(path, key, known, self.catalog.values())

    def _value(self, parameter: Parameter, value: Any, where: str, *, given: bool) -> Any:
        if value is None and not given:
            return None
        try:
            checked = _adapter(parameter.type).validate_python(value)
        except ValidationError as error:
            sentence = validation_error(error.errors(include_url=False))
            raise ConfigError(f"{self.home.config}: {where}: {sentence}") from None
        if parameter.name in _PATHS and checked and isinstance(checked, str):
            return absolute(self.home, checked)
        return checked


def _crossed(values: Mapping[str, Any]) -> str:
    """Return why a pair such as `vram_warn` and `vram_crit` is the wrong way round, or empty.

    Free space is worse the less it is; everything else the more it is.
    """
    for key, warn in values.items():
        other = key.replace("warn", "crit")
        crit = values.get(other)
        if "free" in key or other == key:
            continue
        if not isinstance(warn, int | float) or not isinstance(crit, int | float):
            continue
        if crit < warn:
            return f"{other} = {crit:g} is below {key} = {warn:g}: CRITICAL would come first; exchange them"
    return ""


@lru_cache(maxsize=512)
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


def _wished(entry: PluginEntry, section: RunSection | DiskSection, run: Run | None = None) -> bool:
    """Return whether a section enables a check: the key that it needs is set.

    Without a batch system the log alone shows the state of a run; the check of its jobs is enabled only where
    there is no log, to say that nothing can be watched.
    """
    needs = entry.declared.needs
    if needs:
        return getattr(section, needs, None) not in (None, (), "")
    if run is not None and run.backend == "none" and "log" in entry.parameters:
        return entry.declared.jobs != bool(getattr(section, "log", None))
    return True


def _plain(value: Any) -> Any:
    """Convert a configured value to what plugins accept: tables become dicts."""
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_none=True)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
