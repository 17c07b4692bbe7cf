"""What is understood of a log that nobody watched yet."""

from __future__ import annotations

from collections.abc import Iterator

from watchdogd.logs.explain import explain
from watchdogd.logs.runlog import RunLog
from watchdogd.logs.state import LogState
from watchdogd.readers import logtail, structured


def first_look(log: str, now: float) -> Iterator[str]:
    """Lines for people: the clocks found in the end of the newest file that matches `log`; none where nothing
    matches. OSError where it cannot be read."""
    for file in logtail.find(log)[:1]:
        data = logtail.read(file.path, *logtail.unread(file, None, first=True))
        state = LogState()
        state.advance(
            [(line.text, line.open) for line in structured.read(file.path, data)[0]], min(file.mtime, now)
        )
        yield from explain(RunLog(state), now)
