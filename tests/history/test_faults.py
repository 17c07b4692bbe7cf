"""The disk under the history fails, for real: full, read-only, gone, damaged, killed in the middle."""

import itertools
import os
import random
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.history.values import NOW, alerts, big, incident, new_home, opened, round_of, standing
from tests.lab.forked import CONTEXT
from tests.waiting import AT_ONCE
from watchdogd.errors import HistoryError
from watchdogd.history.models import Record
from watchdogd.history.store import Store
from watchdogd.home.layout import Home

CHECK = "run-17/log_staleness"
root = pytest.mark.root


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return new_home(tmp_path)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Home]:
    """A home on a disk of two megabytes and few inodes."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,nr_inodes=40", "tmpfs", folder], check=True)
    yield new_home(folder)
    subprocess.run(["umount", "-l", folder], check=True)


class Disk:
    """An ext4 file system of its own, that can be taken away and can fail."""

    def __init__(self, image: Path, place: Path) -> None:
        self.image = image
        self.place = place
        with image.open("wb") as file:
            file.truncate(8 * 2**20)
        subprocess.run(["mkfs.ext4", "-q", image], check=True)

    def mount(self) -> None:
        subprocess.run(["mount", "-o", "loop,errors=remount-ro", self.image, self.place], check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", self.place], check=True)

    def fail(self) -> None:
        """The kernel finds the file system broken, and makes it read-only, also for those at work in it."""
        command = ["findmnt", "-no", "SOURCE", str(self.place)]
        device = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        Path("/sys/fs/ext4", Path(device).name, "trigger_fs_error").write_text("1")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    place = tmp_path / "place"
    place.mkdir()
    disk = Disk(tmp_path / "disk.img", place)
    disk.mount()
    yield disk
    if place.is_mount():
        subprocess.run(["umount", "-l", place], check=True)


def refused(function: Callable[[], object]) -> str:
    """The one line that says why."""
    with pytest.raises(HistoryError) as error:
        function()
    text = str(error.value)
    assert "\n" not in text
    return text


def lags(store: Store) -> list[float]:
    return [value for _at, value in store.series(CHECK, 0).get(("", "lag"), ())]


def sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def aside(home: Home) -> list[Path]:
    return sorted(path for path in home.path.glob("history.db.corrupt-*") if "journal" not in path.name)


# ---------------------------------------------------------------------- full, read-only, gone


def fill_bytes(folder: Path) -> Path:
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    return ballast


@root
def test_a_full_disk_is_told_and_the_rounds_come_in_later(small: Home) -> None:
    store = opened(small)
    store.record(round_of(NOW, lag=0))
    ballast = fill_bytes(small.path)
    waiting = [big(NOW + 60), big(NOW + 120)]
    for record in waiting:
        assert "full" in refused(partial(store.record, record))
    assert lags(store) == [0]  # it can be read all the while
    ballast.unlink()
    for record in waiting:
        store.record(record)
    assert lags(store) == [0, 60, 120]
    assert len(store.waiting()) == 120
    assert sound(small.history)
    store.close()


@root
def test_a_disk_without_inodes_stops_nothing_once_the_history_is_there(small: Home) -> None:
    store = opened(small)
    store.record(round_of(NOW, lag=0))
    with suppress(OSError):
        for number in range(100):
            (small.path / f"empty-{number}").touch()
    store.record(round_of(NOW + 60, lag=60))
    store.close()
    again = opened(small)
    again.record(round_of(NOW + 120, lag=120))
    assert lags(again) == [0, 60, 120]
    assert "inodes" in refused(again.backup)
    again.close()


@root
def test_no_inode_for_a_new_history(small: Home) -> None:
    with suppress(OSError):
        for number in range(100):
            (small.path / f"empty-{number}").touch()
    assert "full (bytes or inodes): free space" in refused(lambda: opened(small))
    (small.path / "empty-0").unlink()
    (small.path / "empty-1").unlink()
    opened(small).close()


@root
def test_a_disk_that_turns_read_only_can_be_read_and_written_again_later(disk: Disk) -> None:
    home = new_home(disk.place)
    store = opened(home)
    store.record(round_of(NOW, lag=0))
    disk.fail()
    assert "read-only" in refused(lambda: store.record(round_of(NOW + 60, lag=60)))
    assert lags(store) == [0]
    for owner in (True, False):
        other = opened(home, owner=owner)
        assert len(other.readings()) == 2
        other.close()
    store.close()
    disk.unmount()
    disk.mount()
    store.record(round_of(NOW + 60, lag=60))
    assert lags(store) == [0, 60]
    store.close()


@root
def test_a_new_history_on_a_read_only_disk(small: Home) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small.path.parent], check=True)
    assert "read-only" in refused(lambda: opened(small))


@root
def test_a_home_that_is_unmounted_is_not_begun_anew_under_its_mount_point(disk: Disk) -> None:
    home = new_home(disk.place)
    store = opened(home)
    store.record(round_of(NOW, lag=0))
    store.close()
    disk.unmount()
    home.path.mkdir()
    assert "mounted?" in refused(lambda: store.record(round_of(NOW + 60, lag=60)))
    assert list(home.path.iterdir()) == []
    disk.mount()
    store.record(round_of(NOW + 60, lag=60))
    assert lags(store) == [0, 60]
    store.close()


def test_a_folder_that_is_gone(home: Home) -> None:
    store = opened(home)
    moved = home.path.rename(home.path.with_name("moved"))
    text = refused(lambda: store.record(round_of(NOW, lag=0)))
    assert "moved or removed" in text
    assert "gone with its home" in refused(store.past)
    moved.rename(home.path)
    store.record(round_of(NOW, lag=0))
    assert lags(store) == [0]
    store.close()


@pytest.mark.parametrize("backed_up", [True, False])
def test_a_history_that_was_removed_while_in_use_begins_anew(home: Home, backed_up: bool) -> None:
    store = opened(home)
    store.record(round_of(NOW, lag=0))
    if backed_up:
        store.backup()
    home.history.unlink()
    record = Record(
        NOW + 60, round_of(NOW + 60, lag=60).observations, alerts=alerts(standing(about=incident()))
    )
    refused(lambda: store.record(record))
    store.record(record)  # with the whole book, though the store had written most of it to the old file
    assert lags(store) == ([0, 60] if backed_up else [60])
    assert store.past().alerts == record.alerts
    assert len(store.troubles) == backed_up
    store.close()


def test_another_process_that_holds_the_history_is_waited_for_but_not_for_ever(home: Home) -> None:
    store = opened(home)
    with closing(sqlite3.connect(home.history, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        begin = time.monotonic()
        assert "another process holds it" in refused(lambda: store.record(round_of(NOW, lag=0)))
        assert 2 < time.monotonic() - begin < AT_ONCE
        other.execute("COMMIT")
    store.record(round_of(NOW, lag=0))
    assert lags(store) == [0]
    store.close()


def test_a_thread_that_hangs_in_it_does_not_hold_up_the_others_for_ever(home: Home) -> None:
    store = opened(home)
    entered, leave = threading.Event(), threading.Event()

    def hang() -> None:
        with store._database.transaction():
            entered.set()
            leave.wait(240)

    thread = threading.Thread(target=hang)
    thread.start()
    assert entered.wait(240)
    assert "has not come back" in refused(lambda: store.record(round_of(NOW, lag=0)))
    leave.set()
    thread.join(240)
    store.record(round_of(NOW, lag=0))
    store.close()


# ---------------------------------------------------------------------- damaged


def filled(home: Home, *, backup: bool = True) -> None:
    """Thirty rounds, twenty of them in the backup."""
    store = opened(home)
    for number in range(30):
        if number == 20 and backup:
            store.backup()
        store.record(big(NOW + 60 * number, 20))
    store.close()


def overwritten(home: Home) -> None:
    home.history.write_bytes(os.urandom(100_000))


def half_a_page(home: Home) -> None:
    """Power went while pages were written, on a disk that does not keep its word: half of each is there."""
    size = home.history.stat().st_size
    with home.history.open("r+b") as file:
        for page in range(1, size // 4096):
            file.seek(page * 4096)
            file.write(b"\0" * 2048)


def cut(home: Home) -> None:
    os.truncate(home.history, home.history.stat().st_size // 2 - 100)


def emptied(home: Home) -> None:
    os.truncate(home.history, 0)


@pytest.mark.parametrize("damage", [overwritten, half_a_page, cut, emptied])
def test_a_damaged_history_is_set_aside_and_restored_as_far_as_the_backup_goes(
    home: Home, damage: Callable[[Home], None]
) -> None:
    filled(home)
    damage(home)
    broken = home.history.read_bytes()
    store = opened(home)
    assert lags(store) == [60 * number for number in range(20)]
    assert len(store.troubles) == 1
    assert re.search(
        r"restored from its backup, \w+ old; what came after \d+ \w{3} [\d:]{8} \w+ is lost",
        store.troubles[0],
    )
    if broken:
        (kept,) = aside(home)
        assert kept.read_bytes() == broken
        assert kept.name in store.troubles[0]
    store.record(round_of(NOW + 6000, lag=6000))
    store.close()
    assert sound(home.history)
    assert opened(home).troubles == ()


@pytest.mark.parametrize("backup", [None, b"rubbish" * 1000])
def test_without_a_sound_backup_it_begins_anew_and_says_so(home: Home, backup: bytes | None) -> None:
    filled(home, backup=False)
    overwritten(home)
    if backup:
        (home.path / "history.backup.db").write_bytes(backup)
    store = opened(home)
    assert "no sound backup: the history begins anew" in store.troubles[0]
    assert lags(store) == []
    assert len(aside(home)) == 1
    store.close()


@root
@pytest.mark.parametrize("backup", [True, False])
@pytest.mark.parametrize("at_once", [True, False], ids=["by one process", "by another process"])
def test_what_is_lost_is_told_however_many_tries_a_full_disk_breaks(
    small: Home, backup: bool, at_once: bool
) -> None:
    subprocess.run(["mount", "-o", "remount,size=12m", small.path.parent], check=True)
    filled(small, backup=backup)
    overwritten(small)
    ballast = fill_bytes(small.path)
    store = Store.at("sqlite:///history.db", small)
    for _ in range(3):
        refused(lambda: store.record(round_of(NOW + 6000, lag=6000)))
    ballast.unlink()
    if not at_once:
        store = Store.at("sqlite:///history.db", small)
    store.record(round_of(NOW + 6000, lag=6000))
    (kept,) = aside(small)
    (told,) = (text for text in store.troubles if "restored from its backup" in text or "anew" in text)
    assert kept.name in told
    store.record(round_of(NOW + 6060, lag=6060))
    assert store.troubles.count(told) == 1
    store.close()


def test_damage_that_shows_while_in_use_is_mended_at_the_next_use(home: Home) -> None:
    filled(home)
    store = opened(home)
    half_a_page(home)
    assert "it is damaged" in refused(lambda: store.record(big(NOW + 6000)))
    assert not store.troubles
    store.record(big(NOW + 7000))
    assert ["restored" in trouble for trouble in store.troubles] == [True]
    assert lags(store)[-1] == 7000
    store.close()


@pytest.mark.parametrize("damage", [overwritten, cut, emptied])
def test_the_journal_of_a_damaged_history_never_gets_into_the_restored_one(
    home: Home, damage: Callable[[Home], None]
) -> None:
    filled(home)
    killed_in_the_middle(home)
    damage(home)
    store = opened(home)
    assert lags(store) == [60 * number for number in range(20)]
    store.record(round_of(NOW + 6000, lag=6000))
    store.close()
    assert sound(home.history)


def test_those_that_look_mend_nothing(home: Home) -> None:
    filled(home)
    overwritten(home)
    broken = home.history.read_bytes()
    assert "damaged" in refused(lambda: opened(home, owner=False))
    assert home.history.read_bytes() == broken
    assert aside(home) == []


def test_a_damaged_history_never_replaces_a_sound_backup(home: Home) -> None:
    filled(home)
    store = opened(home)
    before = (home.path / "history.backup.db").read_bytes()
    half_a_page(home)
    assert "no backup was made" in refused(store.backup)
    assert (home.path / "history.backup.db").read_bytes() == before
    assert [path.name for path in home.path.glob(".history*")] == []
    store.close()


def test_a_row_that_makes_no_sense_is_told_in_one_line(home: Home) -> None:
    store = opened(home)
    store.record(Record(NOW, alerts=alerts(standing(about=incident()))))
    with closing(sqlite3.connect(home.history)) as raw:
        raw.execute('UPDATE incidents SET value = \'{"id": "many"}\'')
        raw.commit()
    assert "a row cannot be read" in refused(store.incidents)
    store.close()


def within_a_minute(do: Callable[[], str]) -> str:
    """What it gives; a wait in the kernel for who writes into a pipe is ended by no signal."""
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(do()), daemon=True)
    thread.start()
    thread.join(60)
    return "".join(found)


@pytest.mark.parametrize("owner", [True, False])
def test_a_pipe_in_the_place_of_the_journal_is_told_and_not_waited_for(home: Home, owner: bool) -> None:
    filled(home)
    journal = home.history.with_name("history.db-journal")
    journal.unlink(missing_ok=True)
    os.mkfifo(journal)
    said = within_a_minute(lambda: refused(lambda: opened(home, owner=owner).incidents()))
    assert f"{journal} is" in said


def test_a_backup_whose_journal_is_a_pipe_is_not_sound(home: Home) -> None:
    filled(home)
    home.history.write_bytes(b"this is no database " * 500)
    os.mkfifo(home.path / "history.backup.db-journal")
    told = within_a_minute(lambda: "".join(opened(home).troubles))
    assert "there is no sound backup" in told


# ---------------------------------------------------------------------- killed


def write(folder: str, first: int, said: Connection) -> None:
    """Record one round after the other for ever, and say which are stored."""
    store = opened(Home(Path(folder)))
    for number in itertools.count(first + 1):
        store.record(big(NOW + number - 1, 5))
        said.send(number - 1)
        if number % 5 == 0:
            store.backup()
            store.thin(NOW + number, 90 * 86400.0)


def test_a_writer_killed_at_any_instant_loses_no_round_that_it_had_stored(home: Home) -> None:
    instants = random.Random(17)
    first, stored = 0, 0
    for _ in range(10):
        heard, said = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=write, args=(str(home.path), first, said))
        process.start()
        said.close()
        assert heard.poll(240), "the writer died by itself"
        stored = heard.recv()
        time.sleep(instants.random() * 0.15)
        process.kill()
        process.join(240)
        with suppress(EOFError):
            while heard.poll(240):
                stored = heard.recv()
        heard.close()
        backup = home.path / "history.backup.db"
        assert sound(home.history)
        assert not backup.exists() or sound(backup)
        store = opened(home)
        assert store.troubles == ()
        numbers = lags(store)
        store.close()
        assert numbers in ([*range(stored + 1)], [*range(stored + 2)])
        first = len(numbers)
    assert first >= 10


def killed_in_the_middle(home: Home) -> None:
    """A writer has changed pages on the disk when it dies: the journal alone knows the old ones."""
    script = """
import os, sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
for pragma in ("journal_mode=TRUNCATE", "cache_size=1", "synchronous=OFF"):
    c.execute("PRAGMA " + pragma)
c.execute("BEGIN IMMEDIATE")
c.execute("UPDATE notifications SET failure = failure || 'y'")
c.execute("UPDATE readings SET value = -1")
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", script, home.history], check=False)
    assert (home.path / "history.db-journal").stat().st_size > 0


def test_a_journal_left_by_a_killed_writer_is_rolled_back(home: Home) -> None:
    filled(home)
    killed_in_the_middle(home)
    store = opened(home)
    assert store.troubles == ()
    assert lags(store) == [60 * number for number in range(30)]
    assert {each.failure for each in store.notifications()} == {"x" * 2000}
    store.close()
