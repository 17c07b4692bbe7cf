"""The daemon's log, home/logs/daemon.log: rotated, and written by a thread since home may hang."""

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
"""Bytes of one log file, number of old ones kept, and lines queued for a disk that does not answer."""

log = logging.getLogger(__name__)


class _Forgetful(logging.handlers.QueueHandler):
    """Handler that drops lines when the queue is full, without complaint."""

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            return


class _Rotating(logging.handlers.RotatingFileHandler):
    """Handler that ignores write errors, such as a full disk, since those are reported as alerts.

    Files get home's permissions; a moved or removed file is created again.
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
"""The active queue handler and listener."""


def begin(home: Home) -> None:
    """Log everything from INFO up to home/logs/daemon.log, and no longer to another home's.

    StalledError where no thread can be started.
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
    """Write what is queued and stop logging."""
    while _written:
        sender, listener = _written.pop()
        logging.getLogger().removeHandler(sender)
        listener.stop()


def _died(end: threading.ExceptHookArgs) -> None:
    """Log an exception that ended a thread."""
    name = end.thread.name if end.thread else "?"
    log.error("thread %s ended: %s: %s", name, end.exc_type.__name__, end.exc_value)


def _unheard(fault: sys.UnraisableHookArgs) -> None:
    """Log an exception that Python could not raise, as in `__del__`."""
    log.error("%s %r: %s", fault.err_msg or "exception ignored in", fault.object, repr(fault.exc_value))
