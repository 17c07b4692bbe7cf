"""What the daemon leaves for `status`."""

from dataclasses import replace

from tests.history.values import NOW, book, incident, standing
from watchdogd.engine.status import snapshot
from watchdogd.incident import Policy

CHECK = "run-17/log_staleness"


def test_what_comes_and_goes_is_marked() -> None:
    calm = standing(about=incident(1), flips=(NOW - 700,), subject="node5")
    flapping = standing(about=incident(2), flips=(NOW - 900, NOW - 700, NOW - 500), subject="node6")
    known = {CHECK: Policy(every=60.0)}
    picture = snapshot(
        book(calm, replace(flapping, subject="node6")),
        {},
        now=NOW,
        link=None,
        gaps=(),
        every=60.0,
        troubles=(),
        policies=known,
    )
    assert {each["id"]: each["flapping"] for each in picture["incidents"]} == {1: False, 2: True}


def test_who_has_no_run_or_subject_has_null() -> None:
    whole = standing(about=incident(3, run="", subject=""))
    picture = snapshot(
        book(whole), {}, now=NOW, link=None, gaps=(), every=60.0, troubles=(), policies={CHECK: Policy()}
    )
    [said] = picture["incidents"]
    assert (said["run"], said["subject"]) == (None, None)
