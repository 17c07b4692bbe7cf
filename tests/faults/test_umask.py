"""Whatever the umask of the shell: what watchdogd, Python, SQLite or a library makes in home has home's
rights, and what people's own programs make has those that people asked for."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.processes import started
from tests.waiting import wait_until
from watchdogd.cli import VERBS, main
from watchdogd.history.store import Store
from watchdogd.home.layout import Home

CONFIG = """
[daemon]
confirm = 1
interval = "1s"
[channels.book]
type = "statuslog"
path = "book.log"
[report]
path = "{disk}/page.html"
[alerts]
channels = ["book"]
[checks.mine]
plugin = "mine"
[disks.scratch]
path = "{disk}"
quota = "statvfs"
crit_free = "900PB"
[runs.run-17]
backend = "process"
command = "no such process"
log = "{disk}/train.log"
kill_switch = "{disk}/kill"
pulse = "{disk}/pulse.log"
on_disk = ["save-switch", {{ exec = ["{home}/told"] }}]
"""
PLUGIN = """
import os, sys
sys.path.insert(0, os.path.dirname(__file__))
import helper
from watchdogd.plugin import check, ok
@check(every="1m")
def mine():
    open(helper.PATH, "w").close()
    return ok("fine")
"""
PROGRAM = '#!/bin/sh\n: >"{path}"\necho OK\n'
SHORT: dict[str, tuple[str, ...]] = {
    "init": ("",), "watch": ("no-such-job",), "doctor": ("",), "status": ("", "--json"), "check": ("",),
    "kill-switch": ("run-17", "run-17 --show", "run-17 --clear"), "save-switch": ("run-17",),
    "finish": ("run-17", "run-17 --clear"), "tick": ("",), "ack": ("1",), "silence": ("scratch --for 1h",),
    "unsilence": ("scratch",),
    "incidents": ("",), "history": ("",), "backtest": ("",), "export": ("-o {disk}/export.json",),
    "import": ("{disk}/export.json",), "preflight": ("--run run-17",), "stacks": ("run-17",),
    "digest": ("", "--send"),
    "env": ("run-17",), "gpus": ("run-17",), "report": ("", "-o {disk}/report.html"),
    "notify": ("--test",), "outbox": ("",), "relay": ("",), "config": ("",), "plugins": ("",),
    "completion": ("bash",), "queue": ("",), "nodes": ("--add n017", "", "--remove n017"),
}  # fmt: skip
APART = ("start --local", "ensure --local", "restart --local", "stop", "guard --run run-17 -- {disk}/cmd")
"""Those that leave something running, or become something else."""
FOREVER = {"run", "web", "probe", "demo"}
"""`run` is what `start` starts; the other three are below."""


@pytest.fixture
def careless() -> Iterator[None]:
    """The umask of a shell that lets everybody write."""
    before = os.umask(0)
    yield
    os.umask(before)


def settle(home: Home, disk: Path) -> None:
    disk.mkdir()
    (disk / "train.log").write_text("iteration 1\n")
    assert main(["init"]) == 0
    home.config.write_text(CONFIG.format(disk=disk, home=home.path))
    for place, text in (
        ("plugins/mine.py", PLUGIN),
        ("plugins/helper.py", f"PATH = {str(disk / 'plugin')!r}\n"),
        ("cron.hourly/program", PROGRAM.format(path=disk / "program")),
        ("told", PROGRAM.format(path=disk / "told")),
    ):
        (home.path / place).write_text(text)
        (home.path / place).chmod(0o700)
    (disk / "cmd").write_text(PROGRAM.format(path=disk / "training"))
    (disk / "cmd").chmod(0o700)


def modes(folder: Path) -> dict[str, int]:
    """What there is below, and its rights."""
    paths = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return {name: stat.S_IMODE(path.lstat().st_mode) for name, path in paths.items() if not path.is_symlink()}


@pytest.mark.root
def test_no_verb_leaves_a_file_in_home_that_others_may_touch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, careless: None
) -> None:
    home, disk = Home(tmp_path / "home"), tmp_path / "disk"
    monkeypatch.setenv("WATCHDOGD_HOME", str(home.path))
    settle(home, disk)
    assert {*SHORT, *FOREVER, *(words.split()[0] for words in APART)} == {*VERBS}
    words = [f"{verb} {rest}" for verb, tries in SHORT.items() for rest in tries]
    for each in ("tick", "tick", *words):
        main(each.format(disk=disk).split())
        assert os.umask(0) == 0  # who calls main has its own back
    ours = [sys.executable, "-m", "watchdogd"]
    for each in APART:
        if each == "stop":
            wait_until((disk / "page.html").exists, 60, "the daemon publishes its page")
        subprocess.run([*ours, *each.format(disk=disk).split()], check=True, timeout=120)
    with started([*ours, "web", "--port", "0"], stdout=subprocess.PIPE) as web:
        assert web.stdout
        assert web.stdout.readline().startswith(b"http")
        web.terminate()
    with started([*ours, "probe", "--run", "run-17"]) as probe:
        wait_until(lambda: [*home.inbox.glob("*.sample.*")] or probe.poll() is not None, 60, "a sample")
        probe.terminate()
    found = modes(home.path)
    assert {
        "plugins/__pycache__",
        "history.db",
        "status.json",
        "logs/daemon.log",
        ".web-token",
    } <= found.keys()
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}
    made = modes(disk)
    assert made["training"] == 0o666  # as it would be without guard
    # a plugin is part of us, a program of people's own; nobody else writes what is shown
    assert made["plugin"] == 0o600
    assert {made["program"], made["told"], made["page.html"], made["report.html"]} == {0o644}
    assert (made["pulse.log"], made["export.json"]) == (0o640, 0o600)


def test_a_journal_of_sqlite_has_the_rights_of_home(tmp_path: Path, careless: None) -> None:
    home = Home(tmp_path / "home")
    home.make(None)
    Store.open("sqlite:///history.db", home).close()
    with sqlite3.connect(home.history) as connection:
        connection.execute("CREATE TABLE mine (number INTEGER)")
        connection.execute("INSERT INTO mine VALUES (1)")
        found = modes(home.path)
        connection.rollback()
    connection.close()
    assert found["history.db-journal"] == 0o600


def test_a_cache_that_everybody_may_write_is_no_way_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    monkeypatch.setenv("WATCHDOGD_HOME", str(home.path))
    settle(home, tmp_path / "disk")
    assert main(["check", "mine"]) == 0
    (home.plugins / "__pycache__").chmod(0o777)
    assert main(["check", "mine"]) != 0
