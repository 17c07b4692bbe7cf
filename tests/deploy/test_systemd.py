"""deploy/watchdogd.service: systemd finds no fault with it; a real user manager keeps the daemon alive."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.deploy.manager import Manager
from tests.deploy.pages import adapted
from tests.waiting import wait_until
from watchdogd.home.layout import Home

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster import Cluster

UNIT = "watchdogd.service"


class Service:
    """alice's home and her unit."""

    def __init__(self, slurm: Cluster) -> None:
        self._slurm = slurm
        self.home = Home(slurm.home("alice") / "watch")
        self.say("init")
        self.home.config.write_text(
            '[daemon]\ninterval = "2s"\n[disks.root]\npath = "/"\n'
            '[channels.hook]\ntype = "webhook"\nurl = "env:WEBHOOK_URL"\n'
        )
        folder = slurm.home("alice") / ".config" / "systemd" / "user"
        slurm.run_as("alice", ["mkdir", "-p", folder])
        self.unit = folder / UNIT
        text = adapted(UNIT, slurm.watchdogd.parent.parent, self.home.path)
        for given, shorter in (("WatchdogSec=5min", "WatchdogSec=15s"), ("RestartSec=10", "RestartSec=1s")):
            assert given in text
            text = text.replace(given, shorter)
        self.unit.write_text(text)
        secrets = slurm.home("alice") / ".config" / "watchdogd.env"
        secrets.write_text("WEBHOOK_URL=http://127.0.0.1:9/\n")

    def say(self, *words: str, check: bool = True) -> str:
        argv: list[str | Path] = [self._slurm.typed, "--home", self.home.path, *words]
        return self._slurm.run_as("alice", argv, check=check).stdout

    def status(self) -> dict[str, Any]:
        picture: dict[str, Any] = json.loads(self.say("status", "--json", check=False))
        return picture


@pytest.fixture
def service(slurm: Cluster) -> Service:
    return Service(slurm)


def test_systemd_finds_no_fault_with_the_unit(service: Service) -> None:
    assert shutil.which("systemd-analyze"), "the unit is tested with Debian's systemd: run scripts/packages"
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", service.unit],
        env={**os.environ, "XDG_RUNTIME_DIR": str(service.home.path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_systemd_brings_the_daemon_back_and_leaves_it_ended_when_it_was_stopped(
    slurm: Cluster, service: Service
) -> None:
    with Manager("alice", slurm.home("alice")) as manager:
        manager.systemctl("enable", "--now", "watchdogd")
        assert (service.unit.parent / "default.target.wants" / UNIT).is_symlink()
        assert service.status()["last_round"]  # systemd waits for the first round
        assert "checks, nothing open" in manager.show(UNIT, "StatusText")
        assert manager.show(UNIT, "NoNewPrivileges") == "yes"
        first = int(manager.show(UNIT, "MainPID"))
        assert f"process {first} " in service.status()["holder"]
        os.kill(first, signal.SIGKILL)

        def another() -> bool:
            holder = service.status()["holder"]
            return holder is not None and f"process {first} " not in holder

        wait_until(another, 90, "systemd has started it again", every=0.5)
        assert manager.show(UNIT, "NRestarts") == "1"
        wait_until(lambda: manager.show(UNIT, "ActiveState") == "active", 60, "it is ready", every=0.2)
        first = int(manager.show(UNIT, "MainPID"))
        os.kill(first, signal.SIGSTOP)
        wait_until(another, 120, "systemd has killed the frozen one and started it again", every=0.5)
        assert manager.show(UNIT, "NRestarts") == "2"
        service.say("stop")
        wait_until(lambda: manager.show(UNIT, "ActiveState") == "inactive", 60, "it is ended", every=0.5)
        # An end that somebody asks for while it starts is one on purpose, too.
        manager.systemctl("start", "--no-block", "watchdogd")
        wait_until(lambda: service.status()["holder"], 60, "it has the lease", every=0.05)
        service.say("stop")
        wait_until(lambda: manager.show(UNIT, "ActiveState") == "inactive", 60, "it is ended", every=0.5)
        assert manager.show(UNIT, "Result") == "success"
        manager.systemctl("start", "watchdogd")
        wait_until(lambda: service.status()["alive"], 60, "it watches again", every=0.5)
        manager.systemctl("stop", "watchdogd")
        assert (manager.show(UNIT, "Result"), manager.show(UNIT, "ActiveState")) == ("success", "inactive")


def test_a_daemon_that_cannot_start_is_tried_again(slurm: Cluster, service: Service) -> None:
    """Here the configuration is broken; once it is mended, the daemon comes up by itself."""
    good = service.home.config.read_text()
    service.home.config.write_text(good + "[daemn]\n")
    with Manager("alice", slurm.home("alice")) as manager:
        manager.systemctl("start", "watchdogd", check=False)
        wait_until(lambda: int(manager.show(UNIT, "NRestarts")) > 0, 60, "it was tried again", every=0.5)
        service.home.config.write_text(good)
        wait_until(lambda: service.status()["alive"], 60, "it came up by itself", every=0.5)
        manager.systemctl("stop", "watchdogd")
