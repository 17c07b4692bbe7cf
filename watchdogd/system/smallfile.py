"""Small files: written atomically, and read without waiting for whatever is at the path."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat

from watchdogd.system import pathname

TYPE_CHECKING = False  # without the import of typing: see watchdogd/cli/__init__.py
if TYPE_CHECKING:
    from typing import Any

    StrPath = str | os.PathLike[str]

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def host_name() -> str:
    """Return this node's name without its domain."""
    return os.uname().nodename.partition(".")[0]


def create_file(path: str, text: str, mode: int, group: int | None = None, *, durable: bool = True) -> None:
    """Create a file atomically with `text` and this mode, whatever the umask.

    FileExistsError where anything is there, a symbolic link included. By link(2), which is atomic on network
    file systems too; O_EXCL where a file system has no links. If `durable`, it survives a power cut. Other
    OSErrors are the file system's; no draft is left.
    """
    draft = write_draft(path, text, mode, group, durable=durable)
    try:
        if not _link(draft, path):
            _write(path, text, mode, group, durable=durable)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(draft)
    if durable:
        _sync_folder(path)


def replace_file(path: str, text: str, mode: int, group: int | None = None, *, durable: bool = False) -> None:
    """Replace whatever is at `path`: readers see the old or the new text, never half.

    A symbolic link is replaced, not followed. `durable`: the new name survives a power cut, which files
    written each round need not. OSError; no draft is left.
    """
    draft = write_draft(path, text, mode, group)
    try:
        os.replace(draft, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        error.filename = path  # users do not know drafts
        del error.filename2
        raise
    if durable:
        _sync_folder(path)


def _sync_folder(path: str) -> None:
    """Sync the folder of `path`: until then a power cut may undo the new name."""
    with contextlib.suppress(OSError):  # some file systems cannot sync folders
        descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_draft(path: str, text: str, mode: int, group: int | None = None, *, durable: bool = True) -> str:
    """Write `text` to a hidden file beside `path`; return its path, to link, rename or unlink."""
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name[:180]}.{host_name()}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        _write(draft, text, mode, group, durable=durable)
    except OSError as error:
        error.filename = path  # errors of writing have no name, and users do not know drafts
        raise
    return draft


def _link(draft: str, path: str) -> bool:
    """Link the draft to its name; False where the file system has no links.

    FileExistsError where the name is taken. NFS may report a link as failed, or as existing, though it was
    made (the answer was lost and the call repeated): the link count tells (open(2), O_EXCL).
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


def _write(path: str, text: str, mode: int, group: int | None, *, durable: bool) -> None:
    """Write a new file, to disk if `durable`; remove it again where writing fails."""
    descriptor = os.open(path, _CREATE_FLAGS, 0o600)
    try:
        if group is not None:
            with contextlib.suppress(OSError):  # a setgid folder has set the group already
                os.fchown(descriptor, -1, group)
        with contextlib.suppress(OSError):  # some file systems have no modes
            os.fchmod(descriptor, mode)
        _write_all(descriptor, text.encode("utf-8", "surrogateescape"))
        if durable:
            os.fsync(descriptor)  # an exceeded quota shows here at the latest
    except BaseException:  # raised again; no half-written file is left
        os.close(descriptor)
        os.unlink(path)
        raise
    os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


FILE_LIMIT = 1 << 20
"""Maximum bytes of a configuration, a secret or a file of home."""
STATUS_LIMIT = 1 << 28
"""Maximum bytes of status.json."""
_OPEN_FLAGS = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LINKS = 40
"""Maximum links followed, as by the kernel (path_resolution(7))."""


class NoPlainFileError(OSError):
    """The path is no plain file, or one larger than such a file can be."""


def open_plain(path: StrPath, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Open a plain file without blocking; follow a link only with `follow`. Return a descriptor.

    OSError where it cannot be opened; NoPlainFileError where it is something else. Other users' links are not
    followed to one's own files: lines of a log, for example, are sent to people who may not read those.
    """
    flags |= _OPEN_FLAGS
    try:
        descriptor = os.open(path, flags | (0 if follow else os.O_NOFOLLOW), 0o600)
        if follow and os.getuid() and os.fstat(descriptor).st_uid == os.getuid():
            os.close(descriptor)
            descriptor = _open_by_own_links(os.fspath(path), flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):  # a link, a pipe or socket, a folder
            raise _no_plain_file(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _no_plain_file(path)
    return descriptor


def _open_by_own_links(path: str, flags: int) -> int:
    """Open a file component by component, so that no link is swapped between check and use."""
    parts, links, foreign = path.split("/")[::-1], 0, False
    at = os.open("/" if path.startswith("/") else ".", os.O_PATH | os.O_CLOEXEC)
    try:
        while parts:
            if not (part := parts.pop()):
                continue
            found = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            status = os.fstat(found)
            if stat.S_ISLNK(status.st_mode):
                links, foreign = links + 1, foreign or status.st_uid not in (0, os.getuid())
                target = os.readlink("", dir_fd=found)
                os.close(found)
                if links > _LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                parts += target.split("/")[::-1]
                found = os.open("/", os.O_PATH | os.O_CLOEXEC) if target.startswith("/") else os.dup(at)
            os.close(at)
            at = found
        if foreign and os.fstat(at).st_uid == os.getuid():
            raise PermissionError(errno.EPERM, "somebody else's link leads to it", path)
        return os.open(f"/proc/self/fd/{at}", flags, 0o600)
    finally:
        os.close(at)


def read_head(path: StrPath, size: int, *, follow: bool = False) -> tuple[bytes, os.stat_result]:
    """Return the first `size` bytes of a plain file, and its stat result. OSError."""
    with open(open_plain(path, follow=follow), "rb") as file:
        return file.read(size), os.fstat(file.fileno())


def read_plain(
    path: StrPath, errors: str = "strict", limit: int = FILE_LIMIT, *, follow: bool = False
) -> str:
    """Return the text of a plain file, without a byte order mark.

    OSError where it cannot be read; NoPlainFileError where it is something else, or has more than `limit`
    bytes; UnicodeDecodeError, depending on `errors`.
    """
    text, _ = read_head(path, limit + 1, follow=follow)
    if len(text) > limit:
        raise NoPlainFileError(errno.EFBIG, f"it has more than {limit} bytes", str(path))
    return text.decode("utf-8-sig", errors)


def _no_plain_file(path: StrPath) -> NoPlainFileError:
    return NoPlainFileError(errno.EINVAL, "it is no plain file", str(path))


_NO_ANSWER = frozenset({errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EIO})
"""Errors of a removed export, a FUSE without server, an unreachable server, a failing disk."""


def unanswered(error: BaseException) -> bool:
    """Return whether an error means that the file system does not answer, so that nothing is known."""
    return isinstance(error, OSError) and error.errno in _NO_ANSWER


def check_answers(pattern: str) -> None:
    """Raise OSError where the folder of a pattern does not answer, which glob takes for an empty folder."""
    try:
        os.stat(pathname.wildcard_folder(pattern))
    except OSError as error:
        if unanswered(error):
            raise


MISSHAPEN = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Errors caused by a JSON text with values of unexpected types."""


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. ValueError where it is no JSON, or too long or deep to parse."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested without end") from None
