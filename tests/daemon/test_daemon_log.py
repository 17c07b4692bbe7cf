"""The daemon's own log takes what nobody else hears of."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING

from watchdogd.daemon import daemon_log
from watchdogd.home.layout import Home

if TYPE_CHECKING:
    from pathlib import Path

DYING = """
import sys, threading
from pathlib import Path
from watchdogd.daemon import daemon_log
from watchdogd.daemon import daemon_log
from watchdogd.home.layout import Home

class Last:
    def __del__(self):
        raise ValueError("too late")

daemon_log.begin(Home(Path(sys.argv[1])))
thread = threading.Thread(target=lambda: 1 / 0, name="channel mail")
thread.start()
thread.join()
Last()
"""


def test_what_ends_a_thread_or_is_heard_by_nobody_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make()
    done = subprocess.run([sys.executable, "-c", DYING, str(home.path)], capture_output=True, check=True)
    assert done.stderr == b""
    thread, last = (home.logs / "daemon.log").read_text().splitlines()
    assert "thread channel mail ended: ZeroDivisionError: division by zero" in thread
    assert "Last.__del__" in last
    assert "ValueError('too late')" in last


def test_a_second_log_takes_over_from_the_first(tmp_path: Path) -> None:
    first, second = Home(tmp_path / "first"), Home(tmp_path / "second")
    for home, line in ((first, "of the first"), (second, "of the second")):
        home.make()
        daemon_log.begin(home)
        logging.getLogger("watchdogd.test").warning(line)
    daemon_log.end()
    logging.getLogger("watchdogd.test").warning("of nobody")
    for home, line in ((first, "of the first"), (second, "of the second")):
        assert [text.rpartition(": ")[2] for text in (home.logs / "daemon.log").read_text().splitlines()] == [
            line
        ]
