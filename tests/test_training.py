"""The Guard: what it tells the loop, what it leaves in home, and that nothing of it disturbs the training."""

import ast
import contextlib
import errno
import json
import math
import multiprocessing
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.lab.controlgroup import control_group
from tests.waiting import wait_until
from watchdogd import training
from watchdogd.parsers import faulthandler
from watchdogd.stacks import node_stacks
from watchdogd.training import NOTHING, Guard, Wish, file_name, places

SOURCE = Path(training.__file__)
HERE = Path(__file__).parent / "training"
EXAMPLES = Path(__file__).parent.parent / "examples"
ME = pwd.getpwuid(os.getuid()).pw_name
PATIENCE = 30.0  # seconds that a test waits for what should come at once

Make = Callable[..., Guard]


@pytest.fixture(autouse=True)
def _outside_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith(("SLURM_", "PBS_", "OMPI_", "PMI")) or name in ("RANK", "WATCHDOGD_HOME"):
            monkeypatch.delenv(name)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "switches").mkdir()
    (tmp_path / "inbox").mkdir()
    return tmp_path


@pytest.fixture
def make(home: Path) -> Iterator[Make]:
    """Makes Guards of run-17 that look at every poll, and closes them."""
    with contextlib.ExitStack() as guards:

        def new(run: str = "run-17", **options: Any) -> Guard:
            return guards.enter_context(
                contextlib.closing(Guard(run, **{"home": home, "every": 0, **options}))
            )

        yield new


def wait_for(what: str, true: Callable[[], bool]) -> None:
    wait_until(true, PATIENCE, what, every=0.02)


def in_inbox(home: Path, kind: str, ending: str = "json", run: str = "run-17") -> Path:
    return home / "inbox" / f"{run}.{kind}.{training.HOST}.{os.getpid()}.{ending}"


def beat(home: Path) -> dict[str, Any]:
    path = in_inbox(home, "beat")
    wait_for(f"{path}", path.exists)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


# Names and places


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ("run-17", "run-17"),
        ("tr11_176B.ml", "tr11_176B.ml"),
        ("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd"),
        (".hidden", "%2Ehidden"),
        ("a b|c%", "a%20b%7Cc%25"),
        ("Größe", "Gr%C3%B6%C3%9Fe"),
        ("..", "%2E."),
        ("a~b", "a~b"),
        ("\udcff", "%FF"),
    ],
)
def test_run_names_never_lead_out_of_their_folder(run: str, name: str) -> None:
    assert file_name(run) == name


def test_places_without_a_daemon_are_the_defaults_of_home(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOGD_HOME", str(home))
    found = places("run-17")
    assert found.kill_switch == f"{home}/switches/run-17.kill"
    assert found.save_switch == f"{home}/switches/run-17.save"
    assert found.finished == f"{home}/switches/run-17.finished"
    assert found.inbox == f"{home}/inbox"
    assert (found.memory_free, found.group) == (None, None)


def test_home_of_the_user_is_the_last_resort(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert places("run-17").inbox == f"{tmp_path}/.watchdogd/inbox"


def test_places_are_those_that_the_daemon_wrote(home: Path, tmp_path: Path, make: Make) -> None:
    told = {
        "run": "run-17",
        "kill_switch": str(tmp_path / "stop"),
        "save_switch": str(tmp_path / "keep"),
        "inbox": str(home / "inbox"),
        "memory_free": None,
        "group": None,
    }
    (home / "switches" / "run-17.json").write_text(json.dumps(told))
    guard = make()
    (tmp_path / "keep").touch()
    assert guard.poll().save
    (tmp_path / "stop").touch()
    assert guard.poll().stop


def test_a_switch_given_by_hand_goes_before_the_daemons(home: Path, tmp_path: Path, make: Make) -> None:
    (home / "switches" / "run-17.json").write_text(json.dumps({"kill_switch": str(tmp_path / "daemons")}))
    guard = make(kill_switch=tmp_path / "mine")
    (tmp_path / "daemons").touch()
    assert not guard.poll()
    (tmp_path / "mine").touch()
    assert guard.poll().stop


def test_a_run_that_is_configured_while_it_trains_is_heard(home: Path, tmp_path: Path, make: Make) -> None:
    guard = make()
    (tmp_path / "stop").touch()
    assert not guard.poll()
    (home / "switches" / "run-17.json").write_text(json.dumps({"kill_switch": str(tmp_path / "stop")}))
    assert guard.poll().stop


@pytest.mark.parametrize("text", ["{", "[]", '"text"', ""])
def test_a_broken_file_of_places_is_told_and_the_defaults_count(
    text: str, home: Path, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "switches" / "run-17.json").write_text(text)
    guard = make()
    (home / "switches" / "run-17.kill").touch()
    assert guard.poll().stop
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "run-17.json is not a JSON object" in told


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"memory_free": "5 apples"}, "5 apples"),
        ({"gpu_memory_free": "-1"}, "'-1'"),
        ({"time_left": "soon"}, "time_left = 'soon'"),
        ({"run": ""}, "name of its run"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, str], complaint: str, make: Make) -> None:
    with pytest.raises(ValueError, match=complaint):
        make(**options)


# Switches


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "kill switch set"),
        (
            f'{{"run": "run-17", "by": "{ME}", "reason": "wrong learning rate"}}\n',
            f"kill switch set by {ME}: wrong learning rate",
        ),
        ('{"by": "bob", "reason": "x"}\n', f"kill switch set by {ME} (the file says bob): x"),
        (f'{{"by": "{ME}"}}\n{{"by": "eve", "reason": "me too"}}\n', f"kill switch set by {ME}"),
        ('{"by": ["bob"], "reason": {"a": 1}, "at": NaN}', "kill switch set"),
        (
            '{"reason": "a\\nwatchdogd: all is well\\u2028\\u202e"}',
            "kill switch set: a watchdogd: all is well  ",
        ),
        ("9" * 4096, "kill switch set: " + "9" * 283),
        ("node 5 is broken\n", "kill switch set: node 5 is broken"),
        ("[1, 2]", "kill switch set: [1, 2]"),
        ("[" * 4096, "kill switch set: " + "[" * 283),
        ('{"by": "b\\u001b[31mob"}', f"kill switch set by {ME} (the file says b [31mob)"),
        ("x" * 9999, "kill switch set: " + "x" * 283),
    ],
)
def test_the_reason_is_what_the_switch_says(content: str, reason: str, home: Path, make: Make) -> None:
    (home / "switches" / "run-17.kill").write_text(content)
    wish = make().poll(step=1)
    assert wish == Wish(stop=True, save=False, reason=reason)
    assert wish


def test_no_wish_is_false(make: Make) -> None:
    assert make().poll() == NOTHING
    assert not NOTHING


def test_a_switch_that_is_no_regular_file_is_set_and_does_not_block(home: Path, make: Make) -> None:
    os.mkfifo(home / "switches" / "run-17.kill")
    assert make().poll().reason == "kill switch set"


def test_a_folder_is_no_kill_switch(home: Path, make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    folder = home / "switches" / "run-17.kill"
    folder.mkdir()
    guard = make()
    assert not guard.poll()
    assert capsys.readouterr().err == (
        f"watchdogd: run-17: {folder} is a folder, no kill switch: correct kill_switch\n"
    )
    folder.rmdir()
    folder.touch()
    assert guard.poll().stop


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kill_switch": ""}, "kill_switch = '' is no path of a file"),
        ({"save_switch": "/scratch/"}, "save_switch = '/scratch/' is no path of a file"),
        ({"memory_free": "200%"}, "more than all of the memory"),
        ({"memory_free": 0.05}, "for that share of the memory write 5"),
        ({"run": 17}, "needs the name of its run"),
    ],
)
def test_what_would_stop_a_run_at_once_is_refused(options: dict[str, Any], said: str, make: Make) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        make(**options)


def test_a_switch_below_a_missing_folder_is_not_set(
    tmp_path: Path, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    guard = make(kill_switch=tmp_path / "none" / "kill", save_switch=tmp_path / "file" / "save")
    assert not guard.poll()
    guard.saved()
    wrong = "watchdogd: run-17: there is no folder {}: until it is made, nobody can set the {}"
    assert capsys.readouterr().err.splitlines() == [
        wrong.format(tmp_path / "none", "kill_switch"),
        wrong.format(tmp_path / "file", "save_switch"),
    ]


@pytest.mark.parametrize(
    ("name", "hint"), [("run-71", "did you mean 'run-17'?"), ("eel", "there are pike, run-17")]
)
def test_a_run_that_nobody_configured_is_told(
    name: str, hint: str, home: Path, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt name polls switches that nobody will ever press."""
    for known in ("run-17", "pike"):
        (home / "switches" / f"{known}.json").write_text("{}")
    make(run="pike").poll()
    assert capsys.readouterr().err == ""
    assert not make(run=name).poll()
    said = f"no run '{name}' is known in {home}/switches, {hint}; its default switches count"
    assert capsys.readouterr().err == f"watchdogd: {name}: {said}\n"


def test_an_amount_that_no_node_has_is_told_before_it_stops_the_run(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    guard = make(memory_free="5000TB")
    told = capsys.readouterr().err
    assert "memory_free = 4656612.9 GiB is more than all there is, " in told
    assert told.endswith("the run stops at once; write a share of it, such as 5%\n")
    assert guard.poll().stop


@pytest.mark.parametrize("code", [-1, 10, 99])
def test_what_no_reduction_can_give_is_refused(code: int, make: Make) -> None:
    with pytest.raises(ValueError, match=f"agree returned {code}"):
        make().poll(agree=lambda own: code)


def test_a_cleared_kill_switch_stops_no_more(home: Path, make: Make) -> None:
    switch = home / "switches" / "run-17.kill"
    switch.touch()
    guard = make()
    assert guard.poll().stop
    switch.unlink()
    assert not guard.poll()


def test_saved_removes_the_save_switch_and_the_next_one_counts(home: Path, make: Make) -> None:
    switch = home / "switches" / "run-17.save"
    guard = make(every=3600)
    switch.touch()
    assert guard.poll() == Wish(stop=False, save=True, reason="save switch set")
    assert guard.poll().save, "the wish stays until it is met"
    guard.saved()
    assert not switch.exists()
    assert not guard.poll()


def test_a_save_that_another_rank_made_is_not_made_again(home: Path, make: Make) -> None:
    switch = home / "switches" / "run-17.save"
    switch.touch()
    guard = make(every=3600)
    assert guard.poll().save
    switch.unlink()
    assert not guard.poll()


def test_a_save_switch_that_cannot_be_removed_asks_once(
    home: Path, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    switch = home / "switches" / "run-17.save"
    switch.mkdir()
    guard = make()
    assert guard.poll().save
    guard.saved()
    assert not guard.poll()
    assert "counts no more until it is touched again" in capsys.readouterr().err
    os.utime(switch, (1, 1))
    assert guard.poll().save


def test_one_look_a_second_at_each_switch(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    real = os.stat

    def counted(path: Any, **options: Any) -> os.stat_result:
        looks.append(str(path))
        return real(path, **options)

    guard = make(every=0.25)
    monkeypatch.setattr(os, "stat", counted)
    start = time.monotonic()

    def seen() -> list[int]:
        return [sum(path.endswith(ending) for path in looks) for ending in (".kill", ".save")]

    while min(seen()) < 4:
        guard.poll(step=1)
    monkeypatch.undo()
    assert max(seen()) <= 1 + (time.monotonic() - start) / 0.25


def test_poll_takes_five_microseconds_at_most(make: Make) -> None:
    guard = make(every=1.0, memory_free="1B", time_left="auto")
    rounds = []
    for _ in range(101):
        start = time.perf_counter()
        for step in range(200):
            guard.poll(step=step, loss=0.5)
        rounds.append((time.perf_counter() - start) / 200)
    assert min(rounds) <= 5e-6


def test_a_file_system_that_hangs_costs_half_a_second_once(
    home: Path, make: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    guard = make(heartbeat=False)
    mended = threading.Event()
    real = os.stat

    def hanging(path: Any, **options: Any) -> os.stat_result:
        if str(path).endswith(".kill"):
            mended.wait(PATIENCE)
        return real(path, **options)

    monkeypatch.setattr(os, "stat", hanging)
    start = time.monotonic()
    for _ in range(100):
        assert not guard.poll()
    took = time.monotonic() - start
    assert training.PATIENCE <= took < training.PATIENCE + 20
    assert capsys.readouterr().err.count("does not answer") == 1
    (home / "switches" / "run-17.kill").touch()
    mended.set()
    wait_for("the switch to be seen again", lambda: guard.poll().stop)


def test_a_fork_has_a_guard_that_works(tmp_path: Path, home: Path) -> None:
    script = """
import os, sys, time
from watchdogd.training import Guard
guard = Guard("run-17", home=sys.argv[1], every=0)
guard.poll()
child = os.fork()
if not child:
    open(sys.argv[1] + "/switches/run-17.kill", "w").close()
    start = time.monotonic()
    assert guard.poll().stop and time.monotonic() - start < 60
    try: guard.exit_if_stopped()
    except SystemExit: os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
"""
    subprocess.run([sys.executable, "-c", script, home], check=True, timeout=300)


# Leaving and finishing


def test_a_queued_job_burns_through_when_the_kill_switch_is_set(
    home: Path, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    guard = make()
    guard.exit_if_stopped()
    (home / "switches" / "run-17.kill").write_text('{"by": "bob", "reason": "wrong data"}')
    with pytest.raises(SystemExit) as leaving:
        guard.exit_if_stopped()
    assert leaving.value.code == 0
    assert (
        f"run-17 does not start: kill switch set by {ME} (the file says bob): wrong data"
        in capsys.readouterr().out
    )


def test_a_finished_run_is_marked_and_burns_through(
    home: Path, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    guard = make()
    guard.poll(step=900, loss=0.25)
    guard.finished()
    mark = json.loads(in_inbox(home, "finished").read_text())
    assert (mark["run"], mark["step"], mark["loss"], mark["kind"]) == ("run-17", 900, 0.25, "finished")
    shown = json.loads((home / "switches" / "run-17.finished").read_text())
    assert shown["by"] == pwd.getpwuid(os.getuid()).pw_name
    assert abs(datetime.fromisoformat(shown["at"]).timestamp() - time.time()) < PATIENCE
    with pytest.raises(SystemExit) as leaving:
        make().exit_if_stopped()
    assert leaving.value.code == 0
    assert "run-17 is marked finished" in capsys.readouterr().out


def test_a_run_is_marked_once_however_many_ranks_say_so(home: Path, make: Make) -> None:
    make().finished()
    mark = in_inbox(home, "finished")
    mark.unlink()
    make().finished()
    assert not mark.exists()


def test_a_mark_never_goes_through_a_link(home: Path, tmp_path: Path, make: Make) -> None:
    for link in (home / "switches" / "run-17.finished", in_inbox(home, "finished")):
        link.symlink_to(tmp_path / "elsewhere")
    make().finished()
    assert not (tmp_path / "elsewhere").exists()
    assert json.loads((home / "switches" / "run-17.finished").read_text())["run"] == "run-17"


def test_a_mark_that_cannot_be_written_is_told(
    tmp_path: Path, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    make(home=tmp_path / "none").finished()
    assert "watchdogd finish run-17" in capsys.readouterr().err


# Heartbeats


def test_a_beat_tells_step_and_loss(home: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_PROCID", "0")
    before = time.time()
    make().poll(step=12, loss=3.5)
    told = beat(home)
    assert before <= told.pop("time") <= time.time()
    mine = {"host": training.HOST, "pid": os.getpid(), "job": "4711", "rank": 0}
    said = {"step": 12, "loss": 3.5, "losses": 1, "asked": ""}
    polls = ["../switches/run-17.kill", "../switches/run-17.save"]
    assert told == {"kind": "beat", "run": "run-17", "polls": polls, **said, **mine}


@pytest.mark.parametrize(("later", "losses"), [(None, 1), (0.5, 2)])
def test_a_beat_tells_whether_its_loss_is_a_new_one(
    home: Path, make: Make, later: float | None, losses: int
) -> None:
    guard = make(every=3600)
    guard.poll(step=0, loss=0.5)
    for step in range(1, 100):
        guard.poll(step=step, loss=later)
    guard.close()
    last = beat(home)
    assert (last["step"], last["loss"], last["losses"]) == (99, 0.5, losses)


def test_a_beat_tells_at_once_that_the_loop_was_asked_to_save(home: Path, make: Make) -> None:
    guard = make(every=0.0)
    guard.poll(step=1)
    (home / "switches" / "run-17.save").write_text("before the upgrade")
    wait_for("the wish", lambda: guard.poll(step=2).save)
    wait_for("it in the beat", lambda: beat(home)["asked"] == "save switch set: before the upgrade")
    guard.saved()
    guard.poll(step=3)
    wait_for("its end in the beat", lambda: beat(home)["asked"] == "")


def test_a_beat_tells_what_another_rank_was_asked(home: Path, make: Make) -> None:
    guard = make()
    guard.poll(step=1, agree=lambda code: 2 * training.KILL)
    wait_for("it in the beat", lambda: beat(home)["asked"] == "kill switch (seen by another rank)")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_beats_go_on_in_a_home_that_is_full(
    number: int, home: Path, make: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training, "BEAT_EVERY", 0.0)
    guard = make(every=0.0)
    guard.poll(step=1000, loss=0.25)
    wait_for("the first beat", lambda: beat(home)["step"] == 1000)

    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    def says(text: str) -> bool:
        return text in in_inbox(home, "beat").read_text()

    monkeypatch.setattr(training, "_replacing", full)
    for step in (7, 123456):
        guard.poll(step=step)
        wait_for("the next", partial(says, f'"step": {step},'))
    assert not capsys.readouterr().err
    in_inbox(home, "beat").unlink()
    guard.poll(step=8)
    wait_for("the complaint", lambda: "no heartbeat" in capsys.readouterr().err)


def test_a_beat_follows_the_loop(home: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "BEAT_EVERY", 0.0)
    guard = make()
    guard.poll(step=1)
    guard.poll(step=2)
    wait_for("step 2 in the beat", lambda: beat(home)["step"] == 2)
    assert os.listdir(home / "inbox") == [in_inbox(home, "beat").name]


def test_the_last_beat_tells_where_the_loop_ended(home: Path, make: Make) -> None:
    guard = make(every=3600)
    for step in range(100):
        guard.poll(step=step, loss=step / 2)
    guard.close()
    assert (beat(home)["step"], beat(home)["loss"]) == (99, 49.5)


def test_a_loss_that_is_no_number_any_more_is_told(home: Path, make: Make) -> None:
    make().poll(step=12, loss=math.nan)
    assert math.isnan(beat(home)["loss"])


def test_a_loss_of_several_elements_is_left_out(
    home: Path, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    make().poll(step=12, loss=[1.0, 2.0])
    told = beat(home)
    assert (told["step"], told["loss"]) == (12, None)
    assert "no list" in capsys.readouterr().err


class Tensor:
    """The few ways of a tensor that the Guard uses: it holds its step's graph until detached."""

    def __init__(self, value: float, graph: object) -> None:
        self.value, self.graph = value, graph

    def detach(self) -> "Tensor":
        return Tensor(self.value, None)

    def __float__(self) -> float:
        return self.value


def test_a_tensor_is_read_and_its_graph_is_not_kept(home: Path, make: Make) -> None:
    guard = make()
    guard.poll(step=3, loss=Tensor(0.5, "graph"))
    assert beat(home)["loss"] == 0.5
    assert guard._loss.graph is None


@pytest.mark.parametrize(
    ("options", "rank", "told"),
    [({}, "1", None), ({"heartbeat": False}, "0", None), ({}, "0", 1), ({"heartbeat": False}, "1", 0)],
)
def test_other_ranks_and_those_who_want_none_write_no_beat(
    options: dict[str, bool],
    rank: str,
    told: int | None,
    home: Path,
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setattr(training, "CHORES_EVERY", 0.01)
    guard = make(**options)
    if told is not None:  # by a framework, whose launcher set another RANK
        guard.set_rank(told)
    guard.poll(step=1)
    (home / "inbox" / "run-17.stacks-request").touch()
    wait_for("chores to be done", in_inbox(home, "stacks", "txt").exists)
    assert not in_inbox(home, "beat").exists()


@pytest.mark.parametrize(("group", "mode"), [(None, 0o600), ("staff", 0o640)])
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_what_is_written_has_the_right_mode_whatever_the_umask(
    group: str | None, mode: int, umask: int, home: Path, make: Make
) -> None:
    (home / "switches" / "run-17.json").write_text(json.dumps({"group": group}))
    before = os.umask(umask)
    try:
        guard = make()
        guard.poll(step=1)
        guard.finished()
        beat(home)
    finally:
        os.umask(before)
    for path in (in_inbox(home, "beat"), in_inbox(home, "finished"), home / "switches" / "run-17.finished"):
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_beat_that_cannot_be_written_costs_one_line(
    home: Path, make: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training, "BEAT_EVERY", 0.0)
    (home / "inbox").rmdir()
    guard = make()
    told = ""
    for step in range(20):
        assert not guard.poll(step=step)
        time.sleep(0.01)
        told += capsys.readouterr().err
    assert told.count("no heartbeat") == 1


def test_who_names_no_home_hears_nothing_of_it(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    guard = make(home=None, kill_switch=tmp_path / "kill")
    guard.poll(step=1)
    guard.close()
    assert capsys.readouterr().err == ""


# Stacks

HANGING = """
import sys, threading
from watchdogd import training
training.CHORES_EVERY = 0.05
guard = training.Guard("run-17", home=sys.argv[1])
guard.poll()
print("up", flush=True)
def wait_for_a_collective():
    lock = threading.Lock(); lock.acquire(); lock.acquire()
def keep_the_interpreter_busy():
    import re; re.match("(a+)+$", "a" * 60 + "b")
{}()
"""


@contextlib.contextmanager
def hanging(home: Path, how: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING.format(how), home],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            yield process
        finally:
            process.kill()


def test_a_hung_loop_tells_its_stacks_on_request(home: Path) -> None:
    with hanging(home, "wait_for_a_collective") as process:
        (home / "inbox" / "run-17.stacks-request").touch()
        answer = home / "inbox" / f"run-17.stacks.{training.HOST}.{process.pid}.txt"
        wait_for(f"{answer}", lambda: answer.exists() and "wait_for_a_collective" in answer.read_text())
    first, rest = answer.read_text().split("\n", 1)
    assert json.loads(first)["pid"] == process.pid
    assert "in wait_for_a_collective" in rest
    assert stat.S_IMODE(answer.stat().st_mode) == 0o600


def test_where_a_rank_spends_its_steps_is_told_on_request(
    home: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_batch() -> None:
        time.sleep(0.004)

    monkeypatch.setattr(training, "CHORES_EVERY", 0.02)
    monkeypatch.setattr(training, "LOOK_EVERY", 0.003)
    monkeypatch.setenv("RANK", "1")
    guard, asked, answer = make(), home / "inbox" / "run-17.stacks-request", in_inbox(home, "stacks", "txt")
    for step in range(2000):
        load_batch()
        guard.poll(step=step)
        if step == 50:
            asked.touch()
        if answer.exists():
            break
    found = faulthandler.handed(answer.read_text())
    assert found
    assert found.looks
    assert found.rank == 1
    assert found.looks.number >= training.LOOKS
    assert found.looks.steps >= training.STEPS
    assert 0.004 <= found.looks.step_seconds < 0.1
    _, frames = max(found.looks.places, key=lambda place: place[0])
    assert frames[0].function == "load_batch"
    assert not found.looks.synchronous  # without torch


@pytest.mark.parametrize(
    ("env", "rank"),
    [
        ({"RANK": "3", "SLURM_PROCID": "0"}, 3),
        ({"OMPI_COMM_WORLD_RANK": "3", "SLURM_PROCID": "0"}, 3),  # mpirun in a batch script
        ({"PMI_RANK": "3", "SLURM_PROCID": "0"}, 3),
        ({"SLURM_PROCID": "3"}, 3),
        ({"RANK": "-1", "SLURM_PROCID": "3"}, 3),
        ({"RANK": "\u00b2"}, None),
        ({}, None),
    ],
)
def test_whose_number_a_rank_has(
    make: Make, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], rank: int | None
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert make()._rank == rank
    assert training.RANKS == node_stacks.RANKS


@pytest.mark.parametrize("epoch", [10_000, 7])  # steps that begin anew
def test_a_pause_of_one_rank_does_not_slow_each_of_its_steps_down(make: Make, epoch: int) -> None:
    """It saves for 10 s in one of its steps of 1 s, and waits for others in the rest."""
    guard, at = make(), 0.0
    for step in range(40):
        looks, where = (20, "save") if step == 37 else (2, "wait")
        guard._looks += [training._Look(at, step % epoch, ((where, "train.py", 3),))] * looks
        at += looks * 0.5
    told = guard._looked()
    assert told["looks"] == [[sum(times for times, _ in told["looks"]), (("wait", "train.py", 3),)]]
    assert told["step_seconds"] == pytest.approx(1.0, rel=0.4)
    assert told["steps"] >= training.STEPS


def test_an_old_request_is_no_request_until_it_is_touched(
    home: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "CHORES_EVERY", 0.01)
    request, answer = home / "inbox" / "run-17.stacks-request", in_inbox(home, "stacks", "txt")
    request.touch()
    make().poll(step=1)
    beat(home)
    assert not answer.exists()
    os.utime(request, (1, 1))
    wait_for(f"{answer}", answer.exists)


def test_sigquit_tells_the_stacks_of_what_never_gives_the_interpreter_back(home: Path) -> None:
    with hanging(home, "keep_the_interpreter_busy") as process:
        wait_for("it is busy", lambda: _cpu_seconds(process.pid) > 0.3)
        process.send_signal(signal.SIGQUIT)
        _, told = process.communicate(timeout=PATIENCE)
    assert "in keep_the_interpreter_busy" in told
    assert process.returncode == -signal.SIGQUIT


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# Signals


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_signals_ask_for_a_stop_and_reach_the_handlers_before(number: signal.Signals, make: Make) -> None:
    heard: list[int] = []
    before = signal.signal(number, lambda n, frame: heard.append(n))
    ours = signal.getsignal(number)
    try:
        guard = make(every=3600)
        assert not guard.poll()
        os.kill(os.getpid(), number)
        assert guard.poll() == Wish(stop=True, save=False, reason=f"signal {number.name}")
        assert heard == [number]
        guard.close()
        assert signal.getsignal(number) is ours
    finally:
        signal.signal(number, before)


def test_a_handler_set_later_is_left_alone(make: Make) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    guard = make()
    later = signal.default_int_handler
    signal.signal(signal.SIGUSR1, later)
    guard.close()
    try:
        assert signal.getsignal(signal.SIGUSR1) is later
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_signals_can_be_left_alone(make: Make) -> None:
    before = signal.getsignal(signal.SIGTERM)
    make(signals=False)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_guard_outside_of_the_main_thread_says_that_it_hears_no_signals(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    thread = threading.Thread(target=make)
    thread.start()
    thread.join(240)
    assert "not all watched" in capsys.readouterr().err


def test_forked_workers_still_die_of_sigterm(home: Path) -> None:
    script = """
import multiprocessing, sys, time
from watchdogd.training import Guard
guard = Guard("run-17", home=sys.argv[1])
worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
worker.start()
time.sleep(0.3)
worker.terminate()
worker.join(240)
print(worker.exitcode)
worker.kill()
"""
    done = subprocess.run(
        [sys.executable, "-c", script, home], stdout=subprocess.PIPE, text=True, check=True, timeout=300
    )
    assert done.stdout == "-15\n"


# Memory

NODE = "MemTotal:       1000000 kB\nMemFree:         100000 kB\nMemAvailable:    600000 kB\n"
MIB = 2**20


def tree(root: Path, group: str, mounts: str, limits: dict[str, dict[str, str]]) -> str:
    """A /proc of its own whose control groups lie in root/cgroup; returns its path."""
    proc = root / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(NODE)
    (proc / "self" / "cgroup").write_text(group)
    (proc / "self" / "mountinfo").write_text(mounts.replace("ROOT", str(root / "cgroup")))
    for folder, files in limits.items():
        path = root / "cgroup" / folder
        path.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (path / name).write_text(content)
    return str(proc)


def unified(limit: str, used: int, cache: int = 0) -> dict[str, str]:
    return {
        "memory.max": f"{limit}\n",
        "memory.current": f"{used * MIB}\n",
        "memory.stat": f"anon 1\ninactive_file {cache * MIB}\nactive_file 0\nslab_reclaimable 0\n",
    }


def legacy(limit: int, used: int, cache: int = 0) -> dict[str, str]:
    return {
        "memory.limit_in_bytes": f"{limit}\n",
        "memory.usage_in_bytes": f"{used * MIB}\n",
        "memory.stat": f"cache 7\ninactive_file 0\ntotal_inactive_file {cache * MIB}\ntotal_active_file 0\n",
    }


ODD_MOUNT = "29 23 8:2 / /data/a\x0bb\x1cc rw - ext4 /dev/sdb rw\n"
UNIFIED_MOUNT = "30 23 0:26 / ROOT rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
LEGACY_MOUNT = (
    "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "31 23 0:27 / ROOT rw - cgroup cgroup rw,memory\n"
)


def test_every_limit_up_the_tree_counts(tmp_path: Path) -> None:
    job = "system.slice/slurmstepd.scope/job_5"
    proc = tree(
        tmp_path,
        f"0::/{job}/step_0/user/task_0\n",
        ODD_MOUNT + UNIFIED_MOUNT,
        {
            f"{job}/step_0/user/task_0": unified("max", 1),
            f"{job}/step_0": unified(str(200 * MIB), 50),
            job: unified(str(100 * MIB), 90, cache=20),
        },
    )
    assert training.pools(proc) == [
        ("cgroup step_0", 150 * MIB, 200 * MIB),
        ("cgroup job_5", 30 * MIB, 100 * MIB),
    ]


def test_version_1_of_control_groups_counts_too(tmp_path: Path) -> None:
    proc = tree(
        tmp_path,
        "5:cpu:/\n4:memory:/slurm/uid_7/job_5/step_0\n0::/\n",
        LEGACY_MOUNT,
        {
            "slurm/uid_7/job_5/step_0": legacy(9223372036854771712, 40),
            "slurm/uid_7/job_5": legacy(100 * MIB, 60, cache=10),
        },
    )
    assert training.pools(proc) == [("cgroup job_5", 50 * MIB, 100 * MIB)]


def test_a_container_sees_its_own_part_of_the_tree(tmp_path: Path) -> None:
    mounts = "30 23 0:26 /pods/p1 ROOT ro - cgroup2 cgroup rw\n"
    proc = tree(tmp_path, "0::/pods/p1/c1\n", mounts, {"c1": unified(str(10 * MIB), 4)})
    assert training.pools(proc) == [("cgroup c1", 6 * MIB, 10 * MIB)]


def test_another_process_is_bound_by_its_own_groups(tmp_path: Path) -> None:
    scope = "user.slice/user-7.slice/run-a.scope"
    proc = tree(
        tmp_path,
        "0::/system.slice/watchdogd.service\n",
        UNIFIED_MOUNT,
        {
            "system.slice/watchdogd.service": unified(str(9 * MIB), 8),
            "user.slice/user-7.slice": unified(str(600 * MIB), 580, cache=60),
            scope: unified(str(900 * MIB), 580),
        },
    )
    (tmp_path / "proc" / "77").mkdir()
    (tmp_path / "proc" / "77" / "cgroup").write_text(f"0::/{scope}\n")
    assert training.pools(proc, 77) == [
        ("cgroup run-a.scope", 320 * MIB, 900 * MIB),
        ("cgroup user-7.slice", 80 * MIB, 600 * MIB),
    ]
    with pytest.raises(FileNotFoundError):
        training.pools(proc, 78)


@pytest.mark.parametrize("path", ["/../../docker/c1", "/docker/c1"])
def test_a_process_in_another_container_is_bound_by_what_it_sees_itself(path: str, tmp_path: Path) -> None:
    mounts = "30 23 0:26 /docker/watch ROOT ro - cgroup2 cgroup rw\n"
    proc = tree(tmp_path, "0::/docker/watch\n", mounts, {".": unified(str(9 * MIB), 8)})
    other = tmp_path / "proc" / "77"
    seen = other / "root" / "sys" / "fs" / "cgroup"
    seen.mkdir(parents=True)
    (other / "cgroup").write_text(f"0::{path}\n")
    (other / "mountinfo").write_text("30 23 0:26 /../c1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n")
    assert training.pools(proc, 77) == [("node", 600000 * 1024, 1000000 * 1024)]
    for name, content in unified(str(600 * MIB), 520).items():
        (seen / name).write_text(content)
    assert [pool[1:] for pool in training.pools(proc, 77)] == [(80 * MIB, 600 * MIB)]


@pytest.mark.parametrize("group", ["", "0::/../../elsewhere\n", "0::/none\n"])
def test_without_a_limit_the_node_counts(group: str, tmp_path: Path) -> None:
    proc = tree(tmp_path, group, UNIFIED_MOUNT, {".": {}})
    assert training.pools(proc) == [("node", 600000 * 1024, 1000000 * 1024)]


def test_a_mount_point_with_a_space_is_found(tmp_path: Path) -> None:
    mounts = UNIFIED_MOUNT.replace("ROOT", "ROOT\\040too")
    proc = tree(tmp_path, "0::/\n", mounts, {"../cgroup too": unified(str(10 * MIB), 4)})
    assert [pool.left for pool in training.pools(proc)] == [6 * MIB]


def test_the_memory_of_this_machine_is_read() -> None:
    for pool in training.pools():
        assert 0 < pool.left <= pool.total


@pytest.mark.parametrize("limit", ["100%", "5000TB", 10**16])
def test_too_little_memory_left_is_a_stop(limit: Any, make: Make) -> None:
    wish = make(memory_free=limit).poll()
    assert wish.stop
    assert wish.reason.startswith("memory: ")


def test_the_daemon_may_say_the_limit(home: Path, make: Make) -> None:
    (home / "switches" / "run-17.json").write_text(json.dumps({"memory_free": "100%"}))
    assert make().poll().stop
    assert not make(memory_free="1B").poll()


@pytest.mark.root
def test_a_real_control_group_is_obeyed(home: Path) -> None:
    script = """
import os, sys
from watchdogd.training import Guard
with open(os.path.join(sys.argv[2], "cgroup.procs"), "w") as procs: procs.write(str(os.getpid()))
guard = Guard("run-17", home=sys.argv[1], every=0, memory_free="50%")
print(guard.poll().reason)
ballast = bytearray(os.urandom(1)) * (40 * 2**20)
print(guard.poll().reason)
"""
    with control_group(64 * MIB) as group:
        done = subprocess.run(
            [sys.executable, "-c", script, home, group],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=300,
        )
    before, after = done.stdout.splitlines()
    assert before == ""
    assert f"of 0.1 GiB left (cgroup {group.name}), below 50%" in after


# Time


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a squeue of one's own on PATH; what it was called with comes into the file returned."""

    def put(body: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        calls = tmp_path / "calls"
        script = folder / "squeue"
        script.write_text(f'#!/bin/sh\n{{ echo "$@"; env; }} >>{calls}\n{body}\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        return calls

    return put


def iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


@pytest.mark.parametrize(
    ("time_left", "stops"), [(600, True), ("10m", True), ("auto", True), (60, False), ("1m", False)]
)
def test_the_end_of_the_job_is_a_stop(
    time_left: Any, stops: bool, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 100))
    wish = make(time_left=time_left).poll()
    assert wish.stop is stops
    assert wish.reason.startswith("time limit: " if stops else "")


def test_a_limit_that_was_extended_is_no_stop(
    make: Make, squeue: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = squeue(f"echo {iso(time.time() + 9000)}")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 100))
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("SQUEUE_USERS", "nobody")
    monkeypatch.setenv("SLURM_CONF", "/etc/own/slurm.conf")
    guard = make(time_left="10m")
    assert not guard.poll()
    wait_for(
        "squeue's answer", lambda: guard._job_end is not None and guard._job_end.left(time.time()) > 8000
    )
    assert not guard.poll()
    called = calls.read_text()
    assert called.startswith("--noheader --jobs 4711 --format %e\n")
    assert "SLURM_TIME_FORMAT" not in called
    assert "SQUEUE_USERS" not in called
    assert "SLURM_CONF=/etc/own/slurm.conf" in called


def test_a_job_whose_end_only_squeue_knows_is_stopped(
    make: Make, squeue: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    squeue(f"echo {iso(time.time() + 100)}")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    guard = make(time_left="10m")
    wait_for("the stop", lambda: guard.poll().stop)
    left = re.fullmatch(
        r"time limit: (\d+) s to the end of the job, less than the 10 min wanted", guard.poll().reason
    )
    assert left
    assert 60 < int(left.group(1)) <= 101


@pytest.mark.parametrize("body", ["exit 1", "", "echo Unknown", "echo slurm_load_jobs error >&2; exit 1"])
def test_where_slurm_does_not_tell_the_last_known_end_counts(
    body: str, make: Make, squeue: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    squeue(body)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 400))
    guard = make(time_left="10m")
    wait_for("the stop", lambda: guard.poll().stop)


def test_a_job_without_a_limit_has_no_end(
    make: Make,
    squeue: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    squeue("echo N/A")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    guard = make(time_left="10m")
    wait_for("squeue's answer", lambda: guard._job_end is not None and guard._job_end.end == math.inf)
    assert not guard.poll()
    assert capsys.readouterr().err.count("job 4711 has no time limit: no time_left; exit_after stops it") == 1


@pytest.mark.parametrize(
    ("body", "stops", "said"),
    [
        ("stime = {at}\n    Resource_List.walltime = 02:00:00", True, "job 88.batch ends at "),
        ("start_time = {at}\n    Resource_List.walltime = 7200", True, "as qstat tells"),
        ("resources_used.walltime = 01:55:00\n    Resource_List.walltime = 02:00:00", True, "ends at "),
        ("stime = {at}\n    Resource_List.walltime = 24:00:00", False, "ends at "),
        ("stime = {at}\n    Resource_List.ncpus = 4", False, "job 88.batch has no time limit"),
        (
            "stime = nonsense\n    Resource_List.walltime = 02:00:00",
            False,
            "tells when the job ends: no time_left",
        ),
    ],
)
def test_the_end_of_a_job_of_pbs(
    body: str,
    stops: bool,
    said: str,
    make: Make,
    squeue: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    at = time.asctime(time.gmtime(time.time() - 6900))
    qstat = squeue("exit 1").with_name("bin") / "qstat"
    qstat.write_text(
        f"#!/bin/sh\ncat <<'END'\nJob Id: 88\n    Job_Name = tr4\n    {body.format(at=at)}\nEND\n"
    )
    qstat.chmod(0o755)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("PBS_JOBID", "88.batch")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    guard = make(time_left="10m")
    errors = ""

    def told() -> bool:
        nonlocal errors
        errors += capsys.readouterr().err
        return said in errors

    wait_for("the line", told)
    wait_for("the verdict", lambda: guard.poll().stop is stops)
    assert errors.count("watchdogd: ") == 1


def test_a_plain_process_has_no_end_and_says_so_at_once_and_once(
    make: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_JOB_END_TIME", "PBS_JOBID"):
        monkeypatch.delenv(name, raising=False)
    guard = make(time_left="10m")
    assert not guard.poll()
    assert (
        capsys.readouterr().err.count("no job of Slurm or PBS is known here: no time_left; exit_after") == 1
    )


def test_a_duration_ends_it_where_nobody_tells_an_end(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = make(exit_after="19h50m")
    assert not guard.poll()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 71400)
    wish = guard.poll()
    assert (wish.stop, wish.reason) == (True, "time limit: exit_after 1190 min has passed")
    with pytest.raises(ValueError, match="exit_after = 'soon': write seconds"):
        make(exit_after="soon")


def test_an_end_that_nobody_knows_is_told(
    make: Make,
    squeue: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    squeue("exit 1")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    guard = make(time_left="10m")
    wait_for("the line", lambda: "no time_left" in capsys.readouterr().err)
    assert not guard.poll()


def test_a_squeue_that_hangs_is_ended_and_does_not_hold_up_the_loop(
    make: Make,
    squeue: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls = squeue("exec sleep 600")
    monkeypatch.setattr(training, "SLURM_DEADLINE", 2.0)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    guard = make(time_left="10m")
    wait_for("squeue to be called", calls.exists)
    start = time.monotonic()
    assert not guard.poll()
    assert time.monotonic() - start < 1.5
    wait_for("the line", lambda: "no time_left" in capsys.readouterr().err)


def job_end(monkeypatch: pytest.MonkeyPatch, rank: int, end: int | None) -> training.JobEnd:
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    if end is not None:
        monkeypatch.setenv("SLURM_JOB_END_TIME", str(end))
    return training.JobEnd(rank)


@pytest.mark.parametrize(
    ("rank", "end", "now", "due"),
    [
        (0, 90_000, 10_000, True),  # rank 0 looks at once, for the limit may have been extended before
        (1, 90_000, 10_000, False),  # the others when it would be time to stop
        (1, 90_000, 89_400, False),
        (1, 90_000, 89_408, True),
        (17, 90_000, 89_518, False),  # but not all in the same second
        (17, 90_000, 89_520, True),
        (1, None, 10_000, True),  # or when nothing is known
    ],
)
def test_who_asks_slurm_and_when(
    rank: int, end: int | None, now: float, due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert job_end(monkeypatch, rank, end).due(now, margin=600) is due


def asked_at(end: training.JobEnd, now: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm was asked then, and did not answer."""
    monkeypatch.setattr(training, "_slurm_end", lambda job: None)
    monkeypatch.setattr(time, "time", lambda: now)
    end.read()


def test_slurm_is_not_asked_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    end = job_end(monkeypatch, 0, 90_000)
    asked_at(end, 10_000, monkeypatch)
    assert not end.due(10_000 + 599, margin=600)
    assert end.due(10_000 + 600, margin=600)
    asked_at(end, 89_399, monkeypatch)
    assert end.due(89_400, margin=600), "it is time to stop, so the end is read once more"
    asked_at(end, 89_400, monkeypatch)
    assert not end.due(89_459, margin=600)
    assert end.due(89_460, margin=600)


def test_a_reading_made_before_it_was_time_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    end = job_end(monkeypatch, 0, 90_000)
    asked_at(end, 89_399, monkeypatch)
    assert not end.near(89_400, margin=600)
    asked_at(end, 89_400, monkeypatch)
    assert end.near(89_400, margin=600)


def test_without_any_reading_half_of_the_margin_is_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 10_000.0)
    end = job_end(monkeypatch, 0, 10_500)
    assert not end.near(10_001, margin=600)
    assert not end.near(10_014, margin=1200), "squeue has not had its time yet"
    assert end.near(10_016, margin=1200), "no answer, and half of the margin is gone"


def test_auto_is_twice_a_step_and_a_save(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    guard = make(time_left="auto", heartbeat=False)
    assert guard._wanted_time() == training.UNTIMED_SAVE
    clock[0] += 500  # compiling and loading before the first poll is no step
    guard.poll(step=1)
    for seconds in (3, 7, 5):
        clock[0] += seconds
        guard.poll()
    clock[0] += 40
    guard.saved()
    clock[0] += 6
    guard.poll()
    assert guard._wanted_time() == 2 * 7 + 40
    monkeypatch.undo()


def test_the_time_for_which_a_job_was_suspended_is_no_step(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    before = signal.signal(signal.SIGCONT, lambda number, _: told.append(number))
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    try:
        guard = make(time_left="auto", heartbeat=False)
        for seconds in (5, 5, 3 * 3600):
            guard.poll()
            clock[0] += seconds
        signal.raise_signal(signal.SIGCONT)
        guard.poll()
        clock[0] += 6
        guard.poll()
        assert guard._wanted_time() == 2 * 6 + training.UNTIMED_SAVE
        assert told == [signal.SIGCONT]
        monkeypatch.undo()
        guard.close()
        signal.raise_signal(signal.SIGCONT)
        assert told == [signal.SIGCONT] * 2
    finally:
        signal.signal(signal.SIGCONT, before)


# Agreement

Barrier = Any


def _reduced_by_maximum(rank: int, votes: Any, barrier: Barrier) -> Callable[[int], int]:
    def agree(code: int) -> int:
        votes[rank] = code
        barrier.wait(PATIENCE)
        decided = max(votes)
        barrier.wait(PATIENCE)
        return int(decided)

    return agree


def _rank(rank: int, folder: str, asked: str, votes: Any, barrier: Barrier, ends: Any) -> None:
    """One rank of a training whose ranks look at different moments; only rank 2 can see the switch."""
    home = Path(folder) / f"home-{rank}"
    for name in ("switches", "inbox"):
        (home / name).mkdir(parents=True)
    guard = Guard("run-17", home=home, every=0.01 * rank, heartbeat=False)
    agree = _reduced_by_maximum(rank, votes, barrier)
    guard.exit_if_stopped(agree=agree)
    saves = 0
    for step in range(10_000):
        if rank == 2 and step in (50, 100):
            (home / "switches" / ("run-17.save" if step == 50 else "run-17.kill")).touch()
        wish = guard.poll(step=step, agree=agree)
        if wish.save:
            saves += 1
            guard.saved()
        if wish.stop:
            ends.put((step, saves, wish.reason))
            break
    guard.close()


@pytest.mark.slow
def test_no_rank_leaves_alone(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    votes, barrier, ends = context.Array("i", 3), context.Barrier(3), context.Queue()
    ranks = [
        context.Process(target=_rank, args=(rank, str(tmp_path), "", votes, barrier, ends))
        for rank in range(3)
    ]
    for rank in ranks:
        rank.start()
    found = [ends.get(timeout=PATIENCE) for _ in ranks]
    for rank in ranks:
        rank.join(PATIENCE)
        assert rank.exitcode == 0
    assert len({step for step, _, _ in found}) == 1, found
    assert {saves for _, saves, _ in found} == {1}, found
    reasons = sorted(reason for _, _, reason in found)
    assert reasons == ["kill switch (seen by another rank)"] * 2 + ["kill switch set"]


def test_ranks_agree_not_to_start(home: Path, make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    make().exit_if_stopped(agree=lambda code: code)
    with pytest.raises(SystemExit):
        make().exit_if_stopped(agree=lambda code: max(code, 1))
    assert "another rank was told so" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("decided", "wish"),
    [
        (0, NOTHING),
        (1, Wish(stop=False, save=True, reason="save switch (seen by another rank)")),
        (3, Wish(stop=True, save=True, reason="time limit (seen by another rank)")),
        (4, Wish(stop=True, save=False, reason="memory (seen by another rank)")),
        (6, Wish(stop=True, save=False, reason="signal (seen by another rank)")),
        (8, Wish(stop=True, save=False, reason="kill switch (seen by another rank)")),
    ],
)
def test_what_another_rank_saw_is_done(decided: int, wish: Wish, make: Make) -> None:
    assert make().poll(agree=lambda code: max(code, decided)) == wish


def test_what_agree_raises_is_raised(make: Make) -> None:
    def broken(code: int) -> int:
        raise RuntimeError("a rank is gone")

    with pytest.raises(RuntimeError, match="a rank is gone"):
        make().poll(agree=broken)


# One file for old Pythons


def test_the_file_is_python_3_8_and_imports_the_standard_library_alone() -> None:
    parsed = ast.parse(SOURCE.read_text(), feature_version=(3, 8))
    names = [alias.name for node in ast.walk(parsed) if isinstance(node, ast.Import) for alias in node.names]
    names += [str(node.module) for node in ast.walk(parsed) if isinstance(node, ast.ImportFrom)]
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def _interpreters() -> list[str]:
    """This Python, and the oldest that the Guard is for, where it is installed."""
    kept = sorted(Path.home().glob(".pyenv/versions/3.8.*/bin/python"))
    return [sys.executable, *filter(None, [os.environ.get("WATCHDOGD_PYTHON38"), *map(str, kept[:1])])]


@pytest.mark.slow
@pytest.mark.parametrize("python", _interpreters())
def test_the_file_works_alone(python: str, tmp_path: Path) -> None:
    copied = shutil.copy(SOURCE, tmp_path / "training.py")
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        [python, "-I", "-W", "error", HERE / "core.py", copied, home],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["fine"], done.stdout
    assert done.returncode == 0


# Examples


@contextlib.contextmanager
def example(home: Path, *command: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "WATCHDOGD_HOME": str(home)},
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def output(process: "subprocess.Popen[str]") -> str:
    told, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, told
    return told


def test_the_plain_loop_saves_stops_resumes_and_finishes(home: Path, tmp_path: Path) -> None:
    checkpoint, switches = tmp_path / "line.json", home / "switches"
    command = (sys.executable, str(EXAMPLES / "plain_loop.py"), str(checkpoint))
    with example(home, *command, "100000") as process:
        (switches / "line-fit.save").touch()
        wait_for("the save", lambda: not (switches / "line-fit.save").exists())
        saved = json.loads(checkpoint.read_text())["step"]
        (switches / "line-fit.kill").write_text('{"by": "bob", "reason": "lunch"}')
        assert f"kill switch set by {ME} (the file says bob): lunch" in output(process)
    stopped = json.loads(checkpoint.read_text())["step"]
    assert saved < stopped
    with example(home, *command, str(stopped + 20)) as process:
        assert "line-fit does not start" in output(process)
    (switches / "line-fit.kill").unlink()
    with example(home, *command, str(stopped + 20)) as process:
        assert f"done after {stopped + 20} steps" in output(process)
    with example(home, *command, "100000") as process:
        assert "marked finished" in output(process)


EPOCH = 'echo "epoch $1 saved"; sleep 0.2'


def test_the_shell_loop_ends_after_the_epoch_in_which_it_is_asked(home: Path) -> None:
    with example(home, str(EXAMPLES / "shell_loop.sh"), "1000", "sh", "-c", EPOCH, "epoch") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "epoch 1 saved\n"
        (home / "switches" / "shell-loop.save").touch()
        wait_for("the save", lambda: not (home / "switches" / "shell-loop.save").exists())
        process.send_signal(signal.SIGUSR1)
        assert output(process).splitlines()[-1].endswith(": signal USR1")


def test_the_shell_loop_finishes_and_burns_through(home: Path) -> None:
    command = (str(EXAMPLES / "shell_loop.sh"), "2", "sh", "-c", EPOCH, "epoch")
    with example(home, *command) as process:
        assert output(process).splitlines()[-1] == "done: 2 epochs"
    with example(home, *command) as process:
        assert "marked finished" in output(process)


def test_the_shell_loop_keeps_the_exit_code_of_a_failed_epoch(home: Path) -> None:
    with example(home, str(EXAMPLES / "shell_loop.sh"), "2", "sh", "-c", "exit 7") as process:
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 7
    assert not (home / "switches" / "shell-loop.finished").exists()


def test_the_shell_loop_stops_at_a_kill_switch(home: Path) -> None:
    (home / "switches" / "shell-loop.kill").write_text("wrong data\n")
    with example(home, str(EXAMPLES / "shell_loop.sh"), "2", "sh", "-c", EPOCH, "epoch") as process:
        assert output(process) == "stopped before epoch 1: kill switch: wrong data\n"
