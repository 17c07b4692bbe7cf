"""The nearest name to a misspelt one."""

from __future__ import annotations

_NEAR = 0.66
"""How like a name must be (difflib): one letter of three may differ."""


def close_to(word: str, known: list[str]) -> str:
    """`; did you mean 'x'?`, or nothing; `nag1` means `cron.hourly/nag1`."""
    from difflib import get_close_matches

    whole = [name for name in known if name.endswith(f"/{word}")][:1]
    close = whole or _begun(word, known) or get_close_matches(word, known, n=1, cutoff=_NEAR)
    return f"; did you mean '{close[0]}'?" if close else ""


def _begun(word: str, known: list[str]) -> list[str]:
    """The one name of which the word is the beginning."""
    found = [name for name in known if len(word) > 1 and name.startswith(word)]
    return found if len(found) == 1 else []


def nearest(word: str, known: list[str]) -> str:
    """`; did you mean 'x'?`, or what there is where that is little, or nothing."""
    close = close_to(word, known)
    if close:
        return close
    return f"; there are {', '.join(known)}" if 0 < len(known) <= 12 else ""
