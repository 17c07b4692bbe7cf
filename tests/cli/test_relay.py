"""relay and outbox: what one machine cannot deliver another does, each message once, daemon or none."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.history.values import new_home, notification, opened
from tests.servers.web import Answer, Request, WebServer
from tests.waiting import wait_until
from watchdogd import cli
from watchdogd.history.models import Record
from watchdogd.notify.delivery_plan import Delivered
from watchdogd.notify.locks import ChannelLock, Locks

DEAD_PROXY = {"http_proxy": "http://127.0.0.1:9", "no_proxy": "", "NO_PROXY": ""}
"""A proxy that nobody runs: what a compute node without a route looks like to requests."""


class Site:
    """A home with one webhook; commands run with a way out, or without."""

    def __init__(self, folder: Path, endpoint: WebServer, extra: str = "") -> None:
        self.home, self.endpoint = new_home(folder), endpoint
        self.home.write(
            self.home.config,
            f"""
            [daemon]
            interval = "1s"
            confirm = 1
            [channels.hook]
            type = "webhook"
            url = "{endpoint.url}"
            rate = "none"
            {extra}
            [disks.scratch]
            path = "{folder}"
            warn_free = "1kB"
            crit_free = "1B"
            [checks.flag]
            plugin = "flag"
            """,
        )
        self.flag = folder / "flag"
        plugin = (
            "import os\nfrom watchdogd.plugin import check, critical, ok\n\n@check\ndef flag():\n"
            f"    return critical('it is red') if os.path.exists({str(self.flag)!r}) else ok('it is green')\n"
        )
        self.home.write(self.home.plugins / "flag.py", plugin)

    def start(self, *words: str, way_out: bool = True) -> subprocess.Popen[str]:
        env = {**os.environ, "WATCHDOGD_HOME": str(self.home.path)}
        env |= {} if way_out else DEAD_PROXY
        return subprocess.Popen(
            [sys.executable, "-m", "watchdogd", *words],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, way_out: bool = True) -> subprocess.CompletedProcess[str]:
        """A command to its end: in this process, since starting one costs more than all that it does."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name, value in ({} if way_out else DEAD_PROXY).items():
                patch.setenv(name, value)
            code = cli.main(["--home", str(self.home.path), *words])
        assert "Traceback" not in out.getvalue() + err.getvalue()
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def rounds(self, count: int) -> None:
        """The daemon judges so many rounds more."""
        seen: set[str] = set()

        def over() -> bool:
            seen.add(json.loads(self.home.status.read_text())["last_round"])
            return len(seen) > count

        wait_until(over, 120, f"{count} rounds are over")

    def store(self, *keys: str) -> None:
        """Messages that wait, as a daemon left them that is gone."""
        store = opened(self.home)
        at = time.time()
        store.record(
            Record(at, notifications=tuple(notification(key, channel="hook", created_at=at) for key in keys))
        )
        store.close()

    def states(self) -> dict[str, str]:
        store = opened(self.home, owner=False)
        found = {each.key: each.state for each in store.notifications()}
        store.close()
        return found

    def outbox(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.run("outbox", "--json").stdout)
        return found

    def arrived(self) -> Counter[str]:
        return Counter(request.json()["key"] for request in self.endpoint.requests)

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.arrived()) >= count, 120, f"{count} messages arrived")

    def left(self) -> list[Delivered]:
        """What was delivered and no daemon has stored yet."""
        return Locks(self.home).delivered()


def _slowly(_request: Request) -> Answer:
    time.sleep(0.02)
    return Answer()


@pytest.fixture
def site(tmp_path: Path, endpoint: WebServer) -> Site:
    return Site(tmp_path, endpoint)


def test_what_a_dead_daemon_left_is_delivered_once_and_the_next_daemon_knows(site: Site) -> None:
    site.store("a@hook", "b@hook")
    assert [each["key"] for each in site.outbox()] == ["a@hook", "b@hook"]
    assert "waiting" in site.run("outbox").stdout
    done = site.run("relay")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("hook: delivered: [CRITICAL] run-17: no line for 31m") == 2
    assert site.run("outbox").stdout == "everything is delivered\n"
    assert site.run("relay").stdout == ""
    assert site.run("tick").returncode == 0
    assert site.arrived() == {"a@hook": 1, "b@hook": 1}
    assert set(site.states().values()) == {"sent"}
    assert site.left() == []


def test_a_relay_that_cannot_record_what_it_delivered_says_so_and_does_not_deliver_more(site: Site) -> None:
    site.store("a@hook", "b@hook")

    def planted(_request: Request) -> Answer:
        ChannelLock(Locks(site.home), "hook")._log.mkdir()
        return Answer()

    site.endpoint.behave(planted)
    done = site.run("relay", "--patience", "1s")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "watchdogd: home cannot be written, so messages that were delivered may come again: 1"
    )
    assert site.arrived() == {"a@hook": 1}


def test_beside_a_living_daemon_without_a_way_out_each_message_comes_once(site: Site) -> None:
    daemon = site.start("run", way_out=False)
    relay = site.start("relay", "--follow", "--every", "0.3s")
    try:
        wait_until(lambda: site.home.status.exists(), 120, "the daemon's first round")
        for turn in range(2):
            site.flag.touch()
            site.wait_for(2 * turn + 1)
            if turn == 0:
                relay.kill()
                relay.communicate(timeout=240)
                relay = site.start("relay", "--follow", "--every", "0.3s")
            site.flag.unlink()
            site.wait_for(2 * turn + 2)
        wait_until(lambda: set(site.states().values()) == {"sent"}, 120, "all is marked")
        wait_until(lambda: not site.left(), 120, "the log is cleared")
    finally:
        relay.send_signal(signal.SIGTERM)
        daemon.send_signal(signal.SIGTERM)
        said, complaints = relay.communicate(timeout=240)
        daemon.communicate(timeout=240)
    assert "Traceback" not in said + complaints
    statuses = {request.json()["key"]: request.json()["status"] for request in site.endpoint.requests}
    assert list(statuses.values()) == ["CRITICAL", "RESOLVED"] * 2
    assert site.arrived().total() <= 4 + 1, "at most one comes twice for the one kill"


def test_two_relays_share_the_work(site: Site) -> None:
    keys = [f"{number}@hook" for number in range(40)]
    store = opened(site.home)
    at = time.time()
    letters = [
        notification(key, channel="hook", created_at=at + number / 1000) for number, key in enumerate(keys)
    ]
    store.record(Record(at, notifications=tuple(letters)))
    store.close()
    site.endpoint.behave(_slowly)
    relays = [site.start("relay", "--every", "0.2s") for _ in range(2)]
    assert [relay.communicate(timeout=240)[1] for relay in relays] == ["", ""]
    assert [relay.returncode for relay in relays] == [0, 0]
    assert site.arrived() == dict.fromkeys(keys, 1)


def test_where_the_relay_has_no_way_out_either_it_says_so(site: Site) -> None:
    site.store("a@hook")
    done = site.run("relay", "--patience", "2s", way_out=False)
    assert done.returncode == 2
    assert "channel hook does not deliver from here: 127.0.0.1: the proxy of the environment" in done.stderr
    assert len(site.outbox()) == 1


def test_a_channel_that_is_the_relays_alone_is_never_tried_by_the_daemon(
    tmp_path: Path, endpoint: WebServer
) -> None:
    site = Site(tmp_path, endpoint, "relay = true")
    site.flag.touch()
    assert site.run("tick").returncode == 0
    assert site.endpoint.requests == []
    [left] = site.outbox()
    assert "left to 'watchdogd relay'" in left["failure"]
    assert site.run("relay").returncode == 0, "it does not wait for as long as the daemon means to"
    assert len(site.endpoint.requests) == 1
    assert site.run("notify", "--test").stdout == "hook: delivered\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("relay", "hok"), 1, "there is no channel 'hok'; did you mean 'hook'?"),
        (("relay", "--every", "soon"), 64, "--every"),
        (("relay", "--patience", "0s"), 64, "above zero"),
    ],
)
def test_wrong_words_are_one_line(site: Site, words: tuple[str, ...], code: int, said: str) -> None:
    done = site.run(*words)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_test_message_that_went_well_ends_the_rest_of_a_channel(site: Site) -> None:
    site.endpoint.behave(Answer(404, "no_service"))
    daemon = site.start("run")
    try:
        wait_until(lambda: site.home.status.exists(), 120, "the daemon's first round")
        site.flag.touch()
        wait_until(lambda: site.endpoint.requests, 120, "it was refused")
        site.rounds(3)
        site.endpoint.behave(None)
        tried = len(site.endpoint.requests)
        assert tried == 1
        assert site.run("notify", "--test").returncode == 0
        wait_until(lambda: len(site.endpoint.requests) > tried + 1, 120, "it is tried again at once")
    finally:
        daemon.terminate()
        daemon.communicate(timeout=240)
    assert site.endpoint.requests[-1].json()["headline"] == "[CRITICAL] flag: it is red"
