"""config.toml read: every error is one line with file, key, what is wrong, and the nearest right key."""

from __future__ import annotations

import os
import tomllib
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from watchdogd.config.channels import (
    AlertmanagerChannel,
    AppriseChannel,
    EmailChannel,
    SlackChannel,
    StatuslogChannel,
    WebhookChannel,
)
from watchdogd.config.fields import Section
from watchdogd.config.sections import CheckSection, Config, DiskSection, HeartbeatSection, RunSection
from watchdogd.errors import ConfigError
from watchdogd.nearest import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from watchdogd.home import Home


def load(home: Home) -> Config:
    """The configuration of a home. ConfigError, one line, where it is missing or broken."""
    path = home.config
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}; make one with 'watchdogd init'"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is no UTF-8: save the file as UTF-8") from None
    return parse(text, path)


def parse(text: str, path: Path) -> Config:
    """The configuration in `text`; `path` is named in errors, and relative paths hang on its folder."""
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from None
    try:
        config = Config.model_validate(tables)
    except ValidationError as error:
        raise ConfigError(f"{path}: {_sentence(error, tables)}") from None
    _known_channels(config, path)
    return config


def absolute(home: Home, text: str) -> str:
    """A path of the configuration: relative ones hang on home."""
    return os.path.normpath(os.path.join(home.path, text))


def _sentence(error: ValidationError, tables: Mapping[str, Any]) -> str:
    """The first thing that pydantic found, as one line."""
    first = error.errors(include_url=False)[0]
    where = _written_keys(first["loc"], tables)
    key = ".".join(where) or "the file"
    wrong = str(first.get("ctx", {}).get("error", "")) or first["msg"]
    if first["type"] == "extra_forbidden":
        return f"{key}: unknown key{nearest(where[-1], _known_keys(where[:-1]))}"
    if first["type"] == "missing":
        return f"{key}: is missing"
    if first["type"].startswith("union_tag"):
        return f"{key}: type must be one of slack, email, apprise, webhook, alertmanager, console, statuslog"
    more = error.error_count() - 1
    return f"{key}: {wrong}" + (f" (and {more} more)" if more else "")


def _written_keys(location: tuple[int | str, ...], tables: Any) -> list[str]:
    """The keys as the user wrote them: pydantic's location has names of union members in between."""
    found: list[str] = []
    for part in location:
        inside = isinstance(tables, dict) and part in tables
        if inside or (isinstance(tables, list) and isinstance(part, int) and part < len(tables)):
            tables = tables[part]
        elif part != location[-1] or not isinstance(tables, dict):
            continue
        found.append(str(part))
    return found


_TABLES: dict[str, type[Section]] = {"runs": RunSection, "disks": DiskSection, "checks": CheckSection}
_CHANNELS = (
    SlackChannel,
    EmailChannel,
    AppriseChannel,
    WebhookChannel,
    AlertmanagerChannel,
    StatuslogChannel,
)


def _known_keys(where: list[str]) -> list[str]:
    """The keys that may stand in a table."""
    if not where:
        return _keys(Config)
    if where[0] == "channels":
        return sorted({key for channel in _CHANNELS for key in _keys(channel)})
    if where[0] in _TABLES:
        return _keys(_TABLES[where[0]])
    annotation = Config.model_fields[where[0]].default if where[0] in Config.model_fields else None
    return _keys(type(annotation)) if isinstance(annotation, Section) else _keys(HeartbeatSection)


def _keys(section: type[Section]) -> list[str]:
    return [field.alias or name for name, field in section.model_fields.items()]


def _known_channels(config: Config, path: Path) -> None:
    """ConfigError where a channel is named that is not configured."""
    named = {
        "alerts.channels": config.alerts.channels or (),
        "alerts.escalate_to": config.alerts.escalate_to,
        "alerts.fallback": config.alerts.fallback,
    }
    for table, sections in (("runs", config.runs), ("disks", config.disks), ("checks", config.checks)):
        for name, section in sections.items():
            named[f"{table}.{name}.channels"] = section.channels or ()
    for key, channels in named.items():
        for channel in channels:
            if channel not in config.channels:
                raise ConfigError(
                    f"{path}: {key}: there is no [channels.{channel}]"
                    f"{nearest(channel, list(config.channels))}"
                )
