"""What the verdicts of checks rest on, by what these remember: as `watchdogd check --explain` has it."""

from __future__ import annotations

import json
import pkgutil
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

import watchdogd.plugins
from watchdogd.plugin import Plugin
from watchdogd.runstate import plugin_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from watchdogd.history.store import Store


@dataclass(frozen=True, slots=True)
class Explanation:
    """Lines of what a check found, what it goes by, and what it passed over."""

    check: str
    lines: tuple[str, ...]


def explanations(store: Store, results: Iterable[Mapping[str, Any]], now: float) -> tuple[Explanation, ...]:
    """Of the checks that said these results, those that can explain themselves. HistoryError where what they
    remember cannot be read."""
    known = _explaining()
    checks = {result["check"]: plugin_of(result) for result in results if plugin_of(result) in known}
    return tuple(_explained(checks, known, store.memories(checks), now)) if checks else ()


def _explained(
    checks: Mapping[str, str], known: Mapping[str, Plugin], memories: Mapping[str, str], now: float
) -> Iterator[Explanation]:
    for check, text in memories.items():
        try:
            lines = known[checks[check]].explained(json.loads(text), now)
        except ValueError:
            continue  # damaged: the check begins anew
        if lines:
            yield Explanation(check, tuple(lines))


@cache
def _explaining() -> dict[str, Plugin]:
    """Our own plugins that have words for it; users' code is not run here."""
    modules = [
        import_module(f"watchdogd.plugins.{each.name}")
        for each in pkgutil.iter_modules(watchdogd.plugins.__path__)
    ]
    plugins = [each for module in modules for each in vars(module).values() if isinstance(each, Plugin)]
    return {plugin.name: plugin for plugin in plugins if plugin.explain}
