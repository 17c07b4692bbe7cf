"""Files by which somebody did something: a switch that is set, the mark of a finished run or of a stop.

Who did it is the file's owner, whatever the file says; what it says of itself (`{"by": ..., "host": ...,
"at": ..., "reason": ...}`, or any other text) is quoted as that. Whatever lies there is read at once: a pipe,
a device or a folder says nothing, and what a link leads to is not shown to anybody. Light, for the emergency
verbs.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import namedtuple

from watchdogd.system import smallfile
from watchdogd.system.account import user_name

TYPE_CHECKING = False  # without the import of typing: see watchdogd/cli/__init__.py
if TYPE_CHECKING:
    from watchdogd.home.layout import Home

_READ_LIMIT = 4096
_LAST = 253_402_128_000.0  # seconds since the epoch at which dates end, in year 9999
_TEXT_LIMIT = 300  # characters, of twelve bytes each at most in JSON: what is written must be read whole


# A named tuple of collections: importing typing or dataclasses would cost a third of pressing a switch.


class Signature(namedtuple("Signature", "by host time reason claimed automatic", defaults=("", False))):
    """Signature of an act: who, on which node, when (seconds since the epoch), and why; empty if unknown.

    `claimed`: who the file says did it, where that is not its owner. `automatic`: watchdogd did, by itself.
    """

    __slots__ = ()

    @property
    def at(self) -> str:
        """The time as ISO 8601."""
        return stamp(self.time)

    @property
    def who(self) -> str:
        """`bob`, `bob (the file says alice)`, or watchdogd itself."""
        if self.automatic:
            return "watchdogd"
        return f"{self.by} (the file says {self.claimed})" if self.claimed else str(self.by)

    def __str__(self) -> str:
        """`by bob on login2 at 2 Jan 03:04:05 CET: wrong learning rate`."""
        where = f" on {self.host}" if self.host else ""
        return f"by {self.who}{where} at {local(self.time)}" + (f": {self.reason}" if self.reason else "")

    def fields(self) -> dict[str, object]:
        """Return it as it is written to files and printed as JSON."""
        content: dict[str, object] = {"by": self.by, "host": self.host, "at": self.at, "reason": self.reason}
        content |= {"claimed": self.claimed} if self.claimed else {}
        return content | ({"automatic": True} if self.automatic else {})


def read(path: str) -> Signature:
    """Return the author of the file. OSError where it does not exist or cannot be examined."""
    found = os.lstat(path)  # of a link, who laid it: where it leads somebody else wrote
    content = fields_of(path)
    by, claimed = user_name(found.st_uid), _text(content.get("by"))
    when = min(found.st_mtime, found.st_ctime)  # what its owner set to a later day counts from its real one
    first = _time(content.get("at"))  # it may have been touched again since
    when = first if first is not None and 0 < first < when else when
    host, reason = _text(content.get("host")), _text(content.get("reason"))
    automatic = content.get("automatic") is True
    return Signature(by, host, when, reason, "" if claimed == by else claimed, automatic)


def fields_of(path: str) -> dict[str, object]:
    """Return the JSON object in the file's first line, or its text as the reason."""
    try:
        line = head(path, _READ_LIMIT).strip().partition("\n")[0]
    except OSError:
        return {}
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return {"reason": line}
    return content if isinstance(content, dict) else {"reason": line}


def head(path: str, limit: int) -> str:
    """Return the first bytes of a plain file, empty for anything else; never through a link. OSError."""
    try:
        return smallfile.read_head(path, limit)[0].decode("utf-8", "replace")
    except smallfile.NoPlainFileError:
        return ""


def short(text: str) -> str:
    """Return a reason as it is written and read: one line without control characters, cut where long."""
    return one_line(text, _TEXT_LIMIT)


def one_line(text: str, limit: int) -> str:
    """Foreign text on one line, without control characters and what turns directions."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:limit]


def stamp(when: float) -> str:
    """ISO 8601 with the local offset, as units.iso writes it, without the import of datetime."""
    try:
        local = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(when))
    except (OverflowError, ValueError, OSError):  # a file's time may be anything that its owner sets
        return "an unknown time"
    return f"{local[:-2]}:{local[-2:]}"


def local(when: float) -> str:
    """Return `28 Nov 22:05:20 CET`, as units.local_time writes it, without the import of datetime."""
    try:
        at = time.localtime(when)
        zone = at.tm_zone if at.tm_zone.isalpha() else f"UTC{at.tm_zone}"
        return f"{at.tm_mday} {time.strftime('%b %H:%M:%S', at)} {zone}"
    except (OverflowError, ValueError, OSError):  # a file's time may be anything that its owner sets
        return "an unknown time"


def _text(value: object) -> str:
    """Return one line without control characters; empty where it is no text."""
    return short(value) if isinstance(value, str) else ""


def _time(value: object) -> float | None:
    """Seconds since the epoch from a number or ISO 8601; None for anything else."""
    if isinstance(value, str):
        from watchdogd.system.number import moment

        return moment(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_LAST < value < _LAST else None


def finished(home: Home) -> dict[str, str]:
    """Return who marked which runs finished, and why, by the first part of the mark's name."""
    found = {}
    for path in home.switches.glob("*.finished"):
        with contextlib.suppress(FileNotFoundError):  # it was taken away just now
            mark = read(str(path))
            why = f": {mark.reason}" if mark.reason else ""
            found[path.name.removesuffix(".finished")] = f"{mark.who}{why}"
    return found
