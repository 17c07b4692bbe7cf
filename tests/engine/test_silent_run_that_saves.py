"""A run whose log is silent while it saves, and one that only is silent, watched by one daemon."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_until
from watchdogd.chain.tenure import Tenure
from watchdogd.engine import status
from watchdogd.engine.assembly import assembled
from watchdogd.engine.daemon import Daemon
from watchdogd.engine.setup import Setup
from watchdogd.home.layout import Home
from watchdogd.notify.heartbeat import heartbeat_of

RUN = """
[runs.{name}]
backend = "process"
pid_file = "{place}/pid"
log = "{place}/{name}.out"
stale_after = "2s"
checkpoints = "{place}/{name}/step*"
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Where two trainings, both silent, write; one process stands for both."""
    with subprocess.Popen(["sleep", "600"]) as training:
        (tmp_path / "pid").write_text(f"{training.pid}\n")
        for name in ("saves", "hangs"):
            (tmp_path / name / "step100").mkdir(parents=True)
            (tmp_path / f"{name}.out").write_text("step 100/9000 loss 2.25\nnow all of it goes to disk\n")
        yield tmp_path
        training.kill()


def test_of_two_silent_runs_the_daemon_reports_the_one_whose_checkpoints_do_not_grow(place: Path) -> None:
    home = Home(place / "home")
    home.make()
    texts = "".join(RUN.format(name=name, place=place) for name in ("saves", "hangs"))
    home.config.write_text(f'[daemon]\ninterval = "0.2s"\nconfirm = 2\n{texts}')
    setup = Setup.load(home)
    tenure = Tenure(home, setup.config)
    tenure.begin()
    with assembled(home, setup) as parts:
        daemon = Daemon(parts, tenure, heartbeat_of(setup.config))
        checkpoint, begin = place / "saves/step100/rank0.pt", time.time()

        def reported() -> set[str]:
            with checkpoint.open("ab") as file:
                file.truncate(checkpoint.stat().st_size + (8 << 20))
            daemon.round()
            found = status.open_incidents(daemon._engine.book)
            return {each.check for each in found if each.check.endswith("/log_staleness")}

        wait_until(lambda: reported() and time.time() - begin > 5.0, 60, "a hang is reported", every=0.2)
        assert reported() == {"hangs/log_staleness"}
        daemon._outbox.stop(30)
    tenure.end()
    left = json.loads(home.status.read_text())["checks"]
    [held] = [each for each in left if each["check"] == "saves/log_staleness" and not each["subject"]]
    assert held["status"] == "OK"
    assert "but its checkpoints grew by " in held["summary"]
    [grew] = [each["signs"] for each in left if each["check"] == "saves/checkpoint_age" and "signs" in each]
    assert grew[0]["strength"] == "STRONG"
