"""Values as JSON text and back. Fields that the text lacks take their defaults; unknown ones are left.

So a history that an older or a newer version wrote can be read as long as no field changed its meaning.
"""

from __future__ import annotations

import json
from functools import cache
from math import isnan
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import TypeAdapter

Value = TypeVar("Value")


@cache
def adapter(form: Any) -> TypeAdapter[Any]:
    """Return how pydantic reads and writes one type; made once, since making it takes a millisecond.

    Imported here, since looks at numbers and turns do without it, and people wait for them.
    """
    from pydantic import TypeAdapter

    return TypeAdapter(form)


def packed(form: Any, value: Any, exclude: set[str] | None = None) -> str:
    """`value` as JSON text. What is no UTF-8 (a byte of a log, say) becomes a question mark."""
    from pydantic_core import PydanticSerializationError

    try:
        return adapter(form).dump_json(value, exclude=exclude).decode()
    except PydanticSerializationError:
        plain = adapter(form).dump_python(value, exclude=exclude)
        return storable(json.dumps(plain, ensure_ascii=False))


def unpacked(form: Callable[..., Value], text: str) -> Value:
    """Return the value that `packed` wrote. ValueError where the text cannot be one."""
    value: Value = adapter(form).validate_json(text)
    return value


def storable(text: str) -> str:
    """`text` as every database takes it: no lone surrogates (no UTF-8), no NUL (PostgreSQL refuses it)."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def number(value: Any) -> float | None:
    """Convert a metric's value to a float; None where a plugin handed in something that is no number.

    NaN neither: SQLite keeps it as NULL, PostgreSQL would make every mean that it is in NaN too.
    """
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if isnan(found) else found
