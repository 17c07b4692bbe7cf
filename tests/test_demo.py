"""The demo: the whole story with its real alerts, and that nothing is left of it however it ends."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.docs.test_recording import masked, shown
from tests.waiting import wait_until
from watchdogd.demo import disk, story, toy_training
from watchdogd.demo.stage import Mailbox, PostedAlert, StageView
from watchdogd.parsers.quota.models import BYTES, INODES
from watchdogd.parsers.quota.site_tool import read_json
from watchdogd.plugin import STOPPED
from watchdogd.system.account import own_name

COMMAND = [sys.executable, "-m", "watchdogd", "demo"]
SOON = 300.0
COLOUR = re.compile(r"\x1b\[[0-9;]*?\b(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])\b[0-9;]*m")


def running(folder: Path) -> list[psutil.Process]:
    """Processes that live in a home of the demo below `folder`, dead ones that nobody reaped left out."""
    return [process for process in psutil.process_iter() if _lives_in(process, folder)]


def _lives_in(process: psutil.Process, folder: Path) -> bool:
    try:
        home = process.environ().get("WATCHDOGD_HOME", "")
        return home.startswith(str(folder)) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def nothing_is_left(folder: Path) -> bool:
    return not running(folder) and not list(folder.iterdir())


@contextmanager
def demo(folder: Path, **options: object) -> Iterator[subprocess.Popen[str]]:
    """The demo, its home in `folder`; killed with all that it started where the test does not end it."""
    process = subprocess.Popen(
        COMMAND,
        env={**os.environ, "TMPDIR": str(folder), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},  # type: ignore[call-overload]  # options of Popen
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=240)
        for left in running(folder):
            left.kill()


def read_until(stream: Iterator[str], word: str) -> str:
    """What was said up to the line with `word`."""
    said = ""
    for line in stream:
        said += line
        if word in line:
            return said
    raise AssertionError(f"'{word}' was not said: {said}")


def test_the_whole_story_on_a_machine_without_slurm(tmp_path: Path) -> None:
    place, empty = tmp_path / "tmp", tmp_path / "bin"
    place.mkdir()
    empty.mkdir()
    (empty / "watchdogd").symlink_to(Path(sys.executable).with_name("watchdogd"))
    begin = time.monotonic()
    done = subprocess.run(
        COMMAND,
        env={**os.environ, "TMPDIR": str(place), "PATH": str(empty)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - begin < SOON
    assert nothing_is_left(place)
    told = re.findall(r"^\d\d:\d\d:\d\d \[(\w+)\] (\S+):(?: |$)", done.stdout, re.MULTILINE)
    assert told == [
        ("CRITICAL", "run-17"),
        ("RESOLVED", "run-17"),
        ("CRITICAL", "scratch"),
        ("RESOLVED", "scratch"),
        ("CRITICAL", "scratch"),
        ("RESOLVED", "scratch"),
        ("INFO", "run-17"),
        ("WARNING", "run-17"),
    ]
    words = " ".join(done.stdout.split())
    assert re.search(r"iteration \d+/.* \| iteration +\d+/", words), "the last lines of the log"
    assert "kB of 16 MB free" in words
    assert "of 200 inodes free" in words
    assert "stopped on request" in words
    assert re.search(r"\| saved iter_\d+\.json at iteration \d+: kill switch set by \S+: wrong", words)
    assert re.search(r"watchdogd init .*watchdogd check .*watchdogd start --local ", words)
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    now = "".join(done.stdout.split()).replace(str(place), "/tmp").replace(f"by{own_name()}:", "byalice:")
    assert masked(now) == masked(shown()), "docs/demo/ shows what was so once: run `make docs`"


def test_a_terminal_has_a_live_table_and_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with demo(tmp_path, stdout=theirs) as process, open(ours, "rb", buffering=0) as terminal:
        os.close(theirs)
        said = b""
        while b"[CRITICAL] run-17" not in said:  # its worker is stopped just now
            said += terminal.read(4096)
        process.send_signal(signal.SIGINT)
        while process.poll() is None:
            said += _rest_of(terminal)
        assert process.returncode == 128 + signal.SIGINT
    wait_until(lambda: nothing_is_left(tmp_path), 10.0, "nothing is left of the demo")
    text = said.decode()
    assert "what watchdogd sees: " in text
    assert re.search(r"run-17 log_staleness +OK +iteration \d+", text)
    assert re.search(r"scratch inodes +OK +\d+ of", text)
    assert "ended early" in text
    assert not COLOUR.search(text), "NO_COLOR is set"


def _rest_of(terminal: object) -> bytes:
    try:
        return terminal.read(4096)  # type: ignore[attr-defined,no-any-return]  # a raw file
    except OSError:  # the other end is closed: the terminal's way to say that it is over
        time.sleep(0.05)
        return b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with demo(tmp_path) as process:
        assert process.stdout
        read_until(process.stdout, "1 of ")
        process.send_signal(number)
        out, err = process.communicate(timeout=SOON)
        assert (process.returncode, err) == (128 + number, "")
        assert "no process and no file is left" in out
        assert nothing_is_left(tmp_path)


def test_killed_it_leaves_no_process(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        assert process.stdout
        read_until(process.stdout, "1 of ")
        wait_until(lambda: len(running(tmp_path)) >= 4, SOON, "launcher, worker, daemon and its worker run")
        process.kill()
        wait_until(lambda: not running(tmp_path), SOON, "what the demo started has ended")


def test_a_daemon_that_dies_is_one_line_and_1(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        assert process.stdout
        read_until(process.stdout, "1 of ")
        daemon = next(child for child in running(tmp_path) if child.cmdline()[-1] == "run")
        daemon.kill()
        _, err = process.communicate(timeout=SOON)
        assert process.returncode == 1
        assert re.fullmatch(
            r"watchdogd: step 1 of 8 was not seen \(.*\): the daemon ended by itself: .*\n", err
        )
        assert nothing_is_left(tmp_path)


def test_a_reader_that_leaves_ends_it(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        assert process.stdout
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate(timeout=SOON)
        assert "Traceback" not in err
        assert nothing_is_left(tmp_path)


class Dull:
    """A stage on which nothing ever happens, and the screen for it."""

    home = None

    def look(self) -> StageView:
        return StageView({"checks": []})

    def begin(self, *_: object) -> None:
        """Nothing to see."""

    done = show = seen = begin


def test_a_step_that_does_not_come_about_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "PATIENCE", 0.01)
    with pytest.raises(story.UnseenError) as caught:
        story.play(Dull(), Dull(), time.sleep)  # type: ignore[arg-type]  # a stage and a screen in what they do
    assert str(caught.value) == (
        "step 1 of 8 was not seen (every check OK, and no message at all): waited 0.01 s in vain"
    )


AT = "2026-01-02T03:04:05+00:00"


def posted(**more: object) -> dict[str, object]:
    """What the daemon posts of the end of the run."""
    item = {"status": "WARNING", "subject": ""}
    told = {
        "status": "WARNING",
        "target": "run-17",
        "headline": "[WARNING] run-17: over",
        "body": "",
        "at": AT,
    }
    return {**told, "items": [item], **more}


def test_healthy_is_quiet_for_a_while() -> None:
    assert story.healthy((), StageView(fine_for=story.QUIET))
    assert not story.healthy((), StageView(fine_for=story.QUIET - 0.1))
    assert not story.healthy((PostedAlert.from_json(posted()),), StageView(fine_for=story.QUIET))


def test_a_stop_needs_the_checkpoint_the_end_the_state_and_the_message() -> None:
    told = (PostedAlert.from_json(posted()),)
    log = (
        " iteration 7/4000 | lm loss: 0.1 |",
        "saved iter_0000007.json at iteration 7: kill switch set by bob",
    )
    seen = {"checks": [{"kind": STOPPED}]}
    assert story.stopped(told, StageView(seen, exit_code=0, log=log))
    assert not story.stopped((), StageView(seen, exit_code=0, log=log))
    assert not story.stopped(told, StageView(exit_code=0, log=log))
    assert not story.stopped(told, StageView(seen, exit_code=None, log=log))
    assert not story.stopped(told, StageView(seen, exit_code=0, log=log[:1]))


def test_alerts_are_what_was_posted() -> None:
    mailbox = Mailbox()
    try:
        body = (
            "Since 03:04, for 2s.\n\n    last lines of the log:\n    iteration 6\n    [WARNING] of the log\n"
        )
        items = [{"subject": "bytes"}, {"subject": "inodes"}]
        data = json.dumps(posted(body=body, items=items)).encode()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(mailbox.url, data), timeout=30) as answer:
            assert answer.status == 204
        [alert] = mailbox.alerts
    finally:
        mailbox.close()
    assert (alert.status, alert.target, alert.clock) == ("WARNING", "run-17", "03:04:05")
    assert alert.evidence == ("last lines of the log:", "iteration 6", "[WARNING] of the log")
    assert alert.subjects == {"bytes", "inodes"}
    assert story.alerted("WARNING", "run-17", BYTES)((alert,), StageView())
    assert not story.alerted("WARNING", "run-17")((alert,), StageView())
    assert story.hung(
        (replace(alert, status="CRITICAL", subjects=frozenset({""})),), StageView(log=("iteration 6",))
    )


def test_the_little_disk_fills_by_bytes_and_by_inodes(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    disk.prepare(folder)
    assert disk.usage(folder) == (12_000_000, 152)
    disk.fill_bytes(folder)
    assert disk.usage(folder) == (15_520_000, 153)
    disk.free_bytes(folder)
    disk.fill_inodes(folder)
    assert disk.usage(folder) == (12_000_000, 194)
    disk.free_inodes(folder)
    assert disk.usage(folder) == (12_000_000, 152)


def test_its_usage_is_what_a_quota_command_prints(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    answer = subprocess.run(
        [sys.executable, "-m", "watchdogd.demo.disk", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    limits = {limit.kind: (limit.used, limit.hard) for limit in read_json(answer.stdout, "tool")}
    assert limits == {BYTES: (5, 16_000_000), INODES: (1, 200)}
    assert json.loads(answer.stdout)["limit_inodes"] == 200


def test_the_training_learns(tmp_path: Path) -> None:
    model = toy_training.LinearModel()
    losses = [model.learn(toy_training.batch()) for _ in range(1000)]
    assert sum(losses[-100:]) < sum(losses[:100]) / 10
    assert model.slope == pytest.approx(toy_training.SLOPE, abs=0.2)
    model.save(tmp_path / "weights.json")
    assert json.loads((tmp_path / "weights.json").read_text()) == {
        "slope": model.slope,
        "offset": model.offset,
    }
