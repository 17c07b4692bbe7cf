"""Whether the number before a line names who wrote it (`srun --label`), or is the step that it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from watchdogd.readers.lines import Line

SURE = 3
"""Times that the number rose, and never came again, after which it is a step."""


def unmask(lines: list[Line], memory: dict[str, Any]) -> list[Line]:
    """The lines, with the number put back before those whose number is a step.

    Ranks come again and again. A step does not; kept in `labels`: [last number, times it rose, times not].
    """
    last, rose, again = memory.get("labels", (-1, 0, 0))
    found = []
    for line in lines:
        if not line.rank.isdecimal():
            found.append(line)
            continue
        number = int(line.rank)
        rose, again, last = rose + (number > last), again + (number <= last), number
        step = rose > SURE and again * 10 < rose
        found.append(line._replace(text=f"{line.rank}: {line.text}", rank="") if step else line)
    memory["labels"] = [last, rose, again]
    return found
