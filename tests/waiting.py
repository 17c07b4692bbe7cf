"""Waiting for something to become true: poll with a deadline, then fail in a sentence."""

import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
_REST = 4.0
"""Times as long as asking took, nobody asks: five processes that wait for a Slurm would fill the machine."""
_SLOWER = 10.0
_LONG = 300.0
"""By how much a busy machine may be slower, up to so many seconds; above, by three times.

What comes true ends the wait at once, so it costs nothing.
"""
AT_ONCE = 60.0
"""Seconds that nothing takes, however busy the machine, unless it waits for something that never comes."""


class Waited(NamedTuple, Generic[T]):
    """What came, and how long it took in seconds."""

    value: T
    seconds: float


def wait_until(
    condition: Callable[[], T | None], timeout: float, what: str, *, every: float = 0.05
) -> Waited[T]:
    """Ask `condition` every `every` seconds, and no more than a fifth of the time, until it is true.

    `timeout` is how many seconds that takes at most on a machine that has nothing else to do; three to ten
    times as long is waited. `what` is the sentence that is waited for ("node5 answers again"). Raises
    AssertionError with it, the time waited and the last answer; what `condition` raises goes through.
    """
    patience = max(3 * timeout, min(_SLOWER * timeout, _LONG))
    start = time.monotonic()
    while True:
        asked = time.monotonic()
        value = condition()
        seconds = time.monotonic() - start
        if value:
            return Waited(value, seconds)
        if seconds >= patience:
            raise AssertionError(f"waited {seconds:.1f} s in vain until {what}; last answer: {value!r}")
        time.sleep(max(every, min(_REST * (time.monotonic() - asked), 1.0)))
