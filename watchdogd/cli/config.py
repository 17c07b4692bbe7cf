"""`watchdogd config`: the effective configuration, secrets masked, and what each check came from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from watchdogd.cli.output import print_json, print_line
from watchdogd.engine.setup import Setup
from watchdogd.home import Home
from watchdogd.units import Amount, format_duration

if TYPE_CHECKING:
    import argparse

    from watchdogd.engine.checks import Check


_PASSWORD = re.compile(r"(://[^:/@\s]*:)[^@/\s]+@")


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument("--json", action="store_true", help="the configuration and the checks")


def run(args: argparse.Namespace) -> int:
    """Print it; ConfigError (exit 78) where it is broken."""
    home = Home.existing(args.home)
    setup = Setup.load(home)
    settings = _plain(setup.config.model_dump(by_alias=True))
    if args.json:
        print_json({"config": settings, "checks": [_check(check) for check in setup.checks]})
        return 0
    for table, keys in settings.items():
        for line in _lines(table, keys):
            print_line(line)
    print_line("")
    for check in setup.checks:
        print_line(
            f"check {check.name}: plugin {check.entry.name} ({check.entry.origin}), "
            f"every {format_duration(check.every)}, {', '.join(check.channels) or 'no channels'}"
        )
    return 0


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
    """JSON values of a configuration; secrets are masked by their own text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Amount) or not (value is None or isinstance(value, bool | int | float | str)):
        return str(value)
    return _PASSWORD.sub(r"\1****@", value) if isinstance(value, str) else value


def _lines(key: str, value: Any) -> list[str]:
    """`a.b.c = value`, one line a setting; what is not set is left out."""
    if isinstance(value, dict):
        return [line for inner, item in value.items() for line in _lines(f"{key}.{inner}", item)]
    if value is None or value == []:
        return []
    return [f"{key} = {value!r}" if isinstance(value, str) else f"{key} = {value}"]
