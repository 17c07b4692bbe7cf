"""A slow check that ran while the batch system did not answer: it runs again once the batch system does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.waiting import wait_until
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.wiring import assembled
from watchdogd.home.layout import Home

CONFIG = """
[daemon]
interval = "1s"
confirm = 1
[slurm]
min_poll = "1s"
[runs.reed]
backend = "slurm"
gpus_per_node = 4
[runs.reed.checks.gpu_health]
every = "6h"
"""
CHECK = "reed/gpu_health"


def test_a_slow_check_does_not_wait_for_its_next_turn_where_the_queue_was_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squeue = tmp_path / "tools" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text("#!/bin/sh\necho the controller is away >&2\nexit 1\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{squeue.parent}:{os.environ['PATH']}")
    home = Home(tmp_path / "home")
    home.make()
    home.config.write_text(CONFIG)
    with assembled(home, Setup.load(home)) as assembly:
        rounds = []

        def said() -> str:
            done = assembly.engine.round(patience=60)
            assert done
            rounds.append({each.check for each in done.observations})
            return next((each.result.summary for each in done.observations if each.check == CHECK), "")

        assert "job state not known" in said()
        assert "job state not known" in wait_until(said, 30, "it looks again").value
        squeue.write_text("#!/bin/sh\n")
        wait_until(lambda: said() == "not judged: no job runs", 30, "it knows")
        rounds.clear()
        alive = "reed/job_liveness"
        wait_until(lambda: said() or sum(alive in each for each in rounds) > 2, 30, "the next three rounds")
        assert not any(CHECK in each for each in rounds)
