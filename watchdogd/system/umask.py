"""The umask: watchdogd's own, for what it, SQLite or a library makes, and the user's, for programs of theirs.

Light, for the emergency verbs. A process of ours is started with the user's, and takes its own first of all.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # without the import of typing: see watchdogd/cli/__init__.py
if TYPE_CHECKING:
    from types import TracebackType

PRIVATE, SHARED = 0o077, 0o007
"""Of a home of one's own, and of one that a group shares."""
_OTHERS_WRITE = 0o002
_USUAL = 0o022

_users: int | None = None
_own = PRIVATE


def begin(own: int = PRIVATE) -> None:
    """Make what this process creates its user's alone, until `suit` says who may share it."""
    global _users, _own
    before, _own = os.umask(own), own
    _users = before if _users is None else _users


def suit(group: int | None) -> None:
    """Have the umask of a home that this group shares, or nobody. Nothing where `begin` was not called."""
    if _users is not None:
        begin(PRIVATE if group is None else SHARED)


def own() -> int:
    """Return the umask that processes of ours set."""
    return _own


def end() -> None:
    """Have the user's umask back."""
    global _users
    if _users is not None:
        os.umask(_users)
        _users = None


def users() -> int | None:
    """Return the umask of the user's shell or job, for jobs and trainings; None where unchanged."""
    return _users


def sane() -> int:
    """Return the user's umask for files beside home and for programs in home.

    One that lets everybody write says nothing of what is wanted: the usual one stands for it.
    """
    found = _users
    if found is None:
        found = os.umask(PRIVATE)
        os.umask(found)
    return found if found & _OTHERS_WRITE else found | _USUAL


class Lent:
    """`with Lent(mask)`: another umask for a process that is started meanwhile. Not beside other threads."""

    def __init__(self, mask: int | None) -> None:
        self._mask = mask

    def __enter__(self) -> None:
        self._before = None if self._mask is None else os.umask(self._mask)

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            os.umask(self._before)
