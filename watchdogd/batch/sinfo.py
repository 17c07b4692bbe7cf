"""Reader of sinfo's list of nodes: a line a node and partition, FORMAT's fields.

States are sinfo's long words (%T) with a flag behind them: `*` does not answer, `~` powered off, `#`
starting, `$` in a maintenance reservation, `@` `^` to be rebooted, `-` planned for a job (sinfo(1)).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from watchdogd.batch import slurmtext
from watchdogd.errors import UnreadableError

FORMAT = slurmtext.FIELD.join(("%N", "%R", "%T", "%H", "%u", "%E"))
"""For `sinfo --noheader --all --Node --format`: node, partition, state; when, by whom and why it was set."""
_FIELDS = 6
_STATE = re.compile(r"([a-z_]+)([*~#!%$@^+-]*)")
_USABLE = frozenset({"", "~", "#"})


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node in one partition. `since` is seconds since the epoch; `by` and `reason` may be empty."""

    name: str
    partition: str
    state: str
    flags: str = ""
    since: float | None = None
    by: str = ""
    reason: str = ""

    @property
    def spare(self) -> bool:
        """True where a job can start on it now, or once it is powered on."""
        return self.state == "idle" and self.flags in _USABLE

    @property
    def drained(self) -> bool:
        """True where it takes no new job: drained, or draining while its jobs end."""
        return self.state.startswith("drain")

    @property
    def down(self) -> bool:
        """True where Slurm has given it up."""
        return self.state in ("down", "fail", "failing", "inval")

    @property
    def silent(self) -> bool:
        """True where it does not answer the controller."""
        return "*" in self.flags

    @property
    def kill_failed(self) -> bool:
        """Slurm drained it since a process was slow to die (UnkillableStepTimeout): mostly a healthy node."""
        return self.drained and "kill task failed" in self.reason.lower()


def form(mark: str) -> str:
    """Return FORMAT with fields that a reason cannot imitate; `mark`: of `slurmtext.mark`."""
    return FORMAT.replace(slurmtext.FIELD, slurmtext.FIELD + mark)


def read(text: str, mark: str = "") -> tuple[SlurmNode, ...]:
    """Return the nodes, without unreadable lines; UnreadableError where all are. `mark`: as of `form`.

    A reason may have been given with line breaks: a line without fields goes on with the one before.
    """
    rows: list[str] = []
    between = slurmtext.FIELD + slurmtext.marked(text, mark)
    for line in filter(str.strip, text.split("\n")):
        if rows and between in rows[-1] and between not in line:
            rows[-1] += f" {line.strip()}"
        else:
            rows.append(line)
    return tuple(slurmtext.read_records(lambda row: _node(row, between), rows))


def _node(line: str, between: str) -> SlurmNode:
    fields = line.split(between, _FIELDS - 1)
    match = _STATE.fullmatch(fields[2].strip().lower()) if len(fields) == _FIELDS else None
    if match is None:
        raise UnreadableError(f"sinfo printed what is no node: '{line[:120]}'")
    name, partition, _, since, by, reason = (field.strip() for field in fields)
    reason_text = "" if reason.lower() == "none" else slurmtext.text(reason)
    return SlurmNode(
        name, partition, match[1], match[2], slurmtext.time(since), slurmtext.text(by), reason_text
    )
