"""Reading a small file that a person may have replaced by anything: a pipe would be waited for without end,
a device or a pasted log read without end."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 1 << 20
"""Bytes that a configuration or a secret has at most."""
PICTURE = 1 << 28
"""Bytes that status.json has at most."""


def read_plain(path: Path, errors: str = "strict", limit: int = LIMIT) -> str:
    """The text of a plain file, without the mark that editors of Windows begin it with.

    OSError where it cannot be read, is something else, or has more than `limit` bytes; UnicodeDecodeError,
    unless `errors` says otherwise.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            text = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(text) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit} bytes", str(path))
    return text.decode("utf-8-sig", errors)
