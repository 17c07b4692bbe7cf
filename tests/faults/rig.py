"""A daemon under test, and a lever: a fault of its own that has to be told whatever else is broken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import psutil

from tests.lab import forked
from tests.lab.dog import typed
from tests.servers.web import WebServer
from tests.waiting import Waited, wait_until

CONFIG = """
[daemon]
interval = "1s"
confirm = 1
timeout = "3s"
name = "bloom-watch"
[channels.hook]
type = "webhook"
url = "{url}"
rate = "none"
"""
LEVER = """
[disks.lever-{number}]
path = "{path}"
quota = "statvfs"
warn_free = "1B"
crit_free = "1B"
warn_inodes_free = "1"
crit_inodes_free = "1"
"""
UNWELL = """
[channels.book]
type = "statuslog"
path = "book.log"
[disks.scratch]
path = "{disk}"
quota = "statvfs"
crit_free = "900PB"
"""
"""A disk that is never free enough, and a channel that writes into home what is told of it."""
LEVERS = 10
"""One for each pull: what comes and goes again and again is told less often."""


class Rig:
    """One home with its daemon. `as_user` is a prefix under which all runs, such as setpriv's."""

    def __init__(
        self, home: Path, place: Path, endpoint: WebServer, *, more: str = "", as_user: Sequence[str] = ()
    ) -> None:
        self.home = home
        self.endpoint = endpoint
        self._output = place / "daemon.output"
        self.python = sys.executable
        self.env = {
            **os.environ,
            "WATCHDOGD_HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        }
        self._levers = [place / f"lever-{number}" for number in range(LEVERS)]
        for lever in self._levers:
            lever.mkdir()
        self._as_user = list(as_user)
        self._unused = list(self._levers)
        done = self.verb("init")
        assert done.returncode == 0, done.stderr
        levers = [LEVER.format(number=number, path=path) for number, path in enumerate(self._levers)]
        (home / "config.toml").write_text("".join([CONFIG.format(url=endpoint.url), *levers, more]))

    def verb(self, *words: str) -> subprocess.CompletedProcess[str]:
        return typed(words, self.env, self._as_user)

    def start(self) -> None:
        """Start the daemon, and wait for its first round."""
        self.daemon = forked.daemon(self.env, self._output, self._as_user, self.python)
        wait_until(self._began, 90, "the first round is over")

    def _began(self) -> bool:
        assert self.daemon.poll() is None, self.output
        return (self.home / "status.json").exists()

    def wrap(self, prefix: Sequence[str]) -> None:
        """What is started from now on runs under this too."""
        self._as_user = [*prefix, *self._as_user]

    @property
    def output(self) -> str:
        """What the daemon said on its terminal."""
        return self._output.read_text()

    @property
    def bodies(self) -> list[str]:
        """All messages, oldest first."""
        return [request.body.decode() for request in self.endpoint.requests]

    def told(self, *parts: str, after: int = 0) -> bool:
        """Whether one message behind the first `after` ones holds all of `parts`."""
        return any(all(part in body for part in parts) for body in self.bodies[after:])

    def wait_told(self, *parts: str, within: float = 90, after: int = 0) -> Waited[bool]:
        waited = wait_until(lambda: self.told(*parts, after=after), within, f"{parts} is told")
        print(f"{parts} told after {waited.seconds:.1f} s")
        return waited

    def break_lever(self) -> Path:
        """Take a lever away; returns where it was."""
        lever = self._unused.pop()
        lever.rename(lever.with_name(f"{lever.name}-moved"))
        return lever

    def mend_lever(self, lever: Path, within: float = 90) -> None:
        """Put it back, and wait until that is told."""
        lever.with_name(f"{lever.name}-moved").rename(lever)
        self.wait_told(f"[RESOLVED] {lever.name}", within=within)

    def pull(self, within: float = 90) -> float:
        """Break a lever and mend it: both is told. Returns the seconds until the first."""
        lever = self.break_lever()
        told = self.wait_told(f"[CRITICAL] {lever.name}", within=within)
        self.mend_lever(lever, within)
        return told.seconds

    def wait_well(self) -> None:
        """Wait for a round after now that left no incident open."""
        now = time.time()

        def well() -> bool:
            status = json.loads(self.verb("status", "--json").stdout)
            return not status["incidents"] and datetime.fromisoformat(status["last_round"]).timestamp() > now

        wait_until(well, 120, "all is well again", every=0.5)

    @property
    def family(self) -> list[psutil.Process]:
        """The daemon's children and theirs."""
        return psutil.Process(self.daemon.pid).children(recursive=True)

    @property
    def pulled(self) -> set[str]:
        """The levers that were used."""
        return {lever.name for lever in self._levers if lever not in self._unused}

    def recorded(self) -> set[str]:
        """The levers whose fault and end are in the history."""
        incidents = json.loads(self.verb("incidents", "--all", "--json").stdout)
        return {each["target"] for each in incidents if each["state"] == "resolved"} & self.pulled

    def end(self) -> None:
        """End the daemon at once, with its family."""
        family = self.family if self.daemon.poll() is None else []
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait(240)
        for process in family:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
