"""Registry of all plugins: built-in ones, home's own, and those of installed packages.

A user's code is never imported into the daemon: a separate process imports it, within a deadline, and prints
its plugins. A plugin that cannot be used is listed with the reason.
"""

from __future__ import annotations

import importlib.metadata
import pickle
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from watchdogd.declaration import Declaration
from watchdogd.home.file_trust import distrust, team_of
from watchdogd.home.layout import Home
from watchdogd.plugin import Parameter, Plugin
from watchdogd.system import command

SCOUT_DEADLINE = 20.0
_SCOUTS_GET = frozenset((
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX",
    "LD_LIBRARY_PATH", "WATCHDOGD_HOME",
))  # fmt: skip
"""Environment variables for the process that imports a user's code; secrets are left out."""


@dataclass(frozen=True)
class Source:
    """Location of a plugin's code: a module's name or a file's path, and the function in it."""

    module: str
    attribute: str

    @property
    def is_file(self) -> bool:
        """Return whether it is a file outside any package."""
        return "/" in self.module


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """Plugin in the catalog. `origin`: `built-in`, a file's path, or a package's name.

    `program`: an executable drop-in, run by built-in code; other users' plugins run in their own workers.
    """

    name: str
    origin: str
    source: Source
    description: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    wants: frozenset[str] = frozenset()
    every: float | None = None
    timeout: float | None = None
    follows: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    remembers: float = 0.0
    declared: Declaration = field(default_factory=Declaration)
    skipped: str = ""
    program: bool = False

    @property
    def foreign(self) -> bool:
        """Return whether it is a user's or a package's."""
        return self.origin != "built-in"


def discover(home: Home) -> dict[str, PluginEntry]:
    """Return all plugins by name; unusable ones have `skipped` set. Never raises because of a plugin."""
    found = {entry.name: entry for entry in built_in()}
    for entry in [*_of_home(home), *_of_packages()]:
        taken = found.get(entry.name)
        if taken is None:
            found[entry.name] = entry
        else:
            reason = f"the name '{entry.name}' is taken ({taken.origin}): rename the function"
            found[f"{entry.name} ({entry.origin})"] = _unusable(entry.name, entry.origin, reason)
    return found


def entries_of(module: Any, source: str, origin: str) -> list[PluginEntry]:
    """Return the plugins that a module defines itself, not those that it imports."""
    return [
        PluginEntry(
            name=plugin.name,
            origin=origin,
            source=Source(source, attribute),
            description=plugin.description,
            parameters=dict(plugin.parameters),
            wants=plugin.wants,
            every=plugin.every,
            timeout=plugin.timeout,
            follows=plugin.follows,
            after=plugin.after,
            remembers=plugin.remembers,
            declared=plugin.declared,
        )
        for attribute, plugin in vars(module).items()
        if isinstance(plugin, Plugin) and plugin.function.__module__ == module.__name__
    ]


def built_in() -> list[PluginEntry]:
    from watchdogd import plugins

    return [entry for each in plugins.modules() for entry in entries_of(each, each.__name__, "built-in")]


def _of_home(home: Home) -> list[PluginEntry]:
    found: list[PluginEntry] = []
    trusted = team_of(home.path)
    for path in sorted(home.plugins.glob("*.py")) if home.plugins.is_dir() else []:
        if path.name.startswith((".", "_")):
            continue
        reason = distrust(path, trusted) or ("" if path.is_file() else f"{path} is no plain file")
        found += [_unusable(path.stem, str(path), reason)] if reason else scout(str(path), str(path))
    return found


def _of_packages() -> list[PluginEntry]:
    found: list[PluginEntry] = []
    for point in importlib.metadata.entry_points(group="watchdogd.plugins"):
        found += scout(point.module, point.dist.name if point.dist else point.module)
    return found


def scout(module: str, origin: str) -> list[PluginEntry]:
    """Return the plugins of a module or file, as a separate process lists them."""
    needed = {key: value for key, value in command.environment().items() if key in _SCOUTS_GET}
    answer = command.ask(
        [sys.executable, "-P", "-m", "watchdogd.daemon.registry.plugin_loading", module, origin],
        deadline=SCOUT_DEADLINE,
        env=needed,
    )
    name = Path(module).stem
    if not answer.ok:
        return [_unusable(name, origin, answer.complaint())]
    try:
        entries: list[PluginEntry] = pickle.loads(bytes.fromhex(answer.output.strip().rpartition("\n")[2]))  # noqa: S301 - our own scout wrote it, of code that this user runs anyhow
    except (ValueError, pickle.UnpicklingError, AttributeError, ImportError, EOFError) as error:
        return [_unusable(name, origin, f"cannot be loaded: {error}")]
    return entries or [_unusable(name, origin, "holds no function with @check")]


def skipped(entries: Iterable[PluginEntry]) -> list[PluginEntry]:
    return [entry for entry in entries if entry.skipped]


def _unusable(name: str, origin: str, reason: str) -> PluginEntry:
    return PluginEntry(name, origin, Source(origin, name), skipped=reason)
