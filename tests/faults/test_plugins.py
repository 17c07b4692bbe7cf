"""Plugins and drop-ins that misbehave, all at once, under one daemon: each is told, and so is all else."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from tests.faults.rig import Rig
from tests.servers.web import WebServer
from tests.waiting import wait_until

CHILD = "31415"
"""Seconds for which children are to sleep: by this they are known."""
PLUGINS = f"""
import ctypes, os, signal, subprocess, sys, time
from watchdogd.plugin import check, critical, ok
@check
def loops():
    while True: pass
@check
def ignores_sigterm():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True: time.sleep(1)
@check
def bombs():
    for _ in range(60): subprocess.Popen(["sleep", "{CHILD}"])
    while True: time.sleep(1)
@check
def floods():
    for _ in range(1000): os.write(1, b"noise" * 200_000)
    print("noise", file=sys.stderr, flush=True)
    return critical("f" * 10**6, details="g" * 10**7)
@check
def says_nothing(): return None
@check
def says_bytes(): return critical("caf\\udce9 \\x1b[31m\\x00 told", details=b"\\xff".decode("latin1"))
@check
def segfaults(): ctypes.string_at(0)
@check
def exits(): sys.exit(0)
@check
def eats():
    hoard = []
    while True: hoard.append(bytearray(b"x" * 2**26))
@check
def leaves_children():
    subprocess.Popen(["sleep", "{CHILD}"], close_fds=False)
    if os.fork() == 0: time.sleep({CHILD})
    return critical("left a child")
@check
def wanders():
    os.chdir("/"); os.umask(0); os.environ.clear(); sys.path.clear()
    os.kill(os.getppid(), 0)
    return critical("went away")
"""
SAID = {
    "loops": "did not answer within 4 s",
    "ignores_sigterm": "did not answer within 4 s",
    "bombs": "did not answer within 4 s",
    "floods": "fffff",
    "says_nothing": "no result",
    "says_bytes": "told",
    "segfaults": "killed by SIGSEGV",
    "exits": "SystemExit",
    "eats": "MemoryError",
    "leaves_children": "left a child",
    "wanders": "went away",
}
"""What is told of each."""
TAKES_A_NAME = """
from watchdogd.plugin import check, ok
@check
def disk_quota(path: str = ""): return ok("never looked")
"""
DROPINS = {
    "loop": ("while :; do :; done", "did not end within"),
    "deaf": ("trap '' TERM; while :; do sleep 1; done", "did not end within"),
    "flood": ("head -c 1000000000 /dev/zero | tr '\\0' x; exit 2", ""),
    "silent": ("exit 2", "exit code 2"),
    "bytes": (r"printf 'caf\351 \033[31m told'; exit 2", "told"),
    "crash": ("kill -SEGV $$", "SIGSEGV"),
    "pipes": (f"sleep {CHILD} & echo left a child; exit 2", "left a child"),
    "odd": ("echo all is lost; exit 77", "77"),
}
"""Text of each, and what is told of it; a gigabyte is read to its end, or to the deadline."""


def children() -> list[int]:
    """Processes that a plugin or drop-in of this test left behind."""
    return [each.pid for each in psutil.process_iter(["cmdline"]) if CHILD in (each.info["cmdline"] or ())]


@pytest.mark.attack("hang, loop, crash, print or allocate without end")
def test_all_at_once(tmp_path: Path, endpoint: WebServer) -> None:
    checks = "".join(
        f'[checks.{name}]\nplugin = "{name}"\nevery = "1h"\ntimeout = "{4 if "4 s" in words else 60}s"\n'
        for name, words in SAID.items()
    )
    rig = Rig(tmp_path / "home", tmp_path, endpoint, more=checks)
    config = rig.home / "config.toml"
    config.write_text(config.read_text().replace("[daemon]", '[daemon]\ndropin_timeout = "10s"'))
    (rig.home / "plugins" / "bad.py").write_text(PLUGINS)
    (rig.home / "plugins" / "disk_quota.py").write_text(TAKES_A_NAME)
    for name, (text, _) in DROPINS.items():
        path = rig.home / "cron.hourly" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o700)
    rig.start()
    try:
        rig.pull()
        for name, words in SAID.items():
            rig.wait_told(f"] {name}: ", words)
        for name, (_, words) in DROPINS.items():
            rig.wait_told(f"] cron.hourly/{name}: ", words)
        rig.wait_told("bloom-watch", "disk_quota", "not used")
        rig.pull()
        wait_until(lambda: not children(), 90, "no child is left", every=0.5)
        wait_until(lambda: rig.recorded() == rig.pulled, 60, "all is recorded", every=0.5)
        wait_until(lambda: len(rig.family) <= 3, 60, "no worker is left but those kept warm", every=0.5)
        assert "noise" not in rig.output
        known = {each["check"] for each in json.loads(rig.verb("incidents", "--json").stdout)}
        assert known >= {*SAID, *(f"cron.hourly/{name}" for name in DROPINS)}
    finally:
        rig.end()
