"""Odd surroundings: time zones and locales that do not exist, no HOME, no name, no stdout, tiny limits."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.faults.rig import CONFIG, Rig
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.servers.web import WebServer

ODD = {
    "TZ": "Nowhere/Bad",
    "LC_ALL": "xx_XX.broken",
    "LANG": "tr_TR",
    "TMPDIR": "/nowhere/at/all",
    "PYTHONIOENCODING": "ascii",
}
NOBODY = ("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups")
READING = ("--inh-caps=+dac_override,+dac_read_search", "--ambient-caps=+dac_override,+dac_read_search")
CLOSED = ("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")


@pytest.fixture
def place() -> Iterator[Path]:
    """Where any user gets."""
    with tempfile.TemporaryDirectory(prefix="watchdogd-surroundings-") as folder:
        yield Path(folder)


def run(home: Path, verb: str, prefix: Sequence[str] = (), **env: str) -> subprocess.CompletedProcess[str]:
    words = [*prefix, sys.executable, "-m", "watchdogd", "--home", str(home), *verb.split()]
    given = {"PATH": os.environ["PATH"], **env}
    return subprocess.run(words, env=given, capture_output=True, text=True, check=False)


def test_a_daemon_in_an_odd_locale_and_time_zone_without_its_streams(
    tmp_path: Path, endpoint: WebServer
) -> None:
    rig = Rig(tmp_path / "home", tmp_path, endpoint)
    rig.env = {name: rig.env[name] for name in ("WATCHDOGD_HOME", "PATH", "NO_PROXY")} | ODD
    rig.wrap(CLOSED)
    rig.start()
    try:
        rig.pull()
        taken = {number: os.readlink(f"/proc/{rig.daemon.pid}/fd/{number}") for number in range(3)}
        assert taken == dict.fromkeys(range(3), "/dev/null")
        assert not list((rig.home / "logs").glob("crash.log"))
    finally:
        rig.end()


UNPOLLED = "watchdogd: no Guard of r was heard of: nothing stops for it but what runs under watchdogd guard\n"


def _processes_of(user: int) -> list[int]:
    return [each.pid for each in psutil.process_iter(["uids"]) if user in (each.info["uids"] or ())]


@pytest.mark.root
def test_a_user_without_name_and_home(place: Path) -> None:
    """As in a container that knows nobody, or where the name service is away."""
    os.chown(place, 54321, 54321)
    home, who = place / "home", (*NOBODY, *READING)
    assert run(home, "init", who).returncode == 0
    (home / "config.toml").write_text(
        CONFIG.format(url="file:~/secret")
        + f'[runs.r]\npid_file = "/nowhere"\nkill_switch = "{place}/kill"\n'
    )
    done = run(home, "tick", who)
    assert (done.returncode, done.stderr) == (
        78,
        f"watchdogd: {home}/config.toml: channels.hook.url: '~/secret': HOME is not set, and this machine "
        "knows no folder of this user: write the path out\n",
    )
    (home / "config.toml").write_text(f'[runs.r]\npid_file = "/nowhere"\nkill_switch = "{place}/kill"\n')
    for verb in ("tick", "check", "kill-switch r"):
        done = run(home, verb, who)
        assert (done.returncode, done.stderr) == (0, UNPOLLED if verb == "kill-switch r" else ""), verb
    nowhere = subprocess.run([*who, sys.executable, "-m", "watchdogd", "status"], env={}, capture_output=True)
    assert nowhere.stderr.startswith(b"watchdogd: HOME is not set"), nowhere.stderr
    wait_until(lambda: not _processes_of(54321), 60, "what the verbs started is gone: it would count")
    done = run(home, "run", ("prlimit", "--nproc=1", *who))
    assert done.returncode == 70
    assert done.stderr.startswith("watchdogd: no log can be kept: this user has too many processes here, or ")
    assert done.stderr.count("\n") == 1


def test_verbs_without_stdout_say_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for verb, code in (("init", 0), ("check", 0), ("status", 3), ("plugins", 0)):
        assert run(home, verb, CLOSED).returncode == code, verb
    assert not list((home / "logs").glob("crash.log"))


def test_a_kill_switch_works_where_no_file_may_have_a_length(tmp_path: Path) -> None:
    home, switch = tmp_path / "home", tmp_path / "kill"
    assert run(home, "init").returncode == 0
    (home / "config.toml").write_text(f'[runs.r]\npid_file = "/nowhere"\nkill_switch = "{switch}"\n')
    for verb, code, lines in (("kill-switch r", 0, 1), ("status", 3, 0), ("run", 1, 1)):
        done = run(home, verb, ("prlimit", "--fsize=0"))
        assert (done.returncode, done.stderr.count("\n")) == (code, lines), done.stderr
    assert switch.stat().st_size == 0
