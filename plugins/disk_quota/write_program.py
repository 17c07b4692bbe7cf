"""Program of its own that writes, fsyncs, reads back and removes a small file: any step may hang.

It runs as `python write_program.py DIRECTORY`, and prints one line, `ok` or `STEP ERRNO`, the step at which
it failed; a content that came back otherwise is `read back 0`. Standard library alone. The file's name is the
same each time, so that at most one can be left, unless somebody else's stands in its way; nothing that is
there already is written into.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys

_SIZE = 65536


def path_in(folder: str) -> str:
    """Return where the file lies, one for each machine and user."""
    return os.path.join(folder, f".watchdogd-write.{socket.gethostname().partition('.')[0]}.{os.geteuid()}")


def probe(folder: str) -> str:
    """Return the line to print."""
    path = path_in(folder)
    step = "created"
    try:
        with contextlib.suppress(OSError):
            os.unlink(path)  # left by one that was killed
        if os.path.lexists(path):
            path += f".{os.urandom(4).hex()}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            wrote, step = os.urandom(_SIZE), "written"
            _write(descriptor, wrote)
            step = "fsynced"
            os.fsync(descriptor)
            with contextlib.suppress(OSError):  # not from the cache, where the file system minds
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            step = "read back"
            if os.pread(descriptor, _SIZE, 0) != wrote:
                return f"{step} 0"
            step = "closed"  # network file systems tell here of what they could not keep
        finally:
            os.close(descriptor)
        step = "removed"
        os.unlink(path)
    except OSError as error:
        return f"{step} {error.errno}"
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
    return "ok"


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    print(probe(sys.argv[1]))
