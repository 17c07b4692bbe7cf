"""Umask: watchdogd's own for files that it, SQLite or a library creates, and the user's for their programs.

Few imports, for the emergency verbs. A process of watchdogd is started with the user's, and sets its own
first.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # without the import of typing: see watchdogd/cli/__init__.py
if TYPE_CHECKING:
    from types import TracebackType

PRIVATE, SHARED = 0o077, 0o007
"""Umasks of a private home, and of one that a group shares."""
_OTHERS_WRITE = 0o002
_USUAL = 0o022

_users: int | None = None
_own = PRIVATE


def begin(own: int = PRIVATE) -> None:
    """Make new files of this process private until `suit` is called; remember the user's umask."""
    global _users, _own
    before, _own = os.umask(own), own
    _users = before if _users is None else _users


def suit(group: int | None) -> None:
    """Set the umask for a home shared by this group, or private (None). Nothing unless `begin` was called."""
    if _users is not None:
        begin(PRIVATE if group is None else SHARED)


def own() -> int:
    """Return the umask for processes of watchdogd."""
    return _own


def end() -> None:
    """Restore the user's umask."""
    global _users
    if _users is not None:
        os.umask(_users)
        _users = None


def users() -> int | None:
    """Return the umask of the user's shell or job, for jobs and trainings; None where unchanged."""
    return _users


def sane() -> int:
    """Return the user's umask for files beside home and for programs in home.

    A umask that lets everybody write is replaced by the usual one, since it says nothing of what is wanted.
    """
    found = _users
    if found is None:
        found = os.umask(PRIVATE)
        os.umask(found)
    return found if found & _OTHERS_WRITE else found | _USUAL


class Lent:
    """`with Lent(mask)`: another umask for a process started within. Not with other threads."""

    def __init__(self, mask: int | None) -> None:
        self._mask = mask

    def __enter__(self) -> None:
        self._before = None if self._mask is None else os.umask(self._mask)

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            os.umask(self._before)
