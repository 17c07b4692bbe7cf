"""Why this machine starts no further process or thread, in words that say what is short."""

from __future__ import annotations

import errno
import threading

MEMORY = "no memory is left for it, on this machine or under this user's limits"
PROCESSES = "this user has too many processes here"
_WORDS = {
    errno.EAGAIN: PROCESSES,
    errno.EMFILE: "the watchdog has too many files open: restart it",
    errno.ENFILE: "this machine has too many files open",
    errno.ENOMEM: MEMORY,
}
_STACK = 8 * 2**20
"""Bytes of a thread's stack where no limit is set: what Linux gives."""


def of_process(error: OSError | MemoryError) -> str:
    """What was short when a process could not be started; empty where it was something else."""
    return MEMORY if isinstance(error, MemoryError) else _WORDS.get(error.errno or 0, "")


def of_thread() -> str:
    """What is short now that a thread could not be started. Python does not say: `RuntimeError` stands for
    all; so what its stack takes is asked for."""
    import mmap  # a file each, which verbs that start no thread do not open
    import resource

    size = threading.stack_size() or resource.getrlimit(resource.RLIMIT_STACK)[0]
    try:
        mmap.mmap(-1, size if size > 0 else _STACK).close()
    except (OSError, MemoryError):
        return MEMORY
    return PROCESSES
