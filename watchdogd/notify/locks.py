"""Delivery locks: one lease for each channel, held by the process that sends on it, a daemon or a relay.

In `.outbox/` a lock is one file, `DIGEST.SERIAL` of a channel's name; the highest serial counts. It is
created by link(2), which only one contender can win, on network file systems too. Its holder appends a line
for each delivery, for whoever takes the lock next; so the history keeps its one writer. The first lines
overwrite blanks: that needs no space on a full disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import isfinite
from operator import attrgetter
from pathlib import Path
from typing import Any

from watchdogd.errors import DeliveryError, WatchdogError
from watchdogd.home import lease_record
from watchdogd.home.layout import Home
from watchdogd.home.lease import server_age
from watchdogd.home.lease_record import NOBODY, Holder, lives, myself
from watchdogd.notify.delivery_plan import Delivered
from watchdogd.system.smallfile import (
    NoPlainFileError,
    create_file,
    host_name,
    link,
    open_plain,
    parse_json,
    read_head,
    write_draft,
)

STALE = 120.0
"""Seconds after which a lock that nobody renewed is abandoned: longer than several servers' deadlines."""
DRAFTS = 3600.0
"""Seconds after which a lock prepared by another process is removed."""
_SIZE = 4096
"""Initial bytes of a lock, so that it can be written on a full disk."""
_LIMIT = 1 << 20
_SERIAL = re.compile(r"[0-9]{4,15}")


class LockedError(DeliveryError):
    """Another process is sending on the channel; the channel has no fault."""


@dataclass(frozen=True, slots=True)
class Journal:
    """Content of a lock's file. `serial`: 0 where it is no lock; `over`: nobody writes to it any more."""

    path: Path
    serial: int
    holder: Holder
    over: bool
    delivered: tuple[Delivered, ...]


class Locks:
    """Access of one process to the locks of one home. OSError where home forbids it.

    `attempt` runs a function on home within a deadline; WatchdogError where it hangs. `anyway`: send without
    a lock where home is full or hangs. `keeps`: acknowledgements stay in the files for a daemon to store.
    """

    def __init__(
        self,
        home: Home,
        attempt: Callable[[Callable[[], Any]], Any] = lambda function: function(),
        *,
        anyway: bool = True,
        keeps: bool = False,
    ) -> None:
        self.home = home
        self.folder = home.path / ".outbox"
        self.me = myself(os.environ.get("SLURM_JOB_ID", ""))
        self.attempt = attempt
        self.anyway = anyway
        self.keeps = keeps

    def journals(self, channel: str | None = None, but: str = "") -> list[Journal]:
        """Return the content of the folder, of one channel or of all, in the order of serials."""
        wanted = None if channel is None else _digest(channel)
        try:
            names = [name for name in os.listdir(self.folder) if not (name == but or name.startswith("."))]
        except FileNotFoundError:
            return []
        found = [self._read(self.folder / name) for name in names if wanted in (None, name.partition(".")[0])]
        return sorted(filter(None, found), key=attrgetter("serial"))

    def delivered(self) -> list[Delivered]:
        """Return deliveries by other processes that no daemon has stored yet."""
        return [
            each
            for journal in self.journals()
            if journal.holder.id != self.me.id
            for each in journal.delivered
        ]

    def remove(self, journals: Iterable[Journal]) -> None:
        """Remove files that are over: their deliveries are in the history."""
        for journal in journals:
            if journal.over:
                journal.path.unlink(missing_ok=True)

    def draft(self, channel: str, text: str) -> str:
        """Prepare a lock's file; return its path. Files prepared by killed processes are removed."""
        self.home.make_folder(self.folder)
        mine = f".{host_name()}.{os.getpid()}."
        for name in os.listdir(self.folder):
            path = self.folder / name
            with contextlib.suppress(FileNotFoundError):
                if name.startswith(".") and mine not in name and time.time() - path.lstat().st_mtime > DRAFTS:
                    path.unlink()
        whole = text.ljust(_SIZE - 1) + "\n"
        return write_draft(str(self.folder / _digest(channel)), whole, self.home.file_mode, self.home.group)

    def refuse(self, journals: Iterable[Journal]) -> None:
        """Raise LockedError where another process holds one of these."""
        for journal in journals:
            if journal.serial and not journal.over and journal.holder.id != self.me.id:
                raise LockedError(f"{journal.holder} is sending on it")

    def announce(self, key: str, channel: str, at: float) -> None:
        """Record for the daemon that a channel works: a test message was delivered by it."""
        said = {"holder": asdict(self.me)}, asdict(Delivered(key, channel, at)), {"released": True}
        self.home.make_folder(self.folder)
        path = self.folder / f"{_digest(channel)}.test-{self.me.id}"
        create_file(str(path), "".join(map(_line, said)), self.home.file_mode, self.home.group)

    def _read(self, path: Path) -> Journal | None:
        """Read a lock's file; None where it is gone or no plain file."""
        try:
            data, found = read_head(path, _LIMIT)
        except (FileNotFoundError, NoPlainFileError):
            return None
        lines = list(_lines(data))
        who = next((_holder(line["holder"]) for line in lines if "holder" in line), NOBODY)
        suffix = path.name.partition(".")[2]
        serial = int(suffix) if _SERIAL.fullmatch(suffix) else 0
        released = any("released" in line for line in lines)
        over = released or (who.id != self.me.id and self._is_abandoned(who, found.st_mtime))
        return Journal(path, serial, who, over, tuple(filter(None, map(_delivered, lines))))

    def _is_abandoned(self, who: Holder, renewed_at: float) -> bool:
        return lives(who) is False or (server_age(self.folder, renewed_at) or 0.0) >= STALE


class ChannelLock:
    """Lock of a channel: only its holder sends. For one thread. Without `locks` it locks nothing."""

    def __init__(self, locks: Locks | None, channel: str) -> None:
        self._locks = locks
        self._channel = channel
        self._draft = ""
        self._path: Path | None = None
        self._end = 0
        self._blank = True
        self._before: list[Journal] = []

    def prepare(self) -> None:
        """Prepare the file, so that taking the lock is quick."""
        if self._locks and not (self._locks.keeps or self._draft):
            with contextlib.suppress(OSError, WatchdogError):
                draft = partial(self._locks.draft, self._channel, _line({"holder": asdict(self._locks.me)}))
                self._draft = self._locks.attempt(draft)

    def close(self) -> None:
        """Remove a prepared file."""
        if self._locks and self._draft:
            with contextlib.suppress(OSError, WatchdogError):
                self._locks.attempt(partial(os.unlink, self._draft))
            self._draft = ""

    def take(self) -> Sequence[Delivered]:
        """Take the lock; return what earlier holders delivered.

        LockedError; OSError or WatchdogError where home forbids it and sending anyway is not permitted.
        """
        self._path, self._before = None, []
        if self._locks is None:
            return ()
        try:
            delivered: Sequence[Delivered] = self._locks.attempt(partial(self._take, self._locks))
        except LockedError:
            raise
        except (OSError, WatchdogError):
            if self._locks.anyway:
                return ()
            raise
        return delivered

    def acknowledge(self, key: str, receipt: str, at: float, *, partly: bool = False) -> None:
        """Record a delivery; without a record it may be sent again."""
        self._note(asdict(Delivered(key, self._channel, at, receipt, partly)))

    def release(self, *, stored: bool) -> None:
        """Release the lock. `stored`: the history has all deliveries."""
        if not (self._path and self._locks):
            return
        if not self._blank and (self._locks.keeps or not stored):
            self._note({"released": True})
        else:
            # A file that cannot be removed is removed by the next process that takes the lock.
            with contextlib.suppress(OSError, WatchdogError):
                self._locks.attempt(partial(self._remove, self._locks, self._path))
        self._path = None

    def _take(self, locks: Locks) -> Sequence[Delivered]:
        journals = locks.journals(self._channel)
        locks.refuse(journals)
        serial = 1 + max((journal.serial for journal in journals), default=0)
        path = locks.folder / f"{_digest(self._channel)}.{serial:04d}"
        before = [journal for journal in journals if journal.over]
        begun = _line({"holder": asdict(locks.me)})
        if locks.keeps:  # one file for each channel, however often it is taken until a daemon comes
            begun += "".join(_line(asdict(each)) for journal in before for each in journal.delivered)
        self._claim(locks, path, begun)
        try:
            # All may have been removed meanwhile, and another process begun with 1 again.
            locks.refuse(locks.journals(self._channel, but=path.name))
        except LockedError:
            path.unlink()
            raise
        self._path, self._end = path, len(begun.encode())
        self._blank = begun.count("\n") == 1
        if locks.keeps:
            locks.remove(before)
        else:
            self._before = before
        return [each for journal in journals for each in journal.delivered]

    def _claim(self, locks: Locks, path: Path, begun: str) -> None:
        """Create the lock's file, from the prepared one if there is one."""
        draft, self._draft = self._draft, ""
        locks.home.make_folder(locks.folder)
        try:
            os.utime(draft)  # its age counts from now
        except OSError:
            draft = "" if locks.keeps else locks.draft(self._channel, begun)
        try:
            if not (draft and link(draft, str(path))):  # a relay's file must survive a power cut
                create_file(str(path), begun.ljust(_SIZE - 1) + "\n", locks.home.file_mode, locks.home.group)
        except FileExistsError:
            raise LockedError("another process is sending on it") from None
        finally:
            with contextlib.suppress(OSError):
                os.unlink(draft)

    def _note(self, said: dict[str, Any]) -> None:
        if self._path and self._locks:
            with contextlib.suppress(OSError, WatchdogError):
                self._locks.attempt(partial(self._append, self._locks, self._path, _line(said).encode()))

    def _append(self, locks: Locks, path: Path, line: bytes) -> None:
        descriptor = open_plain(path, os.O_WRONLY)
        try:
            os.pwrite(descriptor, line, self._end)
            if locks.keeps:  # the only record until a daemon stores it
                os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        self._end += len(line)
        self._blank = False

    def _remove(self, locks: Locks, path: Path) -> None:
        path.unlink()
        locks.remove(self._before)


def _digest(channel: str) -> str:
    return hashlib.sha256(channel.encode()).hexdigest()[:32]


def _line(said: dict[str, Any]) -> str:
    return json.dumps(said) + "\n"


def _lines(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the parsed lines; incomplete or foreign ones are skipped."""
    for line in data.split(b"\n"):
        with contextlib.suppress(ValueError):
            if isinstance(said := parse_json(line), dict):
                yield said


def _holder(said: Any) -> Holder:
    try:
        return lease_record.holder_from(said)
    except (ValueError, KeyError, TypeError):
        return NOBODY


def _delivered(said: dict[str, Any]) -> Delivered | None:
    try:
        found = Delivered(**said)
        texts = all(isinstance(each, str) for each in (found.key, found.channel, found.receipt))
        return found if texts and type(found.partly) is bool and isfinite(found.at) else None
    except (TypeError, OverflowError):
        return None
