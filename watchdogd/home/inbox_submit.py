"""Submissions to home's inbox: one small file each, whose owner and time are author and date. Few imports."""

from __future__ import annotations

import errno
import json
import os
import stat
import time

from watchdogd.system.pathname import file_name, group_of
from watchdogd.system.smallfile import host_name, replace_file

SHARED_MODE, PRIVATE_MODE = 0o640, 0o600
"""Permissions of a submission where a group shares the inbox, and where nobody does."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a file system that may have room for an empty file yet."""
_ABOUT_LIMIT = 120
_WRITE_SPAN = 300.0
"""Seconds between writing a file and renaming it on a busy file system."""


def forgery(found: os.stat_result, *, shared: bool) -> str:
    """Return why this file may not be its owner's, or empty; `shared`: a group shares the inbox.

    Renaming or linking a file, or setting its time back, changes its ctime, which nobody can set.
    """
    if not stat.S_ISREG(found.st_mode):
        return "it is no plain file"
    if found.st_nlink != 1:
        return "it has more than one name: its owner may not have put it there"
    if not shared:
        return ""
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others than its owner may write it: hand it in with 'chmod go-w'"
    if abs(found.st_ctime - found.st_mtime) > _WRITE_SPAN:
        return "its time does not fit: it was moved here, changed or dated after it was written"
    return ""


def submit(inbox: str, kind: str, about: str, *, blank: str = "", **fields: object) -> None:
    """Write `inbox/ABOUT.KIND.HOST.PID-TIME.json`, durably. OSError.

    `about`: a run, a target or an incident's number; `fields`: JSON values. `blank`: words that say it in the
    name of an empty file, `PID-TIME-save-set`, where a full disk has no room for more.
    """
    name = f"{file_name(about)[:_ABOUT_LIMIT]}.{kind}.{file_name(host_name())}.{os.getpid()}-{time.time_ns()}"
    text = json.dumps({"kind": kind, **fields}) + "\n"
    mode = PRIVATE_MODE if group_of(inbox) is None else SHARED_MODE
    # with a unique name; it never has two names
    try:
        replace_file(os.path.join(inbox, f"{name}.json"), text, mode, durable=True)
    except OSError as error:
        if not blank or error.errno not in FULL or len(file_name(about)) > _ABOUT_LIMIT:
            raise
        create_empty(os.path.join(inbox, f"{name}-{blank}.json"), mode)


def create_empty(path: str, mode: int, group: int | None = None) -> None:
    """Create an empty file, for which a full disk has room. OSError, unless it is the file's permissions."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        if group is not None:
            os.fchown(descriptor, -1, group)
        os.fchmod(descriptor, mode)
    except OSError:
        pass  # it is there; its permissions matter less
    finally:
        os.close(descriptor)
