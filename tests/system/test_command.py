"""The one door to outside commands, with real commands."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.waiting import wait_until
from watchdogd.system.command import Failure, ask, environment


def test_an_answer_tells_no_from_silence() -> None:
    no = ask(["sh", "-c", "echo out; echo bad thing >&2; exit 3"], deadline=30)
    assert (no.exit_code, no.ok, no.silent, no.complaint()) == (3, False, False, "bad thing")
    silent = ask(["sleep", "60"], deadline=0.5)
    assert (silent.exit_code, silent.silent) == (None, True)
    assert "did not answer within 0.5 s" in silent.complaint()
    missing = ask(["no-such-tool-anywhere"], deadline=5)
    assert missing.silent
    assert "No such file" in missing.complaint()
    assert (no.failure, silent.failure, missing.failure) == (None, Failure.LATE, Failure.UNSTARTED)
    assert (silent.why, missing.errno) == ("did not answer within 0.5 s", errno.ENOENT)


def test_the_name_before_a_complaint_is_left_out_where_that_is_wanted() -> None:
    no = ask(["sh", "-c", "echo 'watchdogd: no home: run init' >&2; exit 1"], deadline=30)
    assert (no.complaint(), no.complaint("watchdogd")) == (
        "watchdogd: no home: run init",
        "no home: run init",
    )


@pytest.mark.slow
def test_children_are_killed_with_it(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    ask(["sh", "-c", f"sleep 300 & echo $! > {mark}; wait"], deadline=1)
    child = int(mark.read_text())

    def gone() -> bool:
        try:
            return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    wait_until(gone, 20, "the grandchild is killed")


def test_a_grandchild_that_holds_the_pipes_holds_nobody_up() -> None:
    begin = time.monotonic()
    answer = ask(["sh", "-c", "sleep 300 & echo done"], deadline=60)
    assert answer.output == "done\n"
    assert time.monotonic() - begin < 30


@pytest.mark.slow
def test_what_a_command_says_between_two_looks_at_it_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it may be silent until we look, then say all and end before we ask whether it did."""
    asked = subprocess.Popen.poll

    def poll(child: subprocess.Popen[bytes]) -> int | None:
        if child.returncode is None:
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        return asked(child)

    monkeypatch.setattr(subprocess.Popen, "poll", poll)
    assert ask(["sh", "-c", "sleep 1; echo said"], deadline=120).output == "said\n"


def test_all_is_heard_that_a_pipe_does_not_hold() -> None:
    told = ask(["sh", "-c", "seq 100000; echo bad >&2; exit 2"], deadline=60)
    assert (told.exit_code, told.output.split()[-1], told.errors) == (2, "100000", "bad\n")


def test_output_is_bounded() -> None:
    answer = ask(["sh", "-c", "yes | head -c 3000000"], deadline=30, output_limit=1000)
    assert len(answer.output) == 1000
    assert answer.truncated


@pytest.mark.slow
def test_ignoring_sigterm_does_not_help() -> None:
    answer = ask(["sh", "-c", f"trap '' {signal.SIGTERM}; sleep 300"], deadline=1)
    assert answer.silent


def test_input_reaches_it_and_bytes_that_are_no_text_are_shown() -> None:
    assert ask(["cat"], deadline=30, stdin="x" * 500_000).output == "x" * 500_000
    assert ask(["printf", r"\377"], deadline=30).output == "\\xff"


def test_slurms_variables_are_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "SBATCH_ACCOUNT", "SQUEUE_USERS", "SRUN_X", "SACCT_FORMAT"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("SLURM_CONF", "/etc/s.conf")
    monkeypatch.setenv("TOKEN", "secret")
    found = environment({"A": "1"}, without=frozenset({"TOKEN"}))
    assert not [name for name in found if name.startswith(("SLURM_J", "SBATCH", "SQUEUE", "SRUN", "SACCT"))]
    assert (found["SLURM_CONF"], found["LC_ALL"], found["A"], "TOKEN" in found) == (
        "/etc/s.conf",
        "C",
        "1",
        False,
    )
    assert os.environ["SLURM_JOB_ID"] == "x"


@pytest.mark.slow
def test_a_command_under_way_ends_when_watchdogd_does() -> None:
    """Whether it still speaks, or has closed its streams and goes on."""
    for script in ("trap '' TERM; echo begun; sleep 1000", "exec >&- 2>&-; trap '' TERM; sleep 1000"):
        ending = threading.Event()
        timer = threading.Timer(1.0, ending.set)
        timer.start()
        answer = ask(["sh", "-c", script], deadline=600.0, ending=ending)
        timer.join(240)
        assert answer.silent
        assert answer.trouble == "sh was killed, since watchdogd ended"
        assert answer.seconds < 300


def test_it_starts_in_a_folder_where_one_is_wanted(tmp_path: Path) -> None:
    assert ask(["pwd", "-P"], deadline=60, cwd=str(tmp_path)).output == f"{tmp_path.resolve()}\n"
    missing = ask(["no-such-tool-anywhere"], deadline=60, cwd=str(tmp_path))
    assert missing.trouble == "no-such-tool-anywhere cannot be run: No such file or directory"
    away = ask(["pwd"], deadline=60, cwd=str(tmp_path / "gone"))
    assert away.trouble == f"pwd cannot be run: {tmp_path}/gone: No such file or directory"


def test_it_gets_its_three_files_and_none_of_those_that_we_were_started_with(tmp_path: Path) -> None:
    """Without standard files of our own, the ends of its pipes have their numbers."""
    told = tmp_path / "told"
    program = (
        "import sys; from watchdogd.system.command import ask;"
        "said = ask(['sh', '-c', 'cat; echo wrong >&2; ls /proc/self/fd'], stdin='in\\n', deadline=60);"
        f"open({str(told)!r}, 'w').write(repr((said.exit_code, said.output.split(), said.errors)))"
    )
    words = ["sh", "-c", 'exec "$@" 7</dev/null <&- >&- 2>&-', "sh", sys.executable, "-c", program]
    subprocess.run(words, check=True, timeout=120)
    assert told.read_text() == repr((0, ["in", "0", "1", "2", "3"], "wrong\n"))


def test_a_file_above_a_limit_that_was_lowered_hinders_no_command() -> None:
    code = "from watchdogd.system.command import ask; print(ask(['echo', 'said'], deadline=60).output)"
    words = ["bash", "-c", f'exec 200</dev/null; ulimit -n 64; "{sys.executable}" -c "{code}"']
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() == "said"


def test_of_what_is_longer_than_can_be_kept_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchdogd.system.command.OUTPUT_LIMIT", 1 << 20)
    answer = ask(["yes"], deadline=600)
    assert (answer.silent, answer.trouble) == (True, "yes printed more than 1 MiB and was ended")
    answer = ask(["seq", "1000"], deadline=60, output_limit=10)
    assert (answer.ok, answer.truncated, answer.output) == (True, True, "1\n2\n3\n4\n5\n")


def test_a_line_that_only_points_at_the_one_before_is_not_the_complaint() -> None:
    lines = (
        "'GPFS is down on this node.' 'Command failed. Examine previous error messages to determine cause.'"
    )
    answer = ask(["sh", "-c", f"printf '%s\\n' {lines} >&2; exit 1"], deadline=60)
    assert answer.complaint() == "GPFS is down on this node."
