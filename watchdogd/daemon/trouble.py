"""The daemon's own troubles: a line of text each, with its kind, its path, and what helps with it."""

from __future__ import annotations

import enum
import errno
import shlex
from collections.abc import Iterable, Iterator

from watchdogd.errors import Problem, SlurmError, SlurmSilentError, WatchdogError
from watchdogd.history import database_file
from watchdogd.plugin import Advice
from watchdogd.system.account import own_name
from watchdogd.system.bounded_io import StuckError


class TroubleKind(enum.Enum):
    """What is known of a trouble beside its text."""

    OTHER = enum.auto()
    NO_ANSWER = enum.auto()
    """Home's file system did not answer in time: often just a hiccup."""
    NO_CONFIG = enum.auto()
    """config.toml is no longer there."""
    GO_ON = enum.auto()
    """A channel's new configuration is not taken: the channels go on as they were."""
    SET_ASIDE = enum.auto()
    """One file of the inbox is invalid; the others are taken in."""
    FULL = enum.auto()
    READ_ONLY = enum.auto()
    DENIED = enum.auto()
    GONE = enum.auto()
    MISPLACED = enum.auto()
    """A folder lies where a file belongs, or the other way round."""
    FAILING = enum.auto()
    """Its file system, or the disk below it, fails."""
    PROCESSES = enum.auto()
    """This user has too many processes or threads, or the limit on them is too low."""
    MEMORY = enum.auto()
    REFUSED = enum.auto()
    """Slurm said no."""
    NO_SLURM = enum.auto()
    """Slurm did not answer."""


UNWRITABLE = frozenset(
    {
        TroubleKind.FULL, TroubleKind.READ_ONLY, TroubleKind.DENIED, TroubleKind.GONE, TroubleKind.MISPLACED,
        TroubleKind.FAILING,
    }
)  # fmt: skip
"""Kinds of a home in which nothing can be written, so that no answer of people is taken in."""

_ERRNO = {
    errno.ENOSPC: TroubleKind.FULL,
    errno.EDQUOT: TroubleKind.FULL,
    errno.EFBIG: TroubleKind.FULL,
    errno.EROFS: TroubleKind.READ_ONLY,
    errno.EACCES: TroubleKind.DENIED,
    errno.EPERM: TroubleKind.DENIED,
    errno.ENOENT: TroubleKind.GONE,
    errno.EISDIR: TroubleKind.MISPLACED,
    errno.ENOTDIR: TroubleKind.MISPLACED,
    errno.EIO: TroubleKind.FAILING,
    errno.ESTALE: TroubleKind.FAILING,
    errno.ENXIO: TroubleKind.FAILING,
    errno.ENODEV: TroubleKind.FAILING,
    errno.ENOTCONN: TroubleKind.FAILING,
    errno.EAGAIN: TroubleKind.PROCESSES,
    errno.ENOMEM: TroubleKind.MEMORY,
}


class Trouble(str):
    """Text of a trouble; its kind, the path that could not be used, and what helps beside that."""

    kind: TroubleKind
    path: str
    advice: tuple[Advice, ...]

    def __new__(
        cls,
        text: str,
        kind: TroubleKind = TroubleKind.OTHER,
        path: object = "",
        advice: Iterable[Advice] = (),
    ) -> Trouble:
        """Return the text with its kind."""
        made = super().__new__(cls, text)
        made.kind, made.path, made.advice = kind, str(path), tuple(advice)
        return made

    @classmethod
    def of(cls, text: str, error: BaseException, path: object = "") -> Trouble:
        """Return the text, of the kind that the error shows."""
        fix = Problem("", error.fix, typed=False) if isinstance(error, WatchdogError) else Problem()
        kind = _kind(error)
        return cls(text, kind, path, [Advice.of(fix)] if kind is TroubleKind.OTHER and fix.fix else ())

    @classmethod
    def wrong(cls, problems: Iterable[Problem], path: object = "") -> Trouble:
        """Return what is wrong with files and folders, and the fix of each."""
        found = tuple(problems)
        text = "; ".join(each.what for each in found)
        return cls(text, TroubleKind.MISPLACED, path, map(Advice.of, found))

    def about(self, thing: str) -> Trouble:
        """Return the same, with what it is about before it."""
        return Trouble(f"{thing}{self}", self.kind, self.path, self.advice)

    @property
    def helps(self) -> Iterator[Advice]:
        """Yield what helps, by its kind."""
        yield from self.advice or _helps(self.kind, self.path)


def joined(troubles: Iterable[str]) -> Trouble:
    """Return troubles in one, of the kind and with the advice of the first."""
    found = [each for each in troubles if each]
    first = trouble(found[0]) if found else Trouble("")
    return Trouble("; ".join(found), first.kind, first.path, first.advice)


def trouble(text: str) -> Trouble:
    """Return a trouble that may be text alone."""
    return text if isinstance(text, Trouble) else Trouble(text)


def kind_of(text: str) -> TroubleKind:
    """Return the kind of a trouble."""
    return trouble(text).kind


def _kind(error: BaseException) -> TroubleKind:
    if isinstance(error, StuckError):
        return TroubleKind.NO_ANSWER
    if isinstance(error, SlurmSilentError):
        return TroubleKind.NO_SLURM
    if isinstance(error, SlurmError):
        return TroubleKind.REFUSED
    number = database_file.number_of(error.__cause__ or error)
    return _ERRNO.get(number or 0, TroubleKind.OTHER)


_HELPS = {
    TroubleKind.SET_ASIDE: (("What it asked for is not done; to see it:", "ls -l {path}/.aside"),),
    TroubleKind.GO_ON: (
        (
            "Correct it in config.toml, or set its secret; alerts go out as before. To test it then:",
            "watchdogd notify --test",
        ),
    ),
    TroubleKind.FULL: (
        ("Make room on its disk, or in its quota; to see how full it is:", "df -h {path}"),
        ("If room is left there, its inodes may be used up:", "df -i {path}"),
    ),
    TroubleKind.READ_ONLY: (
        (
            "Ask the administrators: its file system is mounted read-only. To see how it is mounted:",
            "findmnt -T {path}",
        ),
    ),
    TroubleKind.DENIED: (("Correct its rights; to see them:", "ls -ld {path}"),),
    TroubleKind.GONE: (
        ("Was it moved or removed, or is its file system not mounted? To look:", "ls -ld {path}"),
    ),
    TroubleKind.MISPLACED: (
        ("Move away what lies there, or correct its path in config.toml; to see it:", "ls -ld {path}"),
    ),
    TroubleKind.FAILING: (
        (
            "See whether it is over quota, full, read-only or gone; otherwise ask the administrators: its "
            "file system fails. To see how full it is:",
            "df -h {path}",
        ),
        ("To see whether it answers:", "ls {path}"),
    ),
    TroubleKind.PROCESSES: (
        ("To count this user's processes and threads on this machine:", "ps -Lu {user} | wc -l"),
        ("To see how many are allowed:", "ulimit -u"),
    ),
    TroubleKind.MEMORY: (("To see whether this machine, which watches, is short of memory:", "free -h"),),
    TroubleKind.REFUSED: (
        ("Correct partition, account or options under [slurm] in config.toml: Slurm refused them.", ""),
    ),
    TroubleKind.NO_SLURM: (("To see whether Slurm answers:", "scontrol ping"),),
}
"""What helps with a trouble of a kind: sentences, and the command below each."""


def _helps(kind: TroubleKind, path: str) -> Iterator[Advice]:
    """Yield what helps with a trouble of this kind; a path that is not known is asked for in no command."""
    words = {"path": shlex.quote(path), "user": shlex.quote(own_name())}
    for sentence, command in _HELPS.get(kind, ()):
        if path or "{path}" not in command:
            yield Advice(sentence, command.format(**words))
