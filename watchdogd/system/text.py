"""Foreign text made harmless and short, the nearest known name, and the host of a URL."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import urlsplit

VERBATIM = "    "
"""Indentation of verbatim lines in a message's body."""

_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC, DCS and similar: titles, links
    r"|\x1b[ -/]*[0-~]?"  # all other two-character escapes, and a lone ESC
)
_HARMFUL = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"  # harmless, and needed in Persian and emoji


def plain(text: str) -> str:
    """Return text without terminal escapes, control and direction characters and lone surrogates.

    Line ends become `\\n`, tabs four spaces; of an overwritten line (progress bar) the last state is kept.
    """
    if text.isascii() and text.isprintable():
        return text
    unescaped = _ESCAPE.sub("", text.replace("\r\n", "\n")).expandtabs(4)
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in unescaped.split("\n")]
    return "\n".join("".join(filter(_harmless, line)) for line in lines)


def _harmless(character: str) -> bool:
    return character in _JOINERS or unicodedata.category(character) not in _HARMFUL


def split_lines(text: str) -> list[str]:
    """Return the lines of a program's output: only `\\n`, or `\\r\\n`, ends one.

    str.splitlines also splits at eight characters that may occur within a line.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def one_line(text: str, limit: int = 300) -> str:
    """Return text as one plain line of at most `limit` characters."""
    if text.isprintable() and len(text) <= limit and "  " not in text and text.strip() == text:
        return text  # the usual case
    return shortened(" ".join(plain(text).split()), limit)


def shortened(text: str, limit: int) -> str:
    """Return the beginning of `text`, at most `limit` characters, with `…` where something is missing."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def excerpt(text: str, lines: int, limit: int) -> str:
    """Return plain text cut to so many lines and characters: its beginning and more of its end."""
    found = [shortened(line.rstrip(), limit // 4) for line in plain(text).strip("\n").split("\n")]
    left = len(found) - lines
    if left > 0:
        head, tail = lines // 3, lines - lines // 3
        found = [*found[:head], f"… {left} line{'s' * (left > 1)} left out …", *found[-tail:]]
    while len(found) > 1 and sum(map(len, found)) + len(found) > limit:
        del found[len(found) // 3]
    return "\n".join(found)


def verbatim(text: str) -> str:
    """Indent lines as verbatim."""
    return "\n".join(VERBATIM + line for line in text.split("\n"))


def paragraphs(body: str) -> list[tuple[bool, str]]:
    """Return the paragraphs of a message's body: (whether it is verbatim, its text without indentation)."""
    found: list[tuple[bool, str]] = []
    fresh = True
    for line in body.split("\n"):
        marked, text = line.startswith(VERBATIM), line.removeprefix(VERBATIM)
        if not line:
            fresh = True
        elif fresh or found[-1][0] is not marked:
            found.append((marked, text))
            fresh = False
        else:
            found[-1] = (marked, f"{found[-1][1]}\n{text}")
    return found


_NEAR = 0.66
"""Minimum similarity of names (difflib): one letter of three may differ."""


def close_to(word: str, known: list[str]) -> str:
    """Return `; did you mean 'x'?`, or empty; `nag1` is near `cron.hourly/nag1`."""
    from difflib import get_close_matches

    whole = [name for name in known if name.endswith(f"/{word}")][:1]
    close = whole or _begun(word, known) or get_close_matches(word, known, n=1, cutoff=_NEAR)
    return f"; did you mean '{close[0]}'?" if close else ""


def _begun(word: str, known: list[str]) -> list[str]:
    """Return the one name that begins with the word, if there is exactly one."""
    found = [name for name in known if len(word) > 1 and name.startswith(word)]
    return found if len(found) == 1 else []


def nearest(word: str, known: list[str]) -> str:
    """Return `; did you mean 'x'?`, or else up to twelve known names, or empty."""
    close = close_to(word, known)
    if close:
        return close
    return f"; there are {', '.join(known)}" if 0 < len(known) <= 12 else ""


def web_host(url: str) -> str:
    """Return the host of an http or https URL; empty where it or its port is invalid."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and parts.port != 0
        return (parts.hostname or "") if is_one else ""
    except ValueError:  # unclosed brackets, or a port that is no number
        return ""
