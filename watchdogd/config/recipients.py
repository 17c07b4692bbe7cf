"""The channels that one key names: a list, or a table by severity."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, InstanceOf, PlainSerializer

from watchdogd.system.text import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SEVERITIES = ("CRITICAL", "WARNING", "UNKNOWN", "INFO", "ACTION")
"""The words by which messages are sent here or there. An end has none of its own: it goes where its beginning
went."""
_SHAPE = (
    'must be a list, such as ["slack"], or a table by severity: { CRITICAL = ["pager"], WARNING = ["slack"] }'
)


class Recipients(tuple[str, ...]):
    """The names of channels, each once. `only`: the severities that go to one; where it has none, all do."""

    __slots__ = ()
    only: Mapping[str, frozenset[str]] = {}

    def beside(self, _default: Iterable[str]) -> Recipients:
        """What a table does not name goes to `default`; a list names all."""
        return self


class _BySeverity(Recipients):
    """Those of a table."""

    table: Mapping[str, tuple[str, ...]]
    only: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, table: Mapping[str, tuple[str, ...]]) -> _BySeverity:
        """The channels of all severities that the table names."""
        made = cls(dict.fromkeys(name for names in table.values() for name in names))
        only: dict[str, set[str]] = defaultdict(set)
        for severity, names in table.items():
            for name in names:
                only[name].add(severity)
        made.table, made.only = table, {name: frozenset(found) for name, found in only.items()}
        return made

    def beside(self, default: Iterable[str]) -> Recipients:
        """As above."""
        rest = {severity: tuple(default) for severity in SEVERITIES if severity not in self.table}
        return _BySeverity.of({**self.table, **rest})


def severities(value: object) -> tuple[str, ...]:
    """Return the words of a list, or of one. ValueError, with the nearest word, where one is none."""
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
        return _BySeverity.of({severity: _names(names) for severity, names in value.items()})
    return Recipients(_names(value))


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ValueError(_SHAPE)
    return tuple(dict.fromkeys(value))


def _plain(value: Any) -> object:
    return dict(value.table) if isinstance(value, _BySeverity) else list(value)


RecipientsField = Annotated[InstanceOf[Recipients], BeforeValidator(_recipients), PlainSerializer(_plain)]
SeveritiesField = Annotated[tuple[str, ...], BeforeValidator(severities)]
