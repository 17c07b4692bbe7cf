"""The probe in scripts without Slurm: it leaves a sample, and no script has to wait for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until
from watchdogd.probe import job
from watchdogd.stacks import stack_collection

PATIENCE = 60.0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "inbox").mkdir()
    return tmp_path


@contextmanager
def script(home: Path, text: str) -> Iterator[subprocess.Popen[bytes]]:
    """Bash runs it; `$probe` is the verb with its first options. Nothing of it stays."""
    probe = f"{sys.executable} -m watchdogd --home {home} probe --every 5s --disk {home}"
    env = {**os.environ, "probe": probe, "here": str(home)}
    running = subprocess.Popen(["bash", "-c", text], env=env, start_new_session=True, cwd=home)
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait(240)


def samples(home: Path) -> list[Path]:
    return sorted((home / "inbox").glob("*.sample.*.json"))


def one_sample(home: Path) -> Path:
    return wait_until(lambda: samples(home), PATIENCE, "a sample is there").value[0]


@pytest.mark.parametrize(
    "text",
    [
        "$probe --run a & until test -e $here/go; do sleep 0.2; done; wait",
        "( $probe --run a ) & until test -e $here/go; do sleep 0.2; done; wait",
        "exec > >(tee $here/log); $probe --run a & until test -e $here/go; do sleep 0.2; done; wait $!",
        "$probe --run a & $probe --run b & until test -e $here/go; do sleep 0.2; done; wait",
    ],
    ids=["bare", "subshell", "tee", "two"],
)
def test_a_script_that_ends_in_wait_ends_and_no_sample_stays(home: Path, text: str) -> None:
    with script(home, text) as running:
        one_sample(home)
        assert running.poll() is None
        (home / "go").touch()
        assert running.wait(PATIENCE) == 0
        assert samples(home) == []


def test_it_stays_while_a_child_of_the_script_works(home: Path) -> None:
    with script(home, "$probe --run a & sleep 600 & wait") as running:
        one_sample(home)
        shell = psutil.Process(running.pid)
        [probe] = [each for each in shell.children() if "probe" in each.cmdline()]
        [sleep] = [each for each in shell.children() if each.name() == "sleep"]
        assert not job.waited_for(shell, probe)
        sleep.kill()
        assert running.wait(PATIENCE) == 0


def test_a_script_that_is_killed_takes_it_along(home: Path) -> None:
    with script(home, "$probe --run a & echo $! > $here/pid; sleep 600; true") as running:
        one_sample(home)
        pid = int((home / "pid").read_text())
        running.kill()
        running.wait(240)
        wait_until(lambda: not samples(home) and not psutil.pid_exists(pid), PATIENCE, "the probe has ended")


def test_a_killed_probe_leaves_nothing_that_goes_on(home: Path) -> None:
    with script(home, "$probe --run a & echo $! > $here/pid; sleep 600; true"):
        one_sample(home)
        psutil.Process(int((home / "pid").read_text())).kill()
        wait_until(lambda: not samples(home), PATIENCE, "the sampler has ended and removed its sample")


def test_what_a_sample_tells_and_that_it_is_renewed_in_place(home: Path) -> None:
    with script(home, "SLURM_JOB_ID= $probe --run a/b & sleep 600; true"):
        path = one_sample(home)
        assert path.name.startswith("a%2Fb.sample.")
        told = json.loads(path.read_text())
        assert (told["kind"], told["run"], told["job"]) == ("sample", "a/b", "")
        assert 0 < told["memory"]["left"] <= told["memory"]["total"]
        assert 0 < told["memory"]["processes"][0]["anonymous"] <= told["memory"]["anonymous"]
        assert 0 <= told["disks"][str(home)]["free"] <= told["disks"][str(home)]["total"]
        before = path.stat().st_mtime_ns
        wait_until(lambda: path.stat().st_mtime_ns != before, PATIENCE, "the sample is renewed")
        assert samples(home) == [path]


def test_left_samples_of_an_hour_ago_are_cleared_away(home: Path) -> None:
    old, young = (home / "inbox" / f"a.sample.node{number}.1.json" for number in (1, 2))
    for path, age in ((old, 4000), (young, 100)):
        path.write_text('{"run": "a", "job": "7", "node": "node1"}')
        when = path.stat().st_mtime - age
        os.utime(path, (when, when))
    with script(home, "$probe --run a & sleep 600; true"):
        wait_until(lambda: len(samples(home)) == 2 and not old.exists(), PATIENCE, "the old one has gone")
        assert young.exists()


def test_a_misspelt_run_is_told_in_the_jobs_log(home: Path) -> None:
    (home / "switches").mkdir(exist_ok=True)
    (home / "switches" / "run-17.json").write_text("{}")
    log = home / "job.log"
    with script(home, f"$probe --run run-71 2>{log} & sleep 600; true"):
        one_sample(home)
        said = f"watchdogd: probe: no run 'run-71' is known in {home}; did you mean 'run-17'?\n"
        assert log.read_text() == said


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--run a --every 5parsecs", "--every"),
        ("--run a --home /nonexistent", "there is no /nonexistent/inbox"),
        ("", "--run"),
    ],
)
def test_wrong_usage_is_one_line(home: Path, words: str, complaint: str) -> None:
    argv = [sys.executable, "-m", "watchdogd", "--home", str(home), "probe", *words.split()]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 64
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1


def test_who_asks_for_stacks_by_a_file_gets_those_of_all_processes(home: Path) -> None:
    """A request from before the probe came is not answered, a new one is."""
    (home / "config.toml").write_text('[runs.a]\nbackend = "process"\ncommand = "sleep"\n')
    request = home / "inbox" / "a.stacks-request"
    request.touch()
    training = f"{sys.executable} -c 'import time; time.sleep(600)'"
    with script(home, f"SLURM_JOB_ID= $probe --run a & {training} & wait"):
        one_sample(home)
        assert not list((home / "inbox").glob("a.stacks.*"))
        request.unlink()
        answers = stack_collection.ask(str(home), "a", PATIENCE)
    [(node, parcels)] = answers.nodes
    assert node == os.uname().nodename.partition(".")[0]
    assert answers.note == "the stacks are from its probe on 1 node"
    assert len(parcels) == 1
    assert list((home / "inbox").glob("a.stacks*")) == []
