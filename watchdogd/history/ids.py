"""Numbers for things that rows speak of: a number of two bytes instead of a name of fifty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchdogd.history.forms import storable

if TYPE_CHECKING:
    from collections.abc import Iterable, KeysView

    from watchdogd.history.statements import Row


class Ids:
    """The ids of one table by what they stand for; new things get the next number. There is one writer."""

    def __init__(self, rows: Iterable[Any]) -> None:
        """`rows` are the table's: id first, then the key."""
        self._known: dict[Row, int] = {tuple(key): number for number, *key in rows}
        self._last = max(self._known.values(), default=0)

    def of(self, key: Row) -> int:
        """Return the id of `key`."""
        found = self._known.get(key)
        return self._found_or_new(key) if found is None else found

    def keys(self) -> KeysView[Row]:
        """Return all keys."""
        return self._known.keys()

    def forget(self, key: Row) -> int:
        """Return the id of `key`, which is given up."""
        return self._known.pop(key)

    def _found_or_new(self, key: Row) -> int:
        """Names that the database cannot hold as they are stand there changed a little."""
        clean = tuple(storable(part) if isinstance(part, str) else part for part in key)
        number = self._known.get(clean)
        if number is None:
            number = self._given(clean)
        self._known[key] = number
        return number

    def _given(self, _key: Row) -> int:
        self._last += 1
        return self._last


class NotedIds(Ids):
    """Ids whose new ones are rows of a table: somebody takes them all with `new_rows`, or they pile up."""

    def __init__(self, rows: Iterable[Any]) -> None:
        """As Ids."""
        super().__init__(rows)
        self._new: list[Row] = []

    def new_rows(self) -> list[Row]:
        """Id and key of what has come since the last call."""
        rows, self._new = self._new, []
        return rows

    def _given(self, key: Row) -> int:
        number = super()._given(key)
        self._new.append((number, *key))
        return number
