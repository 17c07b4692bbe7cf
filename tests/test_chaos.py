"""The campaign's model (benchmarks/chaos): it sees each promise broken, and blames nothing that was kept."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from benchmarks.chaos import clock, names, stage
from benchmarks.chaos.campaign import summers
from benchmarks.chaos.clock import WallClock
from benchmarks.chaos.faults import FAULTS, SUMMER
from benchmarks.chaos.journal import EVERYONE, Fault, Journal, Message, Pace, Request, Sample, Truth
from benchmarks.chaos.judge import deadline, judge
from benchmarks.chaos.pace import Pacer
from benchmarks.chaos.plan import Act, draw
from benchmarks.chaos.truths import MODES, TRUTHS
from tests.waiting import wait_until

FULL = Truth("disk fills", "disk-1", begin=100, bound=25, end=160)


def message(
    at: float, status: str, *, channel: str = "hook", key: str = "", target: str = "disk-1"
) -> Message:
    return Message(
        channel, key or f"{status}@{at}", status, target, f"[{status}] {target}: it", at, incidents=(7,)
    )


OPENED, ENDED = message(104, "CRITICAL"), message(164, "RESOLVED")


def journal(*messages: Message, truths: tuple[Truth, ...] = (FULL,), **more: object) -> Journal:
    found = Journal(channels=("hook",), end=10_000, truths=list(truths), messages=list(messages))
    for name, value in more.items():
        setattr(found, name, value)
    return found


def rules(found: Journal) -> list[str]:
    return [each.rule for each in judge(found)]


def killed(at: float, **more: object) -> Fault:
    fault = Fault("daemon killed", at, at, excuses=(EVERYONE,), after=30, crash=True)
    for name, value in more.items():
        setattr(fault, name, value)
    return fault


def test_what_was_kept_is_not_blamed() -> None:
    assert rules(journal(OPENED, ENDED)) == []


def test_what_never_came_is_lost() -> None:
    assert rules(journal()) == ["lost"]


def test_each_channel_has_to_tell() -> None:
    assert rules(journal(OPENED, ENDED, channels=("hook", "mail"))) == ["lost"]


def test_what_was_too_short_needs_not_be_told() -> None:
    assert rules(journal(truths=(replace(FULL, end=120),))) == []


def test_what_came_late_is_late_unless_nobody_could_act() -> None:
    late = message(150, "CRITICAL")
    assert rules(journal(late, ENDED)) == ["late"]
    assert rules(journal(late, ENDED, faults=[killed(110)])) == []


def test_who_is_seen_to_make_good_rounds_is_excused_no_longer() -> None:
    assert deadline(journal(faults=[killed(110)]), "hook", 100, 25) == 155
    assert deadline(journal(faults=[killed(110)], beats=[90, 111, 118]), "hook", 100, 25) == 136


def test_what_was_late_on_a_slow_machine_is_not_late() -> None:
    late = message(150, "CRITICAL")
    slow = [Pace(105, 1.2), Pace(120, 9.5), Pace(600, 40)]
    assert rules(journal(late, ENDED, pace=slow)) == []
    assert deadline(journal(pace=slow), "hook", 100, 25) == 125 + 3.0 * 8.5
    assert rules(journal(late, ENDED, pace=[Pace(120, 2.0), Pace(600, 40)])) == ["late"]


def test_how_slow_it_is_is_measured_without_waiting() -> None:
    found: list[Pace] = []
    pacer = Pacer(found)

    def measured() -> bool:
        pacer.look()
        return bool(found)

    wait_until(measured, 120, "a process came to its end", every=0.05)
    pacer.end()
    assert found[0].slower >= 1
    assert found[0].at == pytest.approx(time.time(), abs=60)


def test_a_fault_of_one_channel_excuses_no_other() -> None:
    down = Fault("mail hangs", 90, 200, excuses=("mail",), after=20)
    assert rules(journal(faults=[down])) == ["lost"]
    assert rules(journal(faults=[down], channels=("mail",))) == []


def test_time_without_a_home_to_come_back_to_is_excused() -> None:
    away = Fault("home gone", 105, 300, strands=True)
    assert deadline(journal(faults=[killed(110), away]), "hook", 100, 25) == 345
    assert deadline(journal(faults=[away]), "hook", 100, 25) == 125


def test_an_end_that_does_not_come_is_missed() -> None:
    assert rules(journal(OPENED)) == ["no end"]


def test_an_end_is_not_missed_of_what_could_not_be_written_before_a_crash() -> None:
    away = Fault("home gone", 102, 200, strands=True, unwritten=True)
    assert rules(journal(OPENED, faults=[away])) == ["no end"]
    assert rules(journal(OPENED, faults=[away, killed(130)])) == []
    assert rules(journal(OPENED, faults=[away, killed(230)])) == ["no end"]
    assert rules(journal(OPENED, faults=[away], mode="ticks")) == []  # a tick ends by itself
    assert rules(journal(OPENED, faults=[killed(130)])) == ["no end"]


def test_an_end_without_a_beginning_is_seen() -> None:
    assert sorted(rules(journal(ENDED))) == ["lost", "no beginning"]


def test_what_comes_twice_is_seen_but_for_one_a_crash() -> None:
    again, third = replace(OPENED, at=112), replace(OPENED, at=118)
    assert rules(journal(OPENED, again, ENDED)) == ["twice"]
    assert rules(journal(OPENED, again, ENDED, faults=[killed(108)])) == []
    assert rules(journal(OPENED, again, third, ENDED, faults=[killed(108)])) == ["twice"]
    assert rules(journal(OPENED, again, ENDED, faults=[killed(140)])) == ["twice"]


def test_what_a_tick_could_not_mark_may_come_again() -> None:
    twice = (message(104, "CRITICAL", key="n7"), message(140, "CRITICAL", key="n7"), ENDED)
    read_only = Fault("home read-only", 100, 130, unwritten=True)
    assert rules(journal(*twice, faults=[read_only])) == ["twice"]
    assert rules(journal(*twice, faults=[read_only], mode="ticks")) == []


def test_who_is_gone_already_is_not_killed_twice() -> None:
    process = subprocess.Popen(["true"])
    gone = psutil.Process(process.pid)
    process.wait(60)
    stage.killed([gone])


def test_what_nobody_knows_to_have_arrived_may_come_again() -> None:
    assert rules(journal(replace(OPENED, confirmed=False), replace(OPENED, at=112), ENDED)) == []


@pytest.mark.parametrize(
    "said",
    [
        message(50, "CRITICAL"),
        message(900, "CRITICAL"),
        message(120, "RESOLVED"),
        message(120, "CRITICAL", target="disk-2"),
        message(120, "WARNING", target="chaos-watch"),
    ],
)
def test_what_was_not_so_is_seen(said: Message) -> None:
    assert "not so" in rules(journal(OPENED, ENDED, said))


def test_what_a_fault_brings_is_so() -> None:
    own = message(120, "WARNING", target="chaos-watch")
    gap = killed(110, explains=("chaos-watch",))
    assert rules(journal(OPENED, ENDED, own, faults=[gap])) == []
    assert rules(journal(OPENED, ENDED, replace(own, at=900), faults=[gap])) == ["not so"]


def test_a_truth_whose_end_nobody_could_see_goes_on() -> None:
    """It ended and began again while the daemon was away: what was told stands."""
    again = replace(FULL, begin=166, end=300)
    stopped = Fault("daemon frozen", 158, 170, excuses=(EVERYONE,), after=25)
    told = (OPENED, message(310, "RESOLVED"))
    assert rules(journal(*told, truths=(FULL, again), faults=[stopped])) == []
    assert rules(journal(*told, truths=(FULL, replace(again, begin=230)))) == ["lost"]


def test_a_reminder_of_what_somebody_works_on_is_seen() -> None:
    asked = [Request("ack", "disk-1", 110, incident=7)]
    long = (replace(FULL, end=400),)
    told = (OPENED, message(405, "RESOLVED"))
    assert rules(journal(*told, message(120, "REMINDER"), truths=long, requests=asked)) == []
    assert rules(journal(*told, message(200, "REMINDER"), truths=long, requests=asked)) == ["acknowledged"]


def test_what_is_silenced_needs_not_and_must_not_be_told() -> None:
    asked = [Request("silence", "disk-1", 90, end=600)]
    assert rules(journal(truths=(replace(FULL, end=400),), requests=asked)) == []
    told = (message(200, "CRITICAL"), message(405, "RESOLVED"))
    assert rules(journal(*told, truths=(replace(FULL, end=400),), requests=asked)) == ["silenced"]


def test_what_is_wrong_after_a_silence_is_told() -> None:
    asked = [Request("silence", "disk-1", 90, end=200)]
    assert rules(journal(truths=(replace(FULL, end=400),), requests=asked)) == ["lost"]


def test_an_event_is_told_however_short_it_was() -> None:
    pressed = replace(FULL, event=True, statuses=("INFO",))
    assert rules(journal(truths=(pressed,))) == ["lost"]
    assert rules(journal(message(110, "INFO"), truths=(pressed,))) == []


def test_what_grows_and_what_is_left_is_seen() -> None:
    assert rules(journal(OPENED, ENDED, samples=[Sample(110, 90_000, 20, 3)])) == ["grew"]
    assert rules(journal(OPENED, ENDED, left=["a process is left"])) == ["left"]


def test_a_journal_is_kept_whole(tmp_path: Path) -> None:
    found = journal(OPENED, ENDED, faults=[killed(108)], requests=[Request("ack", "disk-1", 110)])
    found.save(tmp_path / "journal")
    again = Journal.load(tmp_path / "journal")
    assert judge(again) == judge(found)
    assert list(again.lines()) == list(found.lines())


def test_a_seed_draws_the_same_again_and_no_place_is_taken_twice() -> None:
    def act(name: str, *places: str, truth: bool = False) -> Act:
        return Act(
            name,
            ("local",),
            places,
            (3, 30),
            1.0,
            lambda scene: iter(()),
            lambda step, now: killed(now),
            truth,
        )

    acts = [act("fills", "a", "b", truth=True), act("kills", "daemon"), act("stops", "daemon")]
    steps = draw(7, "local", 10, acts)
    assert [each.line() for each in steps] == [each.line() for each in draw(7, "local", 10, acts)]
    assert [each.line() for each in steps] != [each.line() for each in draw(8, "local", 10, acts)]
    for place in ("a", "b", "daemon"):
        mine = [each for each in steps if each.place == place]
        assert len(mine) > 2
        assert all(one.at + one.lasting < other.at for one, other in pairwise(mine))


def names_of(mode: str) -> set[str]:
    """What is drawn in half a day."""
    return {step.act.name for step in draw(5, mode, 720, [*TRUTHS, *FAULTS])}


@pytest.mark.parametrize("mode", MODES)
def test_each_act_of_a_mode_is_drawn(mode: str) -> None:
    drawn = names_of(mode)
    assert drawn == {act.name for act in (*TRUTHS, *FAULTS) if mode in act.modes}
    assert {"another version", "no more memory", "a colleague plants", "name service is silent"} <= drawn
    assert "clock set" in drawn
    assert ({"node down", "sbatch twice", "all of Slurm garbage"} <= drawn) is (mode == "chain")


def test_summer_begins_and_ends_when_it_was_drawn(tmp_path: Path) -> None:
    steps = draw(5, "ticks", 60, [act for act in FAULTS if act.name == SUMMER])
    changes = [(1_800_000_000 + at, begins) for at, begins in summers(steps)]
    assert len(changes) > 4
    (tmp_path / "zone").write_bytes(clock.zone(changes))
    moments = [int(at) + by for at, _ in changes for by in (-1, 1)]
    program = f"import time; print(*(time.localtime(each).tm_isdst for each in {moments}))"
    env = {"TZ": f":{tmp_path}/zone"}
    said = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    shown = [bool(int(word)) for word in said.stdout.split()]
    assert shown == [each for _, begins in changes for each in (not begins, begins)]


@pytest.mark.debian
def test_a_clock_is_set_for_those_who_have_it_alone(tmp_path: Path) -> None:
    wall = WallClock(tmp_path)
    wall.enter(tmp_path)
    before, after = tmp_path / "before", tmp_path / "after"
    before.touch()
    known = before.stat().st_mtime
    program = (
        f"import os, site, sys, time; site.addsitedir({str(tmp_path)!r}); open(sys.argv[2], 'w').close(); "
        "print(time.time(), time.time_ns() / 1e9, *(os.stat(path).st_mtime for path in sys.argv[1:]))"
    )

    def shown() -> list[float]:
        words = [sys.executable, "-c", program, str(before), str(after)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return [float(word) for word in done.stdout.split()]

    for ahead in (0.0, 18_000.0, -7200.0):
        if ahead:
            wall.set(ahead)
        found = shown()
        assert found[:2] == pytest.approx([time.time() + ahead] * 2, abs=60)
        assert found[2] == pytest.approx(known, abs=0.001)  # made before the clock was set
        assert found[3] == pytest.approx(found[0], abs=60)
        assert wall.shown(time.time()) == pytest.approx(time.time() + ahead, abs=60)


def test_a_name_service_answers_or_fails() -> None:
    question = b"\x12\x34\1\0\0\1\0\0\0\0\0\0\4hook\4test\0"
    found = names.answer(question + b"\0\1\0\1")
    assert found.endswith(socket.inet_aton("127.0.0.1"))
    assert found[:4] == b"\x12\x34\x81\x80"
    assert names.answer(question + b"\0\x1c\0\1")[6:8] == b"\0\0"  # no address of IPv6
    failed = names.answer(question + b"\0\1\0\1", names.SERVER_FAILED)
    assert (failed[3] & 15, failed[6:8]) == (2, b"\0\0")
