"""Who sends which notification: claims in home, so that a daemon and a relay on another node never both do.

In `.outbox/` a claim is one file, `DIGEST.SERIAL` of a notification's key; the highest serial counts. It is
made by link(2), which one contender alone can, on network file systems too, and it is overwritten in place to
say how the sending ended, which needs no space. The daemon takes in what others delivered, stores that, and
removes the files. So the history keeps its one writer, wherever messages are sent from.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from dataclasses import asdict, dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from watchdogd.home import holder
from watchdogd.home.holder import NOBODY, Holder, lives, myself
from watchdogd.home.lease import server_age
from watchdogd.notify.desk import Delivered
from watchdogd.notify.sender import TakenError
from watchdogd.system.document import document
from watchdogd.system.draft import create
from watchdogd.system.plainfile import NoPlainFileError, read_plain

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from watchdogd.home.layout import Home

STALE = 120.0
"""Seconds after which a claim counts as given up: several servers' deadlines, one after another."""
DRAFTS = 3600.0
"""Seconds after which a draft is of no use to anybody."""
_SIZE = 4096
"""Bytes of a claim, so that it can be overwritten where the disk is full."""
_SERIAL = re.compile(r"[0-9]{4,15}")
_SENDING, _GIVEN_BACK, _SENT = "sending", "given back", "sent"


@dataclass(frozen=True, slots=True)
class Claim:
    """What is known of one sending. `receipt` is what the channel gave, also for a part of the recipients."""

    key: str
    channel: str
    state: str
    holder: Holder
    receipt: str = ""
    at: float = 0.0

    @property
    def sent(self) -> bool:
        """Whether it was delivered."""
        return self.state == _SENT


class Claims:
    """One process's claims. Methods may be called from any thread; OSError where home does not let us."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._folder = home.path / ".outbox"
        self._me = myself(os.environ.get("SLURM_JOB_ID", ""))

    def take(self, key: str, channel: str) -> Claim:
        """Claim it: the claim is ours to send, or, where it is `sent`, somebody has delivered it.

        TakenError where somebody is just sending it.
        """
        serial, found = self._newest(key)
        receipt = ""
        if found is not None:
            if found.sent:
                return found
            receipt = found.receipt
            if found.state == _SENDING and found.holder.id == self._me.id:
                return found
            if found.state == _SENDING and not self._abandoned(found, self._path(key, serial)):
                raise TakenError(f"{found.holder} is sending it")
        claim = Claim(key, channel, _SENDING, self._me, receipt)
        self._make(self._path(key, serial + 1), claim)
        return claim

    def give_back(self, claim: Claim, receipt: str = "") -> None:
        """It was not delivered, or (with a receipt) not to all: whoever comes next may try."""
        if receipt:
            self._overwrite(Claim(claim.key, claim.channel, _GIVEN_BACK, self._me, receipt))
            return
        _, newest = self._newest(claim.key)
        if newest is not None and newest.holder.id == self._me.id:  # else we were slow, and it is another's
            self.forget([claim.key])

    def delivered(self, claim: Claim, receipt: str, at: float) -> None:
        """It was."""
        self._overwrite(Claim(claim.key, claim.channel, _SENT, self._me, receipt, at))

    def announce(self, key: str, channel: str, at: float) -> None:
        """Tell the daemon that a channel works: a message of no history was delivered by it."""
        self._make(self._path(key, 1), Claim(key, channel, _SENT, self._me, "", at))

    def outcomes(self) -> list[Delivered]:
        """What other processes delivered, and nobody has forgotten yet."""
        found = [self._read(self._folder / name) for name in self._names()]
        return [
            Delivered(claim.key, claim.channel, claim.at, claim.receipt)
            for claim in found
            if claim is not None and claim.sent and claim.holder.id != self._me.id
        ]

    def forget(self, keys: Iterable[str]) -> None:
        """Remove all that is known of these: what became of them is in the history."""
        digests = {_digest(key) for key in keys}
        for name in os.listdir(self._folder) if digests and self._folder.is_dir() else ():
            if name.partition(".")[0] in digests or (name.startswith(".") and self._is_old(name)):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._folder / name)

    def _is_old(self, draft: str) -> bool:
        """A draft that somebody left who was killed."""
        try:
            return time.time() - (self._folder / draft).lstat().st_mtime > DRAFTS
        except FileNotFoundError:
            return False

    def _newest(self, key: str) -> tuple[int, Claim | None]:
        digest = _digest(key)
        found = [name.partition(".")[2] for name in self._names() if name.partition(".")[0] == digest]
        newest = max((int(text) for text in found if _SERIAL.fullmatch(text)), default=0)
        if not newest:
            return 0, None
        claim = self._read(self._path(key, newest))
        return newest, claim or Claim(key, "", _SENDING, NOBODY)

    def _abandoned(self, claim: Claim, path: Path) -> bool:
        """Whether who claimed it will not go on with it."""
        if lives(claim.holder) is False:
            return True
        try:
            age = server_age(self._folder, path.stat().st_mtime)
        except FileNotFoundError:
            return True
        return age is not None and age >= STALE

    def _make(self, path: Path, claim: Claim) -> None:
        self._home.make_folder(self._folder)
        try:
            create(str(path), _text(claim), self._home.file_mode, self._home.group)
        except FileExistsError:
            raise TakenError("another process is sending it") from None

    def _overwrite(self, claim: Claim) -> None:
        serial, _ = self._newest(claim.key)
        path = self._path(claim.key, serial or 1)
        text = _text(claim)
        if not serial or len(text) > _SIZE:
            self._home.write(path, text)
        else:
            self._home.overwrite(path, text)

    def _names(self) -> list[str]:
        try:
            return [name for name in os.listdir(self._folder) if not name.startswith(".")]
        except FileNotFoundError:
            return []

    def _read(self, path: Path) -> Claim | None:
        """None where it is gone, or not whole: somebody is just writing it."""
        try:
            said: dict[str, Any] = document(read_plain(path))
            claim = Claim(**{**said, "holder": holder.of(said["holder"])})
            return claim if isinstance(claim.at, int | float) and isfinite(claim.at) else None
        except (FileNotFoundError, NoPlainFileError, ValueError, KeyError, TypeError):
            return None

    def _path(self, key: str, serial: int) -> Path:
        return self._folder / f"{_digest(key)}.{serial:04d}"


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def _text(claim: Claim) -> str:
    return json.dumps(asdict(claim)).ljust(_SIZE - 1) + "\n"
