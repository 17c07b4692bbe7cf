"""The daemon's own log: home/logs/daemon.log, rotated; written by a thread, since home may hang."""

from __future__ import annotations

import atexit
import contextlib
import logging
import logging.handlers
import os
import queue
import sys
import threading
from typing import Any

from watchdogd.errors import StalledError
from watchdogd.home.layout import Home
from watchdogd.system import startup
from watchdogd.system.smallfile import open_plain

SIZE = 2_000_000
COUNT = 3
WAITING = 10_000
"""Bytes of one log, how many old ones are kept, and lines that may wait for a disk that does not answer."""


log = logging.getLogger(__name__)


class _Forgetful(logging.handlers.QueueHandler):
    """Drops lines where nobody takes them, and never complains on the terminal."""

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            return


class _Rotating(logging.handlers.RotatingFileHandler):
    """Handler that keeps quiet where the disk is full: what matters is reported as an alert.

    Files have home's rights, and one that was moved or removed is begun anew.
    """

    rights = 0o600

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self.stream and not os.path.samestat(
                os.fstat(self.stream.fileno()), os.stat(self.baseFilename)
            ):
                raise FileNotFoundError
        except OSError:  # home is away, or its folder of logs
            self.close()
        super().emit(record)

    def _open(self) -> Any:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = open_plain(self.baseFilename, flags)
        stream = os.fdopen(descriptor, "a", encoding=self.encoding, errors=self.errors)
        with contextlib.suppress(OSError):  # a colleague's file, in a home of a group: it has them already
            os.fchmod(stream.fileno(), self.rights)
        return stream

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        del record


_written: list[tuple[_Forgetful, logging.handlers.QueueListener]] = []
"""What writes the log that was begun last."""


def begin(home: Home) -> None:
    """Send what the program logs to home/logs/daemon.log, from INFO up, and no longer to another home's.

    StalledError: it gets no thread.
    """
    end()
    lines: queue.Queue[logging.LogRecord] = queue.Queue(WAITING)
    handler = _Rotating(
        home.logs / "daemon.log", maxBytes=SIZE, backupCount=COUNT, encoding="utf-8", delay=True
    )
    handler.rights = home.file_mode
    with contextlib.suppress(OSError):  # where there is none, or it is a colleague's
        (home.logs / "link.log").chmod(home.file_mode)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root, sender = logging.getLogger(), _Forgetful(lines)
    root.addHandler(sender)
    root.setLevel(logging.INFO)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("apscheduler").setLevel(logging.ERROR)  # it warns of each turn that a long round takes
    threading.excepthook, sys.unraisablehook = _died, _unheard
    listener = logging.handlers.QueueListener(lines, handler)
    try:
        listener.start()
    except RuntimeError:
        raise StalledError(f"no log can be kept: {startup.NO_THREAD}") from None
    _written.append((sender, listener))
    atexit.register(end)


def end() -> None:
    """Write what still waits, and no more."""
    while _written:
        sender, listener = _written.pop()
        logging.getLogger().removeHandler(sender)
        listener.stop()


def _died(end: threading.ExceptHookArgs) -> None:
    """Log a thread of which nobody asks how it ended."""
    name = end.thread.name if end.thread else "?"
    log.error("thread %s ended: %s: %s", name, end.exc_type.__name__, end.exc_value)


def _unheard(fault: sys.UnraisableHookArgs) -> None:
    """Log what went wrong where nobody could be told, as in the end of an object."""
    log.error("%s %r: %s", fault.err_msg or "exception ignored in", fault.object, repr(fault.exc_value))
