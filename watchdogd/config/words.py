"""What pydantic finds wrong, in words that say what to write: nobody has to know pydantic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchdogd.system.text import close_to

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PLAIN = {
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
_COMPARED = {
    "greater_than": ("gt", "must be more than {}"),
    "greater_than_equal": ("ge", "must be {} or more"),
    "less_than": ("lt", "must be less than {}"),
    "less_than_equal": ("le", "must be {} or less"),
}


def _wrong(errors: Sequence[Mapping[str, Any]]) -> str:
    literal = next((each for each in errors if each["type"] == "literal_error"), None)
    own = next((each for each in errors if each["type"] == "value_error"), None)
    if literal is not None and isinstance(literal["input"], str) and own is None:
        return _choice(literal)
    first = own or errors[0]
    if first["type"] == "literal_error":
        return _choice(first)
    if first["type"] in _COMPARED:
        key, text = _COMPARED[first["type"]]
        return text.format(f"{first['ctx'][key]:g}")
    return _PLAIN.get(first["type"]) or str(first.get("ctx", {}).get("error", "")) or str(first["msg"])


def wrong(errors: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong with one value, on one line whatever the value holds. `errors` are pydantic's on it: one
    for each kind that it may be of."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in _wrong(errors))


def _choice(error: Mapping[str, Any]) -> str:
    """`must be one of a, b`, with the nearest where one is near."""
    known = [part.strip().strip("'") for part in error["ctx"]["expected"].replace(" or ", ", ").split(",")]
    given = error["input"]
    hint = close_to(given, known) if isinstance(given, str) else ""
    return f"must be one of {', '.join(known)}{hint}"
