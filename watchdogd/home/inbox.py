"""Reading of home's inbox: submissions of users and jobs, and what they request."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from watchdogd.home import inbox_submit
from watchdogd.home.layout import Home
from watchdogd.home.touchfile import one_line
from watchdogd.system import smallfile
from watchdogd.system.account import own_name, user_name
from watchdogd.system.pathname import run_name
from watchdogd.system.smallfile import parse_json
from watchdogd.units import LONGEST, age


@dataclass(frozen=True, slots=True)
class Request:
    """Request about incidents, made at `at`: `ack` an `incident`, `silence` or `unsilence` a `target`.

    A silence lasts `until` (seconds since the epoch) and replaces an earlier one of the same target.
    """

    verb: Literal["ack", "silence", "unsilence"]
    by: str
    at: float
    incident: int | None = None
    target: str = ""
    until: float = 0.0
    reason: str = ""


KINDS = frozenset({"touch", "ack", "silence", "unsilence", "finish", "finished", "deed"})
"""Kinds of submissions; `finished`: the Guard's own mark; `deed`: outcome of an earlier daemon's action."""
READ_BY_CHECKS = frozenset({"beat", "sample"})
_SIZE_LIMIT = 65536
TEXT_LIMIT = 500
"""Maximum characters read of a text in a submission."""
_AT_ONCE = 1000
_ASIDE = ".aside"
_BLANK = re.compile(r"\d+-\d+(?:-(kill|save))?-(set|cleared)")


@dataclass(frozen=True, slots=True)
class Submission:
    """File in the inbox: author, time (seconds since the epoch), kind, and fields."""

    path: Path
    kind: str
    by: str
    at: float
    said: Mapping[str, Any] = field(default_factory=dict)

    @property
    def run(self) -> str:
        """Return the run that it is about, or empty."""
        return _text(self.said, "run")

    @property
    def requests(self) -> tuple[Request, ...]:
        """Return its request about incidents, if it is one."""
        reason, target = _text(self.said, "reason"), _text(self.said, "target")
        match self.kind:
            case "ack":
                return (Request("ack", self.by, self.at, incident=self.said["id"], reason=reason),)
            case "silence":
                until = self.at + self.said["seconds"]
                return (Request("silence", self.by, self.at, target=target, until=until, reason=reason),)
            case "unsilence":
                return (Request("unsilence", self.by, self.at, target=target),)
        return ()

    @property
    def record(self) -> tuple[int, str, str]:
        """Return the action of watchdogd that it is about: incident, run and label."""
        return self.said["incident"], self.run, _text(self.said, "action")

    @property
    def outcome(self) -> str:
        text = _text(self.said, "outcome")
        return text if self.by == own_name() else f"{text} (as {self.by} reports)"

    @property
    def switch(self) -> str:
        """Return the switch that was touched, `kill` or `save`; empty for other kinds."""
        return _text(self.said, "switch")

    @property
    def cleared(self) -> bool:
        """Return whether a switch or a mark was removed."""
        return _text(self.said, "action") == "cleared"

    @property
    def reason(self) -> str:
        """Return the reason given, or empty."""
        return _text(self.said, "reason")

    @property
    def automatic(self) -> bool:
        """Return whether watchdogd did it and reports it as its own action."""
        return self.said.get("automatic") is True and self.by == own_name()

    @property
    def line(self) -> str:
        """Return the submission in one line, without its time, for the history."""
        host = _text(self.said, "host")
        where = f" on {host}" if host else ""
        return f"{self._action()} by {self.by}{where}" + (f": {self.reason}" if self.reason else "")

    def _action(self) -> str:
        match self.kind:
            case "touch":
                return f"{self.switch} switch of {self.run} {'cleared' if self.cleared else 'set'}"
            case "ack":
                return f"incident {self.said['id']} acknowledged"
            case "silence":
                return f"{_text(self.said, 'target')} silenced for {age(self.said['seconds'])}"
            case "unsilence":
                return f"silence of {_text(self.said, 'target')} ended"
            case "deed":
                return f"{_text(self.said, 'action')} for incident {self.said['incident']}: {self.outcome}"
        return f"{self.run} {'expected again' if self.cleared else 'marked finished'}"


def take(home: Home) -> tuple[list[Submission], list[str]]:
    """Return the submissions, oldest first, a thousand at most, and a line for each invalid file.

    Invalid files are moved to `inbox/.aside`; valid ones stay until `remove`. OSError where the inbox cannot
    be read or has another owner than home.
    """
    shared = home.group is not None
    if shared:
        _check_place(home)
    submissions: list[Submission] = []
    complaints: list[str] = []
    kinds = {name: kind_of(name) for name in sorted(os.listdir(home.inbox))}
    looked_at = KINDS | READ_BY_CHECKS if shared else KINDS
    for name in [name for name, kind in kinds.items() if kind in looked_at][:_AT_ONCE]:
        try:
            if kinds[name] in READ_BY_CHECKS:
                _check_author(os.lstat(home.inbox / name), shared=shared)
            else:
                submissions.append(_read(home.inbox / name, kinds[name], shared=shared))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            complaints.append(f"{name} in the inbox is set aside: {reason}{_set_aside(home, name)}")
    return sorted(submissions, key=lambda submission: submission.at), complaints


def waiting(home: Home, kinds: Collection[str]) -> list[Submission]:
    """Return the readable submissions of these kinds that have not been taken yet, oldest first."""
    found: list[Submission] = []
    shared = home.group is not None
    with contextlib.suppress(OSError):
        for name in sorted(name for name in os.listdir(home.inbox) if kind_of(name) in kinds)[:_AT_ONCE]:
            with contextlib.suppress(OSError, ValueError):
                found.append(_read(home.inbox / name, kind_of(name), shared=shared))
    return sorted(found, key=lambda submission: submission.at)


def remove(submission: Submission) -> None:
    """Remove a submission whose effect is stored. OSError, unless it is gone already."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(submission.path)


def kind_of(name: str) -> str:
    """Return the kind in `ABOUT.KIND.HOST.PID.json`, or empty. ABOUT may have dots, HOST has none."""
    parts = name.rsplit(".", 4)
    return parts[1] if len(parts) == 5 and parts[4] == "json" and not name.startswith(".") else ""


def _check_place(home: Home) -> None:
    """Raise PermissionError where a member replaced the inbox with their own folder, to alter submissions."""
    found = os.lstat(home.inbox)
    if found.st_uid not in (0, os.geteuid(), os.stat(home.path).st_uid):
        fix = f"mv {home.inbox} {home.inbox}.aside"
        raise PermissionError(
            errno.EPERM, f"it belongs to {user_name(found.st_uid)}, who does not own home: {fix}"
        )


def _check_author(found: os.stat_result, *, shared: bool) -> None:
    if why := inbox_submit.forgery(found, shared=shared):
        raise ValueError(why)


def _read(path: Path, kind: str, *, shared: bool) -> Submission:
    text, found = smallfile.read_head(path, _SIZE_LIMIT + 1)
    _check_author(found, shared=shared)
    if len(text) > _SIZE_LIMIT:
        raise ValueError(f"it is larger than {_SIZE_LIMIT} bytes")
    try:
        said = parse_json(text) if text else _said_by_name(path.name)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    _check(kind, said)
    by = user_name(found.st_uid)
    if kind in ("ack", "silence") and found.st_uid == os.geteuid():  # from the daemon, for an answer's author
        by = _text(said, "answered_by") or by
    return Submission(path, kind, by, found.st_mtime, said)


def _said_by_name(name: str) -> dict[str, str]:
    """Return what an empty submission says, from a full disk: which switch or mark was set. ValueError."""
    about, _, _, number, _ = name.rsplit(".", 4)
    if not (found := _BLANK.fullmatch(number)):
        raise ValueError("it says nothing")
    return {"run": run_name(about), "switch": found[1] or "", "action": found[2]}


def _check(kind: str, said: Any) -> None:
    """Raise ValueError where a submission lacks fields of its kind."""
    if not isinstance(said, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - the submission is wrong, not our call
    if said.get("kind", kind) != kind:
        raise ValueError("it was handed in as another kind")
    needed = {"touch": ("run", "switch"), "silence": ("target",), "unsilence": ("target",), "ack": ()}
    needed["deed"] = ("action", "outcome")
    for key in needed.get(kind, ("run",)):
        if not _text(said, key):
            raise ValueError(f"it does not say its {key}")
    if kind == "ack" and type(said.get("id")) is not int:
        raise ValueError("it does not say the incident's id")
    if kind == "deed" and type(said.get("incident")) is not int:
        raise ValueError("it does not say the incident's id")
    if kind == "silence" and not _is_duration(said.get("seconds")):
        raise ValueError("it does not say for how many seconds")


def _is_duration(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= LONGEST


def _text(said: Mapping[str, Any], key: str) -> str:
    """Return one line of text, without control characters; empty for other values."""
    value = said.get(key)
    return one_line(value, TEXT_LIMIT) if isinstance(value, str) else ""


def _set_aside(home: Home, name: str) -> str:
    """Move a file to `.aside`; return why that failed, or empty."""
    aside = home.inbox / _ASIDE
    try:
        home.make_folder(aside)
        if aside.is_symlink():
            aside.unlink()
            home.make_folder(aside)
        os.rename(home.inbox / name, aside / name)
    except OSError as error:
        return f" (but stays: {error.strerror})"
    return ""
