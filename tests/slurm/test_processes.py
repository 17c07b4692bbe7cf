"""Runs that are plain processes: found, dead, stopped, reused, and never watchdogd itself."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until
from watchdogd.batch import processes
from watchdogd.batch.models import Job, Snapshot
from watchdogd.plugin import Run
from watchdogd.system.account import user_name

SLEEP = "import time; time.sleep(600)"
Started = subprocess.Popen[bytes]


class Trainings:
    """Processes that a test starts, each with a word of its own in its command line."""

    def __init__(self) -> None:
        self.word = f"training-{uuid.uuid4().hex}"
        self._all: list[Started] = []

    def start(self, code: str = SLEEP, place: Path | None = None) -> Started:
        process = subprocess.Popen([sys.executable, "-c", code, self.word], cwd=place)
        self._all.append(process)
        return process

    def end(self) -> None:
        for process in self._all:
            process.kill()
            process.wait(240)


@pytest.fixture
def trainings() -> Iterator[Trainings]:
    started = Trainings()
    yield started
    started.end()


def look(run: Run) -> tuple[Job, ...]:
    snapshot = processes.look([run], 10.0, time.time())
    assert (snapshot.backend, snapshot.endings) == ("process", None)
    return snapshot.of(run.name)


def look_as(uid: int, run: Run) -> Snapshot:
    return processes.look([run], 10.0, time.time(), uid)


def by_command(trainings: Trainings) -> Run:
    return Run("run-17", "run-17", backend="process", command=trainings.word)


def by_pid_file(folder: Path, text: str) -> Run:
    path = folder / "train.pid"
    path.write_text(text)
    return Run("run-17", "run-17", backend="process", pid_file=str(path))


def test_by_command(trainings: Trainings) -> None:
    process = trainings.start()
    (job,) = look(by_command(trainings))
    assert (job.id, job.name, job.state, job.waiting) == (str(process.pid), "run-17", "RUNNING", False)
    assert job.user == psutil.Process().username()
    assert job.started_at == pytest.approx(time.time(), abs=30)
    assert job.raw_id.startswith(f"{process.pid}@")


def test_what_a_match_started_itself_is_no_second_run(trainings: Trainings) -> None:
    code = f"import os, time; os.fork(); {SLEEP}"
    process = trainings.start(code)
    wait_until(lambda: psutil.Process(process.pid).children(), 20, "it forked")
    child = psutil.Process(process.pid).children()[0]
    try:
        assert [job.id for job in look(by_command(trainings))] == [str(process.pid)]
    finally:
        child.kill()


def test_by_pid_file(trainings: Trainings, tmp_path: Path) -> None:
    process = trainings.start()
    (job,) = look(by_pid_file(tmp_path, f"{process.pid}\n"))
    assert (job.id, job.state) == (str(process.pid), "RUNNING")


def test_stopped_is_suspended(trainings: Trainings) -> None:
    process = trainings.start()
    process.send_signal(signal.SIGSTOP)
    run = by_command(trainings)
    wait_until(lambda: look(run)[0].state == "SUSPENDED", 10, "it is seen as suspended")
    assert look(run)[0].reason == "stopped by a signal"
    process.send_signal(signal.SIGCONT)
    wait_until(lambda: look(run)[0].state == "RUNNING", 10, "it is seen as running")


def test_a_zombie_is_dead(trainings: Trainings, tmp_path: Path) -> None:
    process = trainings.start("")
    seen = psutil.Process(process.pid)
    wait_until(lambda: seen.status() == psutil.STATUS_ZOMBIE, 20, "it is a zombie")
    assert look(by_pid_file(tmp_path, str(process.pid))) == ()
    assert look(by_command(trainings)) == ()


def test_a_colleagues_process_of_the_same_command_is_not_the_run(trainings: Trainings) -> None:
    trainings.start()
    mine, run = os.geteuid(), by_command(trainings)
    named = dataclasses.replace(run, users=frozenset({"alice"}))
    of = [processes.look([each], 10.0, time.time(), mine + 1).jobs or () for each in (run, named)]
    assert list(map(len, of)) == [0, 1]
    assert len(look(run)) == 1
    assert look_as(mine + 1, run).elsewhere[0].user == user_name(mine)
    assert not look_as(mine + 1, named).elsewhere


HIDDEN = """
import json, os, sys, time
from watchdogd.plugin import Run
from watchdogd.batch import processes
word, pid_file = sys.argv[1:]
runs = [
    Run("mine", "mine", backend="process", command=word),
    Run("hers", "hers", backend="process", command=word, users=frozenset({"alice"})),
    Run("pid", "pid", backend="process", pid_file=pid_file),
]
def look():
    seen = processes.look(runs, 10.0, time.time())
    return [seen.veiled, sorted(seen.hidden), [[job.name, job.state] for job in seen.jobs]]
asked = [look()]
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
print(json.dumps([*asked, look()]))
"""


@pytest.mark.root
@pytest.mark.parametrize("hidepid", ["1", "2"])
def test_where_the_machine_hides_processes_that_is_said(
    trainings: Trainings, tmp_path: Path, hidepid: str
) -> None:
    training = trainings.start()
    pid_file = tmp_path / "pid"
    pid_file.write_text(str(training.pid))
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o005 == 0:
            folder.chmod(folder.stat().st_mode | 0o005)
    mounted = 'mount -t proc -o "hidepid=$0" proc /proc && exec "$@"'
    argv = [sys.executable, "-c", HIDDEN, trainings.word, str(pid_file)]
    said = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mounted, hidepid, *argv],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert said.stderr == ""
    root, other = json.loads(said.stdout)
    assert root == [False, [], [["mine", "RUNNING"], ["hers", "RUNNING"], ["pid", "RUNNING"]]]
    assert other == [True, ["alice"], [["pid", "UNKNOWN"]]]


def test_gone(trainings: Trainings, tmp_path: Path) -> None:
    process = trainings.start()
    process.kill()
    process.wait(240)
    assert look(by_pid_file(tmp_path, str(process.pid))) == ()
    assert look(Run("run-17", "run-17", backend="process", pid_file=str(tmp_path / "none"))) == ()


def test_a_pid_that_is_used_anew_is_not_the_run(trainings: Trainings, tmp_path: Path) -> None:
    process = trainings.start()
    run = by_pid_file(tmp_path, str(process.pid))
    long_ago = time.time() - 3600
    os.utime(run.pid_file, (long_ago, long_ago))
    assert look(run) == ()


def test_a_clock_that_was_set_forward_makes_no_run_gone(trainings: Trainings, tmp_path: Path) -> None:
    """Its pid file keeps its time, while the start of every process goes with the clock."""
    process = trainings.start(place=tmp_path)
    run = by_pid_file(tmp_path, str(process.pid))
    days_ago = time.time() - 3 * 86400
    os.utime(run.pid_file, (days_ago, days_ago))
    (job,) = look(run)
    assert job.raw_id.startswith(f"{process.pid}@")


@pytest.mark.parametrize("text", ["", "soon\n", "-4\n", "12x", "²"])
def test_a_pid_file_without_a_pid_is_said(tmp_path: Path, text: str) -> None:
    (job,) = look(by_pid_file(tmp_path, text))
    assert job.state == processes.UNKNOWN
    assert "holds no process id" in job.reason


def test_a_pid_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (job,) = look(Run("run-17", "run-17", backend="process", pid_file=str(tmp_path)))
    assert job.state == processes.UNKNOWN
    assert "cannot be read: it is no plain file" in job.reason


def test_a_huge_pid_is_nobody(tmp_path: Path) -> None:
    assert look(by_pid_file(tmp_path, "9" * 40)) == ()


def test_never_who_looks_nor_who_started_it(tmp_path: Path) -> None:
    assert look(by_pid_file(tmp_path, str(os.getpid()))) == ()
    me = psutil.Process()
    found = look(Run("run-17", "run-17", backend="process", command="."))
    assert not {str(process.pid) for process in (me, *me.parents())} & {job.id for job in found}


DAEMON = """
import subprocess, sys, time
from watchdogd.plugin import Run
from watchdogd.batch import processes
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]])
run = Run("run-17", "run-17", backend="process", command=sys.argv[1])
try:
    print([job.id for job in processes.look([run], 10.0, time.time()).of("run-17")])
finally:
    child.kill()
    child.wait()
"""


def test_what_the_daemon_started_is_not_the_run(trainings: Trainings, tmp_path: Path) -> None:
    program = tmp_path / "watchdogd"
    program.write_text(f"#!{sys.executable}\n{DAEMON}")
    program.chmod(0o755)
    training = trainings.start()
    said = subprocess.run([program, trainings.word], capture_output=True, text=True, timeout=300, check=True)
    assert said.stdout.strip() == f"['{training.pid}']"


def test_looking_has_a_deadline(trainings: Trainings) -> None:
    trainings.start()
    snapshot: Snapshot = processes.look([by_command(trainings)], -1.0, time.time())
    assert [job.state for job in snapshot.of("run-17")] == [processes.UNKNOWN]
