"""What one source allows: the value that all quota readers return."""

from __future__ import annotations

from dataclasses import dataclass

BYTES = "bytes"
INODES = "inodes"
FILE_SYSTEM = "file system"
"""Whose limit it is where it is nobody's quota."""


class Owner(str):
    """Whose quota it is, in words: `quota of user alice in pool fast`; `user` is the name of one."""

    user: str
    _words: tuple[str, str, str]

    def __new__(cls, kind: str, name: str = "", inside: str = "") -> Owner:
        """`kind` is `user`, `group` or what else has quotas, `inside` the part where they hold, in words."""
        line = super().__new__(cls, f"quota of {kind} {name}".rstrip() + inside)
        line.user, line._words = name if kind == "user" else "", (kind, name, inside)
        return line

    def __reduce__(self) -> tuple[type[Owner], tuple[str, str, str]]:
        """Of what it is made anew where it was pickled."""
        return Owner, self._words


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit on bytes or inodes: of the whole file system, or the quota of a user, group or project.

    `kind` is BYTES or INODES. `of` says whose it is (`file system`, or an Owner). `hard` is where
    writing ends, `soft` where a grace period begins; None: there is none. `grace` is what the tool prints
    of a running grace period (`6days`), `expired` says that it ran out. `available` is what can still be
    written where that is less than `hard - used`. `path` is the file system that the tool names: a
    mount point, a directory or a device, empty where it names none; `fileset` the part of it. `at` is when
    the figures were taken (seconds since the epoch), where the tool says so. `inaccurate`: the tool says
    that they are.
    """

    kind: str
    of: str
    used: float
    hard: float | None = None
    soft: float | None = None
    grace: str = ""
    expired: bool = False
    available: float | None = None
    path: str = ""
    at: float | None = None
    fileset: str = ""
    inaccurate: bool = False

    @property
    def user(self) -> str:
        """The user whose quota it is, or empty."""
        return self.of.user if isinstance(self.of, Owner) else ""

    @property
    def capacity(self) -> float | None:
        """What percentages count from: the hard limit, else the soft one, else None (no limit)."""
        return self.hard if self.hard is not None else self.soft

    def free(self, usable: float = 1.0) -> float:
        """What is left of the usable share of the capacity: 0 at least, infinite where there is no limit."""
        if self.capacity is None:
            return float("inf")
        left = self.capacity * usable - self.used
        return max(left if self.available is None else min(left, self.available), 0.0)
