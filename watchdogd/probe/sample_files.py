"""Samples in home's inbox: their paths, and removal of those left by a killed probe."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from watchdogd.errors import UnreadableError
from watchdogd.home import inbox_submit
from watchdogd.parsers import probe_sample
from watchdogd.system.account import user_name as owner
from watchdogd.system.pathname import file_name, group_of
from watchdogd.system.smallfile import read_head, read_plain

_OLD = 3600.0
"""Seconds after which a sample that nobody renewed is removed."""
_SIZE_LIMIT = 1 << 20


def path(inbox: str, run: str, node: str) -> str:
    host = file_name(node.partition(".")[0])
    return os.path.join(inbox, f"{file_name(run)}.sample.{host}.{os.getpid()}.json")


def mode(inbox: str) -> int:
    """Return the mode of a sample: readable by a group that shares the inbox. OSError."""
    return inbox_submit.PRIVATE_MODE if group_of(inbox) is None else inbox_submit.SHARED_MODE


def left(inbox: str, run: str, user: str, kind: str = "sample") -> Iterator[tuple[float, str]]:
    """Yield time and text of each sample (or other kind) of the run, written by `user`."""
    prefix = f"{file_name(run)}.{kind}."
    try:
        names = sorted(os.listdir(inbox)) if inbox else []
        shared = bool(names) and group_of(inbox) is not None
    except OSError:
        return
    for name in names:
        if name.startswith(prefix):
            with contextlib.suppress(OSError):  # it has just been removed
                yield _owned(os.path.join(inbox, name), user, shared=shared)


def sweep(inbox: str, run: str, job: str, now: float) -> None:
    """Remove this user's samples of this job, and those that are an hour old. OSError without inbox."""
    for each in _own(inbox, run):
        with contextlib.suppress(OSError, UnreadableError):
            if now - os.stat(each).st_mtime > _OLD or _job(each) == job:
                os.unlink(each)


def _owned(sample: str, user: str, *, shared: bool) -> tuple[float, str]:
    text, found = read_head(sample, _SIZE_LIMIT)
    if owner(found.st_uid) != user or inbox_submit.forgery(found, shared=shared):
        raise PermissionError(f"{sample} is not a file of {user}")
    return found.st_mtime, text.decode("utf-8", "replace")


def _own(inbox: str, run: str) -> Iterator[str]:
    prefix = f"{file_name(run)}.sample."
    for entry in os.scandir(inbox):
        if entry.name.startswith(prefix) and entry.is_file(follow_symlinks=False):
            with contextlib.suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                    yield entry.path


def _job(sample: str) -> str:
    return probe_sample.read_usage(read_plain(sample, "replace", _SIZE_LIMIT)).job
