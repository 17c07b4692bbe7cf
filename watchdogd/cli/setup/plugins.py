"""`watchdogd plugins`: every plugin and drop-in found, where it comes from, its parameters."""

from __future__ import annotations

import argparse
import inspect
import shutil
import sys
import textwrap
import types
import typing
from typing import Any

from watchdogd.cli.output import print_json, print_line
from watchdogd.daemon.dropins import dropins
from watchdogd.daemon.dropins.dropins import DropIn
from watchdogd.daemon.registry.plugin_registry import PluginEntry, Source, discover
from watchdogd.errors import HomeError, WatchdogError
from watchdogd.home.layout import Home
from watchdogd.plugin import REQUIRED, Parameter
from watchdogd.system.text import nearest
from watchdogd.units import format_duration


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("name", nargs="?", metavar="PLUGIN", help="show its parameters too")
    parser.add_argument("--json", action="store_true", help="a list of plugins with their parameters")


def run(args: argparse.Namespace) -> int:
    """Print one line for each, or one plugin with its parameters; return 1 if there is no such plugin."""
    home = Home.find(args.home)
    found = [*discover(home).values(), *(_entry(home, dropin) for dropin in _dropins(home))]
    entries = sorted(found, key=lambda entry: (entry.origin, entry.name))
    if args.name is not None:
        names = [entry.name for entry in entries]
        entries = [entry for entry in entries if entry.name == args.name]
        if not entries:
            raise WatchdogError(f"there is no plugin '{args.name}'{nearest(args.name, names)}")
    if args.json:
        print_json([entry_json(entry) for entry in entries])
        return 0
    for entry in entries:
        origin = entry.origin if args.name else _short(home, entry)
        _print(f"{entry.name}{origin and f' ({origin})'}: {entry.skipped or entry.description}", indent=0)
        for parameter in entry.parameters.values() if args.name else ():
            _print(_written(parameter), indent=4)
    return 0


def _print(text: str, indent: int) -> None:
    """Print on one line for a pipe, folded for a terminal."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    begin = " " * indent
    for line in textwrap.wrap(text, width - indent - 4) if width > indent + 24 else [text]:
        print_line(begin + line)
        begin = " " * (indent + 4)


def _dropins(home: Home) -> tuple[DropIn, ...]:
    try:
        return dropins.look(home) if home.path.is_dir() else ()
    except OSError as error:
        raise HomeError(f"{error.filename} cannot be looked at: {error.strerror}") from None


def _short(home: Home, entry: PluginEntry) -> str:
    """Return where a plugin is from: its path in home; empty if its name says it."""
    inside = entry.origin.removeprefix(f"{home.path}/")
    return "" if inside == entry.name else inside


def _entry(home: Home, dropin: DropIn) -> PluginEntry:
    kind = dropin.kind.value if dropin.kind else "drop-in"
    why = dropin.refused
    refused = f"{dropins.refusal(dropin.path, str(home.path), why)}: {why.fix}" if why else ""
    skipped = dropin.skipped or refused
    source = Source(dropin.path, "")
    return PluginEntry(
        dropin.name, dropin.path, source, f"{kind}, every {format_duration(dropin.every)}", skipped=skipped
    )


def entry_json(entry: PluginEntry) -> dict[str, Any]:
    """Describe a plugin as `plugins --json` prints it."""
    return {
        "name": entry.name,
        "origin": entry.origin,
        "description": entry.description,
        "parameters": {
            name: {
                "type": type_name(parameter.type),
                "default": None if parameter.default is REQUIRED else _plain(parameter.default),
                "required": parameter.default is REQUIRED,
                "doc": parameter.doc,
            }
            for name, parameter in entry.parameters.items()
        },
        "skipped": entry.skipped or None,
    }


def type_name(annotation: Any) -> str:
    """Return a type in words: `str`, `duration`, `size or percentage`."""
    from watchdogd import units

    names = {
        units.Duration: "duration",
        units.Size: "size",
        units.Share: "percentage",
        units.Percent: "per cent",
        units.AmountField: "size or percentage",
        units.Rate: "writing rate",
        type(None): "nothing",
    }
    if annotation in names:
        return names[annotation]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return " or ".join(type_name(part) for part in typing.get_args(annotation))
    if typing.get_origin(annotation) is typing.Literal:
        return " or ".join(f'"{word}"' for word in typing.get_args(annotation))
    return (
        getattr(annotation, "__name__", str(annotation)) if inspect.isclass(annotation) else str(annotation)
    )


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _written(parameter: Parameter) -> str:
    default = "required" if parameter.default is REQUIRED else f"default {parameter.default!r}"
    doc = f": {parameter.doc}" if parameter.doc else ""
    return f"{parameter.name} ({type_name(parameter.type)}, {default}){doc}"
