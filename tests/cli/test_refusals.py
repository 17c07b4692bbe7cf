"""What the verbs refuse or warn of before anything runs, each in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.history.values import NOW
from tests.lab import accounts
from tests.lab.dog import Dog
from tests.lab.processes import started
from tests.waiting import wait_until
from watchdogd.history.models import Record
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.incidents.models import Observation
from watchdogd.plugin import Metric, Result, Status


@pytest.fixture
def dog(tmp_path: Path) -> Dog:
    dog = Dog(tmp_path / "home")
    assert dog("init").returncode == 0
    return dog


def test_a_broken_configuration_is_refused_by_config_and_start_alike(dog: Dog) -> None:
    (dog.home / "config.toml").write_text('[slurm]\ntime = "bla"\n')
    for words in (("config",), ("start", "--local"), ("run",), ("tick",)):
        done = dog(*words)
        assert done.returncode == 78
        assert "slurm.time: 'bla' is no walltime" in done.stderr
        assert done.stderr.count("\n") == 1


def test_ticks_go_on_without_a_plugin_that_was_removed_and_tell_it(dog: Dog) -> None:
    (dog.home / "config.toml").write_text(
        '[daemon]\nconfirm = 1\n[channels.out]\ntype = "statuslog"\npath = "alerts.log"\n'
        "[checks.mine]\n[checks.home]\nplugin = 'disk_quota'\npath = '/'\nquota = 'statvfs'\n"
    )
    plugin, log = dog.home / "plugins" / "mine.py", dog.home / "alerts.log"
    text = "from watchdogd.plugin import check, {0}\n@check(every='1s')\ndef mine():\n    return {0}('so')\n"
    plugin.write_text(text.format("critical"))
    assert dog("tick").returncode == 0
    assert "[CRITICAL] mine: so" in log.read_text()
    plugin.unlink()
    done = dog("tick")
    assert done.returncode == 78
    assert done.stderr.count("\n") == 1
    assert "checks.mine: there is no plugin 'mine'" in done.stderr
    assert "checks.mine: there is no plugin 'mine'" in log.read_text()
    assert "mine" in {each["check"] for each in json.loads(dog("status", "--json").stdout)["incidents"]}
    plugin.write_text(text.format("ok"))
    assert dog("tick").returncode == 0
    assert "[RESOLVED] mine: OK again after " in log.read_text()
    assert log.read_text().count("[CRITICAL] mine") == 1


def test_ticks_go_on_by_the_other_channels_where_a_secret_is_gone(dog: Dog) -> None:
    (dog.home / "config.toml").write_text(
        '[daemon]\nconfirm = 1\n[channels.hook]\ntype = "webhook"\nurl = "file:hook"\n'
        '[channels.out]\ntype = "statuslog"\npath = "alerts.log"\n'
        "[disks.gone]\npath = '/nowhere/at/all'\nquota = 'statvfs'\n"
    )
    done = dog("tick")
    assert done.returncode == 78
    assert done.stderr.count("\n") == 1
    assert "channels.hook" in done.stderr
    log = (dog.home / "alerts.log").read_text()
    assert "] gone: " in log
    assert "channels.hook" in log


def test_start_warns_where_nobody_is_told_and_where_others_can_read_a_secret(dog: Dog) -> None:
    hook = dog.home / "hook"
    hook.write_text("http://127.0.0.1:1/very-secret\n")
    hook.chmod(0o644)
    (dog.home / "config.toml").write_text(
        '[alerts]\nchannels = []\n[channels.hook]\ntype = "webhook"\nurl = "file:hook"\n'
    )
    dog.env["PATH"] = str(Path(sys.executable).parent)  # a machine without Slurm
    try:
        done = dog("start", "--local")
        assert done.returncode == 0, done.stderr
        assert "warning: no channel is configured: nobody is told" in done.stderr
        assert f"channels.hook.url: secret file {hook} can be read by everybody: chmod 600" in done.stderr
        assert "very-secret" not in done.stderr + done.stdout
    finally:
        assert dog("stop").returncode == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "shall hold the secret alone, on one line"),
        (b"https://a.example/x\nX-Head: y\n", "shall hold the secret alone, on one line"),
        (b"\xff\xfe", "holds no text"),
        (b"hush-hush", "channels.hook: "),
    ],
)
def test_start_refuses_a_secret_that_is_none_and_does_not_show_it(dog: Dog, text: bytes, says: str) -> None:
    (dog.home / "hook").write_bytes(text)
    (dog.home / "config.toml").write_text('[channels.hook]\ntype = "webhook"\nurl = "file:hook"\n')
    done = dog("start", "--local")
    assert done.returncode == 1
    assert says in done.stderr
    assert "hush" not in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("verb", "option"),
    [
        ("history", "--since"),
        ("silence run-17 --reason x", "--for"),
        ("stacks 1", "--deadline"),
        ("status --watch", "--every"),
    ],
)
def test_a_duration_that_cannot_be_read_is_told_with_its_option(dog: Dog, verb: str, option: str) -> None:
    done = dog(*verb.split(), option, "soon")
    assert done.returncode == 64
    assert f"{verb.split()[0]}: {option}: 'soon' is no duration" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.root
def test_init_for_a_group_says_who_may(tmp_path: Path) -> None:
    accounts.ensure()
    place = Path(f"/tmp/watchdogd-init-{os.getpid()}")
    command = [sys.executable, "-m", "watchdogd", "--home", str(place), "init", "--group"]

    def init(group: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["setpriv", "--reuid=alice", "--regid=alice", "--init-groups", *command, group],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )

    try:
        for group, says in (
            ("root", "you are no member of group 'root': name one of your own (alice, six)"),
            ("sixx", "there is no Unix group 'sixx' on this machine; did you mean 'six'?"),
        ):
            done = init(group)
            assert (done.returncode, done.stderr) == (64, f"watchdogd: init: {says}\n")
            assert not place.exists()
        assert init("six").returncode == 0
        modes = {path: path.stat().st_mode & 0o7777 for path in (place, *place.iterdir())}
        assert modes.pop(place / "inbox") == 0o3770  # nobody moves what another one handed in
        assert {mode for path, mode in modes.items() if path.is_dir()} == {0o2770}
        assert {mode for path, mode in modes.items() if path.is_file()} == {0o660}
    finally:
        subprocess.run(["rm", "-rf", str(place)], check=True)


@pytest.mark.parametrize("verb", ["status", "config", "plugins", "status --json", "--help"])
def test_a_reader_who_has_gone_is_no_error(dog: Dog, verb: str) -> None:
    """As in `watchdogd status | head -1`, with a reader that has gone before the first line."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "watchdogd", *verb.split()],
        env=dog.env,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("words", [["export"], ["export", "--csv"]])
def test_a_reader_who_leaves_an_export_is_no_fault_of_the_history(dog: Dog, words: list[str]) -> None:
    """As in `watchdogd export | head -1`, with more than the pipe holds."""
    metrics = {f"number {each}": Metric(each) for each in range(400)}
    seen = Observation("run-17/x", "run-17", "x", Result(Status.OK, "fine", metrics), 1.0)
    store = Store.open("sqlite:///history.db", Home.existing(str(dog.home)))
    for second in range(20):
        at = NOW + second
        store.record(Record(at, (replace(seen, at=at),)))
    store.close()
    with started(
        [sys.executable, "-m", "watchdogd", *words],
        env=dog.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(240)) == (b"", 141)


def test_a_plugin_that_is_refused_is_in_the_log_and_told_once(dog: Dog) -> None:
    (dog.home / "config.toml").write_text(
        '[daemon]\ninterval = "1s"\nname = "bloom-watch"\n'
        '[channels.log]\ntype = "statuslog"\npath = "alerts.log"\n'
    )
    plugin = dog.home / "plugins" / "queue.py"
    plugin.write_text("from watchdogd.plugin import check, ok\n@check\ndef queue():\n    return ok('x')\n")
    plugin.chmod(0o666)
    daemon = subprocess.Popen([sys.executable, "-m", "watchdogd", "run"], env=dog.env, stdout=subprocess.PIPE)
    try:
        wait_until(lambda: "[WARNING] bloom-watch" in dog.alerts(), 60, "it is told")
        told = "plugin queue is not used: it can be written by everybody"
        assert f"[WARNING] bloom-watch: {told}\n" in dog.alerts()
        wait_until(lambda: dog.json("incidents"), 30, "it is recorded")
        assert dog.json("incidents")[0]["summary"] == told
        log = dog.home / "logs" / "daemon.log"
        wait_until(lambda: told in log.read_text(), 30, "it is in the log")
        plugin.chmod(0o600)
        wait_until(lambda: "[RESOLVED] bloom-watch" in dog.alerts(), 60, "mended, it is told")
        assert dog.alerts().count("[WARNING] bloom-watch") == 1
        assert log.read_text().count(told) == 1
    finally:
        daemon.terminate()
        daemon.communicate(timeout=240)
