"""What is said of a kill switch that is cleared: whether its run stopped, waits, or runs on."""

from pathlib import Path

import pytest

from watchdogd.daemon.switch_events import RunNow, touch_events
from watchdogd.home.inbox import Submission
from watchdogd.incidents.models import IncidentEvent
from watchdogd.plugin import UNWATCHED, Job

NOON = 1_795_780_800.0
STOPPED = {"xl-3b": "stopped on request by mia"}


def touch(action: str, at: float, reason: str = "") -> Submission:
    said = {"run": "xl-3b", "switch": "kill", "action": action, "reason": reason}
    return Submission(Path("x"), "touch", "mia", at, said)


def told(known: RunNow, stops: dict[str, str], *touches: Submission) -> IncidentEvent:
    touches = touches or (touch("cleared", NOON),)
    (found,) = touch_events(touches, lambda _: None, NOON, stops, lambda _run, _kind: known)
    return found


def jobs(*states: str) -> tuple[Job, ...]:
    return tuple(
        Job(str(number), str(number), "xl-3b", "mia", state) for number, state in enumerate(states, 51)
    )


@pytest.mark.parametrize(
    ("known", "stops", "follows"),
    [
        (RunNow("process", jobs("RUNNING")), {}, "process 51 runs on"),
        (RunNow("slurm", jobs("RUNNING", "PENDING")), STOPPED, "job 51 runs on"),
        (RunNow("slurm", jobs("RUNNING", "RUNNING")), {}, "2 jobs run on"),
        (RunNow("slurm", jobs("PENDING")), STOPPED, "job 51 may start"),
        (RunNow("slurm", ()), STOPPED, UNWATCHED),
        (RunNow("slurm", ()), {}, ""),
        (RunNow(), STOPPED, ""),
    ],
    ids=["runs", "runs and waits", "two run", "waits", "stopped", "gone before", "not known"],
)
def test_a_cleared_kill_switch_says_what_is_so_without_it(
    known: RunNow, stops: dict[str, str], follows: str
) -> None:
    found = told(known, stops)
    assert found.summary == ", ".join(filter(None, ["kill switch cleared by mia", follows]))
    assert found.facts == tuple(f"before: {was}" for was in stops.values())
    assert found.advice == ()


def test_one_that_is_set_says_how_it_is_taken_back() -> None:
    for known in (RunNow("slurm", jobs("RUNNING")), RunNow("slurm", jobs("PENDING")), RunNow("process", ())):
        found = told(known, {}, touch("set", NOON))
        assert [(each.sentence, each.command) for each in found.advice] == [
            ("To take it back:", "watchdogd kill-switch xl-3b --clear")
        ]


def test_one_set_and_cleared_at_once_has_its_reason_beside_who_gave_it() -> None:
    found = told(
        RunNow("process", jobs("RUNNING"), polled=False),
        {},
        touch("set", NOON - 9, "wrong data"),
        touch("cleared", NOON),
    )
    assert found.summary == "kill switch set by mia (wrong data) and cleared after 9s, process 51 runs on"
