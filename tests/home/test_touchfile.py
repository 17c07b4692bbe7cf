"""Who did something is the owner of the file that says so; what it says of itself is quoted on one line."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdogd.cli import main
from watchdogd.home import markers, touchfile
from watchdogd.home.layout import Home
from watchdogd.home.touchfile import Signature, local
from watchdogd.plugins.job_liveness.check import kill_switch
from watchdogd.system import account

Says = pytest.CaptureFixture[str]
ME = account.user_name(os.getuid())
FORGED = json.dumps(
    {
        "by": "alice",
        "host": "node5\n",
        "reason": "lunch\nkill switch of run-17 is not set\u2028\x1b[2J\u202e",
        "at": math.nan,
    }
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    home.write(home.config, "[runs.run-17]\n")
    return home


@given(
    st.binary(max_size=60)
    | st.fixed_dictionaries({}, optional=dict.fromkeys(("by", "host", "at", "reason"), JUNK)).map(
        lambda said: json.dumps(said).encode()
    )
)
def test_whatever_it_says_there_is_one_line_and_a_time(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "touch"
    path.write_bytes(content)
    touch = touchfile.read(str(path))
    assert touch.by == ME
    assert str(touch).isprintable()
    assert 0 < touch.time <= path.stat().st_mtime
    assert touch.claimed != ME
    json.dumps(touch.fields(), allow_nan=False)
    switch = kill_switch(str(path))
    assert switch is not None
    assert switch.set_at == touch.time


@pytest.mark.parametrize(
    "at", [1e30, -1, 0, math.nan, math.inf, True, 10**4000, "9999-99-99", "0001-01-01", [], {}, None]
)
def test_a_time_that_is_none_gives_way_to_the_files(tmp_path: Path, at: object) -> None:
    path = tmp_path / "touch"
    path.write_text(json.dumps({"at": at}))
    os.utime(path, (1e9, 1e9))
    assert touchfile.read(str(path)).time == 1e9


@pytest.mark.parametrize(("at", "time"), [(5, 5.0), ("2001-01-01T00:00:00+00:00", 978307200.0), (2e9, 1e9)])
def test_a_switch_that_was_touched_again_is_as_old_as_it_says(
    tmp_path: Path, at: object, time: float
) -> None:
    path = tmp_path / "touch"
    path.write_text(json.dumps({"at": at}))
    os.utime(path, (1e9, 1e9))
    assert touchfile.read(str(path)).time == time


def test_a_file_from_the_future_is_of_now(tmp_path: Path) -> None:
    path = tmp_path / "touch"
    path.touch()
    os.utime(path, (4e9, 4e9))
    assert touchfile.read(str(path)).time == path.stat().st_ctime
    assert touchfile.stamp(1e300) == "an unknown time"


def test_what_lies_there_is_read_at_once_and_never_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "diary").write_text("dear diary")
    (tmp_path / "link").symlink_to("diary")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "hidden")
    for name in ("link", "folder", "pipe"):
        touch = touchfile.read(str(tmp_path / name))
        assert (touch.by, touch.reason, touch.host) == (ME, "", "")


@pytest.mark.root
def test_verbs_daemon_and_marks_name_the_owner(home: Home, capsys: Says) -> None:
    for name in ("run-17.kill", "run-17.finished"):
        (home.switches / name).write_text(FORGED)
        os.chown(home.switches / name, 54321, -1)
    assert main(["kill-switch", "run-17", "--show", "--home", str(home.path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("kill switch of run-17 is set by 54321 (the file says alice) on node5 at ")
    assert out.endswith(": lunch kill switch of run-17 is not set [2J\n")
    assert main(["kill-switch", "run-17", "--show", "--json", "--home", str(home.path)]) == 0
    (said,) = json.loads(capsys.readouterr().out)
    assert (said["by"], said["claimed"]) == ("54321", "alice")
    found = kill_switch(str(home.switches / "run-17.kill"))
    assert found is not None
    assert found.by == "54321 (the file says alice)"
    who = "54321 (the file says alice): lunch kill switch of run-17 is not set [2J"
    assert touchfile.finished(home) == {"run-17": who}


@pytest.mark.root
def test_who_stopped_the_watchdog_is_the_owner_of_the_mark(home: Home) -> None:
    mark = markers.stop_path(home)
    mark.write_text(
        json.dumps({"by": "alice", "host": "login1", "at": "2026-01-02T03:04:05+00:00", "reason": "a\nb"})
    )
    os.chown(mark, 54321, -1)
    said = f"stopped by 54321 (the file says alice) on login1 at {local(1767323045)}: a b"
    assert markers.stop_words(home) == said
    markers.lift_stop(home)
    pause = markers.last_pause(home)
    assert pause is not None
    assert (pause.begin, pause.words) == (1767323045, said)
    assert markers.stop_words(home) == ""


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"at": NaN}', '{"at": [], "by": []}', "[" * 9000, "\x00"]
)
def test_a_mark_of_a_stop_that_says_nothing_is_one(home: Home, content: str) -> None:
    markers.stop_path(home).write_text(content)
    assert markers.stop_words(home).startswith(f"stopped by {ME} at ")
    markers.jobs_go_on(home)
    markers.lift_stop(home)
    assert markers.last_pause(home) is None


def test_a_touch_is_written_as_it_is_read(tmp_path: Path) -> None:
    touch = Signature(ME, "login1", 1767323045.0, "lunch")
    (tmp_path / "touch").write_text(json.dumps(touch.fields()))
    assert touchfile.read(str(tmp_path / "touch")) == touch
