"""Something else in the place of a file of home, as a member of a shared home may put there: no verb waits
for it, none fails in other words than one line."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from watchdogd import training
from watchdogd.chain import link_script
from watchdogd.cli import crash_log, main, status
from watchdogd.cli.web import token_of
from watchdogd.config import last_good_config, switch_places
from watchdogd.daemon import inbox_reader
from watchdogd.daemon.chat_answers import AnswerBook
from watchdogd.errors import WatchdogError
from watchdogd.history import store
from watchdogd.home import inbox, lease, lease_record, markers, suspect_nodes, switches
from watchdogd.home.layout import Home
from watchdogd.home.touchfile import finished
from watchdogd.notify.channels.statuslog import append
from watchdogd.notify.locks import Locks
from watchdogd.probe.sample_files import left, sweep
from watchdogd.stacks import stack_collection
from watchdogd.system.account import user_name
from watchdogd.system.bounded_io import BoundedIO

CONFIG = """
[daemon]
confirm = 1
[channels.book]
type = "statuslog"
path = "book.log"
[alerts]
channels = ["book"]
[disks.scratch]
path = "{place}"
quota = "statvfs"
crit_free = "900PB"
[runs.run-17]
backend = "process"
command = "no such process"
log = "{place}/train.log"
on_disk = ["save-switch"]
[checks.mine]
plugin = "mine"
"""
PLUGIN = "from watchdogd.plugin import check, ok\n@check\ndef mine():\n    return ok('fine')\n"
MORE = (
    ".id", "stopped", ".stopped", ".stopped-jobs", ".ticks", ".web-token", "link.json", ".taken.json",
    "history.db-journal", "history.backup.db", "switches/run-17.kill", "switches/run-17.finished",
    "switches/.run-17.json", ".lease/0000000001", ".lease/9999999999", ".lease/request", "logs/link.log",
    "logs/crash.log", "report.html", "inbox/run-17.beat.node5.17.json", "inbox/1.ack.node5.17-1.json",
    "inbox/run-17.sample.node5.17.json", "inbox/run-17.stacks-request", "inbox/run-17.stacks.node5.17.txt",
    "inbox/run-17.finished.node5.17.json", "cron.hourly/other.py", "cron.hourly/script.slurm",
    ".outbox/0123456789abcdef0123456789abcdef.delivered",
)  # fmt: skip
"""What may lie in home beside what two rounds leave there."""
QUICK = (
    "status", "status --json", "kill-switch run-17 --show", "kill-switch run-17",
    "kill-switch run-17 --clear",
    "finish run-17", "finish run-17 --clear", "ack 1", "silence scratch --for 1h", "incidents", "outbox",
    "config", "ensure", "stop", "preflight --run run-17", "guard --run run-17 -- true",
)  # fmt: skip
VITAL = ("config.toml", "status.json", "history.db", ".config.good.toml")
SLOW = ("tick", "check", "report -o -", "history", "plugins", "export")
DEADLINE = 90
ME = user_name(os.getuid())


class HungError(BaseException):
    """It waits for somebody."""


@contextmanager
def deadline(words: str) -> Iterator[None]:
    def hung(*_: object) -> None:
        raise HungError(words)

    before = signal.signal(signal.SIGALRM, hung)
    limit = signal.alarm(DEADLINE)  # the whole test's, which runs on afterwards
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.alarm(limit)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        here = os.getcwd()
        os.chdir(path.parent)  # a socket's path is short
        try:
            end.bind(path.name)
        finally:
            os.chdir(here)


def an_endless_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 33)


KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "socket": a_socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "circle": lambda path: path.symlink_to(path.name),
    "endless": an_endless_file,
}


@pytest.fixture
def made(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    home.config.write_text("[runs.run-17]\nbackend = 'process'\n")
    return home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    home = Home(tmp_path / "home")
    monkeypatch.setenv("WATCHDOGD_HOME", str(home.path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (tmp_path / "train.log").write_text("iteration 1\n")
    assert main(["init"]) == 0
    home.config.write_text(CONFIG.format(place=tmp_path))
    (home.plugins / "mine.py").write_text(PLUGIN)
    for _ in range(2):
        assert main(["tick"]) == 0
    return home


def files(home: Home) -> list[str]:
    there = [path for path in home.path.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return sorted({*MORE, *(str(path.relative_to(home.path)) for path in there)})


def planted(home: Home, name: str, kind: str) -> None:
    path = home.path / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    KINDS[kind](path)


def spoken(capsys: pytest.CaptureFixture[str], words: str) -> None:
    said = capsys.readouterr().err
    assert "internal error" not in said, f"{words}: {said}"
    assert all(line.startswith("watchdogd: ") for line in said.splitlines()), f"{words}: {said}"


@pytest.mark.parametrize("kind", ["pipe"])
def test_no_verb_waits_for_what_lies_in_the_place_of_files(
    home: Home, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of them at once, but for those without which nothing is done at all."""
    names = files(home)
    assert {*VITAL} <= {*names}
    for name in names:
        if name not in VITAL:
            planted(home, name, kind)
    for verb in (*QUICK, *SLOW):
        with deadline(f"watchdogd {verb} waits for a {kind}"):
            main(verb.split())
        spoken(capsys, verb)
        for name in MORE:
            if not os.path.lexists(home.path / name):  # it was taken in, set aside or replaced
                planted(home, name, kind)


@pytest.mark.parametrize("name", VITAL)
def test_no_verb_waits_for_what_lies_in_the_place_of_one(
    home: Home, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = home.path.rename(tmp_path / "whole")
    for verb in ("status", "kill-switch run-17", "stop", "check"):
        shutil.rmtree(home.path, ignore_errors=True)
        shutil.copytree(whole, home.path, symlinks=True)
        planted(home, name, "pipe")
        with deadline(f"watchdogd {verb} waits for {name}"):
            main(verb.split())
        spoken(capsys, verb)


def answers(home: Home) -> object:
    """What was taken in of people's answers."""
    patient = BoundedIO(str(home.path))
    try:
        return AnswerBook(home, patient).read()
    finally:
        patient.close()


READERS: dict[str, Callable[[Home], object]] = {
    "status.json": status.read,
    "stopped": markers.stop_words,
    ".stopped": markers.last_pause,
    ".stopped-jobs": lambda home: markers.ended_with_watchdog(home, "1"),
    ".ticks": markers.last_ticks,
    ".id": lambda home: Home(home.path).id,
    ".web-token": token_of,
    ".config.good.toml": last_good_config.last,
    "link.json": link_script.remembered,
    "switches/run-17.json": lambda home: switch_places.find(str(home.path), "run-17", "kill"),
    "switches/run-17.kill": lambda home: switches.read(switch_places.find(str(home.path), "run-17", "kill")),
    "switches/run-17.finished": finished,
    ".lease/0000000009": lease.alive,
    ".outbox/0123456789abcdef0123456789abcdef.delivered": lambda home: Locks(home).delivered(),
    "inbox/1.ack.node5.17-1.json": inbox.take,
    "inbox/run-17.beat.node5.17.json": lambda home: [*left(str(home.inbox), "run-17", ME, "beat")],
    "inbox/run-17.sample.node5.17.json": lambda home: sweep(str(home.inbox), "run-17", "", 0.0),
    "inbox/run-17.stacks.node5.17.txt": lambda home: stack_collection.ask(str(home.path), "run-17", 0.3),
    "logs/link.log": link_script.prepare_log,
    "logs/crash.log": lambda home: crash_log.record(ValueError("ours"), ["--home", str(home.path)]),
    ".taken.json": inbox_reader.stored,
    "answers.json": answers,
    "nodes/node5@run-17": lambda home: [each.as_json() for each in suspect_nodes.listed(home)],
}
"""What may be a pipe, a device or a folder, and is to be read in bounded time all the same."""
TEXTS: dict[str, Callable[[Home], object]] = {
    **READERS,
    "export": lambda home: [*store._Rows((home.path / "export").read_text().splitlines())],
}
"""Likewise, and what a person names, who may name a pipe."""
KEYS = (
    "alive", "at", "by", "by_hand", "begins", "channel", "disks", "duration", "gpus", "holder", "host", "id",
    "incident", "incidents", "inbox", "job", "key", "kill_switch", "kind", "last_round", "link", "losses",
    "memory", "memory_free", "mode", "name", "node", "node_disks", "options", "partly", "pid", "polls",
    "reason", "receipt", "rows", "run", "runs", "save_switch", "seconds", "serial", "since", "start", "step",
    "switch", "table", "target", "text", "time", "until", "user", "verb", "version", "watchdogd",
)  # fmt: skip
"""Of all files that watchdogd itself reads again."""
ODD: tuple[object, ...] = (
    None, True, [], {}, "", "x", "\ud800", "\0", "node5", "run-17", 0, -1, 7, 0.5, 10**20, 10**400, -1e300,
    1e300, float("nan"), float("inf"), [None], [[]], {"a": []}, "9" * 5000, ["/"], {"time": "x"},
)  # fmt: skip
BROKEN = ("", "\0", "[" * 9000, '{"a":' * 9000, "{", "null", "7", '"x"', "[1,", "\ufeff{}", "NaN", "9" * 5000)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READERS)
def test_no_reader_waits(made: Home, name: str, kind: str) -> None:
    planted(made, name, kind)
    with deadline(f"{name}, a {kind}"), suppress(WatchdogError, OSError):
        READERS[name](made)


@pytest.mark.parametrize("name", TEXTS)
def test_no_reader_is_surprised(made: Home, name: str) -> None:
    """Whatever stands there: no text, or JSON of wrong types and of numbers that cannot be."""
    chance = random.Random(name)
    objects = ({key: chance.choice(ODD) for key in chance.sample(KEYS, 40)} for _ in range(30))
    (made.path / name).parent.mkdir(exist_ok=True)
    for text in (*BROKEN, *map(json.dumps, objects)):
        (made.path / name).write_text(text)
        with suppress(WatchdogError, OSError):
            TEXTS[name](made)
        with suppress(ValueError):  # what a Guard says of it
            training._manifest("run-17", str(made.path))


def test_a_status_log_goes_where_its_owner_led_it_and_nowhere_else(made: Home, tmp_path: Path) -> None:
    """A colleague who may write the folder of a pulse could else have lines written into any file of ours."""
    folder, mine = tmp_path / "shared", tmp_path / "mine"
    folder.mkdir()
    mine.write_text("")
    link = folder / "pulse.log"
    link.symlink_to("../mine")
    append(str(link), "ours", made)
    assert mine.read_text() == "ours\n"
    os.chown(link, 54321, 54321, follow_symlinks=False)
    with pytest.raises(PermissionError, match="somebody else's link"):
        append(str(link), "theirs", made)
    assert mine.read_text() == "ours\n"


def test_a_configuration_nested_without_end_is_none(made: Home) -> None:
    for path in (made.config, made.good_config):
        path.write_text("a = " + "[" * 9000)
    assert last_good_config.tables(made) is None


@pytest.mark.attack("forge a lease")
def test_a_lease_that_nobody_could_have_made_is_nobodys(made: Home) -> None:
    folder = made.path / ".lease"
    folder.mkdir()
    here = lease_record.record_text(lease_record.myself())
    for name, text, age in (
        ("0000000001", "{", 0),
        ("9" * 30, here, 0),
        ("\u0661\u0662", here, 0),
        ("0000000003", here.replace(str(os.getpid()), "9" * 40), 0),
        ("0000000004", here.replace('"node": "', '"node": "another '), -10 * 365 * 86400),
    ):
        (folder / name).write_text(text)
        when = time.time() - age
        os.utime(folder / name, (when, when))
        assert lease.alive(made) is None, name
        (folder / name).unlink()
    (folder / "0000000005").write_text(here)
    assert lease.alive(made) is not None


@pytest.mark.parametrize(
    "text", ["[1e999]", "[NaN]", "[-1e999, 4e9]", f"[{'9' * 500}]", f"[{'9' * 5000}]", "{}"]
)
def test_ticks_that_nobody_could_have_made_are_none(made: Home, text: str) -> None:
    (made.path / ".ticks").write_text(text)
    assert markers.last_ticks(made) == ()
    assert not status.read(made)["alive"]
