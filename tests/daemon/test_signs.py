"""Signs of work on their way from the check that saw them to the one that judges the log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.processes import started
from tests.waiting import wait_until
from watchdogd.chain.leadership import DaemonLeadership
from watchdogd.daemon import status_file
from watchdogd.daemon.check_runner import CheckRunner
from watchdogd.daemon.daemon import Daemon, ServiceManager
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.wiring import assembled
from watchdogd.home.layout import Home
from watchdogd.incidents.models import Observation
from watchdogd.notify.dead_mans_switch import heartbeat_of
from watchdogd.plugin import Progress, Result, Sign, Status, Strength

RUN = """
[runs.{name}]
backend = "process"
pid_file = "{place}/pid"
log = "{place}/{name}.out"
stale_after = "1s"
checkpoints = "{place}/{name}/step*"
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Where two trainings, both silent, write; one process stands for both."""
    with started(["sleep", "600"]) as training:
        (tmp_path / "pid").write_text(f"{training.pid}\n")
        for name in ("saves", "hangs"):
            (tmp_path / name / "step100").mkdir(parents=True)
            (tmp_path / f"{name}.out").write_text("step 100/9000 loss 2.25\nnow all of it goes to disk\n")
        yield tmp_path
        training.kill()


def test_a_sign_comes_back_from_what_an_earlier_process_left(tmp_path: Path) -> None:
    """A tick, or the next link, begins with it: without it its first look would be a false alarm."""
    sign = Sign("gpus", "its GPU draws 300 W", 1_800_000_060.0, 1_800_000_000.0, Strength.STRONG)
    result = Result(Status.OK, "one GPU", signs=(sign,))
    told = status_file.observation_json(Observation("r/gpu_health", "r", "r", result, 1_800_000_060.0))
    assert status_file.signs_of(json.loads(json.dumps(told))) == (sign,)
    assert status_file.signs_of({"check": "x"}) == ()


def test_what_one_subject_says_hides_nothing_that_another_said(place: Path) -> None:
    home = Home(place / "home")
    home.make()
    home.config.write_text(RUN.format(name="saves", place=place))
    progress = Progress(at=time.time() // 1, within=60.0)
    said = [Result(Status.OK, "step 7", progress=progress), Result(Status.OK, "2.5", subject="loss")]
    seen = [
        status_file.observation_json(Observation("saves/log_staleness", "saves", "saves", each, 0.0))
        for each in said
    ]
    home.write(home.status, json.dumps({"checks": seen}))
    setup = Setup.load(home)
    with assembled(home, setup) as parts:
        execution: CheckRunner = parts.engine._execution
        execution._known = frozenset({"saves/log_staleness"})
        [run] = {check.run for check in setup.checks if check.run}
        assert execution._run(run, {}).progress == progress


@pytest.mark.slow
def test_of_two_silent_runs_the_daemon_reports_the_one_whose_checkpoints_do_not_grow(place: Path) -> None:
    home = Home(place / "home")
    home.make()
    texts = "".join(RUN.format(name=name, place=place) for name in ("saves", "hangs"))
    home.config.write_text(f'[daemon]\ninterval = "0.2s"\nconfirm = 2\n{texts}')
    setup = Setup.load(home)
    leadership = DaemonLeadership(home, setup.config)
    leadership.begin()
    with assembled(home, setup) as parts:
        daemon = Daemon(parts, leadership, heartbeat_of(setup.config), ServiceManager())
        checkpoint = place / "saves/step100/rank0.pt"

        def judged() -> dict[str, str]:
            """After a round more, in which the one saved more: what the logs' checks say."""
            with checkpoint.open("ab") as file:
                file.truncate(checkpoint.stat().st_size + (8 << 20))
            daemon.round()
            left = json.loads(home.status.read_text())["checks"]
            return {each["check"]: each["summary"] for each in left if not each["subject"]}

        def held() -> bool:
            return "but its checkpoints grew by " in judged().get("saves/log_staleness", "")

        def reported() -> set[str]:
            found = status_file.open_incidents(daemon._engine.alerts)
            return {each.check for each in found if each.check.endswith("/log_staleness")}

        wait_until(lambda: held() and reported(), 60, "one is held back, the other reported", every=0.2)
        assert reported() == {"hangs/log_staleness"}
        assert held()
        daemon._outbox.stop(30)
    leadership.end()
