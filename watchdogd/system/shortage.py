"""Why this machine starts no further process or thread, in words that say what is short."""

from __future__ import annotations

import errno

_MEMORY = "no memory is left for it, on this machine or under this user's limits"
_PROCESSES = "this user has too many processes here"
THREAD = f"{_PROCESSES}, or {_MEMORY} (see 'ulimit -a')"
"""Why no thread could be started: Python says no more than that."""
_WORDS = {
    errno.EAGAIN: _PROCESSES,
    errno.EMFILE: "the watchdog has too many files open: restart it",
    errno.ENFILE: "this machine has too many files open",
    errno.ENOMEM: _MEMORY,
}


def of_process(error: OSError) -> str:
    """Return what was short when a process could not be started; empty where it was something else."""
    return _WORDS.get(error.errno or 0, "")
