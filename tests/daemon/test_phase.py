"""What a live training says in its log and to its Guard, as the checks of its run are given it."""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.lab.dog import Dog
from tests.lab.processes import started
from tests.waiting import wait_until
from watchdogd.home.layout import Home

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
[daemon]
interval = "1s"
[runs.onyx]
backend = "process"
pid_file = "{folder}/pid"
log = "{folder}/onyx.log"
quiet = [{{ match = "saving", allow = "40m" }}]
[checks.told]
plugin = "told"
run = "onyx"
every = "1s"
"""
TOLD = """
from watchdogd.plugin import Run, check, ok

@check
def told(run: Run):
    return ok(f"phase: {run.phase}; finished: {run.finished}")
"""
TRAINING = """
import os, sys, time
from watchdogd.training import Guard

folder = sys.argv[1]
guard = Guard("onyx", every=0.1)
open(folder + "/pid", "w").write(str(os.getpid()))
for line in sys.stdin:
    print(line.strip(), file=open(folder + "/onyx.log", "a"), flush=True)
    guard.poll(step=len(line), loss=0.5)
    if line == "done\\n":
        guard.finished()
"""


def test_checks_are_told_of_the_phase_and_the_end_of_a_run(tmp_path: Path) -> None:
    dog = Dog(tmp_path / "home").settle(CONFIG.format(folder=tmp_path))
    (tmp_path / "home" / "plugins" / "told.py").write_text(TOLD)

    def say(line: str) -> None:
        assert training.stdin
        print(line, file=training.stdin, flush=True)

    def said(check: str) -> str:
        seen = [each["summary"] for each in dog.json("status")["checks"] if each["check"] == check]
        return "\n".join(seen)

    def wait_for(check: str, words: str) -> None:
        wait_until(lambda: words in said(check), 120, words)

    options: dict[str, Any] = {"env": dog.env, "stdin": subprocess.PIPE, "text": True}
    with (
        started([sys.executable, "-c", TRAINING, str(tmp_path)], **options) as training,
        dog.running(),
    ):
        say("iteration 1/90")
        wait_for("told", "phase: ; finished:")
        say("saving all that there is")
        wait_for("told", "phase: quiet phase 'saving'; finished:")
        say("done")
        wait_for("told", f"phase: ; finished: {getpass.getuser()}")
        wait_for("onyx/log_staleness", "not judged: marked finished by ")
        assert training.stdin
        training.stdin.close()


AFTER = """
from watchdogd.plugin import Run, check, ok

@check(after=("log_staleness",), every="1s")
def told(run: Run):
    step = run.progress and run.progress.at
    return ok(f"stepped: {step is not None}", recent=bool(run.progress and run.progress.recent(step or 0.0)))
"""


def test_a_check_that_comes_after_another_is_told_what_that_said_in_the_same_round(tmp_path: Path) -> None:
    """In a tick, too, which is a process of its own; and what was said in the last one, where it is alone."""
    home = Home(tmp_path / "home")
    home.make()
    home.write(home.config, CONFIG.format(folder=tmp_path))
    (home.plugins / "told.py").write_text(AFTER)
    (tmp_path / "onyx.log").write_text("iteration 7/90\n")

    def tick() -> dict[str, tuple[str, float]]:
        subprocess.run(
            [sys.executable, "-m", "watchdogd", "--home", home.path, "tick"], check=True, timeout=120
        )
        picture = json.loads(home.status.read_text())
        return {
            each["check"]: (each["summary"], each["metrics"].get("recent", {}).get("value"))
            for each in picture["checks"]
        }

    with started(["sleep", "300"]) as training:
        (tmp_path / "pid").write_text(f"{training.pid}\n")
        assert tick()["told"] == ("stepped: True", 1.0)
        seldom = '[runs.onyx.checks.log_staleness]\nevery = "1h"\n[checks'
        home.write(home.config, CONFIG.format(folder=tmp_path).replace("[checks", seldom))
        assert tick()["told"] == ("stepped: True", 1.0)
        training.kill()
