"""File systems that hang under what is watched: all else is told, and so is what hangs, where, since when."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from tests.faults.rig import Rig
from tests.lab.hungmount import HungMount
from tests.servers.web import WebServer
from tests.waiting import wait_until


def test_log_disk_switch_and_drop_in_on_a_hung_mount(tmp_path: Path, endpoint: WebServer) -> None:
    mount = tmp_path / "scratch"
    mount.mkdir()
    (mount / "train.log").write_text("iteration 7\n")
    more = f"""
[disks.scratch]
path = "{mount}/data"
quota = "statvfs"
[runs.run-17]
log = "{mount}/train.log"
pid_file = "{tmp_path}/train.pid"
[runs.run-18]
pid_file = "{tmp_path}/train.pid"
kill_switch = "{mount}/kill"
"""
    training = subprocess.Popen(["sleep", "600"])
    (tmp_path / "train.pid").write_text(f"{training.pid}\n")
    (mount / "data").mkdir()
    rig = Rig(tmp_path / "home", tmp_path, endpoint, more=more)
    tool = rig.home / "cron.every-1s" / "list"
    tool.parent.mkdir(mode=0o700)
    tool.write_text(f"#!/bin/sh\nls {mount}/data\n")
    tool.chmod(0o700)
    rig.start()
    try:
        rig.pull()
        with HungMount(mount):
            rig.wait_told("[CRITICAL] bloom-watch: ", "file system does not answer on", f": {mount}")
            wait_until(lambda: _open(rig, "cron.every-1s/list"), 90, "the drop-in is noted")
            assert "cannot be killed: it hangs in the kernel in" in _open(rig, "cron.every-1s/list")
            assert rig.pull() < 60
            hanging = wait_until(lambda: _asleep(rig), 90, "processes hang").value
            time.sleep(4)
            assert _asleep(rig) <= hanging + 3, "nothing is started on top"
            assert _asleep(rig) <= 8
            assert rig.pull() < 60
            assert not rig.told("process hangs in the kernel"), "the file system has told it"
            lines = [json.loads(body)["headline"] for body in rig.bodies]
            assert not [line for line in lines if "cron.every-1s/list" in line], "noted with the file system"
        subprocess.run(["umount", "-l", str(mount)], check=False, stderr=subprocess.DEVNULL)
        rig.wait_told("RESOLVED", "bloom-watch")
        rig.pull()
    finally:
        rig.end()
        training.kill()
        training.wait(240)


def _open(rig: Rig, check: str) -> str:
    """What the open incident of a check says, or empty."""
    said = json.loads(rig.verb("incidents", "--json").stdout)
    return next((each["summary"] for each in said if each["check"] == check), "")


def _asleep(rig: Rig) -> int:
    """How many processes of the daemon wait in the kernel though they were killed."""
    states = subprocess.run(["ps", "-eo", "stat,args"], capture_output=True, text=True, check=True).stdout
    return sum(
        line.startswith("D") and ("engine.worker" in line or "ls /" in line) for line in states.splitlines()
    )
