"""Files that record an act of a user: a set switch, the mark of a finished run or of a stop.

The author is the file's owner, whatever the file says; its content (`{"by": ..., "host": ..., "at": ...,
"reason": ...}`, or any other text) is quoted as such. Only plain files are read: a pipe, a device or a folder
is empty, and a link's target is not shown. This module imports little, for the emergency verbs.
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
_LAST = 253_402_128_000.0  # seconds since the epoch, in year 9999: the end of dates
_TEXT_LIMIT = 300  # characters, of twelve bytes each at most in JSON: within _READ_LIMIT


# A named tuple of collections: importing typing or dataclasses would take a third of the time of a press.


class Signature(namedtuple("Signature", "by host time reason claimed automatic", defaults=("", False))):
    """Signature of an act: who, on which node, when (seconds since the epoch), and why; empty if unknown.

    `claimed`: the author by the file's content, where that is not its owner. `automatic`: watchdogd did it.
    """

    __slots__ = ()

    @property
    def at(self) -> str:
        """Return the time in ISO 8601."""
        return stamp(self.time)

    @property
    def who(self) -> str:
        """Return `bob`, `bob (the file says alice)`, or watchdogd itself."""
        if self.automatic:
            return "watchdogd"
        return f"{self.by} (the file says {self.claimed})" if self.claimed else str(self.by)

    def __str__(self) -> str:
        """Return `by bob on login2 at 2 Jan 03:04:05 CET: wrong learning rate`."""
        where = f" on {self.host}" if self.host else ""
        return f"by {self.who}{where} at {local(self.time)}" + (f": {self.reason}" if self.reason else "")

    def fields(self) -> dict[str, object]:
        """Return the fields as they are written to files and printed as JSON."""
        content: dict[str, object] = {"by": self.by, "host": self.host, "at": self.at, "reason": self.reason}
        content |= {"claimed": self.claimed} if self.claimed else {}
        return content | ({"automatic": True} if self.automatic else {})


def read(path: str) -> Signature:
    """Return the signature of a file. OSError where it does not exist or cannot be examined."""
    found = os.lstat(path)  # for a link its own owner: somebody else wrote the target
    content = fields_of(path)
    by, claimed = user_name(found.st_uid), _text(content.get("by"))
    when = min(found.st_mtime, found.st_ctime)  # its owner may have set the time to a later one
    first = _time(content.get("at"))  # the file may have been touched again since
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
    """Return the first bytes of a plain file; empty for anything else, a link included. OSError."""
    try:
        return smallfile.read_head(path, limit)[0].decode("utf-8", "replace")
    except smallfile.NoPlainFileError:
        return ""


def short(text: str) -> str:
    """Return a reason as one line without control characters, cut where long."""
    return one_line(text, _TEXT_LIMIT)


def one_line(text: str, limit: int) -> str:
    """Return foreign text on one line, without control and direction characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:limit]


def stamp(when: float) -> str:
    """Return ISO 8601 with the local offset, like units.iso, without importing datetime."""
    try:
        local = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(when))
    except (OverflowError, ValueError, OSError):  # a file's owner can set any time
        return "an unknown time"
    return f"{local[:-2]}:{local[-2:]}"


def local(when: float) -> str:
    """Return `28 Nov 22:05:20 CET`, like units.local_time, without importing datetime."""
    try:
        at = time.localtime(when)
        zone = at.tm_zone if at.tm_zone.isalpha() else f"UTC{at.tm_zone}"
        return f"{at.tm_mday} {time.strftime('%b %H:%M:%S', at)} {zone}"
    except (OverflowError, ValueError, OSError):  # a file's owner can set any time
        return "an unknown time"


def _text(value: object) -> str:
    """Return one line without control characters; empty for other values."""
    return short(value) if isinstance(value, str) else ""


def _time(value: object) -> float | None:
    """Return seconds since the epoch from a number or ISO 8601; None for anything else."""
    if isinstance(value, str):
        from watchdogd.system.number import moment

        return moment(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_LAST < value < _LAST else None


def finished(home: Home) -> dict[str, str]:
    """Return who marked which runs finished, and why, by the run's name in file names."""
    found = {}
    for path in home.switches.glob("*.finished"):
        with contextlib.suppress(FileNotFoundError):  # it has just been removed
            mark = read(str(path))
            why = f": {mark.reason}" if mark.reason else ""
            found[path.name.removesuffix(".finished")] = f"{mark.who}{why}"
    return found
