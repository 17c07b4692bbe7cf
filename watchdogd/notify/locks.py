"""Who sends on a channel, a daemon or a relay, and what was delivered: in home's folder `.outbox`.

Each channel has a lease, held while messages are sent. Its holder adds a line for each delivery to the
channel's log, for whoever sends next: a daemon stores these deliveries and clears the log. So the history
keeps its one writer. A cleared log keeps its size in blanks, so that it can be written on a full disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from watchdogd.errors import DeliveryError, WatchdogError
from watchdogd.home.layout import Home
from watchdogd.home.lease import RENEW, Lease
from watchdogd.notify.delivery_plan import Delivered
from watchdogd.system.smallfile import NoPlainFileError, open_plain, parse_json, read_head

STALE = 120.0
"""Seconds without a delivery after which a holder counts as dead: longer than several servers' deadlines."""
_SIZE = 4096
"""Bytes of a cleared log."""
_LIMIT = 1 << 20
_SUFFIX = ".delivered"


class LockedError(DeliveryError):
    """Another process is sending on the channel; the channel has no fault."""


class Locks:
    """Access of one process to the locks of one home. OSError where home forbids it.

    `attempt` runs a function on home within a deadline; WatchdogError where it hangs. `stores`: it is a
    daemon, which stores deliveries, and sends without a lock where home is full or hangs. A relay does not.
    """

    def __init__(
        self,
        home: Home,
        attempt: Callable[[Callable[[], Any]], Any] = lambda function: function(),
        *,
        stores: bool = True,
    ) -> None:
        self.home = home
        self.folder = home.path / ".outbox"
        self.attempt = attempt
        self.stores = stores

    def delivered(self) -> list[Delivered]:
        """Return the deliveries that no daemon has stored yet."""
        try:
            names = sorted(os.listdir(self.folder))
        except FileNotFoundError:
            return []
        return [each for name in names if name.endswith(_SUFFIX) for each in _read(self.folder / name)]

    def lease(self, channel: str) -> Lease:
        """Return a lease of a channel, to be used by one thread."""
        self.home.make_folder(self.folder)
        job = os.environ.get("SLURM_JOB_ID", "")
        return Lease(self.home, job, folder=self.folder / _digest(channel), stale=STALE, durable=False)


class ChannelLock:
    """Lock of a channel: only its holder sends. For one thread. Without `locks` it locks nothing.

    A relay's keeps the deliveries that home does not take, and records them when it is next taken.
    """

    def __init__(self, locks: Locks | None, channel: str) -> None:
        self._locks = locks
        self._channel = channel
        self._lease: Lease | None = None
        self._log = (locks.folder if locks else Path()) / f"{_digest(channel)}{_SUFFIX}"
        self._logged = False
        self._renew_at = 0.0
        self._owed: dict[str, Delivered] = {}

    @property
    def owed(self) -> int:
        """Number of deliveries that are not recorded yet."""
        return len(self._owed)

    def take(self) -> list[Delivered]:
        """Take the lock; return the deliveries in the channel's log.

        LockedError; OSError or WatchdogError where home forbids it to a relay.
        """
        if self._locks is None:
            return []
        try:
            delivered: list[Delivered] = self._locks.attempt(partial(self._take, self._locks))
        except LockedError:
            raise
        except (OSError, WatchdogError):
            if self._locks.stores:
                return []
            raise
        self._logged = bool(delivered)
        if self._owed:
            try:
                self._locks.attempt(partial(self._append, self._locks))
            except (OSError, WatchdogError):
                self.release(stored=False)
                raise
        return delivered

    def acknowledge(self, delivered: Delivered) -> None:
        """Record a delivery; without a record it may be sent again after a crash."""
        self._owed[delivered.key] = delivered
        self._try(self._append)
        if not self._locks or self._locks.stores:  # it writes the history itself
            self._owed.clear()

    def release(self, *, stored: bool) -> None:
        """Release the lock. `stored`: the history has all deliveries."""
        self._try(partial(self._release, stored))

    def _try(self, function: Callable[[Locks], None]) -> None:
        if self._locks:
            with contextlib.suppress(OSError, WatchdogError):
                self._locks.attempt(partial(function, self._locks))

    def _take(self, locks: Locks) -> list[Delivered]:
        self._lease = self._lease or locks.lease(self._channel)
        if holder := self._lease.acquire():
            raise LockedError(f"{holder} is sending on it")
        return _read(self._log)

    def _append(self, locks: Locks) -> None:
        if not self._logged:
            locks.home.make_folder(locks.folder)
            locks.home.make_file(self._log)
            self._logged = True
        owed = tuple(self._owed.values())
        lines = "".join(f"\n{json.dumps(asdict(each))}" for each in owed).encode()
        descriptor = open_plain(self._log, os.O_RDWR)
        try:
            os.pwrite(descriptor, lines, len(os.read(descriptor, _LIMIT).rstrip()))
            if not locks.stores:  # the only record until a daemon stores it
                os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        for each in owed:
            if self._owed.get(each.key) is each:
                del self._owed[each.key]
        if self._lease and time.monotonic() >= self._renew_at:
            self._renew_at = time.monotonic() + RENEW
            self._lease.renew()

    def _release(self, stored: bool, locks: Locks) -> None:
        if self._lease is None or not self._lease.held():
            return
        try:
            if stored and self._logged and locks.stores:
                self._clear()
        finally:
            self._lease.release()

    def _clear(self) -> None:
        descriptor = open_plain(self._log, os.O_WRONLY)
        try:
            os.pwrite(descriptor, b" " * _SIZE, 0)
            os.ftruncate(descriptor, _SIZE)
        finally:
            os.close(descriptor)
        self._logged = False


def _digest(channel: str) -> str:
    return hashlib.sha256(channel.encode()).hexdigest()[:32]


def _read(log: Path) -> list[Delivered]:
    """Return the deliveries in a log; incomplete or foreign lines are skipped."""
    try:
        data, _ = read_head(log, _LIMIT)
    except (FileNotFoundError, NoPlainFileError):
        return []
    return list(_deliveries(data))


def _deliveries(data: bytes) -> Iterator[Delivered]:
    for line in data.split(b"\n"):
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            found = Delivered(**parse_json(line))
            texts = all(isinstance(each, str) for each in (found.key, found.channel, found.receipt))
            if texts and type(found.partly) is bool and isfinite(found.at):
                yield found
