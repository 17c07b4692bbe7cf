"""`watchdogd plugins`: every plugin found, where it comes from, its parameters."""

from __future__ import annotations

import inspect
import types
import typing
from typing import TYPE_CHECKING, Any

from watchdogd.cli.output import print_json, print_line
from watchdogd.engine.catalog import discover
from watchdogd.home import Home
from watchdogd.plugin import REQUIRED

if TYPE_CHECKING:
    import argparse

    from watchdogd.engine.catalog import Entry
    from watchdogd.plugin import Parameter


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument("--json", action="store_true", help="a list of plugins with their parameters")


def run(args: argparse.Namespace) -> int:
    """Print them; always 0."""
    entries = sorted(discover(Home.find(args.home)).values(), key=lambda entry: (entry.origin, entry.name))
    if args.json:
        print_json([entry_json(entry) for entry in entries])
        return 0
    for entry in entries:
        print_line(f"{entry.name} ({entry.origin}): {entry.skipped or entry.description}")
        for parameter in entry.parameters.values():
            print_line(f"    {_written(parameter)}")
    return 0


def entry_json(entry: Entry) -> dict[str, Any]:
    """A plugin as the contract has it."""
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
    """`str`, `duration`, `size or percentage` ... as a person would say it."""
    from watchdogd import units

    spoken = {
        units.Duration: "duration",
        units.Size: "size",
        units.Share: "percentage",
        units.AmountField: "size or percentage",
        units.Rate: "writing rate",
        type(None): "nothing",
    }
    if annotation in spoken:
        return spoken[annotation]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return " or ".join(type_name(part) for part in typing.get_args(annotation))
    return (
        getattr(annotation, "__name__", str(annotation)) if inspect.isclass(annotation) else str(annotation)
    )


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _written(parameter: Parameter) -> str:
    default = "required" if parameter.default is REQUIRED else f"default {parameter.default!r}"
    doc = f": {parameter.doc}" if parameter.doc else ""
    return f"{parameter.name} ({type_name(parameter.type)}, {default}){doc}"
