"""Home: its files, folders and permissions, and files in wrong places."""

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
    "cron.hourly", "cron.daily", "cron.weekly", "plugins", "switches", "evidence", "inbox", "logs", "nodes",
)  # fmt: skip
_NEEDED_FOLDERS = ("switches", "evidence", "inbox", "logs")
"""Folders that a daemon needs, which it creates again where they are missing."""
_MUST_BE_FOLDERS = {*FOLDERS, ".lease", ".outbox"} - {"inbox"}
_MUST_BE_FILES = {"status.json", ".config.good.toml", ".id"}

DEFAULT_URL = "sqlite:///history.db"
"""Default of `[history] url`."""
_ID_LIMIT = 256


class _Child:
    """Path of a file or folder in home, by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, home: Home, _owner: type[Home]) -> Path:
        return home.path / self._name


@dataclass(frozen=True)
class Home:
    """A home. `path` is absolute; the group that shares it is read from the folder's mode."""

    path: Path

    @classmethod
    def find(cls, option: str | None = None) -> Home:
        """Return `--home`, else $WATCHDOGD_HOME, else ~/.watchdogd; it need not exist yet."""
        return cls(Path(home_folder(option)))

    @classmethod
    def existing(cls, option: str | None = None) -> Home:
        """Return the result of `find`; HomeError where there is no home, or the user may not enter it."""
        home = cls.find(option)
        try:
            if home.config.exists():
                return home
        except PermissionError:
            raise HomeError(_closed(home.path)) from None
        raise HomeError(f"no watchdogd home at {home.path}: make one with '{home.command('init')}'")

    def command(self, verb: str) -> str:
        """Return the command line of a verb, with --home if it would find another home in this shell."""
        with contextlib.suppress(HomeError):
            if str(self.path) == home_folder(None):
                return f"watchdogd {verb}"
        return f"{self.program} {verb}"

    @property
    def program(self) -> str:
        """How the verbs are called for it in any shell: `watchdogd`, or `watchdogd --home DIR`."""
        if str(self.path) == os.path.expanduser("~/.watchdogd"):
            return "watchdogd"
        import shlex  # not needed by emergency verbs

        return f"watchdogd --home {shlex.quote(str(self.path))}"

    config = _Child("config.toml")
    good_config = _Child(".config.good.toml")
    """Last good configuration."""
    history = _Child("history.db")
    """SQLite file of the default history."""
    inbox = _Child("inbox")
    """Folder for submissions of users and jobs."""
    switches = _Child("switches")
    """Default folder of switches, and of each run's `RUN.json` with the paths of its switches."""
    nodes = _Child("nodes")
    """Folder of nodes under suspicion, a file each."""
    logs = _Child("logs")
    evidence = _Child("evidence")
    """Folder of evidence collected when an incident opens."""
    plugins = _Child("plugins")
    """Folder of the user's Python plugins."""
    status = _Child("status.json")
    """Status file, replaced every round and printed by `watchdogd status --json`."""

    def evidence_of(self, incident: int) -> str | None:
        """Return the folder of evidence on an incident; None where there is none."""
        folder = f"{self.evidence}/{incident}"
        return folder if os.path.isdir(folder) else None

    @cached_property
    def group(self) -> int | None:
        """Unix group that shares this home, from the folder's mode (2770), or None."""
        try:
            return group_of(str(self.path))
        except OSError:
            return None

    @property
    def watcher(self) -> int:
        """User id of the daemon that last wrote the status, else of home's owner."""
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
        """Id of this home in its Slurm jobs' comments; created at first use and kept in `.id`.

        Processes that create it at the same time get the same one.
        """
        path = self.path / ".id"
        try:
            return self._id(path)
        except FileNotFoundError:
            self.make_file(path, os.urandom(6).hex() + "\n")
            return self._id(path)

    @staticmethod
    def _id(path: Path) -> str:
        """Read the id. HomeError where the file is something else."""
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
        """Replace a file in home atomically, with home's permissions."""
        replace_file(str(path), text, self.file_mode, self.group)

    def make_folder(self, path: Path) -> None:
        """Create a folder in home with its permissions, unless it exists. OSError.

        Home itself is never created: it may have been moved away and come back.
        """
        try:
            path.mkdir()
        except FileExistsError:
            return
        if self.group is not None:
            with contextlib.suppress(OSError):  # a setgid folder has set the group already
                os.chown(path, -1, self.group)
        path.chmod(self._mode(path, self.group))

    def make_file(self, path: Path, text: str = "") -> None:
        """Create a file in home with its permissions, unless it exists. OSError."""
        if not os.path.lexists(path):
            with contextlib.suppress(FileExistsError):  # another process was faster
                create_file(str(path), text, self.file_mode, self.group)

    def overwrite(self, path: Path, text: str) -> bool:
        """Overwrite a file in place, for a full disk; False where the file is too short."""
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
        """Give home's folders and files to the configured Unix group, if there is one. HomeError."""
        if group is None:
            return
        gid = group_id(group)
        if gid is None:
            raise HomeError(f"[daemon] group: there is no Unix group '{group}' on this machine")
        if self.group == gid:
            with contextlib.suppress(OSError):  # a member who does not own it
                self.inbox.chmod(self._mode(self.inbox, gid))
            return
        try:
            for path in (self.path, *self.path.rglob("*")):
                if not path.is_symlink() and path.parent != self.inbox:  # a changed submission seems forged
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
        """Return a folder's permissions. In a group's inbox nobody can move or remove others' submissions."""
        if group is None:
            return 0o700
        return 0o3770 if folder == self.inbox else 0o2770

    def make(self, group: int | None = None) -> None:
        """Create missing folders with home's permissions; existing ones stay unchanged."""
        for folder in (self.path, *(self.path / name for name in FOLDERS)):
            if not folder.is_dir():
                folder.mkdir(parents=True)
                if group is not None:
                    os.chown(folder, -1, group)
                folder.chmod(self._mode(folder, group))
        self.__dict__.pop("group", None)


def _closed(path: Path) -> str:
    """Return which folder the user may not enter, and who can help."""
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
    """Return a path of config.toml as an absolute one; relative ones are relative to home."""
    return os.path.normpath(os.path.join(home.path, text))


def switch_path(home: Home, run: str, configured: str | None, kind: str) -> str:
    """Return the path of a run's switch: as configured, else in home's switches/."""
    return absolute(home, configured or f"switches/{file_name(run)}.{kind}")


def misplaced(home: Home) -> tuple[Problem, ...]:
    """Return each file or folder of a wrong kind, with the fix. OSError.

    Symbolic links are left out, since following one may hang.
    """
    with os.scandir(home.path) as entries:
        return tuple(sorted(filter(None, map(_misplaced, entries))))


def restore_folders(home: Home) -> tuple[str, ...]:
    """Create missing folders that a daemon needs; return their names. OSError.

    Nothing is created where config.toml is missing: home was moved away or is not mounted.
    """
    missing = [name for name in _NEEDED_FOLDERS if not os.path.lexists(home.path / name)]
    if not missing or not home.config.exists():
        return ()
    for name in missing:
        home.make_folder(home.path / name)
    return tuple(missing)


def no_folder(path: os.PathLike[str] | str) -> NotADirectoryError:
    """Return the error for something in place of a folder, with the fix."""
    return NotADirectoryError(errno.ENOTDIR, not_a_folder(os.fspath(path)))


def no_file(path: str) -> Problem:
    """Return the problem of something in place of a file, with the fix."""
    what = "a folder" if os.path.isdir(path) else "no plain file"
    return Problem(f"{path} is {what}, and a file belongs there", _move_aside(path))


def _misplaced(entry: os.DirEntry[str]) -> Problem | None:
    if entry.is_symlink():
        return None
    if entry.name in _MUST_BE_FOLDERS and not entry.is_dir():
        return not_a_folder(entry.path)
    return no_file(entry.path) if entry.name in _MUST_BE_FILES and not entry.is_file() else None


def not_a_folder(path: str) -> Problem:
    return Problem(f"{path} is no folder, and a folder belongs there", _move_aside(path))


def _move_aside(path: str) -> str:
    """Return the command that moves a file out of the way."""
    import shlex  # not needed by light verbs otherwise

    return f"mv {shlex.quote(path)} {shlex.quote(f'{path}.aside')}"
