"""Types of values in config.toml, among them the channels to notify, and the base of all tables."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainSerializer,
    ValidationInfo,
)

from watchdogd.config.secret import Secret
from watchdogd.system.pathname import NO_HOME, file_name
from watchdogd.system.text import nearest, web_host
from watchdogd.system.times import zone_named
from watchdogd.units import Duration

NAME_LIMIT = 100
"""Maximum characters of a name."""
_BYTES = 150
"""Maximum bytes of a name in a file name, where a special character takes three; file systems permit 255."""


def _secret(value: object, info: ValidationInfo) -> Secret:
    if not isinstance(value, str) or not value:
        raise ValueError("give a secret as env:NAME or file:PATH")
    reference, _, rest = value.partition(":")
    if reference == "env" and not re.fullmatch(r"[A-Za-z_]\w*", rest):
        raise ValueError("env: needs the name of a variable after it, such as env:SLACK_WEBHOOK_URL")
    if reference != "file":
        return Secret(value)
    if not rest.strip():
        raise ValueError("file: needs a path after it, such as file:~/.slack-webhook")
    home = (info.context or {}).get("home", "")
    return Secret(f"file:{os.path.join(home, str(_expand(rest)))}")


def _web_secret(value: Secret) -> Secret:
    """Check a secret that is a web address; a reference is checked when it is revealed."""
    literal = not (value.variable or value.path)
    if literal and not (web_host(value.reference) and re.fullmatch(r"[!-~]+", value.reference)):
        raise ValueError("is no web address: write https://..., or better env:NAME or file:PATH")
    return value


def name_fault(name: str) -> str:
    """Return why a run, disk, check or channel cannot have this name, or empty."""
    if not name.strip():
        return "the name is empty"
    if not name.isprintable():
        return f"the name {name!r} has characters that cannot be shown"
    if name != name.strip():
        return f"the name {name!r} begins or ends with a space"
    if len(name) > NAME_LIMIT:
        return f"the name {name[:40]!r}... has {len(name)} characters, {NAME_LIMIT} at most"
    size = len(file_name(name))
    return f"the name {name!r} takes {size} bytes in files' names, {_BYTES} at most" if size > _BYTES else ""


def _name(value: object) -> object:
    if isinstance(value, str) and (fault := name_fault(value)):
        raise ValueError(fault)
    return value


def _one_line(value: object) -> object:
    """Check text for a message's header, where a line break would begin another header."""
    if isinstance(value, str) and not value.isprintable():
        raise ValueError(f"{value!r} has line breaks or control characters: write one plain line")
    return value


def _several(value: object) -> object:
    """Return a list; one text becomes a list of one."""
    return (value,) if isinstance(value, str) else value


def _pattern(value: object) -> object:
    if isinstance(value, str):
        try:
            re.compile(value)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"'{value}' is no regular expression: {error}") from None
    return value


def _rate(value: object) -> object:
    """Return messages per second for `1/s` or `30/m`, None for `none`."""
    if value is None or value == "none":
        return None
    if isinstance(value, int | float) and value > 0:
        return float(value)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*/\s*(s|m|h)", str(value))
    if not match or float(match[1]) == 0:
        raise ValueError(f"'{value}' is no sending rate: write it as 1/s, 30/m or none")
    return float(match[1]) / {"s": 1, "m": 60, "h": 3600}[match[2]]


def _expand(value: object) -> object:
    """Expand `~` and `$VAR`. ValueError where there is no such user or variable."""
    if not isinstance(value, str):
        return value
    if "\0" in value:
        raise ValueError("a path has no NUL character in it")
    expanded = os.path.expandvars(os.path.expanduser(value))
    if expanded.startswith("~"):
        user = expanded[1:].partition("/")[0]
        known = f"there is no user '{user}' on this machine" if user else f"{NO_HOME}: write the path out"
        raise ValueError(f"'{value}': {known}")
    left = re.search(r"\$(\w+|\{[^}]*\})", expanded)
    if left:
        raise ValueError(f"'{value}': the variable {left[0]} is not set: export it, or write the path out")
    return expanded


def _zone(value: object) -> object:
    if isinstance(value, str):
        zone_named(value)
    return value


SecretField = Annotated[Secret, BeforeValidator(_secret), PlainSerializer(Secret.__str__)]
WebSecretField = Annotated[SecretField, AfterValidator(_web_secret)]
Name = Annotated[str, BeforeValidator(_name)]
OneLine = Annotated[str, BeforeValidator(_one_line), Field(min_length=1)]
OneLines = Annotated[tuple[OneLine, ...], BeforeValidator(_several), Field(min_length=1)]
Pattern = Annotated[str, BeforeValidator(_pattern)]
SendingRate = Annotated[float | None, BeforeValidator(_rate)]
PathText = Annotated[str, BeforeValidator(_expand), Field(min_length=1)]


def _hour(value: object) -> object:
    if not (isinstance(value, str) and re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", value)):
        raise ValueError(f"'{value}' is no time of day: write it as 02:30")
    return value


HourOfDay = Annotated[str, BeforeValidator(_hour)]
ZoneName = Annotated[OneLine, BeforeValidator(_zone)]
Positive = Annotated[Duration, Field(gt=0)]


class Section(BaseModel):
    """Table of config.toml: unknown keys are errors, values are immutable."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, populate_by_name=True
    )


SEVERITIES = ("CRITICAL", "WARNING", "UNKNOWN", "INFO", "ACTION")
"""Severities by which messages are routed. A recovery has none of its own: it goes where the fault went."""
_SHAPE = (
    'must be a list, such as ["slack"], or a table by severity: { CRITICAL = ["pager"], WARNING = ["slack"] }'
)


class Recipients(tuple[str, ...]):
    """Names of channels, without repeats. `only`: severities by channel; a channel without gets all."""

    __slots__ = ()
    only: Mapping[str, frozenset[str]] = {}

    def beside(self, _default: Iterable[str]) -> Recipients:
        """Return these channels; `_default` is for severities that a table does not name."""
        return self


class _BySeverity(Recipients):
    """Channels of a table by severity."""

    table: Mapping[str, tuple[str, ...]]
    only: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, table: Mapping[str, tuple[str, ...]]) -> _BySeverity:
        """Return the channels of all severities in the table."""
        made = cls(dict.fromkeys(name for names in table.values() for name in names))
        only: dict[str, set[str]] = defaultdict(set)
        for severity, names in table.items():
            for name in names:
                only[name].add(severity)
        made.table, made.only = table, {name: frozenset(found) for name, found in only.items()}
        return made

    def beside(self, default: Iterable[str]) -> Recipients:
        """Return these channels, with `default` for the severities not in the table."""
        rest = {severity: tuple(default) for severity in SEVERITIES if severity not in self.table}
        return _BySeverity.of({**self.table, **rest})


def severities(value: object) -> tuple[str, ...]:
    """Return the severities in a list, or a single one. ValueError, with the nearest, for an unknown one."""
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple | set | frozenset) or not words:
        raise ValueError('must be a list: write it as ["CRITICAL"]')
    for word in words:
        if word not in SEVERITIES:
            hint = nearest(str(word).upper(), [*SEVERITIES])
            ends = " (an end goes where its beginning went)" if word == "RESOLVED" else ""
            raise ValueError(f"{word!r} is no severity{ends or hint}: write {', '.join(SEVERITIES)}")
    return tuple(word for word in SEVERITIES if word in words)


def _recipients(value: object) -> object:
    if isinstance(value, Recipients):
        return value
    if isinstance(value, dict):
        severities([*value])
        return _BySeverity.of({severity: _channel_names(names) for severity, names in value.items()})
    return Recipients(_channel_names(value))


def _channel_names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ValueError(_SHAPE)
    return tuple(dict.fromkeys(value))


def _serialised(value: Any) -> object:
    return dict(value.table) if isinstance(value, _BySeverity) else list(value)


RecipientsField = Annotated[
    InstanceOf[Recipients], BeforeValidator(_recipients), PlainSerializer(_serialised)
]
SeveritiesField = Annotated[tuple[str, ...], BeforeValidator(severities)]
