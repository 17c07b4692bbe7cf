"""`watchdogd config`: the effective configuration, with secrets masked; or an example of one.

It shows where each check came from, and the next maintenance windows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from watchdogd.cli.output import print_json, print_line
from watchdogd.config.channels import channel_models, example, is_built_in
from watchdogd.config.secret import without_passwords
from watchdogd.daemon.registry.check_factory import Check
from watchdogd.daemon.setup import Setup
from watchdogd.doctor.setup_wizard import toml_key
from watchdogd.home.layout import Home
from watchdogd.units import Amount, Parsed, format_duration, iso, parse_duration

NEXT = 3
"""How many windows of each maintenance entry are shown."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="the configuration and the checks")
    shown.add_argument("--example", action="store_true", help="a config.toml in which every key is explained")


def run(args: argparse.Namespace) -> int:
    """Print it. Raise ConfigError (exit code 78) if it is broken."""
    if args.example:  # needs no home
        print(files("watchdogd").joinpath("config.example.toml").read_text("utf-8"), end="")
        for kind, model in channel_models():
            if not is_built_in(kind):
                print(f"\n# ---- a channel of another package\n\n{example(model)}", end="")
        return 0
    home = Home.existing(args.home)
    setup = Setup.load(home)
    settings = setup.config.model_dump(by_alias=True)
    if args.json:
        checks = [_check(check) for check in setup.checks]
        print_json({"config": _plain(settings), "checks": checks, "maintenance": _maintenance(setup)})
        return 0
    for table, keys in _plain(_with_durations(setup.config, settings)).items():
        for line in _lines(table, keys):
            print_line(line)
    print_line("")
    for check in setup.checks:
        print_line(
            f"check {check.name}: plugin {check.entry.name} ({check.entry.origin}), "
            f"every {format_duration(check.every)}, {', '.join(check.channels) or 'no channels'}"
        )
    for entry, windows in setup.maintenance.ahead(time.time(), NEXT):
        zone = f" ({entry.timezone})" if entry.timezone else ""
        print_line(
            f"maintenance {entry.cron}{zone} for {format_duration(entry.length)}, "
            f"{', '.join(entry.targets) or 'all targets'}: "
            f"{'; '.join(f'{_when(each.begin)} to {_when(each.end)}' for each in windows)}"
        )
    return 0


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%a %Y-%m-%d %H:%M %Z").rstrip()


def _maintenance(setup: Setup) -> list[dict[str, Any]]:
    return [
        {
            "cron": entry.cron,
            "timezone": entry.timezone,
            "for": entry.length,
            "targets": list(entry.targets),
            "next": [{"begin": iso(each.begin), "end": iso(each.end)} for each in windows],
        }
        for entry, windows in setup.maintenance.ahead(time.time(), NEXT)
    ]


def _check(check: Check) -> dict[str, Any]:
    return {
        "check": check.name,
        "plugin": check.entry.name,
        "origin": check.entry.origin,
        "run": check.run_name or None,
        "target": check.target,
        "every": check.every,
        "timeout": check.timeout,
        "confirm": check.confirm,
        "channels": list(check.channels),
        "parameters": _plain(dict(check.parameters)),
    }


def _plain(value: Any) -> Any:
    """Return a configuration as JSON values; secrets are masked."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Amount) or not (value is None or isinstance(value, bool | int | float | str)):
        return str(value)
    return without_passwords(value) if isinstance(value, str) else value


def _with_durations(value: Any, dumped: Any) -> Any:
    """Return a model's values, with durations as people write them."""
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        keys = {name: each.alias or name for name, each in fields.items()}
        return dumped | {
            keys[name]: _field(each, getattr(value, name), dumped[keys[name]])
            for name, each in fields.items()
        }
    if isinstance(value, Mapping):
        return {key: _with_durations(each, dumped[key]) for key, each in value.items()}
    if isinstance(value, list | tuple) and isinstance(dumped, list | tuple):
        return [_with_durations(*pair) for pair in zip(value, dumped, strict=True)]
    return dumped


def _field(field: FieldInfo, value: Any, dumped: Any) -> Any:
    marks = [
        *field.metadata,
        *(mark for part in get_args(field.annotation) for mark in getattr(part, "__metadata__", ())),
    ]
    is_duration = any(isinstance(mark, Parsed) and mark.parse is parse_duration for mark in marks)
    if not is_duration or isinstance(value, bool) or not isinstance(value, int | float):
        return _with_durations(value, dumped)
    text = format_duration(value)
    return text if parse_duration(text) == value else f"{value:g}s"


def _lines(key: str, value: Any) -> list[str]:
    """Yield `a.b.c = value`, a line for each setting that is set, as in config.toml."""
    if isinstance(value, dict):
        return [line for inner, item in value.items() for line in _lines(f"{key}.{toml_key(inner)}", item)]
    if value is None or value == []:
        return []
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}"]
