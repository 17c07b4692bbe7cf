"""guard: CMD under the switches, its signals and its exit code, with real processes."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_until

ME = pwd.getpwuid(os.getuid()).pw_name
Start = Callable[..., subprocess.Popen[str]]

OBEDIENT = """
import signal, sys, time
def save(number, frame):
    print("saved on", signal.Signals(number).name, flush=True)
    sys.exit(int(sys.argv[1]))
signal.signal(signal.SIGUSR1, save)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""
DEAF = """
import signal, time
for name in ("SIGUSR1", "SIGTERM"):
    signal.signal(getattr(signal, name), lambda number, frame: print(signal.Signals(number).name, flush=True))
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""
TELLTALE = """
import os, signal, time
def tell(number, frame):  # no print: a signal in the middle of one would make it fail
    os.write(1, (signal.Signals(number).name + "\\n").encode())
for name in ("HUP", "INT", "QUIT", "USR1", "USR2", "TERM"):
    signal.signal(getattr(signal, "SIG" + name), tell)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for name in ("switches", "inbox"):
        (home / name).mkdir(parents=True)
    return home


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Starts `guard --run run-17 WORDS`; what still runs at the end is killed, CMD with it."""
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str, name: str = "run-17", **more: object) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "watchdogd", "--home", str(home), "guard", "--run", name, *words]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more}
        process = subprocess.Popen(argv, start_new_session=True, **options)  # type: ignore[call-overload] # Popen's overloads do not take a dict
        started.append(process)
        return process  # type: ignore[no-any-return] # as above

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=240)


def python(script: str, *words: str) -> list[str]:
    return ["--", sys.executable, "-c", script, *words]


def ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=240)
    assert "Traceback" not in err
    return process.returncode, out, err


def press(home: Path, kind: str = "kill") -> Path:
    path = home / "switches" / f"run-17.{kind}"
    path.write_text(json.dumps({"by": "bob", "reason": "wrong learning rate"}) + "\n")
    return path


@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_exit_code_is_cmds(start: Start, code: int) -> None:
    assert end(start("--", "sh", "-c", f"echo out; echo err >&2; exit {code}")) == (code, "out\n", "err\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_signal_that_ended_cmd_is_128_and_its_number(start: Start, number: int) -> None:
    assert end(start("--", "sh", "-c", f"kill -{number} $$"))[0] == 128 + number


def test_the_dashes_may_be_left_out_and_cmds_own_stay(start: Start) -> None:
    assert end(start("echo", "--home", "x", "--", "-n"))[1] == "--home x -- -n\n"


def test_what_cannot_be_run_is_one_line(start: Start, tmp_path: Path) -> None:
    code, _, err = end(start("--", "no-such-program"))
    assert (code, err) == (127, "watchdogd: 'no-such-program' cannot be run: No such file or directory\n")
    assert end(start("--", str(tmp_path)))[0] == 126


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "guard: say what to run"),
        (["--"], "guard: say what to run"),
        (["--signal", "USR9", "--", "true"], "there is no signal 'USR9'"),
        (["--signal", "99", "--", "true"], "there is no signal '99'"),
        (["--grace", "soon", "--", "true"], "--grace: 'soon' is no duration"),
        (["--memory-free", "lots", "--", "true"], "is no amount of memory"),
    ],
)
def test_wrong_usage_is_one_line(start: Start, words: list[str], said: str) -> None:
    code, out, err = end(start(*words))
    assert (code, out) == (64, "")
    assert said in err
    assert err.count("\n") == 1


def test_the_kill_switch_asks_cmd_to_save(start: Start, home: Path) -> None:
    process = start(*python(OBEDIENT, "5"))
    ready(process)
    press(home)
    code, out, err = end(process)
    assert (code, out) == (5, "saved on SIGUSR1\n")
    assert f"run-17: kill switch set by {ME} (the file says bob): wrong learning rate: SIGUSR1 to" in err


def test_a_set_kill_switch_lets_nothing_start(start: Start, home: Path) -> None:
    press(home)
    code, out, _ = end(start("--", "echo", "started"))
    assert code == 0
    assert "started" not in out
    assert f"run-17 does not start: kill switch set by {ME} (the file says bob)" in out


def test_a_finished_run_burns_through(start: Start, home: Path) -> None:
    (home / "switches" / "run-17.finished").write_text("{}\n")
    code, out, _ = end(start("--", "echo", "started"))
    assert (code, "started" in out) == (0, False)


def test_sigterm_follows_after_the_grace_and_sigkill_where_asked(start: Start, home: Path) -> None:
    process = start("--grace", "1s", "--kill-after", "2s", *python(DEAF))
    ready(process)
    press(home)
    code, out, err = end(process)
    assert code == 128 + signal.SIGKILL
    assert out == "SIGUSR1\nSIGTERM\n"
    assert [word in err for word in ("SIGUSR1 to", "goes on: SIGTERM", "goes on: SIGKILL")] == [True] * 3


@pytest.mark.parametrize("then", ["; exit $?", "& wait $!"])
def test_under_a_launcher_that_takes_no_signal_the_program_is_asked(
    then: str, start: Start, home: Path, tmp_path: Path
) -> None:
    """A shell, torchrun: of SIGUSR1 they would die at once, and the ranks would go on without anybody."""
    (tmp_path / "train.py").write_text(OBEDIENT)
    launcher = f"{sys.executable} {tmp_path}/train.py 0 {then}"
    process = start("--", "sh", "-c", launcher)
    ready(process)
    press(home)
    assert end(process)[:2] == (0, "saved on SIGUSR1\n")


def test_what_takes_no_signal_ends_with_all_that_is_under_it(start: Start, home: Path) -> None:
    process = start("--", "sh", "-c", "sleep 3000 & echo ready; echo $!; wait; kill -USR1 $$")
    ready(process)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    press(home)
    assert end(process)[0] == 128 + signal.SIGUSR1
    wait_until(lambda: not Path(f"/proc/{child}").exists(), 20, "nothing is left behind")


def test_a_launcher_is_not_ended_before_a_rank_that_ignores_the_signal(start: Start, home: Path) -> None:
    """It would die of it, and the rank would go on without anybody; SIGKILL ends both."""
    deaf = "trap '' USR1 TERM; echo $$; while :; do sleep 0.2; done"
    launcher = ("sh", "-c", 'echo ready; sh -c "$0" & wait', deaf)
    process = start("--grace", "1s", "--kill-after", "1s", "--", *launcher)
    ready(process)
    assert process.stdout is not None
    rank = int(process.stdout.readline())
    press(home)
    code, _, err = end(process)
    assert code == 128 + signal.SIGKILL
    ours = [line for line in err.splitlines() if line.startswith("watchdogd: ")]  # the shell has words too
    assert [line.rpartition(": ")[2] for line in ours[1:]] == ["SIGTERM", "SIGKILL"]
    wait_until(lambda: not Path(f"/proc/{rank}").exists(), 60, "nothing is left behind")


def test_sigkill_never_comes_unasked(start: Start, home: Path) -> None:
    process = start("--grace", "1s", *python(DEAF))
    ready(process)
    press(home)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["SIGUSR1\n", "SIGTERM\n"]
    time.sleep(2)
    assert process.poll() is None


def test_another_signal_may_be_asked_for(start: Start, home: Path) -> None:
    process = start("--signal", "sigterm", "--grace", "0s", *python(TELLTALE))
    ready(process)
    press(home)
    assert process.stdout is not None
    assert process.stdout.readline() == "SIGTERM\n"


def test_signals_are_passed_on_and_stop_nothing_by_themselves(start: Start) -> None:
    process = start(*python(TELLTALE))
    ready(process)
    assert process.stdout is not None
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGTERM"):
        process.send_signal(getattr(signal, name))
        assert process.stdout.readline() == f"{name}\n"
    assert process.poll() is None


def test_a_terminals_interrupt_reaches_cmd_once(home: Path) -> None:
    """The terminal sends it to all of its foreground, so guard must not pass it on again."""
    words = ["--home", str(home), "guard", "--run", "run-17", *python(TELLTALE)]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "watchdogd", *words])
    try:
        seen = b""

        def shown(what: bytes) -> bool:
            nonlocal seen
            seen += os.read(terminal, 4096)
            return what in seen

        wait_until(lambda: shown(b"ready"), 30, "CMD is ready")
        os.write(terminal, b"\x03")
        wait_until(lambda: shown(b"SIGINT"), 30, "the interrupt arrived")
        os.kill(pid, signal.SIGUSR2)  # comes after whatever guard passed on before
        wait_until(lambda: shown(b"SIGUSR2"), 30, "the next signal arrived")
        assert seen.count(b"SIGINT") == 1
    finally:
        os.kill(pid, signal.SIGKILL)  # the terminal is gone then, and CMD knows SIGHUP: killed by name below
        os.waitpid(pid, 0)
        for child in Path("/proc").glob("[0-9]*/environ"):
            _kill_if_of(child, home)
        os.close(terminal)


def _kill_if_of(environ: Path, home: Path) -> None:
    """Kills CMD of the test above: a process whose command line is the script and whose HOME is ours."""
    try:
        mine = os.environ["HOME"].encode() in environ.read_bytes()
        if mine and TELLTALE.encode() in (environ.parent / "cmdline").read_bytes():
            os.kill(int(environ.parent.name), signal.SIGKILL)
    except (OSError, ProcessLookupError):
        pass


def test_cmd_starts_with_the_signals_as_guard_found_them(start: Start) -> None:
    look = ["sh", "-c", "grep -E 'SigBlk|SigIgn' /proc/self/status"]
    without = subprocess.run(look, capture_output=True, text=True, check=True).stdout
    assert _signals(end(start("--", *look))[1]) == _signals(without)


def _signals(status: str) -> list[int]:
    """Without 32 and 33, glibc's own, which its posix_spawn sets to be ignored until a program needs them."""
    return [int(mask, 16) & ~(3 << 31) for mask in status.split()[1::2]]


def test_cmd_inherits_open_files_as_mpi_needs_under_srun(start: Start) -> None:
    reading, writing = os.pipe()
    try:
        process = start("--", "bash", "-c", f"echo through the pipe >&{writing}", pass_fds=[writing])
        assert end(process)[0] == 0
        os.close(writing)
        writing = -1
        assert os.read(reading, 100) == b"through the pipe\n"
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


def test_cmd_reads_guards_input(start: Start) -> None:
    process = start("--", "cat", stdin=subprocess.PIPE)
    out, _ = process.communicate("hello\n", timeout=300)
    assert out == "hello\n"


def test_the_save_switch_asks_once_and_is_removed(start: Start, home: Path) -> None:
    process = start("--save-signal", "USR2", *python(TELLTALE))
    ready(process)
    switch = press(home, "save")
    assert process.stdout is not None
    assert process.stdout.readline() == "SIGUSR2\n"
    wait_until(lambda: not switch.exists(), 60, "the save switch is removed")
    process.send_signal(signal.SIGHUP)
    assert process.stdout.readline() == "SIGHUP\n"  # and no second SIGUSR2 before it


def test_without_a_save_signal_the_save_switch_harms_nothing(start: Start, home: Path) -> None:
    switch = press(home, "save")
    process = start("--", "sleep", "3")
    code, _, err = end(process)
    assert code == 0
    assert err == (
        "watchdogd: run-17: the save switch is set, but no --save-signal says how to ask for a save\n"
    )
    assert switch.exists()


def test_too_little_memory_stops(start: Start) -> None:
    code, out, err = end(start("--memory-free", "100%", *python(OBEDIENT, "0")))
    assert code in (0, 128 + signal.SIGUSR1)  # it may be asked before it has its handler
    assert "memory: " in err
    assert out in ("ready\nsaved on SIGUSR1\n", "ready\n", "")


def test_the_configured_switch_counts(start: Start, home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.kill"
    (home / "switches" / "run-17.json").write_text(json.dumps({"kill_switch": str(elsewhere)}))
    process = start(*python(OBEDIENT, "0"))
    ready(process)
    elsewhere.touch()
    assert end(process)[1] == "saved on SIGUSR1\n"


def test_a_misspelt_run_is_told_and_runs(start: Start, home: Path) -> None:
    (home / "switches" / "run-17.json").write_text("{}")
    code, out, err = end(start("--", "echo", "started", name="run-71"))
    assert (code, out) == (0, "started\n")
    assert "no run 'run-71' is known" in err
    assert "run-17" in err


def test_guard_gives_no_beat_for_cmd(start: Start, home: Path) -> None:
    assert end(start("--", "sleep", "2"))[0] == 0
    assert list((home / "inbox").iterdir()) == []
