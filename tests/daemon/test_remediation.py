"""Actions as the rounds see them: real rounds over a real process, whose log fell silent."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.waiting import wait_until
from watchdogd.cli import main
from watchdogd.daemon.remediation_context import RemediationContext
from watchdogd.daemon.round import Round
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.wiring import Wiring, assembled
from watchdogd.home.inbox_submit import submit
from watchdogd.home.layout import Home
from watchdogd.plugin import Advice
from watchdogd.remediation.models import DONE, FAILED, Action, ActionRecord

TRAINING = """
import time
def next_batch():
    print("ready", flush=True)
    time.sleep(600)
next_batch()
"""
DEAF = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{TRAINING}"
CALLED = """#!/bin/sh
cat > "$(dirname "$0")/called.json"
echo "$1 is called"
"""


class Place:
    """A home, a training of this machine, and what was told in all rounds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = Home(folder / "home")
        self.home.make()
        self.log = folder / "train.log"
        self.log.write_text("iteration 7 loss 2.5\n")
        os.utime(self.log, (time.time() - 3600, time.time() - 3600))
        (folder / "train.py").write_text(TRAINING)
        (folder / "call").write_text(CALLED)
        (folder / "call").chmod(0o755)
        self.training = self._started()
        self.told: list[str] = []
        self.bodies: list[str] = []

    def _started(self) -> subprocess.Popen[bytes]:
        words = [sys.executable, str(self.folder / "train.py")]
        training = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
        assert training.stdout
        assert training.stdout.readline() == b"ready\n"
        (self.folder / "train.pid").write_text(f"{training.pid}\n")
        return training

    def train(self, program: str) -> None:
        """Another program in place of the training."""
        with self.training as before:
            before.kill()
        (self.folder / "train.py").write_text(program)
        self.training = self._started()

    def configure(self, actions: str, more: str = "") -> None:
        """`actions` are keys of the run."""
        self.home.config.write_text(
            f"""
            [daemon]
            interval = "1s"
            confirm = 1
            [channels.out]
            type = "console"
            [runs.glide]
            pid_file = "{self.folder}/train.pid"
            log = "{self.log}"
            stale_after = "0.1s"
            {actions}
            {more}
            """
        )

    def rounds(self, parts: Wiring, until: str, count: int = 1) -> None:
        """Rounds until so many messages say that."""

        def told() -> bool:
            self.take(parts.engine.round(patience=60.0))
            return sum(until in line for line in self.told) >= count

        wait_until(told, 60, f"'{until}' is told {count} times", every=0.3)

    def take(self, seen: Round | None) -> None:
        assert seen
        for each in (each for each in seen.events if not each.quiet):
            self.told.append(f"{each.kind.name} {each.summary}")
            self.told += [f"NOTICE {fact}" for fact in each.facts if each.label == "ACTION"]
        done = [record for each in seen.events if not each.quiet for record in each.done]
        self.told += [f"DID {record}" for record in done if not any(record in line for line in self.told)]
        letters = [each.message for each in seen.notifications]
        self.bodies += [each.body for each in letters]
        assert all(f"{each.headline}\n{each.body}".count(record) <= 1 for each in letters for record in done)

    def settle(self, parts: Wiring) -> None:
        """Some more rounds, in which nothing new may happen."""
        for _ in range(4):
            self.take(parts.engine.round(patience=60.0))
            time.sleep(0.2)

    def about(self, word: str) -> list[str]:
        """What was told of actions of this name."""
        deed = rf"(NOTICE|DID) {word}(:| FAILED| not done| may have)"
        return [line for line in self.told if re.match(deed, line)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    with place.training as training:
        training.kill()


def begin(place: Place) -> Setup:
    return Setup.load(place.home)


def test_a_hang_from_evidence_to_the_end_of_the_process(place: Place) -> None:
    call = f'{{ exec = ["{place.folder}/call", "ops"] }}'
    place.configure(f'on_hang = ["stacks", {call}, "save-switch", "cancel"]')
    with assembled(place.home, begin(place)) as parts:
        place.rounds(parts, "cancel: ")
        place.settle(parts)
    number = 1
    folder = place.home.evidence / str(number)
    assert " stacks: the rank stands in next_batch (train.py:5); " in place.about("stacks")[0]
    assert f"evidence: {folder}" in place.bodies[0]
    assert "next_batch (train.py:5)" in (folder / "stacks.txt").read_text()
    reports = [body for body in place.bodies if "stacks: the rank stands in" in body]
    assert reports
    assert {body.count("the rank stands in next_batch (train.py:5)") for body in reports} == {1}
    assert "iteration 7 loss 2.5" in (folder / "log.txt").read_text()
    assert str(place.training.pid) in (folder / "queue.txt").read_text()
    assert json.loads((folder / "incident.json").read_text())["check"] == "glide/log_staleness"
    assert folder.stat().st_mode & 0o777 == 0o700

    assert place.about(r"exec \S+/call ops")[0].endswith("s: ops is called")
    called = json.loads((place.folder / "called.json").read_text())
    assert (called["id"], called["run"], called["status"], called["trigger"]) == (
        number, "glide", "CRITICAL", "on_hang",
    )  # fmt: skip
    assert called["evidence"] == str(folder)

    assert (place.home.switches / "glide.save").exists()
    order = [line.split()[1].strip(":") for line in place.about(r"\S+( \S+ ops)?")]
    assert order == ["stacks", "exec", "save-switch", "cancel"]
    notices = [line for line in place.told if line.endswith("(on_hang, incident 1)")]
    assert notices in (
        [],  # the end of the incident came in the same round, and says it
        ["NOTICE call ran, its process ended by SIGTERM, stacks taken (on_hang, incident 1)"],
    )
    assert place.bodies[0].startswith("watchdogd will take stacks, then run ")
    assert not any("set by" in line for line in place.told), "what it pressed is its own action alone"
    assert place.training.wait(240) == -signal.SIGTERM
    assert "SIGTERM is sent to" in place.about("cancel")[0]
    with assembled(place.home, begin(place)) as parts:
        place.rounds(parts, "ended by watchdogd (cancel, incident 1)")
    assert not any(word in line for line in place.told for word in ("crashed", "gone"))


def test_once_an_incident_also_after_a_restart(place: Place) -> None:
    place.configure('on_hang = ["cancel"]')
    place.train(DEAF)
    with assembled(place.home, begin(place)) as parts:
        place.rounds(parts, "cancel: ")
        place.settle(parts)
    with assembled(place.home, begin(place)) as parts:
        place.settle(parts)
    assert len(place.about("cancel")) == 1


def killed(place: Place, what: str) -> None:
    """The history as a daemon leaves it that is killed while it carries `what` out."""
    place.configure(f'on_hang = ["{what}"]')
    with assembled(place.home, begin(place)) as parts:
        parts.engine._remediation._executor._do = lambda task: time.sleep(3600)  # type: ignore[assignment,return-value]
        wait_until(lambda: _begun(place, parts, what), 30, f"{what} is begun", every=0.2)


def _begun(place: Place, parts: Wiring, what: str) -> bool:
    place.take(parts.engine.round(patience=60.0))
    for record in parts.engine._remediation._records:  # evidence hangs as well: it is taken as done
        if record.action.kind == "evidence" and not record.ended:
            parts.engine._remediation._end(record, "done", "", time.time())
    return any(record.action.kind == what for record in parts.engine._remediation._records)


def test_what_a_kill_left_open_is_told_and_not_done_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(place, "cancel")
    with assembled(place.home, begin(place)) as parts:
        place.settle(parts)
        assert place.about("cancel") == []
        monkeypatch.setattr("watchdogd.daemon.remediation.LATE", 0.0)
        place.rounds(parts, "may have been done or not")
        place.settle(parts)
    assert len(place.about("cancel")) == 1
    assert place.training.poll() is None


def test_what_is_harmless_is_done_again_after_a_kill(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(place, "save-switch")
    monkeypatch.setattr("watchdogd.daemon.remediation.LATE", 0.0)
    with assembled(place.home, begin(place)) as parts:
        place.rounds(parts, "save-switch: ")
    assert (place.home.switches / "glide.save").exists()


def test_a_relieved_daemon_hands_its_outcome_over(place: Place) -> None:
    killed(place, "cancel")
    with assembled(place.home, begin(place)) as parts:
        (record,) = (record for record in parts.engine._remediation._records if not record.ended)
        submit(str(place.home.inbox), "deed", str(record.incident), run="glide", incident=record.incident,
                action="cancel", state="done", outcome="SIGTERM is sent to 7")  # fmt: skip
        place.rounds(parts, "cancel: ")
    assert place.about("cancel")[0].endswith(" cancel: SIGTERM is sent to 7")


def test_nothing_that_ends_a_job_is_done_where_it_cannot_be_recorded(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.configure('on_hang = ["save-switch", "cancel"]')
    with assembled(place.home, begin(place)) as parts:
        trouble = type(parts.engine._buffer).keep

        def refuse(ledger: object, record: object) -> None:
            parts.engine._buffer.trouble = "history.db: no space left on device"

        monkeypatch.setattr(type(parts.engine._buffer), "keep", refuse)
        place.rounds(parts, "save-switch: ")
        place.settle(parts)
        assert place.training.poll() is None
        assert place.about("cancel") == []
        monkeypatch.setattr(type(parts.engine._buffer), "keep", trouble)
        place.rounds(parts, "cancel: ")
    assert place.training.wait(240) == -signal.SIGTERM


def test_an_action_that_must_wait_is_promised_for_then(place: Place) -> None:
    call = f'{{ exec = ["{place.folder}/call", "ops"] }}'
    place.configure(f'on_hang = ["save-switch"]\non_gone = [{call}, "save-switch"]')
    with assembled(place.home, begin(place)) as parts:
        place.rounds(parts, "save-switch: ")
        place.training.kill()
        place.training.wait(60)
        place.rounds(parts, "NOTICE exec ")
        place.settle(parts)
    assert len(place.about("save-switch")) == 1
    [alert, notice] = [body for body in place.bodies if "at the earliest" in body]
    then = r"press the save switch at [^(]+ at the earliest \(it did so \d+s ago\)"
    assert re.search(rf"watchdogd will run call, then {then}", alert)
    assert re.search(rf"^watchdogd will {then}", notice, re.MULTILINE)
    assert re.search(r" ack 2$", notice, re.MULTILINE), "which stops it"
    assert any("call ran; still to come: press the save switch (incident 2)" in line for line in place.told)


def test_a_press_that_no_guard_polls_says_so_and_what_ends_the_run(place: Place) -> None:
    place.configure("")
    with assembled(place.home, begin(place)) as parts:
        place.rounds(parts, "OPENED stalled")
        assert main(["kill-switch", "glide", "--home", str(place.home.path), "--reason", "too slow"]) == 0
        place.rounds(parts, ", but no Guard of it was heard of: too slow")
    body = next(each for each in place.bodies if "under watchdogd guard" in each)
    assert "To end it without the switch" in body
    assert f"kill {place.training.pid}\n" in body


def test_a_dry_run_of_actions(place: Place) -> None:
    place.configure('on_hang = ["stacks", "cancel"]', "[actions]\ndry_run = true")
    with assembled(place.home, begin(place)) as parts:
        place.rounds(parts, "cancel not done")
    assert "NOTICE cancel not done: dry run" in place.about("cancel")
    assert place.training.poll() is None


def test_a_dry_daemon_says_what_it_would_do_and_does_nothing(place: Place) -> None:
    place.configure('on_hang = ["cancel"]')
    with assembled(place.home, begin(place), looking=True) as parts:
        seen = parts.engine.rehearse()
    place.take(seen)
    assert [each.kind.name for each in seen.events] == ["OPENED"], "what is done at once is told with it"
    assert place.about("cancel") == ["DID cancel not done: dry run"]
    assert list(place.home.evidence.iterdir()) == []
    assert place.training.poll() is None


def test_an_acknowledged_incident_is_somebodys(place: Place) -> None:
    place.configure("on_hang = []")
    with assembled(place.home, begin(place)) as parts:
        place.rounds(parts, "OPENED")
        submit(str(place.home.inbox), "ack", "1", id=parts.engine.alerts.next_id - 1)
        place.settle(parts)
        place.configure('on_hang = ["cancel"]')
        parts.engine.reload()
        place.settle(parts)
    assert place.about("cancel") == []


def test_a_tick_ends_when_all_is_done(place: Place) -> None:
    place.configure('on_hang = ["stacks", { exec = ["false"] }, "cancel"]')
    with assembled(place.home, begin(place)) as parts:
        place.take(parts.engine.round(patience=60.0))
        told = parts.engine.conclude(60, lambda: True, go_on=True)
    (message,) = (each.message for each in told)
    assert message.headline.startswith(
        "[ACTION] glide: false FAILED, its process ended by SIGTERM, stacks taken (on_hang, incident 1)"
    )
    assert "\nstacks: " in message.body
    assert "\ncancel: SIGTERM is sent to " in message.body
    assert place.training.wait(240) == -signal.SIGTERM


def test_a_switch_is_cleared_before_a_job_is_started_by_hand() -> None:
    clear = Advice("To let its jobs run again:", "watchdogd kill-switch glide --clear")
    pressed = ActionRecord(3, "glide", "on_hang", Action("kill-switch"), 9.0, DONE, then=(clear,))
    again = "scontrol requeue 12"
    requeue = ActionRecord(3, "glide", "on_hang", Action("requeue"), 9.0, FAILED, "no", by_hand=again)
    cancel = replace(requeue, action=Action("cancel"), by_hand="scancel 12")
    context: Any = SimpleNamespace(speaker=lambda _run: None, incidents={})

    def typed(*records: ActionRecord) -> list[str]:
        return [each.command for each in RemediationContext.notice(context, records, "", 9.0).advice]

    assert typed(requeue, pressed) == [clear.command, again]
    assert typed(cancel, pressed) == ["scancel 12", clear.command]
