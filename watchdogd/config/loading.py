"""Loading of config.toml: an error is one line with file, key, fault, and the nearest of the known keys."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from watchdogd.config import last_good_config, validation
from watchdogd.config.channels import ChannelSection, channel_models
from watchdogd.config.fields import Section
from watchdogd.config.models import Config
from watchdogd.config.validation import validation_error
from watchdogd.errors import ConfigError, UnknownKeyError
from watchdogd.home.file_trust import distrust, team_of
from watchdogd.home.layout import Home
from watchdogd.system import command
from watchdogd.system.account import group_id
from watchdogd.system.smallfile import read_plain
from watchdogd.system.text import nearest

NAME, SEVERAL = "NAME", "[]"
"""Path steps: a name chosen by the user, and any element of a list."""


@dataclass(frozen=True, slots=True)
class Table:
    """Table of config.toml: its path, its keys, and the line that decides them, such as `type = "slack"`.

    `whole`: its keys are tables themselves.
    """

    path: tuple[str, ...]
    keys: tuple[str, ...]
    given: str = ""
    whole: bool = False

    def at(self, where: Sequence[str]) -> bool:
        """Return whether this is the table at the path `where`, as the user wrote it."""
        return len(where) == len(self.path) and self.shared(where) == len(where)

    def shared(self, where: Sequence[str]) -> int:
        """Return the number of leading steps that two paths have in common."""
        steps = zip(self.path, where, strict=False)
        return next((at for at, (own, other) in enumerate(steps) if not _same(own, other)), min(
            len(self.path), len(where)
        ))  # fmt: skip

    def place(self, key: str, where: Sequence[str]) -> str:
        """Return `[runs.run-17] log` for one of its keys, with the names in `where`."""
        common = self.shared(where)
        steps = [*where[:common], *self.path[common:], *([key] if self.whole else [])]
        listed = self.path[-1:] == (SEVERAL,)
        path = ".".join(_quoted(step) for step in (steps[:-1] if listed else steps) if step != SEVERAL)
        table = f"[[{path}]]" if listed else f"[{path}]"
        return table if self.whole else f"{table} {key}"


@lru_cache(maxsize=1)
def tables() -> tuple[Table, ...]:
    """Return all tables of config.toml, except those of plugins' parameters."""
    return tuple(_walk((), Config))


def keys_at(where: Sequence[str], written: Any) -> list[str]:
    """Return the keys permitted in the table at the path `where`, in the tables `written` by the user."""
    for step in where:
        written = written[int(step) if isinstance(written, list) else step]
    given = _given(written.get("type")) if isinstance(written, dict) else ""
    found = [each for each in tables() if each.at(where) and each.given in ("", given)]
    return list(dict.fromkeys(key for each in found for key in each.keys))


def _walk(path: tuple[str, ...], section: type[Section], given: str = "") -> Iterator[Table]:
    if section is ChannelSection:
        for kind, model in channel_models():
            yield from _walk(path, model, _given(kind))
        return
    keys = tuple(field.alias or name for name, field in section.model_fields.items())
    yield Table(path, keys, given, whole=not path)
    for key, field in zip(keys, section.model_fields.values(), strict=True):
        for steps, inner in _sections(field.annotation):
            yield from _walk((*path, key, *steps), inner)


def _sections(annotation: Any) -> Iterator[tuple[tuple[str, ...], type[Section]]]:
    """Yield the tables that a value may be or contain, with the steps to them."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield (), annotation
        return
    step = {dict: (NAME,), tuple: (SEVERAL,)}.get(get_origin(annotation), ())
    for inner in get_args(annotation):
        for steps, section in _sections(inner):
            yield (*step, *steps), section


def _given(kind: object) -> str:
    return f'type = "{kind}"'


def _same(own: str, written: str) -> bool:
    return own in (NAME, written) or (own == SEVERAL and written.isdecimal())


def _quoted(step: str) -> str:
    """Return a step of a path in TOML's notation."""
    return step if re.fullmatch(r"[A-Za-z0-9_-]+", step) else json.dumps(step)


_ENDLESS = 10**21
_PERSONAL = re.compile(r"^(file:)?~(/|$)|\$\{?(HOME|USER|LOGNAME)\b")


def load(home: Home, *, pressing: bool = False) -> Config:
    """Return the configuration of a home. `pressing`: no command in it will be run.

    ConfigError, in one line, where it is missing or broken, or where others can write it and so run commands
    in the user's name.
    """
    path = home.config
    try:
        text = read_plain(path, follow=True)
    except FileNotFoundError as error:
        fix = _restore(home) if _watched_something(home) else f"make one with '{home.command('init')}'"
        raise ConfigError(f"{path} cannot be read: {error.strerror}; {fix}") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is no UTF-8: save the file as UTF-8") from None
    config = parse(text, path)
    fault = validation.unknown_group(config)
    if fault:
        raise ConfigError(f"{path}: {fault}")
    if config.watches_nothing and not config.daemon.empty and _watched_something(home):
        raise empty_config(home, text)
    trusted = team_of(home.path, pressing=pressing)
    if config.daemon.group:
        trusted = replace(trusted, group=group_id(config.daemon.group))
    reason = distrust(path, trusted)
    if reason:
        raise ConfigError(f"{path} is not used: {reason}")
    return config


def empty_config(home: Home, text: str) -> ConfigError:
    """Return the error for a config.toml that watches nothing any more, as a full disk may leave it."""
    lacks = "names no run, disk or check any more" if text.strip() else "is empty"
    return ConfigError(
        f"{home.config} {lacks}: {_restore(home)}, or write empty = true under [daemon] if it is meant"
    )


def _restore(home: Home) -> str:
    return f"put it back ({last_good_config.restoring(home)})"


def _watched_something(home: Home) -> bool:
    """Return whether the last good configuration watched a run, a disk or a check."""
    try:
        kept = tomllib.loads(read_plain(home.good_config))
    except (OSError, ValueError, RecursionError):
        return False
    return any(kept.get(table) for table in ("runs", "disks", "checks"))


def parse(text: str, path: Path) -> Config:
    """Return the configuration in `text`; relative paths are relative to the folder of `path`.

    From now on, commands are started without the environment variables that it names as secrets.
    """
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {validation.syntax_error(text, error)}") from None
    if any(number >= _ENDLESS for number in _numbers(tables)):
        raise ConfigError(f"{path}: a number is longer than any that could be meant: write it shorter")
    try:
        config = Config.model_validate(tables, context={"home": str(path.parent)})
    except ValidationError as error:
        raise _config_error(error, tables, path, text) from None
    fault = validation.inconsistency(config)
    if fault:
        raise ConfigError(f"{path}: {fault}")
    command.withhold(secret.variable for _, secret in config.secrets() if secret.variable)
    return config


def variables(home: Home) -> tuple[str, ...]:
    """Return the variables in config.toml's texts, `$NAME` or `${NAME}`; none where it cannot be read."""
    found = {name for text in _written(home) for name in re.findall(r"\$\{?([A-Za-z_]\w*)", text)}
    return tuple(sorted(found))


def personal(home: Home) -> tuple[str, ...]:
    """Return the texts of config.toml that depend on the user: those with `~`, `$HOME` or `$USER`."""
    return tuple(text for text in _written(home) if _PERSONAL.search(text))


def _written(home: Home) -> tuple[str, ...]:
    """Return all texts of config.toml, unexpanded; none where it cannot be read."""
    try:
        return tuple(_texts(tomllib.loads(read_plain(home.config, follow=True))))
    except (OSError, ValueError, RecursionError):
        return ()


def _numbers(value: Any) -> Iterator[int]:
    """Yield the absolute values of all integers in a value."""
    if isinstance(value, int):
        yield abs(value)
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _numbers(each)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _config_error(error: ValidationError, tables: Mapping[str, Any], path: Path, text: str) -> ConfigError:
    """Return pydantic's first error in one line, with its line in `text`."""
    all_errors = error.errors(include_url=False)
    # A table where a word is possible too: report the fault in the table, not that it is no word.
    errors = [
        each for each in all_errors if each["type"] != "literal_error" or not isinstance(each["input"], dict)
    ]
    first = (errors or all_errors)[0]
    where = _written_keys(first, tables)
    key = _shown(where) or "the file"
    if first["type"] == "extra_forbidden":
        above, name = where[:-1], where[-1]
        known = keys_at(above, tables)
        found: ConfigError = UnknownKeyError(
            f"{path}: {key}: unknown key", nearest(name, known), above, name, known
        )
    else:
        here = [each for each in errors if _written_keys(each, tables) == where]
        more = len({tuple(_written_keys(each, tables)) for each in errors}) - 1
        others = f" (and {more} more)" if more else ""
        found = ConfigError(f"{path}: {key}: {validation_error(here)}{others}")
    found.line = validation.line_of(where, text)
    return found


def _shown(where: list[str]) -> str:
    """Return keys in TOML's notation; unprintable ones are escaped."""
    return ".".join(part if part.isprintable() and part else json.dumps(part) for part in where)


def _written_keys(error: Mapping[str, Any], tables: Any) -> list[str]:
    """Return the keys as the user wrote them, without pydantic's names of union members."""
    found: list[str] = []
    location = error["loc"]
    unwritten = error["type"] in ("extra_forbidden", "missing")
    for at, part in enumerate(location):
        inside = isinstance(tables, dict) and part in tables
        if inside or (isinstance(tables, list) and isinstance(part, int) and part < len(tables)):
            tables = tables[part]
        elif at < len(location) - 1 or not unwritten:
            continue
        found.append(str(part))
    return found
