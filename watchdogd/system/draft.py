"""A small file that is there whole or not at all. Light, for the emergency verbs: plain strings."""

from __future__ import annotations

import contextlib
import errno
import os

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def host() -> str:
    """This node's name, without its domain."""
    return os.uname().nodename.partition(".")[0]


def create(path: str, text: str, mode: int, group: int | None = None) -> None:
    """Make `path` with `text`, whole from the first moment, in this mode whatever the umask.

    FileExistsError where anything is there, a symbolic link included: nothing is clobbered or followed.
    By link(2), which is atomic on network file systems too; O_EXCL where a file system has no links.
    Other OSErrors as the file system gives them; no draft stays behind.
    """
    draft = write_draft(path, text, mode, group)
    try:
        if not link(draft, path):
            _write(path, text, mode, group)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(draft)


def replace(path: str, text: str, mode: int, group: int | None = None) -> None:
    """Put `text` in the place of whatever is at `path`: readers see the old or the new, never half.

    A symbolic link there is replaced, never followed. OSError; no draft stays behind.
    """
    draft = write_draft(path, text, mode, group)
    try:
        os.replace(draft, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        error.filename = path  # people know no drafts
        del error.filename2
        raise


def write_draft(path: str, text: str, mode: int, group: int | None = None) -> str:
    """A hidden file beside `path` that holds `text`; returns its path, to link, rename or unlink."""
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name[:180]}.{host()}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        _write(draft, text, mode, group)
    except OSError as error:
        error.filename = path  # writing names none, and people know no drafts
        raise
    return draft


def link(draft: str, path: str) -> bool:
    """Give the draft its name; False where the file system has no links.

    FileExistsError where the name is taken. On NFS a link may be reported as failed, or as taken, though it
    was made (the answer was lost and the call repeated): the count of links tells (open(2), O_EXCL).
    """
    try:
        os.link(draft, path)
    except OSError as error:
        if os.stat(draft).st_nlink == 2:
            return True
        if error.errno in _NO_LINKS:
            return False
        raise
    return True


def _write(path: str, text: str, mode: int, group: int | None) -> None:
    """A new file on disk; it is removed again where writing fails."""
    descriptor = os.open(path, _NEW, 0o600)
    try:
        if group is not None:
            with contextlib.suppress(OSError):  # a setgid folder has given the group already
                os.fchown(descriptor, -1, group)
        with contextlib.suppress(OSError):  # some file systems have no modes
            os.fchmod(descriptor, mode)
        _write_all(descriptor, text.encode("utf-8", "surrogateescape"))
        os.fsync(descriptor)  # a full quota shows here at the latest
    except BaseException:  # whatever it was, it is raised again: no half-written file stays behind
        os.close(descriptor)
        os.unlink(path)
        raise
    os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
