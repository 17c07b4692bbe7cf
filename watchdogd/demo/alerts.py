"""The alerts that arrived, read back from where the daemon delivered them: its status log and its console."""

from __future__ import annotations

import re
from dataclasses import dataclass

from watchdogd.system.text import paragraphs

_LINE = re.compile(r"^(?P<at>\S+) \[(?P<status>[A-Z]+)\] (?P<target>\S+): (?P<summary>.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Alert:
    """One message: its first line (`at` is ISO 8601, `summary` may end in …), and all that is below it."""

    at: str
    status: str
    target: str
    summary: str
    body: str = ""

    @property
    def clock(self) -> str:
        """The time of day at which it was sent."""
        return self.at[11:19]

    @property
    def headline(self) -> str:
        """As every channel shows it."""
        return f"[{self.status}] {self.target}: {self.summary}"

    @property
    def evidence(self) -> tuple[str, ...]:
        """The lines that are shown as they are, such as the last ones of a log."""
        found = [text for verbatim, text in paragraphs(self.body) if verbatim]
        return tuple(found[0].splitlines()) if found else ()


def read_alerts(status_log: str, console: str) -> tuple[Alert, ...]:
    """Every alert that both channels have shown, oldest first."""
    bodies = {found.group(): body for found, body in _messages(console)}
    return tuple(
        Alert(**found.groupdict(), body=bodies[found.group()])
        for found in _LINE.finditer(status_log)
        if found.group() in bodies
    )


def _messages(console: str) -> list[tuple[re.Match[str], str]]:
    """First lines with what stands below each, up to the next one."""
    heads = list(_LINE.finditer(console))
    ends = [*(head.start() for head in heads), len(console)][1:]
    return [(head, console[head.end() : end].strip("\n")) for head, end in zip(heads, ends, strict=True)]
