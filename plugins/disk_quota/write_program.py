"""Separate program that writes, syncs, reads back and removes a small file, since any step may hang.

It runs as `python write_program.py DIRECTORY` and prints one line: `ok`, or `STEP ERRNO` with the step that
failed (`read back 0`: the content differs). Standard library only. The file always has the same name, so that
at most one can be left behind, unless somebody else's file has that name: an existing file is never written
to.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys

_SIZE = 65536


def path_in(folder: str) -> str:
    """Return the path of the test file, which differs by machine and user."""
    return os.path.join(folder, f".watchdogd-write.{socket.gethostname().partition('.')[0]}.{os.geteuid()}")


def probe(folder: str) -> str:
    """Run the test and return the line to print."""
    path = path_in(folder)
    step = "created"
    try:
        with contextlib.suppress(OSError):
            os.unlink(path)  # left by a killed run
        if os.path.lexists(path):
            path += f".{os.urandom(4).hex()}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            wrote, step = os.urandom(_SIZE), "written"
            _write(descriptor, wrote)
            step = "fsynced"
            os.fsync(descriptor)
            with contextlib.suppress(OSError):  # bypass the cache, if the file system honours that
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            step = "read back"
            if os.pread(descriptor, _SIZE, 0) != wrote:
                return f"{step} 0"
            step = "closed"  # network file systems report failed writes here
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
