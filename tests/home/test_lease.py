"""The lease: one daemon acts for a home, whatever is killed, stopped, continued or raced."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.waiting import AT_ONCE
from watchdogd.home import lease as module
from watchdogd.home.layout import Home
from watchdogd.home.lease import STALE, WATCH, Lease, LeaseState, alive, current, is_free, lease_folder
from watchdogd.home.lease_record import Holder, lives, myself

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTENDER = """
import sys
from pathlib import Path
from watchdogd.home.layout import Home
from watchdogd.home.lease import Lease
lease = Lease(Home(Path(sys.argv[1])), sys.argv[2])
print("ready", flush=True)
for line in sys.stdin:
    print(eval(line), flush=True)
"""


class Contender:
    """A process of its own with a Lease, which does what it is told."""

    def __init__(self, home: Home, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CONTENDER, str(home.path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self.answer() == "ready"

    def answer(self) -> str:
        assert self.process.stdout
        ready, _, _ = select.select([self.process.stdout], [], [], 60)
        assert ready, "no answer within 60 s"
        return self.process.stdout.readline().strip()

    def tell(self, expression: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(expression + "\n")

    def ask(self, expression: str) -> str:
        self.tell(expression)
        return self.answer()

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> None:
        with contextlib.suppress(BrokenPipeError), self.process:
            self.process.kill()


class Contenders:
    """All contenders of a test; they end with it."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.all: list[Contender] = []

    def new(self, name: str) -> Contender:
        self.all.append(Contender(self.home, name))
        return self.all[-1]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    home.config.touch()
    return home


@pytest.fixture
def contenders(home: Home) -> Iterator[Contenders]:
    made = Contenders(home)
    yield made
    for contender in made.all:
        contender.end()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with less patience, for this process."""
    for name, value in (("STALE", 2.0), ("WATCH", 1.0), ("RENEW", 0.2), ("_LOOK", 0.1)):
        monkeypatch.setattr(module, name, value)


def elsewhere(home: Home) -> None:
    """Make the present holder one of another node, whose process cannot be seen from here."""
    folder = lease_folder(home)
    path = max(folder.glob("0*"))
    said = json.loads(path.read_text())
    before = path.stat()
    path.write_text(json.dumps({**said, "node": "another boot", "host": "node9"}).ljust(1023) + "\n")
    os.utime(path, (before.st_atime, before.st_mtime))


HOLDER = Holder("x", "node9", "another boot", 1, "1")


@pytest.mark.parametrize(
    ("sight", "lives", "age", "unchanged", "free"),
    [
        (LeaseState(), None, None, 0.0, True),
        (LeaseState(3, HOLDER), None, 0.0, 0.0, False),
        (LeaseState(3, HOLDER), False, 0.0, 0.0, True),
        (LeaseState(3, HOLDER), True, STALE - 1, WATCH, False),
        (LeaseState(3, HOLDER), True, STALE, WATCH, True),
        (LeaseState(3, HOLDER), None, STALE, WATCH - 1, False),
        (LeaseState(3, HOLDER), None, 1e9, 0.0, False),
        (LeaseState(3, HOLDER), None, -1e9, STALE, True),
        (LeaseState(3, HOLDER), None, None, STALE - 1, False),
        (LeaseState(3, None), None, 0.0, 0.0, False),
        (LeaseState(3, Holder("x", "h", "n", 1, "1", released=True)), True, 0.0, 0.0, True),
    ],
)
def test_when_it_is_free(
    sight: LeaseState, lives: bool | None, age: float | None, unchanged: float, free: bool
) -> None:
    assert is_free(sight, lives=lives, age=age, unchanged=unchanged) is free


def test_the_loser_is_told_who_holds_it(home: Home, contenders: Contenders) -> None:
    first, second = contenders.new("81"), contenders.new("82")
    assert first.ask("lease.acquire()") == "None"
    assert second.ask("repr(lease.acquire())") == f"{alive(home)!r}"
    assert second.ask("str(lease.acquire())") == (
        f"process {first.process.pid} on {os.uname().nodename.partition('.')[0]} (job 81)"
    )
    assert (first.ask("lease.held()"), second.ask("lease.held()")) == ("True", "False")
    assert first.ask("lease.acquire()") == "None"


def test_a_released_lease_is_free_at_once(home: Home, contenders: Contenders) -> None:
    first, second = contenders.new("1"), contenders.new("2")
    first.ask("lease.acquire()")
    assert first.ask("lease.release()") == "None"
    assert alive(home) is None
    assert second.ask("lease.acquire()") == "None"
    assert first.ask("lease.held()") == "False"
    assert first.ask("lease.renew()") == "False"
    assert first.ask("lease.release()") == "None"
    assert second.ask("lease.held()") == "True"


def test_a_killed_holder_of_this_node_is_replaced_at_once(home: Home, contenders: Contenders) -> None:
    first, second = contenders.new("1"), contenders.new("2")
    first.ask("lease.acquire()")
    first.signal(signal.SIGKILL)  # not reaped yet: a zombie is dead too
    begin = time.monotonic()
    assert second.ask("lease.wait(240)") == "None"
    assert time.monotonic() - begin < STALE - 5


def test_a_stopped_and_continued_holder_finds_out(home: Home, contenders: Contenders) -> None:
    first, second = contenders.new("1"), contenders.new("2")
    first.ask("lease.acquire()")
    first.signal(signal.SIGSTOP)
    assert second.ask("lease.acquire()") != "None"
    begin = time.monotonic()
    assert second.ask("lease.wait(240)") == "None"
    assert STALE - 2 < time.monotonic() - begin < STALE + AT_ONCE
    first.tell("lease.held()")
    first.signal(signal.SIGCONT)
    assert first.answer() == "False"
    assert first.ask("lease.renew()") == "False"
    assert second.ask("lease.held()") == "True"


def test_a_dead_holder_of_another_node_is_replaced_in_time(home: Home, quick: None) -> None:
    first, second = Lease(home), Lease(home)
    first.acquire()
    elsewhere(home)
    assert second.acquire() is not None
    begin = time.monotonic()
    assert second.wait(240) is None
    assert time.monotonic() - begin >= module.STALE - 0.5
    assert (first.held(), second.held()) == (False, True)


def test_one_that_died_long_ago_is_only_watched_for_a_while(
    home: Home, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STALE", 30.0)
    Lease(home).acquire()
    elsewhere(home)
    path = max(lease_folder(home).glob("0*"))
    os.utime(path, (1, 1))
    begin = time.monotonic()
    assert Lease(home).wait(240) is None
    assert time.monotonic() - begin < module.STALE - 5


@pytest.mark.parametrize("skew", [-86400, 86400])
def test_clocks_of_nodes_do_not_matter(
    home: Home, quick: None, monkeypatch: pytest.MonkeyPatch, skew: float
) -> None:
    first, second = Lease(home), Lease(home)
    first.acquire()
    elsewhere(home)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + skew)
    end = time.monotonic() + 3 * module.STALE
    while time.monotonic() < end:
        assert first.renew()
        assert second.acquire() is not None
        time.sleep(0.1)


def test_where_the_file_system_takes_the_clients_clocks(home: Home, quick: None) -> None:
    """The holder's clock is a day behind ours: its renewals look old, but we see them."""
    first, second = Lease(home), Lease(home)
    first.acquire()
    elsewhere(home)
    path = max(lease_folder(home).glob("0*"))
    end = time.monotonic() + 3 * module.STALE
    while time.monotonic() < end:
        behind = time.time() - 86400
        os.utime(path, (behind, behind))
        assert second.acquire() is not None
        time.sleep(0.2)
    assert second.wait(240) is None


def test_a_successor_asks_and_the_holder_hands_over(home: Home, contenders: Contenders) -> None:
    first, second = contenders.new("1"), contenders.new("2")
    first.ask("lease.acquire()")
    assert first.ask("lease.asked()") == "False"
    second.tell("lease.wait(50, ask=True)")
    deadline = time.monotonic() + 30
    while first.ask("lease.asked()") != "True":
        assert time.monotonic() < deadline, "no request within 30 s"
        time.sleep(0.1)
    first.ask("lease.release()")
    begin = time.monotonic()
    assert second.answer() == "None"
    assert time.monotonic() - begin < STALE - 5
    assert second.ask("lease.asked()") == "False"


def test_a_holder_that_does_not_hand_over_loses_it(home: Home) -> None:
    first, second = Lease(home), Lease(home)
    first.acquire()
    assert second.wait(0.5) is not None
    assert first.held()
    assert second.wait(0.5, ask=True) is None
    assert (first.held(), second.held()) == (False, True)


def test_a_request_of_one_that_went_away_counts_no_more(home: Home) -> None:
    lease = Lease(home)
    lease.acquire()
    request = lease_folder(home) / "request"
    request.touch()
    assert lease.asked()
    past = time.time() - 60
    os.utime(request, (past, past))
    assert not lease.asked()


def test_of_two_contenders_one_wins_fifty_times(home: Home, contenders: Contenders) -> None:
    two = [contenders.new("1"), contenders.new("2")]
    for turn in range(50):
        at = time.time() + 0.05
        for contender in two:
            contender.tell(
                f"__import__('time').sleep(max({at} - __import__('time').time(), 0)) or lease.acquire()"
            )
        answers = [contender.answer() for contender in two]
        assert answers.count("None") == 1, turn
        assert sorted(contender.ask("lease.held()") for contender in two) == ["False", "True"]
        two[answers.index("None")].ask("lease.release()")
    assert current(lease_folder(home)).serial == 50
    assert len(os.listdir(lease_folder(home))) == 1


def test_one_that_slept_between_its_look_and_its_claim_does_not_win(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It decides on serial 1; meanwhile others hold 2 and 3, and 2 is tidied away, so its claim succeeds."""
    sleeper, others = Lease(home), [Lease(home) for _ in range(3)]
    others[0].acquire()
    others[0].release()
    old = current(lease_folder(home))
    others[1].acquire()
    others[1].release()
    others[2].acquire()
    answers = iter([old])
    monkeypatch.setattr(module, "current", lambda folder: next(answers, None) or current(folder))
    assert sleeper.acquire() == current(lease_folder(home)).holder
    assert (sleeper.held(), others[2].held()) == (False, True)
    assert len(os.listdir(lease_folder(home))) == 1


def test_renewing_is_rare_and_shows(home: Home) -> None:
    lease = Lease(home)
    lease.acquire()
    path = max(lease_folder(home).glob("0*"))
    os.utime(path, (1, 1))
    assert lease.renew()
    assert path.stat().st_mtime == 1
    lease._renewed -= module.RENEW
    assert lease.renew()
    assert time.time() - path.stat().st_mtime < 60


@contextlib.contextmanager
def small_home(place: Path) -> Iterator[Home]:
    """A home that is soon full."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=20", "tmpfs", place], check=True)
    try:
        yield Home(place)
    finally:
        subprocess.run(["umount", place], check=True)


def fill(home: Home) -> None:
    for number in range(20):
        with contextlib.suppress(OSError):
            (home.path / f"filler{number}").write_bytes(b"x" * 4096)
    with pytest.raises(OSError, match="No space left"):
        (home.path / "one more").write_bytes(b"x")


@pytest.mark.root
def test_a_full_home_does_not_stop_the_next_one(tmp_path: Path) -> None:
    with small_home(tmp_path / "small") as home:
        first, second = Lease(home), Lease(home)
        first.acquire()
        fill(home)
        assert first.renew()
        assert second.acquire() is not None
        assert second.acquire(by_force=True) is None
        assert (first.held(), second.held()) == (False, True)
        assert alive(home) == second._me
        first.release()
        second.release()
        assert alive(home) is None
        assert Lease(home).acquire() is None


@pytest.mark.root
def test_a_lease_that_was_removed_from_a_full_home_stays_ours(tmp_path: Path) -> None:
    with small_home(tmp_path / "small") as home:
        home.config.touch()
        lease = Lease(home)
        lease.acquire()
        shutil.rmtree(lease_folder(home))
        fill(home)
        with pytest.raises(OSError, match="No space left"):
            lease.renew()
        assert lease.held()
        for filler in home.path.glob("filler*"):
            filler.unlink()
        assert lease.renew()
        assert alive(home) == lease._me


def test_what_is_no_record_is_held_by_nobody_known(home: Home, quick: None) -> None:
    lease_folder(home).mkdir()
    (lease_folder(home) / "0000000004").write_text("garbage")
    holder = Lease(home).acquire()
    assert str(holder) == "process 0 on another node"
    lease = Lease(home)
    assert lease.wait(240) is None
    assert lease.serial == 5


def test_a_pid_that_is_used_anew_is_not_the_holder() -> None:
    me = myself("88")
    assert lives(me) is True
    assert lives(Holder(me.id, me.host, me.node, me.pid, "1")) is False
    assert lives(Holder(me.id, me.host, "another boot", me.pid, me.born)) is None
    assert str(me).endswith("(job 88)")


def test_a_lease_that_was_removed_is_taken_anew(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    home.config.touch()
    lease = Lease(home)
    assert alive(home) is None
    lease.acquire()
    shutil.rmtree(lease_folder(home))
    assert lease.held()
    assert lease.renew()
    assert lease.held()
    assert Lease(home).acquire() is not None
    assert [record.message for record in caplog.records] == [
        f"the lease in {lease_folder(home)} was removed under this daemon: it was taken anew"
    ]


def test_a_lease_that_is_removed_while_it_is_renewed_is_taken_anew(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RENEW", 0.0)
    home.config.touch()
    lease = Lease(home)
    lease.acquire()
    touch = os.utime

    def removed_first(path: Path) -> None:
        monkeypatch.setattr(os, "utime", touch)
        shutil.rmtree(lease_folder(home))
        touch(path)

    monkeypatch.setattr(os, "utime", removed_first)
    assert lease.renew()
    assert Lease(home).acquire() is not None


@pytest.mark.parametrize("before", [0, 1])
def test_a_lease_that_was_removed_and_taken_by_others_is_lost(
    home: Home, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """Whether their serial is the one that we had or not."""
    monkeypatch.setattr(module, "RENEW", 0.0)
    home.config.touch()
    lease = Lease(home)
    for _ in range(before):
        lease.acquire()
        lease.release()
    lease.acquire()
    shutil.rmtree(lease_folder(home))
    successor = Lease(home)
    assert successor.acquire() is None
    assert not lease.renew()
    assert successor.renew()


def test_a_lease_is_not_lost_where_an_empty_mount_point_is_left_of_home(home: Home) -> None:
    home.config.touch()
    lease = Lease(home)
    lease.acquire()
    away = home.path.rename(home.path.with_name("away"))
    home.path.mkdir()
    with pytest.raises(FileNotFoundError):
        lease.renew()
    assert not list(home.path.iterdir())
    home.path.rmdir()
    away.rename(home.path)
    assert lease.renew()


@pytest.mark.parametrize("mount_point_stays", [False, True])
def test_a_lease_is_not_lost_where_all_of_home_is_gone(home: Home, mount_point_stays: bool) -> None:
    lease = Lease(home)
    lease.acquire()
    away = home.path.rename(home.path.with_name("away"))
    if mount_point_stays:
        home.path.mkdir()
    with pytest.raises(FileNotFoundError):
        lease.held()
    with pytest.raises(FileNotFoundError):
        lease.renew()
    away.rename(home.path)
    assert lease.renew()
    home.path.rename(away)
    lease.release()  # nothing is left to release


def test_a_shared_home_shares_its_lease(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make(group=os.getgid())
    Lease(home).acquire()
    assert lease_folder(home).stat().st_mode & 0o7777 == 0o2770
    assert max(lease_folder(home).glob("0*")).stat().st_mode & 0o777 == 0o660
