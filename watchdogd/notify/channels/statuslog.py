"""Status log: one line for each message, appended to a file."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from watchdogd.home.layout import Home, absolute
from watchdogd.notify.channel import Channel, DeliveryError, Notification, PathText, Sender, SendingRate
from watchdogd.system import umask
from watchdogd.system.smallfile import create_file
from watchdogd.system.text import one_line
from watchdogd.units import local_time

FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
"""O_NONBLOCK: opening a pipe without a reader would wait for ever."""


class StatuslogChannel(Channel):
    """Keys of type statuslog."""

    example: ClassVar[str] = """
[channels.status]
type = "statuslog"            # one line a message, appended to a file
path = "logs/alerts.log"
"""
    local: ClassVar[bool] = True

    path: PathText
    rate: SendingRate = None

    @property
    def written(self) -> tuple[str, ...]:
        return (self.path,)

    def make_sender(self, home: Home) -> Sender:
        return Statuslog(absolute(home, self.path), home)

    def try_connection(self, _home: Home) -> str:
        """Return the name: the file is created with the first message."""
        return "statuslog, on this machine"


class Statuslog:
    """Sender of lines `TIME [STATUS] TARGET: summary`."""

    def __init__(self, path: str, home: Home) -> None:
        self._path = path
        self._home = home

    def send(self, notification: Notification, _roots: Sequence[Notification], /) -> str:
        """Append the line in one write, so that several writers do not mix."""
        message = notification.message
        try:
            append(
                self._path,
                f"{local_time(message.at)} {one_line(message.line or message.headline, 500)}",
                self._home,
            )
        except OSError as error:
            raise DeliveryError(f"{self._path} cannot be written: {error.strerror}") from None
        return ""

    def close(self) -> None:
        """Do nothing: the file is not kept open, since it may be rotated."""


def append(path: str, line: str, home: Home) -> None:
    """Append `line` in one write; OSError, ENOSPC where it did not fit as a whole.

    A new file in home has home's permissions, another one 0660 less the user's umask. A symbolic link is
    followed only if it belongs to this user or root: others could use one to redirect the line.
    """
    if Path(path).is_relative_to(home.path):
        home.make_file(Path(path))
    elif not os.path.lexists(path):
        with contextlib.suppress(FileExistsError):  # another daemon was faster
            create_file(path, "", 0o660 & ~umask.sane())
    data = f"{line}\n".encode("utf-8", "replace")
    descriptor = _opened(path)
    try:
        whole = os.write(descriptor, data) == len(data)
    finally:
        os.close(descriptor)
    if not whole:
        raise OSError(errno.ENOSPC, "its disk is full", path)


def _opened(path: str) -> int:
    try:
        return os.open(path, FLAGS, 0o660)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    link = os.open(
        path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    )  # so that the link checked is the one followed
    try:
        if os.fstat(link).st_uid not in (0, os.geteuid()):
            raise PermissionError(errno.EPERM, "it is somebody else's link", path)
        target = os.readlink("", dir_fd=link)
    finally:
        os.close(link)
    return os.open(os.path.join(os.path.dirname(path), target), FLAGS, 0o660)
