"""Hints for unknown keys of config.toml: the key meant, or the table where it belongs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from watchdogd.config.channels import channel_types
from watchdogd.config.loading import NAME, Table, tables
from watchdogd.config.models import CheckSection
from watchdogd.daemon.registry.plugin_registry import PluginEntry, built_in
from watchdogd.errors import UnknownKeyError
from watchdogd.system.text import nearest

_KINDS = {"run": "runs", "disk": "disks"}
_WATCHED = [(kind, NAME) for kind in _KINDS.values()]
_AT_MOST = 3
_SURE = 0.8
"""Similarity from which a key counts as a typing error, even if another table has the key."""


def explained(error: UnknownKeyError) -> UnknownKeyError:
    meant = hint(error.where, error.key, error.known)
    hinted = UnknownKeyError(error.found, meant, error.where, error.key, error.known)
    hinted.line = error.line
    return hinted


def hint(where: Sequence[str], key: str, known: list[str], plugins: Iterable[PluginEntry] = ()) -> str:
    """Return a hint for a key that the table `where` does not know.

    It names one of the `known` keys, or the table that has it; `plugins` are the user's plugins.
    """
    if slip := get_close_matches(key, known, n=1, cutoff=_SURE):
        return f"; did you mean '{slip[0]}'?"
    return place(where, key, plugins) or nearest(key, known)


def place(where: Sequence[str], key: str, plugins: Iterable[PluginEntry] = ()) -> str:
    """Return `; its place is [runs.run-17.checks.log_staleness] grace`, or nothing.

    Of several tables the nearest are named, and those of runs and disks, which have the thresholds.
    """
    entries = {entry.name: entry for entry in (*built_in(), *plugins)}
    found = [each for each in (*tables(), *_of_plugins(entries.values())) if key in each.keys]
    nearness = max((each.shared(where) for each in found), default=0)
    places: dict[str, list[str]] = {}
    for each in found:
        if each.shared(where) == nearness or each.path in _WATCHED:
            places.setdefault(each.place(key, where), []).append(each.given)
    named = [f"{named}{_condition(given)}" for named, given in places.items()]
    more = " and others" if len(named) > _AT_MOST else ""
    return f"; its place is {' or '.join(named[:_AT_MOST])}{more}" if named else ""


def _condition(given: list[str]) -> str:
    """Return which channel types have the key, in parentheses; empty where all have it."""
    return f" ({' or '.join(given)})" if all(given) and len(given) < len(channel_types()) else ""


def home_of(entry: PluginEntry) -> str:
    """Return the table of a plugin's parameters."""
    if kind := _KINDS.get(entry.declared.watches):
        return f"[{kind}.{NAME}.checks.{entry.name}]"
    run = ' and run = "..."' if "run" in entry.wants else ""
    return f'[checks.{NAME}] with plugin = "{entry.name}"{run}'


def _of_plugins(entries: Iterable[PluginEntry]) -> Iterator[Table]:
    """Yield the tables of plugins' parameters, without keys that the run's or disk's table sets."""
    shared = tuple(key for key in CheckSection.model_fields if key not in ("plugin", "run"))
    brought: dict[str, list[str]] = {kind: [] for kind in _KINDS.values()}
    for entry in entries:
        kind = _KINDS.get(entry.declared.watches)
        if kind:
            brought[kind].append(entry.name)
        path = (kind, NAME, "checks", entry.name) if kind else ("checks", NAME)
        above = next((each.keys for each in tables() if each.at(path[:2])), ()) if kind else ()
        keys = tuple(key for key in entry.parameters if key not in above)
        yield Table(path, keys, "" if kind else f'plugin = "{entry.name}"')
    for kind, names in brought.items():
        yield Table((kind, NAME, "checks"), tuple(names), whole=True)
        yield Table((kind, NAME, "checks", "PLUGIN"), shared)
    yield Table(("channels",), channel_types(), whole=True)
