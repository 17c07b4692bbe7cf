"""What another user of the machine tries, with a real account: bob against alice, who watches a training."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess

import pytest

from tests.lab.machine import Machine
from tests.lab.people import Words

pytestmark = pytest.mark.xdist_group("machine")  # one for all of them
PRECIOUS = "a9key-of-alice-alone"
TOKEN = "a9token-of-her-webhook"
CONFIG = """
[daemon]
interval = "1s"
confirm = 1
[report]
path = "{shared}/page.html"
[prometheus]
textfile = "{shared}/watchdogd.prom"
[channels.book]
type = "statuslog"
path = "{shared}/alerts.log"
[channels.hook]
type = "webhook"
url = "env:HOOK"
[alerts]
channels = ["book"]
[disks.scratch]
path = "{shared}"
quota = "statvfs"
crit_free = "900PB"
[runs.run-17]
backend = "process"
pid_file = "{shared}/pid"
log = "{shared}/train.log"
checkpoints = "{shared}/ckpt/*"
kill_switch = "{shared}/kill"
save_switch = "{shared}/save"
"""
SOCKET = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"{}\")'"
LOOK = ("tick", "report", "status", "incidents")


class Alice:
    """Her watchdogd on a home of her own, beside a folder for which `mode` says what bob may do there."""

    def __init__(self, machine: Machine, mode: int) -> None:
        self.machine = machine
        self.home = machine.new_folder() / "home"
        self.home.parent.chmod(0o755)
        shutil.chown(self.home.parent, "alice")
        self.shared = self.home.parent / "shared"
        assert self.say("init").returncode == 0
        self.sh("alice", f"mkdir -m {mode:o} {self.shared}; echo {PRECIOUS} > precious; chmod 600 precious")
        self.precious = machine.home("alice") / "precious"
        (self.home / "config.toml").write_text(CONFIG.format(shared=self.shared))

    def say(self, words: str, user: str = "alice") -> subprocess.CompletedProcess[str]:
        """A verb on her home, which says nothing of itself that is broken."""
        argv: Words = [self.machine.typed, "--home", self.home, *words.split()]
        done = self.machine.run_as(user, argv, env={"HOOK": f"http://127.0.0.1:9/{TOKEN}"})
        assert "internal error" not in done.stdout + done.stderr, done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
        return done

    def sh(self, user: str, script: str) -> subprocess.CompletedProcess[str]:
        """A script in the shared folder, or in the user's home before there is one."""
        return self.machine.run_as(
            user, ["bash", "-c", script], cwd=self.shared if self.shared.exists() else None
        )

    def told(self) -> str:
        """All that leaves her home: what verbs say, and the files that others may read."""
        said = [done.stdout + done.stderr for done in map(self.say, LOOK)]
        files = ("page.html", "watchdogd.prom", "alerts.log")
        kept = [
            path.read_text()
            for path in map(self.shared.joinpath, files)
            if path.is_file() and not path.is_symlink()
        ]
        return "\n".join(said + kept)


@pytest.fixture
def open_folder(machine: Machine) -> Alice:
    """Everybody may do everything in the folder of her training."""
    return Alice(machine, 0o777)


@pytest.fixture
def sticky(machine: Machine) -> Alice:
    """Everybody may put something into the folder, as into /tmp."""
    return Alice(machine, 0o1777)


@pytest.mark.attack("read home, or what the daemon was started with")
def test_reads(sticky: Alice) -> None:
    env = {"HOOK": f"http://127.0.0.1:9/{TOKEN}"}
    argv: Words = [sticky.machine.watchdogd, "--home", sticky.home, "start", "--local"]
    assert sticky.machine.run_as("alice", argv, env=env).returncode == 0
    try:
        pid = re.findall(r"process (\d+)", sticky.say("status").stdout)[0]
        found = sticky.sh(
            "bob",
            f"find {sticky.home} -type f -readable; cat {sticky.home}/status.json; ls {sticky.home}/inbox",
        )
        assert (found.stdout, found.returncode) == ("", 2)
        found = sticky.sh("bob", f"ps -eo args; cat /proc/[0-9]*/cmdline /proc/{pid}/environ")
        assert TOKEN not in found.stdout
        assert "watchdogd" in found.stdout
        assert "Permission denied" in found.stderr
        readable = sticky.sh("bob", "cat *").stdout
        assert TOKEN not in readable
    finally:
        sticky.machine.run_as("alice", [sticky.machine.watchdogd, "--home", sticky.home, "stop"])


@pytest.mark.attack("put a link where watchdogd writes")
@pytest.mark.parametrize("folder", ["open_folder", "sticky"])
def test_links(folder: str, request: pytest.FixtureRequest) -> None:
    alice: Alice = request.getfixturevalue(folder)
    for name in ("page.html", "watchdogd.prom", "kill", "save", "pid", "train.log"):
        assert alice.sh("bob", f"ln -s {alice.precious} {name}").returncode == 0
    assert PRECIOUS not in alice.told()
    alice.sh("bob", f"ln -s {alice.precious} mine; mv -f mine alerts.log; ln -s {alice.precious} alerts.log")
    for words in ("notify --test", "kill-switch run-17", "save-switch run-17", "kill-switch run-17 --clear"):
        alice.say(words)
    assert alice.precious.read_text() == f"{PRECIOUS}\n"


@pytest.mark.attack("have it read a file of its user's by a link")
@pytest.mark.parametrize("path", ["train.log", "logs/train.log"])
def test_leads_astray(open_folder: Alice, path: str) -> None:
    alice = open_folder
    config = alice.home / "config.toml"
    config.write_text(config.read_text().replace("/train.log", f"/{path}"))
    alice.sh("alice", "umask 0; mkdir ckpt logs; echo 'iteration 1' > logs/train.log; cp logs/train.log .")
    alice.sh("alice", "mkdir ~/logs; cp ~/precious ~/logs/train.log")
    private = alice.precious.parent / "logs"
    for trick in (
        f"ln -sf {alice.precious} {path}",
        f"mv logs away; ln -s {private} .; ln -sf logs/train.log .",
    ):
        alice.sh("bob", f"{trick}; ln -sf {alice.precious} pid; ln -sf {alice.precious} ckpt/latest")
        assert alice.sh("alice", f"cat {path}").stdout == f"{PRECIOUS}\n"
        assert PRECIOUS not in alice.told()
    kept = [path.read_text(errors="replace") for path in alice.home.rglob("*") if path.is_file()]
    assert PRECIOUS not in "".join(kept)


@pytest.mark.attack("put a pipe, socket, folder or endless file where watchdogd reads")
def test_pipes(open_folder: Alice) -> None:
    """Each verb ends within the 60 s of `run_as`, and each check within its own time."""
    alice = open_folder
    names = ("train.log", "pid", "ckpt/latest", "kill", "save", "page.html", "watchdogd.prom")
    alice.sh("bob", "mkdir -p ckpt/step-1")
    for make in ("mkfifo {}", "mkdir {}", "truncate -s 8T {}", SOCKET):
        for name in names:
            assert alice.sh("bob", f"rm -rf {name}; {make.format(name)}").returncode == 0
        results = json.loads(alice.say("check --json").stdout)
        assert [each for each in results if "deadline" in each["summary"]] == []
        assert alice.say("report").returncode in (0, 1)
        assert alice.say("kill-switch run-17").returncode in (0, 1)


@pytest.mark.attack("replace a file between look and use")
def test_races(open_folder: Alice) -> None:
    alice = open_folder
    tricks = (f"ln -sfn {alice.precious} new", "mkfifo new", "echo 'iteration 1' > new")
    swap = "".join(f"{each}; mv -fT new train.log; " for each in tricks)
    script = f"cd {alice.shared}; while :; do {swap} done"
    swapping = alice.machine.popen_as("bob", ["bash", "-c", script])
    try:
        for _ in range(4):
            done = alice.say("check run-17/log_staleness")
            assert PRECIOUS not in done.stdout + done.stderr
        assert swapping.poll() is None
    finally:
        swapping.kill()  # by itself it would take a processor until the machine ends
        swapping.wait(60)


@pytest.mark.attack("give files names of every character")
def test_names(open_folder: Alice) -> None:
    alice = open_folder
    names = """
import os
for number in range(1, 256):
    if number != 47:
        for folder, name in ((b"ckpt", b"step-%d" % number), (b"logs", b"train.log")):
            os.makedirs(folder, exist_ok=True)
            open(folder + b"/" + bytes([number]) + name, "wb").write(b"iteration 1" + bytes([number]))
open(b"ckpt/\\x1b[31m\\n$(touch gone)\\xff step-900", "wb").write(b"x")
"""
    assert alice.machine.run_as("bob", ["python3", "-c", names], cwd=alice.shared).returncode == 0
    config = alice.home / "config.toml"
    config.write_text(config.read_text().replace("/train.log", "/logs/*"))
    told = alice.told()
    assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", told) == []
    assert not [*alice.shared.rglob("gone")]


@pytest.mark.attack("guess the page's token, ask by another host's name, or from another page")
def test_page(sticky: Alice) -> None:
    process = sticky.machine.popen_as(
        "alice", [sticky.machine.watchdogd, "--home", sticky.home, "web", "--port", "0"]
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    host, _, token = address.removeprefix("http://").partition("/?token=")
    port = int(host.partition(":")[2])

    def asked(request: str) -> str:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as wire:
            wire.sendall(request.replace("\n", "\r\n").encode() + b"\r\n\r\n")
            return wire.recv(200).decode().partition("\r\n")[0]

    assert TOKEN not in address
    assert sticky.sh("bob", f"cat {sticky.home}/.web-token").returncode == 1
    assert token not in sticky.sh("bob", "ps -eo args").stdout
    assert len(token) >= 32
    for given in (
        "",
        "/?token=",
        "/?token=1",
        f"/?token={token[:-1]}",
        f"/?token={token[:-1]}%00",
        "/metrics",
    ):
        assert " 401 " in asked(f"GET {given or '/'} HTTP/1.1\nHost: {host}"), given
    for name in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "", "[::1]"):
        assert " 403 " in asked(f"GET /?token={token} HTTP/1.1\nHost: {name}"), name
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert " 501 " in asked(
            f"{method} /?token={token} HTTP/1.1\nHost: {host}\nOrigin: https://evil.example"
        )
    assert " 303 " in asked(f"GET /?token={token} HTTP/1.1\nHost: {host}")


@pytest.mark.attack("put code where watchdogd would run it")
def test_code(sticky: Alice) -> None:
    ran = sticky.shared / "ran"
    for place in ("plugins", "cron.hourly"):
        folder = sticky.home / place
        sticky.sh("alice", f"chmod 711 {sticky.home}; chmod 777 {folder}")
        script, module = f"#!/bin/sh\\ntouch {ran}\\n", f"open('{ran}', 'w')"
        sticky.sh(
            "bob", f"cd {folder}; printf '{script}' > mine; chmod 755 mine; echo \"{module}\" > mine.py"
        )
        said = sticky.say("tick").stderr + sticky.say("check").stdout + sticky.say("plugins").stdout
        assert "chmod o-w" in said or "belongs to" in said, said
        sticky.sh("alice", f"chmod 755 {folder}; chmod 700 {sticky.home}")
        said = sticky.say("tick").stderr + sticky.say("check").stdout
    assert not ran.exists()
