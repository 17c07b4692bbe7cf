"""The machine fails around the daemon: limits, a Python replaced, no /proc, clocks that jump, an end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.faults.rig import Rig
from tests.servers.web import WebServer
from tests.waiting import wait_until

UID = 54321
"""No user of this machine: limits hold for it as they do not for root, and it has no name."""
READING = "+dac_override,+dac_read_search,+kill"
"""It reads the tests' Python, wherever that lies."""
AS_USER = (
    "setpriv",
    f"--reuid={UID}",
    f"--regid={UID}",
    "--clear-groups",
    f"--inh-caps={READING}",
    f"--ambient-caps={READING}",
)
WITHOUT_PROC = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /proc && exec "$@"', "sh")
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


class Machine:
    """A daemon of an ordinary user, on a Python of its own."""

    def __init__(self, place: Path, endpoint: WebServer) -> None:
        os.chown(place, UID, UID)
        self.python = _interpreter(place / "python")
        self.rig = Rig(place / "home", place, endpoint, as_user=AS_USER)
        self.rig.python = str(self.python)
        self.rig.start()

    def limit(self, what: str) -> None:
        command = [*AS_USER, "prlimit", "--pid", str(self.rig.daemon.pid), what]
        subprocess.run(command, check=True)

    @contextmanager
    def out_of_descriptors(self) -> Iterator[None]:
        self.limit("--nofile=4:")
        yield
        self.limit("--nofile=1024:")

    @contextmanager
    def out_of_processes(self) -> Iterator[None]:
        self.limit("--nproc=1:")
        yield
        self.limit("--nproc=4000:")

    @contextmanager
    def out_of_memory(self) -> Iterator[None]:
        """Nothing more is to be had for the daemon, nor for what it starts."""
        self.limit("--as=1000000:")
        yield
        self.limit("--as=unlimited:")

    @contextmanager
    def python_replaced(self) -> Iterator[None]:
        gone = self.python.rename(self.python.with_name("gone"))
        yield
        gone.rename(self.python)

    def drop_in(self, name: str) -> None:
        """It needs a process that is not there yet."""
        path = self.rig.home / "cron.hourly" / name
        path.write_text("#!/bin/sh\necho came; exit 1\n")
        path.chmod(0o700)
        os.chown(path, UID, UID)


def _interpreter(place: Path) -> Path:
    """The tests' Python and packages under a name that can be taken away."""
    (place / "bin").mkdir(parents=True)
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", place)
    (place / "lib").symlink_to(Path(sys.prefix) / "lib")
    python = place / "bin" / "python"
    python.symlink_to(os.path.realpath(sys.executable))
    return python


@pytest.fixture
def place() -> Iterator[Path]:
    """Where an ordinary user gets, unlike the folders of root's tests."""
    with tempfile.TemporaryDirectory(prefix="watchdogd-machine-") as folder:
        yield Path(folder)


def test_what_the_machine_refuses_is_told_beside_all_else(place: Path, endpoint: WebServer) -> None:
    machine = Machine(place, endpoint)
    rig = machine.rig
    try:
        rig.pull()
        for fault, words in (
            (machine.out_of_processes, "too many processes"),
            (machine.python_replaced, "was Python replaced?"),
            (machine.out_of_memory, "is memory short"),
        ):
            with fault():
                rig.pull()
                machine.drop_in(fault.__name__)
                rig.wait_told(fault.__name__, words)
                rig.pull()
        for process in rig.family:
            process.kill()
        rig.pull()
        before = len(rig.bodies)
        with machine.out_of_descriptors():
            rig.pull()
            rig.wait_told("bloom-watch", "oo many open files", after=before)
        rig.pull()
        wait_until(lambda: rig.recorded() == rig.pulled, 60, "all is recorded", every=0.5)
    finally:
        rig.end()


def test_a_node_without_proc(tmp_path: Path, endpoint: WebServer) -> None:
    rig = Rig(tmp_path / "home", tmp_path, endpoint)
    rig.wrap(WITHOUT_PROC)
    rig.start()
    try:
        rig.pull()
        assert rig.recorded() == rig.pulled
    finally:
        rig.end()


def test_clocks_that_jump_by_hours(tmp_path: Path, endpoint: WebServer) -> None:
    """Forwards, back, and behind the beginning; then it is killed, and begins before its own past."""
    clock = tmp_path / "clock"

    def set_clock(offset: str) -> None:
        """At one instant: libfaketime ends the process that reads half of it."""
        clock.with_name("next").write_text(offset)
        clock.with_name("next").rename(clock)

    set_clock("+0")
    rig = Rig(tmp_path / "home", tmp_path, endpoint)
    rig.env |= {
        "LD_PRELOAD": FAKETIME,
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",  # each reading of the file lets other threads see no offset at all
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }
    rig.start()
    first = rig.daemon.pid
    try:
        rig.pull()
        for offset in ("+5h", "+0", "-7h"):
            set_clock(offset)
            rig.pull()
        rig.end()
        (rig.home / "status.json").unlink()
        set_clock("-30h")
        rig.start()
        rig.pull()
        wait_until(lambda: rig.recorded() == rig.pulled, 60, "all is recorded", every=0.5)
        own = [body for body in rig.bodies if "[CRITICAL] bloom-watch" in body]
        assert own == [], own
    finally:
        rig.end()
        for pid in (first, rig.daemon.pid):  # a process that is killed leaves libfaketime's shared memory
            for left in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
                Path("/dev/shm", left).unlink(missing_ok=True)


def test_ended_in_the_middle_of_a_round(tmp_path: Path, endpoint: WebServer) -> None:
    """What the round finds is told and recorded, nothing comes twice, and nobody is left."""
    rig = Rig(tmp_path / "home", tmp_path, endpoint)
    slow = rig.home / "plugins" / "slow.py"
    begun = tmp_path / "begun"
    slow.write_text(
        "import pathlib, time\nfrom watchdogd.plugin import check, ok\n"
        f'@check(every="1s", timeout="60s")\ndef slow():\n    pathlib.Path({str(begun)!r}).touch()\n'
        '    time.sleep(20)\n    return ok("late")\n'
    )
    with (rig.home / "config.toml").open("a") as config:
        config.write('[checks.slow]\nplugin = "slow"\ntimeout = "60s"\n')
    rig.start()
    try:
        wait_until(begun.exists, 60, "a round waits for a check")
        lever = rig.break_lever()
        family = rig.family
        rig.daemon.send_signal(signal.SIGTERM)
        assert rig.daemon.wait(timeout=90) == 0
        assert not [each for each in family if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
        rig.start()
        rig.wait_told(f"[CRITICAL] {lever.name}")
        rig.mend_lever(lever)
        assert sum(f"[CRITICAL] {lever.name}" in body for body in rig.bodies) == 1
    finally:
        rig.end()
