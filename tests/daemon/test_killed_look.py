"""A look that a real worker is killed over: how often, what was read, and what lies behind is said."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from watchdogd.daemon.setup import Setup
from watchdogd.daemon.wiring import Wiring, assembled
from watchdogd.home.layout import Home
from watchdogd.plugin import Result, Status

SLOW = r"""
import time
from watchdogd.plugin import check, ok

@check
def sluggish(path: str = "/nowhere/x"):
    if open(path).read() == "slow":
        time.sleep(600)
    return ok("read")
"""


@pytest.fixture
def training() -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs, and says nothing."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait(240)


def looked(assembly: Wiring, name: str) -> Result:
    """What one more look of a check says."""
    (seen,) = [each.result for each in assembly.engine.observe({name}) if not each.result.subject]
    return seen


def test_a_check_that_is_killed_again_and_again_says_since_when_and_what_it_reads(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make()
    (home.path / "plugins" / "sluggish.py").write_text(SLOW)
    read = tmp_path / "read"
    read.write_text("slow")
    home.config.write_text(
        f'[checks.slow]\nplugin = "sluggish"\ntimeout = "1s"\nevery = "1s"\npath = "{read}"\n'
    )
    with assembled(home, Setup.load(home), looking=True) as assembly:
        said = [looked(assembly, "slow").summary for _ in range(3)]
        assert "in a row" not in said[1]
        assert ", 3 looks in a row for " in said[2]
        assert said[2].endswith(f", path = {read}")
        read.write_text("quick")
        assert looked(assembly, "slow").status is Status.OK
        read.write_text("slow")
        assert "in a row" not in looked(assembly, "slow").summary


def test_a_line_that_a_users_pattern_never_ends_on_hides_no_hang(
    tmp_path: Path, training: subprocess.Popen[bytes]
) -> None:
    home = Home(tmp_path / "home")
    home.make()
    log = tmp_path / "opal.log"
    log.write_text("pass 1\n" + "a" * 4000 + "\n")
    (tmp_path / "opal.pid").write_text(f"{training.pid}\n")
    home.config.write_text(
        f'[runs.opal]\npid_file = "{tmp_path}/opal.pid"\nlog = "{log}"\nstale_after = "2s"\n'
        "progress = '(?:a|a)*(?:a|a)*(?:a|a)*b(\\d+)'\n"
        '[runs.opal.checks.log_staleness]\ntimeout = "2s"\ngrace = "1s"\nevery = "1s"\n'
    )
    with assembled(home, Setup.load(home), looking=True) as assembly:
        assert looked(assembly, "opal/log_staleness").status is Status.UNKNOWN
        deadline = time.monotonic() + 90
        while looked(assembly, "opal/log_staleness").status is not Status.CRITICAL:
            assert time.monotonic() < deadline, "the hang behind the line is never reported"
