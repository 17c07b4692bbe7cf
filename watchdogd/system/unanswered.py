"""Whether a file system does not answer, rather than saying no."""

from __future__ import annotations

import errno
import os

from watchdogd.system import wildcard

_NO_ANSWER = frozenset({errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EIO})
"""An export that is gone, a FUSE whose server died, a server that is not reached, a disk that fails."""


def unanswered(error: BaseException) -> bool:
    """Whether an error tells of the file system: what lies there is not known then."""
    return isinstance(error, OSError) and error.errno in _NO_ANSWER


def must_answer(pattern: str) -> None:
    """OSError where the folder of a pattern does not answer: glob takes that for an empty folder."""
    try:
        os.stat(wildcard.folder(pattern))
    except OSError as error:
        if unanswered(error):
            raise
