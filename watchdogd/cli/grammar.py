"""All verbs with their options, as values: what completion and the manual page are made of.

Taken from the verbs' own parsers, so that neither can differ from what they take.
"""

from __future__ import annotations

import argparse
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdogd import cli

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Option:
    """An option by all its names; `value` is what it takes (empty: nothing), `choices` what that may be."""

    names: tuple[str, ...]
    value: str
    help: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """A word of its own after the verb: `RUN`, `NAME...`."""

    name: str
    help: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb. `usage` is its line without `usage:`."""

    name: str
    help: str
    usage: str
    options: tuple[Option, ...]
    places: tuple[Place, ...]

    @property
    def about_a_run(self) -> bool:
        """Whether its word is the name of a run, or of something that is watched."""
        return any(place.name in ("RUN", "TARGET", "NAME") for place in self.places)


def verbs() -> tuple[Verb, ...]:
    """All verbs, in the order of `watchdogd --help`. Imports every verb's module."""
    return tuple(_verb(name, module, help_) for name, (module, help_) in cli.VERBS.items())


def _verb(name: str, module: str, help_: str) -> Verb:
    parser = cli.parser_of(importlib.import_module(f"watchdogd.cli.{module}"), name)
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    actions: Sequence[argparse.Action] = parser._actions  # argparse has no other way to list them
    options = tuple(_option(each) for each in actions if each.option_strings)
    places = tuple(_place(each) for each in actions if not each.option_strings)
    return Verb(name, help_, usage, options, places)


def _option(action: argparse.Action) -> Option:
    value = "" if action.nargs == 0 else _metavar(action)
    return Option(tuple(action.option_strings), value, _help(action), _choices(action))


def _place(action: argparse.Action) -> Place:
    return Place(_metavar(action), _help(action), _choices(action))


def _metavar(action: argparse.Action) -> str:
    shown = action.metavar or action.dest.upper()
    return shown if isinstance(shown, str) else " ".join(shown)


def _help(action: argparse.Action) -> str:
    return "" if action.help in (None, argparse.SUPPRESS) else str(action.help).replace("%%", "%")


def _choices(action: argparse.Action) -> tuple[str, ...]:
    return tuple(map(str, action.choices or ()))
