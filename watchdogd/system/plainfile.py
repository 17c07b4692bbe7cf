"""The one door to small files that somebody else may have replaced by anything: a pipe would be waited for
without end, a device or a pasted log read without end, a link lead elsewhere. Light, for the emergency verbs.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False  # without the import of typing: see watchdogd/cli/__init__.py
if TYPE_CHECKING:
    StrPath = str | os.PathLike[str]

LIMIT = 1 << 20
"""Bytes that a configuration, a secret or a file of home has at most."""
PICTURE = 1 << 28
"""Bytes that status.json has at most."""
_ALWAYS = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NoPlainFileError(OSError):
    """Something else lies there, or more than such a file ever has."""


def open_plain(path: StrPath, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """A descriptor of a plain file, opened without waiting for anybody; a link is followed only where asked.

    OSError where it cannot be opened so; NoPlainFileError where it is something else.
    """
    try:
        descriptor = os.open(path, flags | _ALWAYS | (0 if follow else os.O_NOFOLLOW), 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):  # a link, a pipe or socket, a folder
            raise _no_plain_file(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _no_plain_file(path)
    return descriptor


def head(path: StrPath, size: int, *, follow: bool = False) -> tuple[bytes, os.stat_result]:
    """The first `size` bytes of a plain file, and what the system knows of it. OSError."""
    with open(open_plain(path, follow=follow), "rb") as file:
        return file.read(size), os.fstat(file.fileno())


def read_plain(path: StrPath, errors: str = "strict", limit: int = LIMIT, *, follow: bool = False) -> str:
    """The text of a plain file, without the mark that editors of Windows begin it with.

    OSError where it cannot be read; NoPlainFileError where it is something else, or has more than `limit`
    bytes; UnicodeDecodeError, unless `errors` says otherwise.
    """
    text, _ = head(path, limit + 1, follow=follow)
    if len(text) > limit:
        raise NoPlainFileError(errno.EFBIG, f"it has more than {limit} bytes", str(path))
    return text.decode("utf-8-sig", errors)


def _no_plain_file(path: StrPath) -> NoPlainFileError:
    return NoPlainFileError(errno.EINVAL, "it is no plain file", str(path))
