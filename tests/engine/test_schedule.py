"""When rounds happen, where one of them breaks off."""

from __future__ import annotations

import time

from watchdogd.engine.schedule import Schedule


def test_a_round_that_is_lost_for_want_of_memory_is_ordered_again() -> None:
    begun: list[float] = []
    until = time.monotonic() + 120

    def round_() -> float:
        begun.append(time.time())
        if len(begun) == 1:
            raise MemoryError
        return time.time() + 3600

    Schedule(round_, lambda: len(begun) < 2 and time.monotonic() < until).run()
    assert len(begun) == 2
