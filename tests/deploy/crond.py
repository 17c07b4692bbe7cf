"""A real cron of a test's own: Debian's, in mount namespaces of its own, which take all traces with them.

Its clock goes faster than the machine's: what it starts knows nothing of that, since cron hands on nothing of
its own environment.
"""

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.lab import processes
from tests.waiting import wait_until

MINUTE = 90.0
"""Seconds until a line that is due every minute has been started, generously."""
CLOCK = {
    "LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "FAKETIME": "+0 x12",
    "NO_FAKE_STAT": "1",
}
"""A minute of cron's takes five seconds."""

# USER, what env is to set, and his crontab on stdin. cron's places are fixed at its building: the tables of
# users and of the machine, the file of its pid. The table stands before cron starts: one that comes within
# the same second is not seen until the next change.
PREPARE = """\
set -e
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /etc/cron.d
mount -t tmpfs -o mode=755 tmpfs /var/spool/cron
mkdir -m 1730 /var/spool/cron/crontabs
chgrp crontab /var/spool/cron/crontabs
touch /run/crontab
mount --bind /run/crontab /etc/crontab
mount -t tmpfs tmpfs /dev/shm
user=$1
shift
crontab -u "$user" -
exec env "$@" cron -f -L 0
"""


class Cron:
    """A context manager: cron runs in the foreground, with the crontab of one user, until it is left."""

    def __init__(self, user: str, crontab: str) -> None:
        self._user, self._crontab = user, crontab

    def __enter__(self) -> Self:
        missing = [name for name in ("cron", "crontab", "unshare", "nsenter") if not shutil.which(name)]
        assert not missing, f"cron is tested with Debian's: run scripts/packages (missing: {missing})"
        own = [f"{name}={value}" for name, value in CLOCK.items()]
        self._daemon = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", PREPARE, "sh", self._user, *own],
            start_new_session=True,
            stdin=subprocess.PIPE,
            text=True,
        )
        assert self._daemon.stdin is not None
        with self._daemon.stdin as table:
            table.write(self._crontab)
        try:
            wait_until(self._runs, 30, "cron runs")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def listed(self) -> str:
        """The crontab of the user, as `crontab -l` prints it."""
        inside = ["nsenter", f"--mount=/proc/{self._daemon.pid}/ns/mnt"]
        words = [*inside, "crontab", "-u", self._user, "-l"]
        return subprocess.run(words, capture_output=True, text=True, timeout=30, check=True).stdout

    def _runs(self) -> bool:
        assert self._daemon.poll() is None, f"cron ended with {self._daemon.returncode}"
        return Path(f"/proc/{self._daemon.pid}/comm").read_text() == "cron\n"

    def _end(self) -> None:
        """cron first, then whatever it has just started: all that lives in its namespace."""
        place = self._place(self._daemon.pid)
        self._daemon.terminate()
        self._daemon.wait(240)
        processes.end(each for each in psutil.process_iter() if place and self._place(each.pid) == place)

    @staticmethod
    def _place(pid: int) -> str:
        """The mount namespace of a process; empty where it is gone."""
        try:
            return os.readlink(f"/proc/{pid}/ns/mnt")
        except OSError:
            return ""
