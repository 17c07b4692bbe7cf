"""Lease: one process acts for a home, or sends on a channel.

In the lease's folder every holder has created one file, named by its serial; the highest serial holds the
lease. It is claimed by link(2) to the next serial, which succeeds for one contender only, on network file
systems too, without a lock. Listing a folder goes to the server (close-to-open), so a holder that was stopped
and continued finds out before it acts. A lease is renewed by touching one's own file, which needs neither
space nor inodes.

A holder is dead when its process is gone from this node, or when it has not renewed for STALE seconds: by the
time of its file against that of a fresh file (the file server's clock, never those of two nodes), confirmed
by watching for WATCH seconds; or by watching only, where the file system takes the clients' clocks. A record
that names nobody is nobody's after WATCH seconds.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from watchdogd.home.layout import Home, no_folder
from watchdogd.home.lease_record import NOBODY, RECORD_SIZE, Holder, lives, myself, read_record, record_text
from watchdogd.system import smallfile
from watchdogd.system.smallfile import NoPlainFileError, create_file, host_name

STALE = 30.0
"""Seconds without renewal after which a holder counts as dead."""
WATCH = 12.0
"""Seconds for which a contender watches before a holder on another node counts as dead."""
RENEW = 5.0
"""Seconds between two renewals."""
_LOOK = 0.5
_ASKING = 3 * RENEW
_DRAFTS = 3600.0
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_REQUEST = "request"
_DIGITS = 15
_AHEAD = 3600.0
"""Seconds by which a clock may be ahead of another's; a later time of renewal is wrong."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseState:
    """State of the lease: its serial (0: there is none), holder, and time of renewal.

    `holder` is None where the file is unreadable. `renewed_at`: seconds by the file system's clock.
    """

    serial: int = 0
    holder: Holder | None = None
    renewed_at: float = 0.0


def is_free(
    seen: LeaseState, *, lives: bool | None, age: float | None, unchanged: float, stale: float = STALE
) -> bool:
    """Return whether the next contender may take the lease.

    `lives`: the holder's process exists; None where that cannot be seen from here. `age`: seconds since the
    renewal by the file system's clock; None where unknown. `unchanged`: seconds for which this process has
    seen no renewal. `stale`: seconds without renewal after which a holder counts as dead.
    """
    if seen.serial == 0 or (seen.holder is not None and seen.holder.released) or lives is False:
        return True
    if seen.holder is None:  # a power cut took what it said: whoever makes a record completes it at once
        return unchanged >= WATCH or (age is not None and not -_AHEAD < age < WATCH)
    overdue = age is not None and not -_AHEAD < age < stale
    return unchanged >= stale or (overdue and unchanged >= WATCH)


class Lease:
    """Access of this process to a lease; for one thread. OSError where home cannot be read.

    `folder`: in home, left out for the lease of home itself; `stale`: see is_free. Unless `durable`, taking
    it waits for no disk, and a power cut may undo that, or leave a file without a holder.
    """

    def __init__(
        self,
        home: Home,
        job_id: str = "",
        *,
        folder: Path | None = None,
        stale: float = STALE,
        durable: bool = True,
    ) -> None:
        self._home = home
        self._folder = folder or lease_folder(home)
        self._stale, self._durable = stale, durable
        self._me = myself(job_id)
        self._serial = self._released = 0
        self._renewed = float("-inf")
        self._seen: LeaseState | None = None
        self._seen_since = 0.0

    @cached_property
    def _record(self) -> str:
        return record_text(self._me)

    @property
    def serial(self) -> int:
        """Return the serial under which this process last held it; 0: never."""
        return self._serial

    def acquire(self, *, by_force: bool = False) -> Holder | None:
        """Take the lease if it is free. Return None on success, else its holder.

        `by_force`: take it from a living holder, who notices at its next `held`.
        """
        if self.held():
            return None
        last = self._released
        if not last or _highest(self._folder) != last:  # another has had it since
            self._home.make_folder(self._folder)
            seen = current(self._folder)
            if not by_force and not self._free(seen):
                return seen.holder or NOBODY
            last = seen.serial
        if self._claim(last):
            return None
        return current(self._folder).holder or NOBODY

    def wait(self, patience: float, *, ask: bool = False) -> Holder | None:
        """Call `acquire` repeatedly for `patience` seconds; a dead holder is replaced meanwhile.

        `ask`: request a living holder to hand over (its `asked` becomes true), and take the lease by force if
        it does not.
        """
        until = time.monotonic() + patience
        while (holder := self.acquire()) is not None and (left := until - time.monotonic()) > 0:
            if ask:
                self._request()
            time.sleep(min(_LOOK, left))
        return self.acquire(by_force=True) if ask and holder is not None else holder

    def held(self) -> bool:
        """Return whether this process holds the lease now; call it before each action.

        It still does where the files were removed and nobody has taken it since. FileNotFoundError where home
        itself is gone, even if its mount point exists.
        """
        if not self._serial:
            return False
        highest = _highest(self._folder)
        if not highest:
            self._home.config.stat()
        return highest in (0, self._serial)

    def asked(self) -> bool:
        """Return whether a successor waits for the release; one that has gone away no longer counts."""
        try:
            asked_at = (self._folder / _REQUEST).stat().st_mtime
            return asked_at > self._path(self._serial).stat().st_mtime - _ASKING
        except FileNotFoundError:
            return False

    def renew(self) -> bool:
        """Renew the lease at most every RENEW seconds, so call it often. Return False where it is lost.

        Where its files were removed and nobody has taken it since, it is taken again; OSError on a full disk.
        """
        try:
            return self._renew()
        except FileNotFoundError:  # its files were removed at this moment, or home is gone
            return self._renew()

    def _renew(self) -> bool:
        if not self.held() or not (_highest(self._folder) or self._retake()):
            return False
        now = time.monotonic()
        if now - self._renewed >= RENEW:
            holder = current(self._folder).holder
            if holder is not None and holder.id != self._me.id:  # removed, then taken under the same serial
                self._serial = 0
                return False
            os.utime(self._path(self._serial))
            self._renewed = now
        return True

    def release(self) -> None:
        """Release the lease if it is still held, so that the next contender need not wait."""
        with contextlib.suppress(FileNotFoundError):  # home is gone
            if self.held():
                text = record_text(self._me, released=True)
                _overwrite(self._path(self._serial), text, durable=self._durable)
                self._released = self._serial
                with contextlib.suppress(OSError):
                    self._tidy()
        self._serial = 0

    def _retake(self) -> bool:
        """Take it again after its files were removed, with a serial that others cannot begin with."""
        self._home.make_folder(self._folder)
        taken = self._claim(self._serial)
        if taken:
            log.warning("the lease in %s was removed under this daemon: it was taken anew", self._folder)
        return taken

    def _free(self, seen: LeaseState) -> bool:
        now = time.monotonic()
        if seen != self._seen:
            self._seen, self._seen_since = seen, now
        free = partial(is_free, seen, unchanged=now - self._seen_since, stale=self._stale)
        if free(lives=None, age=None):
            return True
        return free(lives=lives(seen.holder), age=_server_age(self._folder, seen))

    def _claim(self, last: int) -> bool:
        """Create the file of the next serial; False where another process was faster."""
        claim = self._path(last + 1)
        try:
            mode, group = self._home.file_mode, self._home.group
            create_file(str(claim), self._record, mode, group, durable=self._durable)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _FULL or not _highest(self._folder):
                raise
            if not _take_name(self._path(last), claim, self._record):
                return False
        if _highest(self._folder) != last + 1:  # this process slept since its look, and others went on
            with contextlib.suppress(FileNotFoundError):
                claim.unlink()
            return False
        self._serial, self._renewed = last + 1, time.monotonic()
        if last != self._released:
            with contextlib.suppress(OSError):  # the next holder may be faster: `held` finds out
                self._tidy()
        return True

    def _request(self) -> None:
        """Ask the holder to hand over; repeated, so that the request's time shows that we still wait."""
        request = self._folder / _REQUEST
        with contextlib.suppress(OSError):  # a full disk, or a holder tidying up: it is taken by force then
            try:
                os.utime(request)
            except FileNotFoundError:
                create_file(str(request), f"{self._me}\n", self._home.file_mode, self._home.group)

    def _tidy(self) -> None:
        """Remove earlier serials, the request that led here, and old drafts of killed processes."""
        long_ago = self._path(self._serial).stat().st_mtime - _DRAFTS
        for name in os.listdir(self._folder):
            with contextlib.suppress(OSError):
                path = self._folder / name
                if _serial(name):
                    settled = _serial(name) < self._serial
                else:
                    settled = name == _REQUEST or path.lstat().st_mtime < long_ago
                if settled:
                    path.unlink()

    def _path(self, serial: int) -> Path:
        return self._folder / f"{serial:010d}"


def lease_folder(home: Home) -> Path:
    return home.path / ".lease"


def current(folder: Path) -> LeaseState:
    """Return the present state of the lease. OSError where the folder exists but cannot be read."""
    for _ in range(10):
        serial = _highest(folder)
        if not serial:
            return LeaseState()
        path = folder / f"{serial:010d}"
        try:
            text, found = smallfile.read_head(path, RECORD_SIZE)  # opening it refreshes the cached time
            return LeaseState(serial, read_record(text), found.st_mtime)
        except FileNotFoundError:  # the next holder has tidied up since
            continue
        except NoPlainFileError:  # not made by a lease
            return LeaseState(serial, None, path.lstat().st_mtime)
    return LeaseState(serial)


def alive(home: Home) -> Holder | None:
    """Return the current holder as far as is known without waiting, or None. OSError.

    An unreadable record counts as no holder; a contender finds out if there is one.
    """
    folder = lease_folder(home)
    seen = current(folder)
    age = _server_age(folder, seen)
    free = is_free(seen, lives=lives(seen.holder), age=age, unchanged=WATCH)
    return None if free else seen.holder


def _highest(folder: Path) -> int:
    try:
        return max(map(_serial, os.listdir(folder)), default=0)
    except FileNotFoundError:
        return 0
    except NotADirectoryError:
        raise no_folder(folder) from None


def _serial(name: str) -> int:
    """Return the serial in a file's name, or 0."""
    plain = name.isascii() and name.isdecimal() and len(name) <= _DIGITS
    return int(name) if plain and name == f"{int(name):010d}" else 0


def _server_age(folder: Path, seen: LeaseState) -> float | None:
    return server_age(folder, seen.renewed_at) if seen.serial else None


def server_age(folder: Path, since: float) -> float | None:
    """Return seconds since a file's time by the file system's clock, read from a new file."""
    probe = folder / f".clock.{host_name()}.{os.getpid()}"
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.utime(descriptor)
            return os.fstat(descriptor).st_mtime - since
        finally:
            os.close(descriptor)
            os.unlink(probe)
    except OSError:
        return None


def _take_name(old: Path, claim: Path, text: str) -> bool:
    """Claim the lease on a full disk: rename the last holder's file and overwrite it.

    Only one contender can rename it.
    """
    try:
        old.rename(claim)
    except FileNotFoundError:
        return False
    _overwrite(claim, text)
    return True


def _overwrite(path: Path, text: str, *, durable: bool = True) -> None:
    descriptor = smallfile.open_plain(path, os.O_WRONLY)
    try:
        os.pwrite(descriptor, text.encode(), 0)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
