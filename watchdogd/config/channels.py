"""[channels.NAME]: the keys of every channel, and lookup of the channel types.

A type is a class with its keys, its sender and its connectivity test (`watchdogd.notify.channel`). Types are
found by name only, since that layer is above this one.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
import re
from collections.abc import Iterator, Mapping
from datetime import time
from functools import lru_cache
from importlib.metadata import EntryPoint
from typing import Annotated, ClassVar

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializeAsAny,
    ValidationInfo,
    model_validator,
)

from watchdogd.config.fields import Section, SendingRate, SeveritiesField, ZoneName
from watchdogd.config.secret import Secret
from watchdogd.system.text import close_to, one_line

BUILT_IN = "watchdogd.notify.channels"
"""Package in which each file is a channel type of the file's name."""
GROUP = "watchdogd.channels"
"""Entry point group by which other packages add types; the entry's name is the type's."""


def _clock(value: object) -> object:
    if isinstance(value, time):
        return value
    if not isinstance(value, str) or not re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d", value):
        raise ValueError(f'{value!r} is no time of day: write it as "22:00"')
    hours, _, minutes = value.partition(":")
    return time(int(hours), int(minutes))


Clock = Annotated[time, BeforeValidator(_clock), PlainSerializer(lambda value: f"{value:%H:%M}")]


class QuietHoursSection(Section):
    """Table quiet_hours of a channel: messages between these times wait, and are sent as one.

    `except`: severities that do not wait. `timezone`: zone of the times; default: this machine's.
    """

    begin: Clock = Field(alias="from")
    end: Clock = Field(alias="to")
    excepted: SeveritiesField = Field((), alias="except")
    timezone: ZoneName | None = None

    @model_validator(mode="after")
    def _some_time(self) -> QuietHoursSection:
        if self.begin == self.end:
            raise ValueError("from and to are the same time: leave quiet_hours out, or write another")
        return self


class ChannelSection(Section):
    """Keys of every channel, and the interface of a channel to the rest of watchdogd.

    `rate`: messages a second; None: unlimited. `relay`: out of the daemon's reach, served by `watchdogd
    relay`. `only`: severities sent here; None: all. `quiet_hours`: when the others wait.
    """

    example: ClassVar[str] = """
rate = "1/s"                            # messages a second, or 30/m; "none" switches it off
only = ["CRITICAL", "WARNING"]          # what comes here: also UNKNOWN, INFO, ACTION; left out: all
quiet_hours = { from = "22:00", to = "07:00", except = ["CRITICAL"] }   # the rest waits, and comes as one
relay = true                            # out of the daemon's reach: left to 'watchdogd relay' elsewhere
"""
    """Its table in config.example.toml, in which each of its keys is explained."""
    local: ClassVar[bool] = False
    """Whether it writes only to this machine's files, so that it needs no network."""

    type: str
    rate: SendingRate = 1.0
    relay: bool = False
    only: SeveritiesField | None = None
    quiet_hours: QuietHoursSection | None = None

    @property
    def threaded(self) -> bool:
        """Return whether it has threads, in which quiet messages alert nobody."""
        return False

    @property
    def standing(self) -> bool:
        """Return whether an alert stays open at the receiver until its end is sent, as with a pager."""
        return False

    @property
    def written(self) -> tuple[str, ...]:
        """Return the files that the channel writes."""
        return ()

    def secrets(self) -> Iterator[tuple[str, Secret]]:
        """Yield its secrets, each with its key."""
        for name, field in type(self).model_fields.items():
            if isinstance(value := getattr(self, name), Secret):
                yield field.alias or name, value


def channel_types() -> tuple[str, ...]:
    """Return the names of all types, built-in ones first."""
    return tuple(dict.fromkeys((*_built_in(), *_foreign())))


def is_built_in(name: str) -> bool:
    return name in _built_in()


def channel_models() -> Iterator[tuple[str, type[ChannelSection]]]:
    """Yield each type with its class, except those of other packages that cannot be loaded."""
    for name in channel_types():
        try:
            yield name, channel_model(name)
        except ValueError:
            continue


def example(model: type[ChannelSection]) -> str:
    """Return a type's table for config.example.toml; as a comment, unless it needs nothing outside."""
    return "".join(
        f"# {line}\n" if line and not model.local else f"{line}\n"
        for line in model.example.strip().split("\n")
    )


@lru_cache
def channel_model(name: str) -> type[ChannelSection]:
    """Return the class of a type. ValueError, in one line, where there is none or it cannot be loaded.

    A type of another package is imported only where no built-in type has that name.
    """
    if is_built_in(name):
        module = importlib.import_module(f"{BUILT_IN}.{name}")
        [own] = (found for found in vars(module).values() if _is_model(found, module.__name__))
        return own  # type: ignore[no-any-return]  # what _is_model says
    point = _foreign().get(name)
    if point is None:
        types = channel_types()
        raise ValueError(f"type must be one of {', '.join(types)}{close_to(name, list(types))}")
    package = point.dist.name if point.dist else point.module
    try:
        found = point.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - reported in one line, whatever it is
        why = one_line(f"{type(error).__name__}: {error}", 200)
        raise ValueError(f"type '{name}' of the package {package} cannot be loaded: {why}") from None
    if not _is_model(found):
        raise ValueError(f"type '{name}' of the package {package}: {point.value} is no class of a channel")
    return found  # type: ignore[no-any-return]  # what _is_model says


def _is_model(found: object, module: str = "") -> bool:
    """Return whether it is a channel class, defined in `module` if one is named."""
    return (
        isinstance(found, type)
        and issubclass(found, ChannelSection)
        and hasattr(found, "make_sender")
        and module in ("", found.__module__)
    )


@lru_cache(maxsize=1)
def _built_in() -> tuple[str, ...]:
    package = importlib.import_module(BUILT_IN)
    return tuple(each.name for each in pkgutil.iter_modules(package.__path__))


@lru_cache(maxsize=1)
def _foreign() -> Mapping[str, EntryPoint]:
    """Return the entry points by name; searched only where a type is not built in."""
    found: dict[str, EntryPoint] = {}
    for point in importlib.metadata.entry_points(group=GROUP):
        found.setdefault(point.name, point)
    return found


def _typed(value: object, info: ValidationInfo) -> object:
    """Return a channel's table as its type's class."""
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    return channel_model(kind if isinstance(kind, str) else "").model_validate(value, context=info.context)


Channel = Annotated[SerializeAsAny[ChannelSection], BeforeValidator(_typed)]
