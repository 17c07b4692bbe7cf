"""The campaign's model (benchmarks/chaos): it sees each promise broken, and blames nothing that was kept."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.chaos.journal import EVERYONE, Fault, Journal, Message, Request, Sample, Truth
from benchmarks.chaos.judge import deadline, judge
from benchmarks.chaos.plan import Act, draw

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


def test_an_end_without_a_beginning_is_seen() -> None:
    assert sorted(rules(journal(ENDED))) == ["lost", "no beginning"]


def test_what_comes_twice_is_seen_but_for_one_a_crash() -> None:
    again, third = replace(OPENED, at=112), replace(OPENED, at=118)
    assert rules(journal(OPENED, again, ENDED)) == ["twice"]
    assert rules(journal(OPENED, again, ENDED, faults=[killed(108)])) == []
    assert rules(journal(OPENED, again, third, ENDED, faults=[killed(108)])) == ["twice"]
    assert rules(journal(OPENED, again, ENDED, faults=[killed(140)])) == ["twice"]


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
