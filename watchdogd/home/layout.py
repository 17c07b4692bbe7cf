"""Home: the folder of one watchdogd, its files and rights, and what lies in a wrong place."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from watchdogd.errors import HomeError, Problem
from watchdogd.system import umask
from watchdogd.system.account import group_id, own_name, user_name
from watchdogd.system.pathname import file_name, group_of, home_folder
from watchdogd.system.smallfile import create_file, open_plain, read_plain, replace_file

FOLDERS = (
    "cron.hourly",
    "cron.daily",
    "cron.weekly",
    "plugins",
    "switches",
    "evidence",
    "inbox",
    "logs",
    "nodes",
)
_NEEDED_FOLDERS = ("switches", "evidence", "inbox", "logs")
"""The folders that are made anew where they are missing: a daemon needs them."""
_MUST_BE_FOLDERS = {*FOLDERS, ".lease", ".outbox"} - {"inbox"}
_MUST_BE_FILES = {"status.json", ".config.good.toml", ".id"}

DEFAULT_URL = "sqlite:///history.db"
"""Of the history, where `[history] url` names none."""
_ID_LIMIT = 256


class _Child:
    """Path of a file or folder of home, by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, home: Home, _owner: type[Home]) -> Path:
        return home.path / self._name


@dataclass(frozen=True)
class Home:
    """A home. `path` is absolute; whether a group shares it is read from the folder's own mode."""

    path: Path

    @classmethod
    def find(cls, option: str | None = None) -> Home:
        """`--home`, else $WATCHDOGD_HOME, else ~/.watchdogd; it need not exist yet."""
        return cls(Path(home_folder(option)))

    @classmethod
    def existing(cls, option: str | None = None) -> Home:
        """Return what `find` returns; HomeError where there is no home, or this user may not enter it."""
        home = cls.find(option)
        try:
            if home.config.exists():
                return home
        except PermissionError:
            raise HomeError(_closed(home.path)) from None
        raise HomeError(f"no watchdogd home at {home.path}: make one with '{home.command('init')}'")

    def command(self, verb: str) -> str:
        """Return a command line for a verb; with --home where the verb alone would find another home."""
        with contextlib.suppress(HomeError):
            if str(self.path) == home_folder(None):
                return f"watchdogd {verb}"
        import shlex  # emergency verbs have no other need of it

        return f"watchdogd --home {shlex.quote(str(self.path))} {verb}"

    config = _Child("config.toml")
    good_config = _Child(".config.good.toml")
    """The configuration as it was when it was good last."""
    history = _Child("history.db")
    """The SQLite file of the default history."""
    inbox = _Child("inbox")
    """Folder of what colleagues and jobs submit."""
    switches = _Child("switches")
    """Default place of the switches, and of the `RUN.json` that say where each run's are."""
    nodes = _Child("nodes")
    """Nodes under suspicion, a file each."""
    logs = _Child("logs")
    evidence = _Child("evidence")
    """Folder of what was collected when an incident opened."""
    plugins = _Child("plugins")
    """Python plugins of the user's own."""
    status = _Child("status.json")
    """The file that `watchdogd status --json` prints; replaced every round."""

    def evidence_of(self, incident: int) -> str | None:
        """Return the folder of what was collected for an incident; None where nothing was."""
        folder = f"{self.evidence}/{incident}"
        return folder if os.path.isdir(folder) else None

    @cached_property
    def group(self) -> int | None:
        """The Unix group that shares this home, from the folder itself (2770), or None."""
        try:
            return group_of(str(self.path))
        except OSError:
            return None

    @property
    def watcher(self) -> int:
        """The user id of the daemon that wrote the status last, else of the owner of home."""
        for path in (self.status, self.path):
            with contextlib.suppress(OSError):
                return path.stat().st_uid
        return os.geteuid()

    @property
    def file_mode(self) -> int:
        """0660 where a group shares this home, else 0600."""
        return 0o600 if self.group is None else 0o660

    @cached_property
    def id(self) -> str:
        """The mark of this home's Slurm jobs; made on first use and kept in `.id`.

        If several processes ask for the first time at the same moment, one makes it and all get the same.
        """
        path = self.path / ".id"
        try:
            return self._id(path)
        except FileNotFoundError:
            self.make_file(path, os.urandom(6).hex() + "\n")
            return self._id(path)

    @staticmethod
    def _id(path: Path) -> str:
        """HomeError where something else lies there."""
        try:
            found = read_plain(path, "replace", _ID_LIMIT).strip()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise HomeError(f"{path} cannot be read: {error.strerror}: remove it") from None
        if not found.isalnum() or not found.isascii():
            raise HomeError(f"{path} is broken: remove it, and start the watchdog anew")
        return found

    def write(self, path: Path, text: str) -> None:
        """Replace a file of this home atomically, with this home's rights."""
        replace_file(str(path), text, self.file_mode, self.group)

    def make_folder(self, path: Path) -> None:
        """Create a folder in this home with its rights; an existing one stays as it is. OSError.

        Home itself is never created: it may have been moved away and come back.
        """
        try:
            path.mkdir()
        except FileExistsError:
            return
        if self.group is not None:
            with contextlib.suppress(OSError):  # a setgid folder has given the group already
                os.chown(path, -1, self.group)
        path.chmod(self._mode(path, self.group))

    def make_file(self, path: Path, text: str = "") -> None:
        """Create a file in this home with its rights; an existing one stays as it is. OSError."""
        if not os.path.lexists(path):
            with contextlib.suppress(FileExistsError):  # somebody else was faster
                create_file(str(path), text, self.file_mode, self.group)

    def overwrite(self, path: Path, text: str) -> bool:
        """Write over a file in place, where the disk has no room for another; False where it is too short."""
        descriptor = open_plain(path, os.O_WRONLY)
        try:
            size, data = os.fstat(descriptor).st_size, text.encode()
            if len(data) > size:
                return False
            os.pwrite(descriptor, data.ljust(size), 0)
            return True
        finally:
            os.close(descriptor)

    def share(self, group: str | None) -> None:
        """Give home's folders and files to a Unix group, where the configuration names one. HomeError."""
        if group is None:
            return
        gid = group_id(group)
        if gid is None:
            raise HomeError(f"[daemon] group: there is no Unix group '{group}' on this machine")
        if self.group == gid:
            with contextlib.suppress(OSError):  # a member, whose it is not
                self.inbox.chmod(self._mode(self.inbox, gid))
            return
        try:
            for path in (self.path, *self.path.rglob("*")):
                if not path.is_symlink() and path.parent != self.inbox:  # there it would be as if forged
                    os.chown(path, -1, gid)
                    mode = path.stat().st_mode
                    path.chmod(self._mode(path, gid) if stat.S_ISDIR(mode) else 0o660 | (mode & 0o110))
        except OSError as error:
            raise HomeError(
                f"{error.filename} cannot be given to group {group}: {error.strerror}: are you a member?"
            ) from None
        self.__dict__.pop("group", None)
        umask.suit(self.group)

    def _mode(self, folder: Path, group: int | None) -> int:
        """Return a folder's rights. In a group's inbox nobody can move or remove others' submissions."""
        if group is None:
            return 0o700
        return 0o3770 if folder == self.inbox else 0o2770

    def make(self, group: int | None = None) -> None:
        """Create the missing folders with the rights of home; leave the existing ones untouched."""
        for folder in (self.path, *(self.path / name for name in FOLDERS)):
            if not folder.is_dir():
                folder.mkdir(parents=True)
                if group is not None:
                    os.chown(folder, -1, group)
                folder.chmod(self._mode(folder, group))
        self.__dict__.pop("group", None)


def _closed(path: Path) -> str:
    """Return the folder that keeps this user out of home, and who can say what is missing."""
    first = next((each for each in (*reversed(path.parents), path) if not os.access(each, os.X_OK)), path)
    owner = "its owner"
    with contextlib.suppress(OSError):
        owner = user_name(first.stat().st_uid)
    me = own_name()
    if first == path:
        return f"{path} is {owner}'s alone: a group shares one that 'watchdogd init --group GROUP' made"
    return (
        f"{me} cannot go through {first}: have {owner} run 'watchdogd --home {path} doctor', which says why"
    )


def absolute(home: Home, text: str) -> str:
    """Return a path of the configuration as an absolute one: relative ones are relative to home."""
    return os.path.normpath(os.path.join(home.path, text))


def switch_path(home: Home, run: str, configured: str | None, kind: str) -> str:
    """Return the path of a run's switch: as configured, else in home's switches/."""
    return absolute(home, configured or f"switches/{file_name(run)}.{kind}")


def misplaced(home: Home) -> tuple[Problem, ...]:
    """Return each file or folder whose kind is wrong for its place, with the fix. OSError.

    Links are left to whoever follows them, since following one may hang.
    """
    with os.scandir(home.path) as entries:
        return tuple(sorted(filter(None, map(_misplaced, entries))))


def restore_folders(home: Home) -> tuple[str, ...]:
    """Create the missing folders that a daemon needs; return their names. OSError.

    Nothing is created where config.toml is missing: home was moved away or is not mounted.
    """
    missing = [name for name in _NEEDED_FOLDERS if not os.path.lexists(home.path / name)]
    if not missing or not home.config.exists():
        return ()
    for name in missing:
        home.make_folder(home.path / name)
    return tuple(missing)


def no_folder(path: os.PathLike[str] | str) -> NotADirectoryError:
    """Return the error for something in the place of a folder, with the fix."""
    return NotADirectoryError(errno.ENOTDIR, _no_folder(os.fspath(path)))


def no_file(path: str) -> Problem:
    """Return the problem of something in the place of a file, with the fix."""
    what = "a folder" if os.path.isdir(path) else "no plain file"
    return Problem(f"{path} is {what}, and a file belongs there", _move_aside(path))


def _misplaced(entry: os.DirEntry[str]) -> Problem | None:
    if entry.is_symlink():
        return None
    if entry.name in _MUST_BE_FOLDERS and not entry.is_dir():
        return _no_folder(entry.path)
    return no_file(entry.path) if entry.name in _MUST_BE_FILES and not entry.is_file() else None


def _no_folder(path: str) -> Problem:
    return Problem(f"{path} is no folder, and a folder belongs there", _move_aside(path))


def _move_aside(path: str) -> str:
    """Return the command that moves it out of the way."""
    import shlex  # light verbs import this module

    return f"mv {shlex.quote(path)} {shlex.quote(f'{path}.aside')}"
