"""What is no TOML in config.toml, as one line: where it stands, and what to do about it. Pure."""

from __future__ import annotations

import re
import tomllib

_DIGITS = re.compile(r"[0-9_]{4000}")
_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_MENDS = (
    ("Cannot overwrite", "this stands twice in its table: keep one of them"),
    ("Duplicate inline table key", "a key stands twice between the braces: keep one of them"),
    ("Cannot declare", "this table stands twice, or between braces before: put its keys under one heading"),
    ("Cannot mutate", "this table was closed before: put its keys in one place"),
    ("Cannot redefine", "this table was closed before: put its keys in one place"),
    ("Expected '='", "write it as key = value; a key with other than letters, digits, - and _ needs quotes"),
    ("Expected newline", "write one key = value a line, and a text that has quotes in it between '...'"),
    ("Expected ']", "close the table's heading with ]"),
    ("Unclosed array", "close the list with ], with commas between its values"),
    ("Unclosed inline table", "close the braces with }, with commas between their keys, all on one line"),
    ("Unescaped '\\'", "put a text with backslashes between '...', not \"...\""),
    ("Unterminated string", "close the text with the quotes that it begins with"),
    ("Expected \"'", "close the text with the quotes that it begins with"),
    ("Expected '\"", "close the text with the quotes that it begins with"),
    ("Illegal character '\\n'", "close the text with the quotes that it begins with, on its line"),
    ("Found invalid character", "take this invisible character out"),
    ("Illegal character", "take this invisible character out"),
    ("Invalid value", "write texts and durations in quotes, true and false in small letters"),
    ("Invalid date", "write texts and durations in quotes"),
    ("Invalid hex value", "put a text with backslashes between '...', not \"...\""),
    ("Escaped character", "put a text with backslashes between '...', not \"...\""),
    ("Invalid initial character", "begin a key with a letter, or put it in quotes"),
    ("Invalid statement", "write a [table], or key = value; a comment begins with #"),
)
"""How tomllib's own words begin, and what they mean for whoever wrote the file."""
_SHOWN = 60


def sentence(text: str, error: ValueError | RecursionError) -> str:
    """`line 14, 'every': this stands twice in its table: keep one of them`."""
    if isinstance(error, RecursionError):
        return "lists or tables lie too deep in one another: write them flatter"
    if not isinstance(error, tomllib.TOMLDecodeError):
        return f"{_endless(text)}: write it shorter, or put it in quotes"
    said = str(error)
    position = _POSITION.search(said)
    lines = text.split("\n")
    number = int(position[1]) if position and position[1] else len(text.rstrip().split("\n"))
    mend = next((mend for begin, mend in _MENDS if said.startswith(begin)), "write it as key = value")
    return f"line {number}{_shown(lines[number - 1])}: {mend}"


def _shown(line: str) -> str:
    """The heading or the key that stands there: a value may be a secret."""
    heading = line.strip().startswith("[")
    key = line.strip() if heading else line.partition("=")[0].strip() if "=" in line else ""
    return f", {key[:_SHOWN]!r}" if key else ""


def _endless(text: str) -> str:
    """Where a number stands that has more digits than any number here."""
    long = (number for number, line in enumerate(text.split("\n"), 1) if _DIGITS.search(line))
    return f"line {next(long, 1)}: this number is longer than any that could be meant"
