"""Switches of a run, files that its training loop polls: kill (save and exit), save (save and go on).

A switch has several paths: the one in config.toml, and one in home's switches/, which every Guard of the run
polls whatever it knows of the configuration. A press sets them all, so it is seen whether Guard or daemon
started first, and whatever was edited since. `config/switch_places` finds the paths of a run. A Guard's
heartbeat names the paths that it polls, which shows the Guards that do not see a press.

This module imports little, and uses plain strings: pressing takes a fraction of a second on the slowest file
system.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time
from collections import namedtuple

from watchdogd.errors import WatchdogError
from watchdogd.home import touchfile
from watchdogd.home.inbox_submit import FULL, create_empty, submit
from watchdogd.home.touchfile import Signature
from watchdogd.system.account import group_id, own_name, user_name
from watchdogd.system.pathname import file_name, run_name
from watchdogd.system.smallfile import create_file, host_name


class SwitchError(WatchdogError):
    """A switch cannot be set, cleared or read: the text says why and what to do."""


# Named tuples of collections: importing typing or dataclasses would take a third of the time of a press.


class Switch(namedtuple("Switch", "run kind places inbox group end", defaults=("",))):
    """Switch of a run: its files, the configured one first, the one in home's switches/ last.

    `inbox`: where presses are submitted; `group`: its Unix group or None. `end`: the command that ends the
    run's jobs, if known.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        return f"{self.kind} switch"

    @property
    def path(self) -> str:
        return str(self.places[0])

    @property
    def where(self) -> str:
        """Return the switch's paths, for messages."""
        return " and ".join(self.places)


class Pressed(namedtuple("Pressed", "before made failed")):
    """Result of a press: `before`: Signature by which it was set already, or None; `made`: the files set now.

    `failed`: a line for each that cannot be set.
    """

    __slots__ = ()


def runs(home: str) -> list[str]:
    """Return all runs that have a switches/RUN.json."""
    try:
        names = os.listdir(os.path.join(home, "switches"))
    except OSError:
        return []
    return sorted(run_name(name[:-5]) for name in names if name.endswith(".json") and name[0] != ".")


def my_signature(reason: str = "", *, automatic: bool = False) -> Signature:
    """Return the signature of this process's user, here and now; a long reason is cut."""
    return Signature(own_name(), host_name(), time.time(), touchfile.short(reason), "", automatic)


def read(switch: Switch) -> Signature | None:
    """Return who set it first, or None where it is not set."""
    found, troubles = _look(switch)
    if troubles and not found:
        raise SwitchError(next(iter(troubles.values())))
    return min(found.values(), key=lambda signature: signature.time, default=None)


def _look(switch: Switch) -> tuple[dict[str, Signature], dict[str, str]]:
    """Return the files that are set, and what is wrong with those that cannot be read."""
    found, troubles = {}, {}
    for path in switch.places:
        try:
            signature = _read(switch, path)
        except SwitchError as error:
            troubles[path] = str(error)
        else:
            if signature is not None:
                found[path] = signature
    return found, troubles


def _read(switch: Switch, path: str) -> Signature | None:
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise SwitchError(f"{path} is a folder: correct {switch.kind}_switch in config.toml")
        return touchfile.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if os.path.islink(path):  # a circular link is like one to a missing file
            return None
        raise SwitchError(_cannot(switch, path, error, "read")) from None


def press(switch: Switch, signature: Signature) -> Pressed:
    """Set the switch in all its paths, unless it is set already, and submit that to the inbox."""
    before, made, failed = [], [], []
    for path in switch.places:
        try:
            found = _press(switch, path, signature)
        except SwitchError as error:
            failed.append(str(error))
            continue
        if found is None:
            made.append(path)
        else:
            before.append(found)
    if made:
        _record(switch, "set", signature)
    return Pressed(min(before, key=lambda signature: signature.time, default=None), made, failed)


def _press(switch: Switch, path: str, signature: Signature) -> Signature | None:
    """Set one file. Return None on success, else the Signature by which it was set already. SwitchError."""
    line = {"run": switch.run, "switch": switch.kind, **signature.fields()}
    if path == switch.places[-1] != switch.path:
        line["places"] = list(switch.places[:-1])
    mode, group = _mode(switch, path), group_id(switch.group) if switch.group else None
    for _ in range(3):  # it may be cleared between the two calls
        try:
            create_file(path, json.dumps(line) + "\n", mode, group)
        except FileExistsError:
            before = _read(switch, path)
            if before:
                return before
        except OSError as error:
            if error.errno not in FULL or not _empty_set(path, mode, group):
                raise SwitchError(_cannot(switch, path, error, "set")) from None
            return None
        else:
            return None
    raise SwitchError(f"{path} is a symbolic link that leads nowhere: remove it, then set the switch")


def _empty_set(path: str, mode: int, group: int | None) -> bool:
    """Set an empty switch on a full disk: it stops the training all the same."""
    try:
        create_empty(path, mode, group)
    except OSError:
        return False
    return True


def _mode(switch: Switch, path: str) -> int:
    """Return the permissions of a switch file.

    In a private home those of its other files; elsewhere whoever trains may read who set it and why.
    """
    if switch.group is not None:
        return 0o660
    return 0o600 if os.path.dirname(path) == os.path.dirname(switch.places[-1]) else 0o644


def clear(switch: Switch, signature: Signature) -> Signature | None:
    """Remove the switch from all its paths; submit that to the inbox; return who had set it, or None.

    SwitchError where it is still set somewhere.
    """
    found, troubles = _look(switch)
    failed, gone = list(troubles.values()), False
    for path in (*_former(switch), *switch.places):  # home's own last, since it names the others
        if path in troubles:
            continue
        try:
            os.unlink(path)
            gone = True
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            failed.append(_cannot(switch, path, error, "clear"))
    if gone:
        _record(switch, "cleared", signature)
    if failed:
        raise SwitchError("; ".join(failed))
    return min(found.values(), key=lambda signature: signature.time, default=None) if gone else None


def _former(switch: Switch) -> list[str]:
    """Return the files of its press in paths of an earlier configuration.

    Only files of this switch count, since anybody who may press it could name others.
    """
    places = touchfile.fields_of(switch.places[-1]).get("places")
    named = [path for path in places if isinstance(path, str)] if isinstance(places, list) else []
    return [path for path in named if path not in switch.places and _is_touch_of(switch, path)]


def _is_touch_of(switch: Switch, path: str) -> bool:
    fields = touchfile.fields_of(path) if os.path.isabs(path) else {}
    return (fields.get("run"), fields.get("switch")) == (switch.run, switch.kind)


def is_obeyed(switch: Switch) -> bool:
    """Return whether a save switch was removed from one of its paths, as the training saved.

    Then the others are removed as well.
    """
    if all(_read(switch, path) for path in switch.places):
        return False
    for path in switch.places:
        with contextlib.suppress(OSError):
            os.unlink(path)
    return True


def _record(switch: Switch, action: str, signature: Signature) -> None:
    """Submit the press for the history and the run's channels.

    On a full disk without its reason. The switch works without that, where the inbox takes nothing.
    """
    blank = "" if signature.automatic else f"{switch.kind}-{action}"  # watchdogd reports its own presses
    with contextlib.suppress(OSError):
        fields = {"run": switch.run, "switch": switch.kind, "action": action, **signature.fields()}
        submit(switch.inbox, "touch", switch.run, blank=blank, **fields)


def _cannot(switch: Switch, path: str, error: OSError, verb: str) -> str:
    """Return one line: what could not be done, why, and the fix."""
    folder = os.path.dirname(path)
    what = f"the {switch.name} of {switch.run} cannot be {verb}"
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return f"{what}: no folder {folder}: make it, or correct {switch.kind}_switch in config.toml"
        case errno.ENOSPC | errno.EDQUOT:
            return f"{what}: {folder} is full: free some space or inodes there, or end the job with scancel"
        case errno.EROFS:
            return f"{what}: {folder} is read-only here: try another node, or end the job with scancel"
        case errno.EACCES | errno.EPERM:
            owner = owner_of(folder if verb == "set" else path)
            return f"{what}: {user_name(os.getuid())} may not change {folder}: ask {owner}"
        case _:
            return f"{what}: {path}: {error.strerror or error}"


def owner_of(path: str) -> str:
    """Return the name of the owner of a file or folder, for messages."""
    try:
        return user_name(os.stat(path).st_uid)
    except OSError:
        return "its owner"


_GUARD_FRESH = 600.0
"""Seconds for which a Guard counts as alive after a heartbeat: its loop may take long steps."""


def unseen_by(switch: Switch, pressed: Pressed) -> list[str]:
    """Return a line for each Guard that polls none of the paths where the switch is set now."""
    if not (pressed.made or pressed.before):
        return []
    places = [path for path in switch.places if os.path.lexists(path)]
    return [
        _unseen_line(switch, who, polls)
        for who, polls in _beats(switch)
        if polls is not None and not _sees(switch.inbox, polls, places)
    ]


def unpolled(switch: Switch) -> str:
    """Return that no Guard of the run was heard of, and what then ends its jobs; else empty.

    One that has just ended counts: it may have obeyed. The verb `guard` polls too, and sends no heartbeats.
    """
    if _beats(switch):
        return ""
    does = "stops" if switch.kind == "kill" else "saves"
    text = f"no Guard of {switch.run} was heard of: nothing {does} for it but what runs under watchdogd guard"
    ends = f"; to end its jobs, as their owner: {switch.end}" if switch.end and switch.kind == "kill" else ""
    return text + ends


def is_polled(switch: Switch, since: float) -> bool:
    """Return whether a Guard that polls one of its paths has sent a heartbeat since then."""
    return any(_sees(switch.inbox, polls or [], list(switch.places)) for _, polls in _beats(switch, since))


def _beats(switch: Switch, since: float = 0.0) -> list[tuple[str, list[str] | None]]:
    """Return the Guards heard of lately, and the paths that each of them polls; None: it has ended."""
    prefix, found = f"{file_name(switch.run)}.beat.", list[tuple[str, list[str] | None]]()
    try:
        names = sorted(name for name in os.listdir(switch.inbox) if name.startswith(prefix))
    except OSError:
        return []
    for name in names:
        path = os.path.join(switch.inbox, name)
        try:
            fresh = os.lstat(path).st_mtime > max(time.time() - _GUARD_FRESH, since)
        except OSError:
            continue  # it has just been removed
        beat = touchfile.fields_of(path) if fresh else {}
        polls = beat.get("polls")
        if beat.get("run") == switch.run:
            who = f"process {beat.get('pid')} on {beat.get('host')}"
            paths = [each for each in polls if isinstance(each, str)] if isinstance(polls, list) else None
            found.append((who, paths))
    return found


def _sees(inbox: str, polls: list[str], places: list[str]) -> bool:
    """Return whether one of `polls` is one of `places`; relative ones are relative to home's inbox."""
    named = [os.path.normpath(os.path.join(inbox, path)) for path in polls]
    if not {*places}.isdisjoint(named):
        return True
    return not {*map(_real_path, places)}.isdisjoint(map(_real_path, named))


def _real_path(path: str) -> str:
    """Return the path with its folder resolved; the file itself may be a link."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _unseen_line(switch: Switch, who: str, polls: list[str]) -> str:
    what = "sees no switch just now"
    if polls:
        what = f"polls {', '.join(polls)}: touch its {switch.name} there too"
    text = f"the Guard of {who} does not see the {switch.name} of {switch.run}: it {what}"
    return touchfile.one_line(text, 1000)
