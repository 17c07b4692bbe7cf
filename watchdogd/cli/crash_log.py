"""The crash log, home/logs/crash.log, for tracebacks that the terminal shall not show."""

from __future__ import annotations

import os
import time
import traceback
from pathlib import Path

_LIMIT = 1_000_000


def record(error: BaseException, words: list[str]) -> str:
    """Append the traceback to the crash log of the home in `words`; return its path.

    Return an empty path if there is no home or the log cannot be written.
    """
    from watchdogd.home.layout import Home
    from watchdogd.system.smallfile import open_plain

    home = Home(Path(_home(words)))
    path = home.logs / "crash.log"
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    text = f"{stamp} pid {os.getpid()}\n{''.join(traceback.format_exception(error))}\n"
    try:
        home.make_file(path)
        descriptor = open_plain(path, os.O_WRONLY | os.O_APPEND)
        with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as log:
            if os.fstat(descriptor).st_size > _LIMIT:
                os.ftruncate(descriptor, 0)
            log.write(text)
    except OSError:
        return ""
    return str(path)


def _home(words: list[str]) -> str:
    from watchdogd.system.pathname import home_folder

    for at, word in enumerate(words):
        if word.startswith("--home="):
            return home_folder(word[7:])
        if word == "--home" and at + 1 < len(words):
            return home_folder(words[at + 1])
    return home_folder(None)
