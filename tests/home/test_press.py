"""A press of a switch reaches every Guard of its run, whichever of Guard, daemon and press came first."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.dog import Dog
from tests.lab.processes import started
from tests.waiting import wait_until
from watchdogd import training
from watchdogd.batch.run_models import run_of
from watchdogd.cli import main
from watchdogd.config.loading import load
from watchdogd.daemon import config_changes
from watchdogd.daemon.setup import Setup
from watchdogd.home.layout import Home
from watchdogd.plugins.job_liveness.check import kill_switch
from watchdogd.training import Guard

POLLING = 1.0
"""Seconds within which a Guard polls again."""
OPERATIONS = ("guard", "round", "edit", "default", "press", "clear", "save", "saved")
CONFIG = '[daemon]\ninterval = "1s"\n[runs.run-17]\nkill_switch = "{}/kill"\n'
LOOP = """
import os, sys, time
from watchdogd.training import Guard
guard = Guard("run-17", **eval(sys.argv[1]))
print("ready", flush=True)
while not (wish := guard.poll(step=1)).stop:
    if wish.save:
        guard.saved()
        print("saved", flush=True)
    time.sleep(0.02)
print(wish.reason, flush=True)
"""
Start = Callable[..., "subprocess.Popen[str]"]


class Scene:
    """A home with one run, and what became of its switches: `stopped` and `saving` are what should hold."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder / "home")
        self.home.make()
        self.guards: list[Guard] = []
        self.stopped = self.saving = False
        self._edits = 0
        self.edit()

    def edit(self) -> None:
        """The switches lie in a new place from now on."""
        self._edits += 1
        work = self.home.path.parent / f"work-{self._edits}"
        work.mkdir()
        self.home.write(
            self.home.config, f'[runs.run-17]\nkill_switch = "{work}/kill"\nsave_switch = "{work}/save"\n'
        )

    def default(self) -> None:
        """They lie in home again."""
        self.home.write(self.home.config, "[runs.run-17]\n")

    def guard(self) -> None:
        """One more process trains."""
        self.guards.append(Guard("run-17", home=self.home.path, every=0, signals=False, heartbeat=False))

    def round(self) -> None:
        """The daemon has its round."""
        setup = Setup.load(self.home)
        config_changes.lay_out(self.home, setup.config, setup.checks)

    def press(self) -> None:
        """Somebody stops the run."""
        assert self._typed("kill-switch") == 0
        self.stopped = True

    def clear(self) -> None:
        """It may go on."""
        assert self._typed("kill-switch", "--clear") == 0
        self.stopped = False

    def save(self) -> None:
        """Somebody wants a checkpoint."""
        assert self._typed("save-switch") == 0
        self.saving = True

    def saved(self) -> None:
        """A process has written one."""
        for guard in self.guards[:1]:
            guard.poll()
            guard.saved()
            self.saving = False

    def holds(self) -> bool:
        """Whether Guards, verbs and daemon all see what was done last."""
        wishes = [guard.poll() for guard in self.guards]
        config = load(self.home)
        run = run_of("run-17", config.runs["run-17"], config, self.home, "none")
        pressed = kill_switch(run.kill_switch, run.home_kill_switch)
        told = [self._typed(f"{kind}-switch", "--show") == 0 for kind in ("kill", "save")]
        return (
            all((wish.stop, wish.save) == (self.stopped, self.saving) for wish in wishes)
            and bool(pressed) == self.stopped
            and told == [self.stopped, self.saving]
        )

    def close(self) -> None:
        """No threads stay."""
        for guard in self.guards:
            guard.close()

    def _typed(self, *words: str) -> int:
        with contextlib.redirect_stdout(None):
            return main([*words, "run-17", "--home", str(self.home.path)])


@settings(max_examples=25)
@given(st.lists(st.sampled_from(OPERATIONS), max_size=10))
def test_in_whatever_order_all_see_what_was_done_last(operations: list[str]) -> None:
    folder = Path(tempfile.mkdtemp())
    scene = Scene(folder)
    try:
        for number, operation in enumerate(operations):
            getattr(scene, operation)()
            assert scene.holds(), operations[: number + 1]
    finally:
        scene.close()
        shutil.rmtree(folder)


@pytest.fixture
def dog(tmp_path: Path) -> Dog:
    dog = Dog(tmp_path / "home")
    (tmp_path / "elsewhere").mkdir()
    return dog.settle(CONFIG.format(tmp_path / "elsewhere"))


@pytest.fixture
def start(dog: Dog) -> Iterator[Start]:
    """Starts a process that trains; it is ended at the end."""
    with contextlib.ExitStack() as stack:

        def begin(*words: str, options: str = "{}") -> subprocess.Popen[str]:
            argv = [*words, sys.executable, "-c", LOOP, options]
            process = stack.enter_context(
                subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=dog.env, start_new_session=True)
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            return process

        yield begin


def reason(process: subprocess.Popen[str], pressed_at: float) -> str:
    """Why the training stopped, which is within its polling second."""
    said = process.communicate(timeout=60)[0]
    assert time.monotonic() - pressed_at < 20 * POLLING
    return said


NOBODY = (
    "watchdogd: no Guard of run-17 was heard of: nothing stops for it but what runs under watchdogd guard"
)


def press(dog: Dog, verb: str = "kill-switch", said: str = "") -> float:
    done = dog(verb, "run-17", "--reason", "lunch")
    assert (done.returncode, done.stderr) == (0, said)
    return time.monotonic()


def test_a_guard_that_is_first_and_never_a_daemon(dog: Dog, start: Start) -> None:
    training = start()
    assert "lunch" in reason(training, press(dog))


def test_a_guard_that_is_first_then_a_daemon_then_an_edit(dog: Dog, start: Start, tmp_path: Path) -> None:
    first = start()
    with dog.running():
        second = start()
        (tmp_path / "new").mkdir()
        (dog.home / "config.toml").write_text(CONFIG.format(tmp_path / "new"))
        third = start()
        pressed_at = press(dog)
        assert all("lunch" in reason(each, pressed_at) for each in (first, second, third))
        assert (tmp_path / "new" / "kill").exists()


def test_who_touches_the_configured_file_by_hand_is_seen_where_a_daemon_came_later(
    dog: Dog, start: Start, tmp_path: Path
) -> None:
    training = start()
    with dog.running():
        wait_until((dog.home / "switches" / "run-17.json").exists, 10, "the daemon laid out the run")
        time.sleep(POLLING)
        (tmp_path / "elsewhere" / "kill").touch()
        assert reason(training, time.monotonic()) == "kill switch set\n"


def test_a_guard_that_was_given_a_path_of_its_own_is_reached_too(
    dog: Dog, start: Start, tmp_path: Path
) -> None:
    training = start(options=repr({"kill_switch": f"{tmp_path}/its-own", "save_switch": f"{tmp_path}/save"}))
    press(dog, "save-switch")
    assert training.stdout is not None
    assert training.stdout.readline() == "saved\n"
    wait_until(lambda: dog("save-switch", "run-17", "--show").returncode == 1, 10, "the switch is removed")
    assert "lunch" in reason(training, press(dog))


def test_the_verb_guard_hears_of_it_before_any_daemon(dog: Dog, tmp_path: Path) -> None:
    script = "trap 'echo asked; exit 0' USR1; echo ready; while :; do sleep 0.05; done"
    words = [sys.executable, "-m", "watchdogd", "guard", "--run", "run-17", "--", "sh", "-c", script]
    with started(words, stdout=subprocess.PIPE, text=True, env=dog.env) as guard:
        assert guard.stdout is not None
        assert guard.stdout.readline() == "ready\n"
        try:
            assert reason(guard, press(dog, said=f"{NOBODY}\n")) == "asked\n"
        finally:
            guard.kill()


def test_a_guard_that_polls_elsewhere_is_named(
    dog: Dog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat = dog.home / "inbox" / "run-17.beat.node5.4711.json"
    words = ["kill-switch", "run-17", "--home", str(dog.home)]
    seen = ["/else/kill", "../switches/run-17.kill"]
    for polls, said in [
        (["/else/kill\nand there"], "polls /else/kill and there: touch its kill switch there too"),
        ([], "sees no switch just now"),
        (seen, ""),
        ([f"{tmp_path}/home/../elsewhere/kill"], ""),
        (None, ""),  # it has ended, perhaps since it obeyed
        ("text", ""),
        ([7, None], "sees no switch just now"),
    ]:
        beat.write_text(json.dumps({"run": "run-17", "host": "node5", "pid": 4711, "polls": polls}))
        assert main(words) == (1 if said else 0)
        out, err = capsys.readouterr()
        what = "watchdogd: the Guard of process 4711 on node5 does not see the kill switch of run-17: it"
        assert err == (f"{what} {said}\n" if said else "")
        assert out.startswith("kill switch of run-17 ")
    beat.write_text(json.dumps({"run": "run-17", "host": "node5", "pid": 4711, "polls": ["/else/kill"]}))
    os.utime(beat, (1e9, 1e9))  # that process has ended long ago
    assert main(words) == 0
    assert main([*words, "--clear"]) == 0


@pytest.mark.root
def test_a_guard_that_may_not_look_at_home_says_what_it_polls(dog: Dog, start: Start, tmp_path: Path) -> None:
    for folder in (dog.home, *dog.home.parents):
        if str(folder).startswith("/tmp/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    (dog.home / "inbox").chmod(0o733)
    options = {"kill_switch": f"{tmp_path}/elsewhere/other"}
    training = start("setpriv", "--reuid=65534", "--clear-groups", "--", options=repr(options))
    wait_until(lambda: list((dog.home / "inbox").glob("run-17.beat.*")), 10, "it beats")
    done = dog("kill-switch", "run-17")
    assert done.returncode == 1
    assert f"process {training.pid} on " in done.stderr
    assert f"polls {tmp_path}/elsewhere/other" in done.stderr
    (tmp_path / "elsewhere" / "other").touch()
    assert training.wait(60) == 0


def test_of_places_that_fail_the_others_are_set(dog: Dog, start: Start, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").rmdir()
    training = start()
    done = dog("kill-switch", "run-17")
    assert done.returncode == 1
    assert f"no folder {tmp_path}/elsewhere: make it" in done.stderr
    assert f"is set: {dog.home}/switches/run-17.kill\n" in done.stdout
    assert "kill switch set" in reason(training, time.monotonic())


def test_a_press_clears_no_file_that_is_no_switch_of_it(dog: Dog, tmp_path: Path) -> None:
    """What home's switch names as its other places is foreign text."""
    others = {
        tmp_path / "diary": "dear diary",
        tmp_path / "of-another-run": '{"run": "pike", "switch": "kill"}',
        tmp_path / "of-another-kind": '{"run": "run-17", "switch": "save"}',
        tmp_path / "former": '{"run": "run-17", "switch": "kill"}',
    }
    for path, text in others.items():
        path.write_text(text)
    places = [*map(str, others), str(tmp_path), "former", 7, None]
    (dog.home / "switches" / "run-17.kill").write_text(json.dumps({"places": places}))
    assert dog("kill-switch", "run-17", "--clear").returncode == 0
    assert [path.name for path in others if not path.exists()] == ["former"]


def test_a_hung_home_hides_no_switch_elsewhere_nor_the_other_way_round(
    dog: Dog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, own = tmp_path / "mine" / "kill", dog.home / "switches" / "run-17.kill"
    mine.parent.mkdir()
    for hung, seen in ((dog.home, mine), (mine.parent, own)):
        with contextlib.closing(Guard("run-17", home=dog.home, kill_switch=mine, every=0)) as guard:
            with hanging(monkeypatch, hung):
                for _ in range(3):
                    assert not guard.poll()
                seen.touch()
                wait_until(lambda: guard.poll().stop, 5, f"{seen} is seen while {hung} hangs")
            seen.unlink()


@contextlib.contextmanager
def hanging(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[None]:
    """Every stat below it waits until the end."""
    thawed, real = threading.Event(), os.stat

    def stat(path: Any, **options: Any) -> os.stat_result:
        if str(path).startswith(f"{folder}/"):
            thawed.wait(60)
        return real(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stat)
        try:
            yield
        finally:
            thawed.set()


def test_a_run_in_config_toml_alone_has_its_limits_at_once(dog: Dog) -> None:
    """Read by tomllib, and by the reader of Pythons that have none."""
    text = """
[daemon]
interval = "1m"
[runs."my run"]  # added by hand
kill_switch = "work/kill"
save_switch = '$WORK/save'   # a comment
memory_free = "5%"
node_disks = ["/tmp", "/dev/shm"]
quiet = [{ match = 'saving', allow = '40m' }]
[runs.other]
memory_free = "7%"
[disks.scratch]
path = "/"
"""
    (dog.home / "config.toml").write_text(text)
    os.environ["WORK"] = "/scratch"
    try:
        found = training.places("my run", str(dog.home))
        assert found.kill_switch == f"{dog.home}/work/kill"
        assert found.save_switch == "/scratch/save"
        assert (found.memory_free, found.node_disks) == ("5%", ("/tmp", "/dev/shm"))
        told = training._run_tables(text)
        assert {name: training._absolute(table, str(dog.home)) for name, table in told.items()} == (
            training._configured(str(dog.home))
        )
    finally:
        del os.environ["WORK"]
    assert training.places("unknown", str(dog.home)).memory_free is None


def test_a_broken_config_costs_a_guard_one_line(dog: Dog, capsys: pytest.CaptureFixture[str]) -> None:
    (dog.home / "config.toml").write_text("[runs.run-17")
    with contextlib.closing(Guard("run-17", home=dog.home, every=0)) as guard:
        for _ in range(3):
            assert not guard.poll()
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert f"{dog.home}/config.toml cannot be read" in told
        (dog.home / "switches" / "run-17.kill").touch()
        assert guard.poll().stop


def test_a_guard_ends_its_beats_with_no_switch(dog: Dog) -> None:
    """Nobody is told of a process that has ended well."""
    with contextlib.closing(Guard("run-17", home=dog.home, every=0)) as guard:
        guard.poll()
        beat = wait_until(lambda: next(dog.home.glob("inbox/run-17.beat.*"), None), 10, "it beats").value
        assert json.loads(beat.read_text())["polls"][-1] == "../switches/run-17.save"
    wait_until(lambda: json.loads(beat.read_text())["polls"] is None, 10, "its last beat says so")
