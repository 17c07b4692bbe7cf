"""The switches of a run, files that its training loop polls: kill (save and exit), save (save and go on).

Light: pressing one costs a fraction of a second on the slowest file system, so plain strings and no import
that opens many files. Where a run's switches are stands in `switches/RUN.json`, which the daemon writes.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time
from collections import namedtuple

from watchdogd.account import user
from watchdogd.draft import create, host
from watchdogd.errors import WatchdogError
from watchdogd.handin import hand_in
from watchdogd.place import file_name, run_name

_READ_LIMIT = 4096
_REASON_LIMIT = 300  # characters, of twelve bytes each at most in JSON: what is written must be read whole


class SwitchError(WatchdogError):
    """A switch cannot be set, cleared or read: the text says why and what to do."""


# Named tuples of collections: importing typing or dataclasses would cost a third of pressing a switch.


class Switch(namedtuple("Switch", "run kind path inbox group")):
    """One switch of one run: its file, where its touches are handed in, its Unix group or None; strings."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """As people say it."""
        return f"{self.kind} switch"


class Touch(namedtuple("Touch", "by host at reason")):
    """Who set a switch, on which node, when (ISO 8601), and why; strings, empty where it is not known."""

    __slots__ = ()

    def __str__(self) -> str:
        """`by bob on login2 at 2026-01-02T03:04:05+00:00: wrong learning rate`."""
        where = f" on {self.host}" if self.host else ""
        return f"by {self.by}{where} at {self.at}" + (f": {self.reason}" if self.reason else "")


def runs(home: str) -> list[str]:
    """Every run that has its switches/RUN.json."""
    try:
        names = os.listdir(os.path.join(home, "switches"))
    except OSError:
        return []
    return sorted(run_name(name[:-5]) for name in names if name.endswith(".json") and name[0] != ".")


def find(home: str, run: str, kind: str) -> Switch:
    """A run's switch. WatchdogError, naming the nearest run, where there is none of that name."""
    told = _told(home, run)
    if not isinstance(told.get(f"{kind}_switch"), str):
        told = _configured(home, run)
    inbox = told.get("inbox") or os.path.join(home, "inbox")
    return Switch(run, kind, told[f"{kind}_switch"], inbox, told.get("group"))


def mine(reason: str = "") -> Touch:
    """A touch by the user whose process this is, here and now; of a long reason its beginning."""
    said = " ".join(reason.split())[:_REASON_LIMIT]
    return Touch(user(os.getuid()), host(), stamp(time.time()), said)


def read(switch: Switch) -> Touch | None:
    """Who set it, or None where it is not set. A file that says nothing speaks by its owner and time."""
    try:
        if stat.S_ISDIR(os.stat(switch.path).st_mode):
            raise SwitchError(f"{switch.path} is a folder: correct {switch.kind}_switch in config.toml")
        found = os.lstat(switch.path)  # of a link, who laid it: where it leads somebody else wrote
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if os.path.islink(switch.path):  # in a circle: it leads nowhere, as one to a missing file
            return None
        raise SwitchError(_trouble(switch, error, "read")) from None
    said = _content(switch.path)
    return Touch(
        str(said.get("by") or user(found.st_uid)),
        str(said.get("host") or ""),
        str(said.get("at") or stamp(found.st_mtime)),
        str(said.get("reason") or ""),
    )


def press(switch: Switch, touch: Touch) -> Touch | None:
    """Set it, and hand that in. None: it is set now; a Touch: it was set before, and nothing has changed.

    SwitchError where it cannot be set.
    """
    line = {"run": switch.run, "switch": switch.kind, **touch._asdict()}
    mode = _mode(switch)
    for _ in range(3):  # it may be cleared just between our two looks
        try:
            create(switch.path, json.dumps(line) + "\n", mode, _group_id(switch.group))
        except FileExistsError:
            before = read(switch)
            if before:
                return before
        except OSError as error:
            if error.errno not in _FULL or not _touch(switch.path, mode, _group_id(switch.group)):
                raise SwitchError(_trouble(switch, error, "set")) from None
            _record(switch, "set", touch)
            return None
        else:
            _record(switch, "set", touch)
            return None
    raise SwitchError(f"{switch.path} is a symbolic link that leads nowhere: remove it, then set the switch")


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _mode(switch: Switch) -> int:
    """In a home of one's own as its other files; elsewhere whoever trains may read who set it and why."""
    if switch.group is not None:
        return 0o660
    at_home = os.path.dirname(switch.path) == os.path.join(os.path.dirname(switch.inbox), "switches")
    return 0o600 if at_home else 0o644


def _touch(path: str, mode: int, group: int | None) -> bool:
    """An empty switch, where the disk has no room for who and why: it stops the training all the same."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except OSError:
        return False
    try:
        if group is not None:
            os.fchown(descriptor, -1, group)
        os.fchmod(descriptor, mode)
    except OSError:
        pass  # it is set; its rights matter less
    finally:
        os.close(descriptor)
    return True


def clear(switch: Switch, touch: Touch) -> Touch | None:
    """Remove it, and hand that in. Returns who had set it, or None where it was not set. SwitchError."""
    before = read(switch)
    try:
        os.unlink(switch.path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SwitchError(_trouble(switch, error, "clear")) from None
    _record(switch, "cleared", touch)
    return before


def stamp(when: float) -> str:
    """ISO 8601 with the local offset, as units.iso writes it, without the import of datetime."""
    local = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(when))
    return f"{local[:-2]}:{local[-2:]}"


def _told(home: str, run: str) -> dict[str, object]:
    """What switches/RUN.json says; empty where it is not there or makes no sense."""
    try:
        with open(os.path.join(home, "switches", f"{file_name(run)}.json"), encoding="utf-8") as file:
            told = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return {}
    except PermissionError:
        whose = f"only {_owner(home)}, or the group of [daemon] group, may"
        raise SwitchError(f"{user(os.getuid())} may not use the switches of {home}: {whose}") from None
    return told if isinstance(told, dict) else {}


def _configured(home: str, run: str) -> dict[str, object]:
    """The same from config.toml, for a run that the daemon has not laid out yet."""
    from watchdogd.config import load
    from watchdogd.engine.checks import switch_path
    from watchdogd.home import Home
    from watchdogd.nearest import nearest

    place = Home.existing(home)
    configured = load(place, pressing=True).runs
    if run not in configured:
        raise WatchdogError(f"there is no run '{run}'{nearest(run, sorted({*configured, *runs(home)}))}")
    section = configured[run]
    return {
        "kill_switch": switch_path(place, run, section.kill_switch, "kill"),
        "save_switch": switch_path(place, run, section.save_switch, "save"),
        "group": None if place.group is None else _group_name(place.group),
    }


def _content(path: str) -> dict[str, object]:
    """The JSON object in a switch's first line, or its text as the reason; never read through a link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        text = os.read(descriptor, _READ_LIMIT).decode("utf-8", "replace") if regular else ""
    except OSError:
        return {}
    finally:
        os.close(descriptor)
    line = text.strip().partition("\n")[0]
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return {"reason": line[:200]}
    return said if isinstance(said, dict) else {"reason": line[:200]}


def _record(switch: Switch, action: str, touch: Touch) -> None:
    """For history and the run's channels. The switch counts without it, where the inbox is full or away."""
    with contextlib.suppress(OSError):
        fields = {"run": switch.run, "switch": switch.kind, "action": action, **touch._asdict()}
        hand_in(switch.inbox, "touch", switch.run, **fields)


def _trouble(switch: Switch, error: OSError, verb: str) -> str:
    """One line: what could not be done, why, and the way out."""
    folder = os.path.dirname(switch.path)
    what = f"the {switch.name} of {switch.run} cannot be {verb}"
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return f"{what}: no folder {folder}: make it, or correct {switch.kind}_switch in config.toml"
        case errno.ENOSPC | errno.EDQUOT:
            return f"{what}: {folder} is full: free some space or inodes there, or end the job with scancel"
        case errno.EROFS:
            return f"{what}: {folder} is read-only here: try another node, or end the job with scancel"
        case errno.EACCES | errno.EPERM:
            owner = _owner(folder if verb == "set" else switch.path)
            return f"{what}: {user(os.getuid())} may not change {folder}: ask {owner}"
        case _:
            return f"{what}: {switch.path}: {error.strerror or error}"


def _owner(path: str) -> str:
    try:
        return user(os.stat(path).st_uid)
    except OSError:
        return "its owner"


def _group_id(name: str | None) -> int | None:
    if name is None:
        return None
    import grp

    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def _group_name(number: int) -> str | None:
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return None
