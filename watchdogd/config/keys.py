"""Keys of config.toml by table, from its models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args, get_origin

from watchdogd.config.channels import ChannelSection, channel_models
from watchdogd.config.fields import Section
from watchdogd.config.models import Config

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
