"""Conversion of dataclasses to JSON values and back, for the state of checks.

A class is written as the list of its fields in order, half as long as with names. A list is accepted only for
a class with the same fields and types (`form`). Pydantic is quicker (118 µs against 198 to load the state of
a log), but costs each worker 10 MB, and a user's plugin, which runs in its own process, 0.3 s at its start.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar
from zlib import crc32

T = TypeVar("T")


def _same(value: Any) -> Any:
    return value


class _Way(NamedTuple):
    """Functions that dump, load and copy the values of a type, and the type in words.

    `plain`: types of values that are kept as they are.
    """

    words: str
    plain: tuple[type, ...] = ()
    dump: Callable[[Any], Any] = _same
    load: Callable[[Any], Any] = _same
    copy: Callable[[Any], Any] = _same


class Codec(Generic[T]):
    """Converter of a dataclass's values. TypeError for a class whose fields cannot be converted.

    Fields can be text, numbers, booleans, enumerations, None, and dataclasses, named tuples, tuples, lists
    and mappings (by text or integer) of these. Raise the class's `VERSION`, if it has one, when the meaning
    of its fields changes; a change of the fields themselves is detected.
    """

    def __init__(self, cls: type[T]) -> None:
        self.cls = cls
        self._way = _way_of(cls)
        self.form = f"{getattr(cls, 'VERSION', 0)}-{crc32(self._way.words.encode()):08x}"

    def dump(self, value: T) -> list[Any]:
        """Return the value as JSON values."""
        return [self.form, self._way.dump(value)]

    def load(self, kept: object) -> T | None:
        """Return the value written by `dump`; None for a damaged one, or one of another version."""
        if not isinstance(kept, list) or len(kept) != 2 or kept[0] != self.form:
            return None
        try:
            return typing.cast(T, self._way.load(kept[1]))
        except (ValueError, TypeError, OverflowError, RecursionError):
            return None

    def copy(self, value: T) -> T:
        """Return an equal value that shares no mutable part."""
        return typing.cast(T, self._way.copy(value))


def codec_of(cls: type[T]) -> Codec[T]:
    """Return the codec of a dataclass, cached."""
    return _codec_of(cls)  # type: ignore[arg-type] # a class is hashable


@lru_cache(maxsize=256)
def _codec_of(cls: type[Any]) -> Codec[Any]:
    return Codec(cls)


def _way_of(hint: Any) -> _Way:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint in (str, int, bool, float):
        return _taken((float, int) if hint is float else (hint,))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _Way(hint.__name__, (), attrgetter("value"), hint)
    if origin in (types.UnionType, typing.Union):
        some = [each for each in parts if each is not types.NoneType]
        if len(some) == 1:
            return _or_none(_way_of(some[0]))
    if origin is tuple and parts[1:] != (...,):
        return _record("tuple", lambda *values: values, parts, _same, frozen=True)
    if origin in (tuple, list, Sequence):
        return _sequence(_way_of(parts[0]), list if origin is list else tuple)
    if origin in (dict, Mapping) and parts[0] in (str, int):
        return _mapping(parts[0], _way_of(parts[1]))
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        return _class(hint)
    raise TypeError(f"{hint} cannot be remembered: use text, numbers, lists, dicts and dataclasses of these")


def _taken(plain: tuple[type, ...]) -> _Way:
    def load(value: Any) -> Any:
        if type(value) in plain:
            return value
        raise ValueError(value)

    return _Way(" or ".join(each.__name__ for each in plain), plain, load=load)


def _or_none(way: _Way) -> _Way:
    if way.plain:
        return _taken((*way.plain, types.NoneType))
    return _Way(f"{way.words} or None", (), *map(_passing_none, (way.dump, way.load, way.copy)))


def _passing_none(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return step if step is _same else lambda value: None if value is None else step(value)


def _sequence(way: _Way, cls: type) -> _Way:
    def load(plain: Any) -> Any:
        if type(plain) is not list:
            raise ValueError(plain)
        return cls(map(way.load, plain))

    dump = list if way.dump is _same else lambda value: [way.dump(each) for each in value]
    shared = cls is tuple and way.copy is _same
    return _Way(
        f"[{way.words}]", (), dump, load, _same if shared else lambda value: cls(map(way.copy, value))
    )


def _mapping(key: type, way: _Way) -> _Way:
    def load(plain: Any) -> Any:
        if type(plain) is not dict:
            raise ValueError(plain)
        return {key(name): way.load(each) for name, each in plain.items()}

    def dump(value: Mapping[Any, Any]) -> dict[str, Any]:
        return {str(name): way.dump(each) for name, each in value.items()}

    def copy(value: Mapping[Any, Any]) -> dict[Any, Any]:
        return dict(value) if way.copy is _same else {name: way.copy(each) for name, each in value.items()}

    return _Way(f"{{{key.__name__}: {way.words}}}", (), dump, load, copy)


def _class(cls: Any) -> _Way:
    hints = typing.get_type_hints(cls)
    if hasattr(cls, "_fields"):
        words = f"{cls.__name__} {cls._fields}"
        return _record(words, cls, [hints[name] for name in cls._fields], _same, frozen=True)
    fields = dataclasses.fields(cls)
    if not fields or any(each.kw_only or not each.init for each in fields):
        raise TypeError(f"{cls.__name__} cannot be remembered: give it fields that are set by position")
    names = [each.name for each in fields]
    several = attrgetter(*names)
    values = several if len(names) > 1 else lambda value: (several(value),)
    frozen = cls.__dataclass_params__.frozen
    return _record(f"{cls.__name__} {names}", cls, [hints[name] for name in names], values, frozen=frozen)


def _record(
    name: str, build: Callable[..., Any], hints: Sequence[Any], values: Callable[[Any], Any], *, frozen: bool
) -> _Way:
    """Return the functions for a fixed number of values, each of its own type, that `build` combines."""
    ways = [_way_of(hint) for hint in hints]
    dumps = [(at, way.dump) for at, way in enumerate(ways) if way.dump is not _same]
    loads = [(at, way.load) for at, way in enumerate(ways) if not way.plain]
    copies = [(at, way.copy) for at, way in enumerate(ways) if way.copy is not _same]
    accepted = set[tuple[type, ...]]()

    def dump(value: Any) -> list[Any]:
        return _changed(values(value), dumps)

    def load(plain: Any) -> Any:
        if type(plain) is not list:
            raise ValueError(plain)
        kinds = tuple(map(type, plain))
        if kinds not in accepted:
            _must_fit(kinds, ways)
            accepted.add(kinds)
        return build(*_changed(plain, loads))

    def copy(value: Any) -> Any:
        return build(*_changed(values(value), copies))

    words = f"{name}({', '.join(way.words for way in ways)})"
    return _Way(words, (), dump, load, _same if frozen and not copies else copy)


def _changed(values: Sequence[Any], steps: Sequence[tuple[int, Callable[[Any], Any]]]) -> list[Any]:
    """Return the values, with each step applied at its index."""
    found = [*values]
    for at, step in steps:
        found[at] = step(found[at])
    return found


def _must_fit(kinds: tuple[type, ...], ways: Sequence[_Way]) -> None:
    """Raise ValueError where values are not of the types that belong there."""
    if len(kinds) != len(ways) or any(
        way.plain and kind not in way.plain for kind, way in zip(kinds, ways, strict=True)
    ):
        raise ValueError(kinds)
