"""Handing in: one small file in inbox/, whose owner and time are the author and the date.

Any member of the group can do it, so no verb needs the daemon or the database. The other side: inbox.
"""

from __future__ import annotations

import json
import os
import time

from watchdogd.home import authorship
from watchdogd.system.draft import host, replace
from watchdogd.system.place import file_name, group_of


def hand_in(inbox: str, kind: str, about: str, **fields: object) -> None:
    """Write `inbox/ABOUT.KIND.HOST.PID-TIME.json`. OSError where that cannot be done.

    `about` is what it speaks of (a run, a target, an incident's number); `fields` are JSON values.
    """
    name = f"{file_name(about)[:120]}.{kind}.{file_name(host())}.{os.getpid()}-{time.time_ns()}.json"
    text = json.dumps({"kind": kind, **fields}) + "\n"
    mode = authorship.PRIVATE if group_of(inbox) is None else authorship.SHARED
    replace(os.path.join(inbox, name), text, mode)  # of a name that nobody else has; never with two names
