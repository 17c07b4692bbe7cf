"""The name of a Unix account. Light, for the emergency verbs."""

from __future__ import annotations

import pwd


def user(uid: int) -> str:
    """A user's name, or the number that has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
