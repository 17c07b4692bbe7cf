"""Faults in config.toml's syntax, values and references, worded so that they say what to write."""

from __future__ import annotations

import grp
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from watchdogd.config.fields import name_fault
from watchdogd.config.models import Config
from watchdogd.system.account import group_id
from watchdogd.system.pathname import file_name
from watchdogd.system.text import close_to, nearest

RESERVED = "watchdogd"
"""The daemon's own name in checks and messages."""


def inconsistency(config: Config) -> str:
    """Return the first inconsistency between tables, in one line with its key, or empty."""
    return next((text for text in (*_names(config), *_channels(config), *_switches(config)) if text), "")


def unknown_group(config: Config) -> str:
    """Return a line for a Unix group that this machine does not know, or empty.

    Call it only where the group will be used: it asks the name service.
    """
    for key, group in (("daemon.group", config.daemon.group), ("slurm.group", config.slurm.group)):
        if group is not None and group_id(group) is None:
            hint = close_to(group, [entry.gr_name for entry in grp.getgrall()])
            return f"{key}: there is no Unix group '{group}' on this machine{hint}"
    return ""


def _names(config: Config) -> Iterator[str]:
    """Yield a line for each invalid name; runs, disks and checks share one set of names."""
    taken: dict[str, str] = {}
    for table in ("channels", "runs", "disks", "checks"):
        names: Iterable[str] = getattr(config, table)
        for name in names:
            wrong = name_fault(name)
            if wrong:
                yield f"{table}: {wrong}: give it another"
            if table == "channels":
                continue
            if name in taken:
                yield f"{table}.{name}: there is {taken[name]} of this name already: rename one of them"
            if name == RESERVED:
                yield f"{table}.{name}: so the watchdog calls itself: give it another name"
            taken[name] = f"[{table}.{name}]"


def _channels(config: Config) -> Iterator[str]:
    """Yield a line for each channel that is named but not configured."""
    for key, named in _channel_references(config):
        for channel in _channels_of(named):
            if channel not in config.channels:
                yield f"{key}: there is no [channels.{channel}]{nearest(str(channel), list(config.channels))}"


def _channels_of(named: object) -> Iterable[object]:
    """Return the channels of a list, or of a table by severity."""
    if isinstance(named, dict):
        return [channel for names in named.values() for channel in _channels_of(names)]
    return named if isinstance(named, list | tuple) else ()


def _switches(config: Config) -> Iterator[str]:
    """Yield a line for each configured switch that is the other kind's switch in home."""
    for name, run in config.runs.items():
        for kind, path, other in (("kill", run.kill_switch, "save"), ("save", run.save_switch, "kill")):
            taken = ["switches", f"{file_name(name)}.{other}"]
            if path and os.path.normpath(path).split("/")[-2:] == taken:
                yield f"runs.{name}.{kind}_switch: {path} is its {other} switch: name another file"


def _channel_references(config: Config) -> Iterator[tuple[str, Any]]:
    yield "alerts.channels", config.alerts.channels
    yield "alerts.escalate_to", config.alerts.escalate_to
    yield "alerts.fallback", config.alerts.fallback
    yield "digest.channels", config.digest.channels if config.digest else None
    for name, run in config.runs.items():
        yield f"runs.{name}.channels", run.channels
    for name, disk in config.disks.items():
        yield f"disks.{name}.channels", disk.channels
    for name, check in config.checks.items():
        yield f"checks.{name}.channels", check.channels
    for table, sections in (("runs", config.runs), ("disks", config.disks)):
        for name, section in sections.items():
            for plugin, keys in section.checks.items():
                yield f"{table}.{name}.checks.{plugin}.channels", keys.get("channels")


_ERROR_TEXTS = {
    "tuple_type": 'must be a list: write it as ["...", "..."]',
    "list_type": 'must be a list: write it as ["...", "..."]',
    "set_type": 'must be a list: write it as ["...", "..."]',
    "frozen_set_type": 'must be a list: write it as ["...", "..."]',
    "string_type": 'must be text: write it as "..."',
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "missing": "is missing",
    "model_type": "must be a table: write it as { key = value }",
    "model_attributes_type": "must be a table: write it as { key = value }",
    "dict_type": "must be a table: write it as { key = value }",
}
_BOUND_TEXTS = {
    "greater_than": ("gt", "must be more than {}"),
    "greater_than_equal": ("ge", "must be {} or more"),
    "less_than": ("lt", "must be less than {}"),
    "less_than_equal": ("le", "must be {} or less"),
}


def _error_text(errors: Sequence[Mapping[str, Any]]) -> str:
    literal = next((each for each in errors if each["type"] == "literal_error"), None)
    own = next((each for each in errors if each["type"] == "value_error"), None)
    if literal is not None and isinstance(literal["input"], str) and own is None:
        return _choice(literal)
    first = own or errors[0]
    if first["type"] == "literal_error":
        return _choice(first)
    if first["type"] in _BOUND_TEXTS:
        key, text = _BOUND_TEXTS[first["type"]]
        return text.format(f"{first['ctx'][key]:g}")
    return _ERROR_TEXTS.get(first["type"]) or str(first.get("ctx", {}).get("error", "")) or str(first["msg"])


def validation_error(errors: Sequence[Mapping[str, Any]]) -> str:
    """Return the fault of one value, in one line; `errors` are pydantic's, for each type it may have."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in _error_text(errors))


def _choice(error: Mapping[str, Any]) -> str:
    """Return `must be one of a, b`, with the nearest word if there is one."""
    known = [part.strip().strip("'") for part in error["ctx"]["expected"].replace(" or ", ", ").split(",")]
    given = error["input"]
    hint = close_to(given, known) if isinstance(given, str) else ""
    return f"must be one of {', '.join(known)}{hint}"


_DIGITS = re.compile(r"[0-9_]{4000}")
_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_SYNTAX_FIXES = (
    ("Cannot overwrite", "this stands twice in its table: keep one of them"),
    ("Duplicate inline table key", "a key stands twice between the braces: keep one of them"),
    ("Cannot declare", "this table stands twice, or between braces before: put its keys under one heading"),
    ("Cannot mutate", "this table was closed before: put its keys in one place"),
    ("Cannot redefine", "this table was closed before: put its keys in one place"),
    ("Expected '='", "write it as key = value; a key with other than letters, digits, - and _ needs quotes"),
    ("Expected newline", "write one key = value a line, and a text that has quotes in it between '...'"),
    ("Expected ']", "close the table's heading with ]"),
    ("Unclosed array", "close the list with ], with commas between its values"),
    ("Unclosed inline table", "close the braces with }, with commas between their keys, all on one line"),
    ("Unescaped '\\'", "put a text with backslashes between '...', not \"...\""),
    ("Unterminated string", "close the text with the quotes that it begins with"),
    ("Expected \"'", "close the text with the quotes that it begins with"),
    ("Expected '\"", "close the text with the quotes that it begins with"),
    ("Illegal character '\\n'", "close the text with the quotes that it begins with, on its line"),
    ("Found invalid character", "take this invisible character out"),
    ("Illegal character", "take this invisible character out"),
    ("Invalid value", "write texts and durations in quotes, true and false in small letters"),
    ("Invalid date", "write texts and durations in quotes"),
    ("Invalid hex value", "put a text with backslashes between '...', not \"...\""),
    ("Escaped character", "put a text with backslashes between '...', not \"...\""),
    ("Invalid initial character", "begin a key with a letter, or put it in quotes"),
    ("Invalid statement", "write a [table], or key = value; a comment begins with #"),
)
"""Beginnings of tomllib's messages, each with what to write instead."""
_SHOWN = 60
_HALF_HEADING = re.compile(r"\s*\[[^\]=#]*(?:#.*)?\s*")
"""Line that begins a table's heading and does not end it."""


def line_of(keys: Sequence[str], text: str) -> int:
    """Return the line, counted from 1, of the key with this path in valid TOML, or of its table; 0: none."""
    table: list[str] = []
    best = number = deepest = 0
    for number, line in enumerate(text.split("\n"), 1):
        heading = line.strip().startswith("[")
        path = _path_in(line if heading else f"{line.partition('=')[0]}= 0")
        table = path if heading and path else table
        here = path if heading else [*table, *path]
        if path and deepest < len(here) and list(keys[: len(here)]) == here:
            best, deepest = number, len(here)
    return best


def _path_in(line: str) -> list[str]:
    """Return the keys of one line of TOML, the outer ones first; empty if it is no whole heading or key."""
    try:
        found: Any = tomllib.loads(line)
    except (ValueError, RecursionError):
        return []
    keys: list[str] = []
    while isinstance(found, dict) and found:
        key, found = next(iter(found.items()))
        keys.append(key)
        found = found[0] if isinstance(found, list) else found
    return keys


def syntax_error(text: str, error: ValueError | RecursionError) -> str:
    """Return `line 14, 'every': this stands twice in its table: keep one of them`."""
    if isinstance(error, RecursionError):
        return "lists or tables lie too deep in one another: write them flatter"
    if not isinstance(error, tomllib.TOMLDecodeError):
        return f"{_too_long_number(text)}: write it shorter, or put it in quotes"
    said = str(error)
    position = _POSITION.search(said)
    lines = text.split("\n")
    number = int(position[1]) if position and position[1] else len(text.rstrip().split("\n"))
    fix = next((fix for begin, fix in _SYNTAX_FIXES if said.startswith(begin)), "write it as key = value")
    if _HALF_HEADING.fullmatch(lines[number - 1]):  # tomllib may find its name wrong before
        fix = "close the table's heading with ]"
    return f"line {number}{_shown(lines[number - 1])}: {fix}"


def _shown(line: str) -> str:
    """Return the heading or key in this line, not the value, which may be a secret."""
    heading = line.strip().startswith("[")
    key = line.strip() if heading else line.partition("=")[0].strip() if "=" in line else ""
    return f", {key[:_SHOWN]!r}" if key else ""


def _too_long_number(text: str) -> str:
    """Return the line with a number of too many digits."""
    long = (number for number, line in enumerate(text.split("\n"), 1) if _DIGITS.search(line))
    return f"line {next(long, 1)}: this number is longer than any that could be meant"
