"""Messages between the daemon and its workers: Calls out, many in one; a Reply back for each.

`RECALL` asks for the calls that have not begun; they come back as Returned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.engine.catalog import Source

RECALL = None
NOTHING = "{}"
"""The memory, as JSON text, of a plugin that remembers nothing."""
FAILED = "failed looks"
"""Key in a memory: how many looks in a row did not end. It is the daemon's, plugins do not see it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One function to run in a worker. `key` is its name; no second call of a key runs beside the first.

    `injected` is given to plugins by name, and so is their own `memory`, which travels as JSON text; plain
    functions get `parameters` alone. `timeout` in seconds. `alone`: in a process of its own (foreign code).
    Others share workers with those of their `lane`: slow programs do not keep quick checks waiting.
    """

    key: str
    source: Source
    parameters: Mapping[str, Any] = field(default_factory=dict)
    injected: Mapping[str, Any] = field(default_factory=dict)
    memory: str = NOTHING
    timeout: float = 30.0
    alone: bool = False
    lane: str = ""


@dataclass(frozen=True, slots=True)
class Returned:
    """The keys of the calls that a worker gives back, not begun."""

    keys: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reply:
    """Outcome of a Call: `value` (a plugin's results, a function's return value), or `trouble` in one line.

    `memory` is the plugin's memory, as JSON text, where it changed. `late`: it did not answer in time.
    `unanswered`: what it looked at did not. `left`: ids of processes that the call started and that could not
    even be killed; `hang`: what to say of them.
    """

    key: str
    value: Any = None
    memory: str | None = None
    trouble: str = ""
    late: bool = False
    unanswered: bool = False
    left: tuple[int, ...] = ()
    hang: str = ""
    seconds: float = 0.0
