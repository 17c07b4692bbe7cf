"""Power goes under a daemon: home as it lies on the disk at some instant starts, and remembers."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil

from tests.faults.mounts import ext4
from tests.faults.rig import Rig
from tests.servers.web import WebServer
from tests.waiting import wait_until
from watchdogd.home import inbox_submit
from watchdogd.system import smallfile

STATES = ("open", "acknowledged", "resolved")
FOR_EVER = ("readings", "changes", "events", "touches", "gaps")
"""Tables of which no row ever changes."""


class Memory:
    """What the history of a home holds."""

    def __init__(self, home: Path) -> None:
        with closing(sqlite3.connect(home / "history.db", timeout=60)) as database:

            def rows(query: str) -> list[tuple[Any, ...]]:
                return database.execute(query).fetchall()

            self.lasting = {(table, *row) for table in FOR_EVER for row in rows(f"select * from {table}")}
            self.incidents = {
                row[:3]: row[3] for row in rows("select id, target, opened_at, state from incidents")
            }
            self.notifications: dict[str, str] = dict(rows("select key, state from notifications"))
            ((self.silences,),) = rows("select value from facts where name = 'silences'")

    def assert_kept_by(self, later: Memory) -> None:
        """All is there; what had not come to its end may have gone on."""
        assert self.lasting - later.lasting == set()
        for incident, state in self.incidents.items():
            assert STATES.index(later.incidents[incident]) >= STATES.index(state)
        for key, state in self.notifications.items():
            assert later.notifications[key] in (state, "sent")
        assert later.silences == self.silences


class Instant:
    """A home as it lay on the disk, and what had been told and stored before."""

    def __init__(self, rig: Rig, copy: Path, before: Callable[[], object], delay: float) -> None:
        self.home = copy
        self.stored = Memory(rig.home)
        before()
        time.sleep(delay)
        rig.daemon.send_signal(signal.SIGSTOP)
        wait_until(lambda: rig.daemon.poll() is not None or stopped(rig.daemon.pid), 30, "it stands still")
        self.told = {name for body in rig.bodies for name in re.findall(r"\[CRITICAL\] (lever-\d)", body)}
        subprocess.run(["cp", "-a", str(rig.home), str(copy)], check=True)
        rig.daemon.send_signal(signal.SIGCONT)

    def assert_starts_and_remembers(self, rig: Rig) -> None:
        """A tick of it goes well, and knows all that."""
        rig.home = self.home
        rig.env["WATCHDOGD_HOME"] = str(self.home)
        done = rig.verb("tick")
        assert done.returncode == 0, done.stderr
        assert "corrupt" not in "".join(path.name for path in self.home.iterdir())
        kept = Memory(self.home)
        self.stored.assert_kept_by(kept)
        assert self.told <= {target for _id, target, _at in kept.incidents}


def stopped(pid: int) -> bool:
    """Whether a process that was not waited for stands still."""
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


def test_home_copied_at_random_instants_starts_and_remembers(tmp_path: Path, endpoint: WebServer) -> None:
    """In rounds, while messages go out, at the end of a daemon and at the beginning of the next."""
    rig, chance = Rig(tmp_path / "home", tmp_path, endpoint), random.Random()
    instants: list[Instant] = []

    def instant(before: Callable[[], object]) -> None:
        instants.append(Instant(rig, tmp_path / f"copy-{len(instants)}", before, chance.random()))

    rig.start()
    try:
        rig.pull()
        lever = rig.break_lever()
        rig.wait_told(f"[CRITICAL] {lever.name}")
        incidents = json.loads(rig.verb("incidents", "--json").stdout)
        (number,) = (each["id"] for each in incidents if each["target"] == lever.name)
        for words in (("ack", str(number)), ("silence", "lever-0", "--for", "1d")):
            assert rig.verb(*words).returncode == 0
        wait_until(lambda: not list((rig.home / "inbox").glob("*.json")), 60, "both are stored")
        instant(lambda: None)
        instant(rig.break_lever)
        instant(rig.daemon.terminate)
        rig.daemon.wait(timeout=90)
        rig.start()
        instant(rig.break_lever)
    finally:
        rig.end()
    assert "acknowledged" in instants[0].stored.incidents.values()
    assert "lever-0" in instants[0].stored.silences
    for each in instants:
        each.assert_starts_and_remembers(rig)


def test_what_a_verb_has_acknowledged_is_on_the_disk(tmp_path: Path) -> None:
    """An ack, a switch and an edited config.toml: the disk as it is at that instant has them."""
    with ext4(tmp_path / "disk", megabytes=8) as disk:
        subprocess.run(["sync", "--file-system", disk], check=True, timeout=60)
        inbox_submit.submit(str(disk), "ack", "9", incident=9)
        image = shutil.copyfile(tmp_path / "disk.image", tmp_path / "after.image")
        assert names_in(image) == {"9.ack"}
        smallfile.create_file(str(disk / "run-17.kill"), "{}\n", 0o600)
        smallfile.replace_file(str(disk / "config.toml"), "[daemon]\n", 0o600, durable=True)
        image = shutil.copyfile(tmp_path / "disk.image", tmp_path / "later.image")
        assert names_in(image) == {"9.ack", "run-17.kill", "config.toml"}


def names_in(image: Path) -> set[str]:
    """Files of an ext4 that power was taken from, once its journal is played; names to their second dot."""
    place = image.with_suffix("")
    place.mkdir()
    subprocess.run(["mount", "-o", "loop", image, place], check=True, timeout=60)
    try:
        return {".".join(each.name.split(".")[:2]) for each in place.iterdir() if each.name != "lost+found"}
    finally:
        subprocess.run(["umount", place], check=True, timeout=60)
