"""What the daemon leaves for `status`."""

from __future__ import annotations

import json
import math
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.history.values import NOW, alerts, incident, standing
from watchdogd.daemon.status_file import StatusWriter, observation_json, snapshot
from watchdogd.home.layout import Home
from watchdogd.incidents.models import AlertPolicy, Observation
from watchdogd.plugin import Metric, Result, Status
from watchdogd.system.bounded_io import BoundedIO

if TYPE_CHECKING:
    from pathlib import Path

CHECK = "run-17/log_staleness"


def test_what_comes_and_goes_is_marked() -> None:
    calm = standing(about=incident(1), flips=(NOW - 700,), subject="node5")
    flapping = standing(about=incident(2), flips=(NOW - 900, NOW - 700, NOW - 500), subject="node6")
    known = {CHECK: AlertPolicy(every=60.0)}
    picture = snapshot(
        alerts(calm, replace(flapping, subject="node6")),
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
        alerts(whole),
        {},
        now=NOW,
        link=None,
        gaps=(),
        every=60.0,
        troubles=(),
        policies={CHECK: AlertPolicy()},
    )
    [said] = picture["incidents"]
    assert (said["run"], said["subject"]) == (None, None)


def said(check: str, summary: str, subject: str | None = None) -> dict[str, Any]:
    return {"check": check, "subject": subject, "summary": summary}


def published(home: Home, *rounds: list[dict[str, Any]], known: tuple[str, ...]) -> list[tuple[str, str]]:
    """What the picture shows after the rounds of one process."""
    with closing(BoundedIO("home")) as patient:
        picture = StatusWriter(home, patient)
        for checks in rounds:
            picture.publish({"checks": checks}, known)
    return [(each["check"], each["summary"]) for each in json.loads(home.status.read_text())["checks"]]


def test_a_tick_in_which_a_check_was_not_due_still_shows_what_it_said(tmp_path: Path) -> None:
    home, known = Home(tmp_path), ("run/job", "disk/quota", "gone/check")
    first = [said("gone/check", "old"), said("disk/quota", "78 %", "bytes"), said("disk/quota", "9 %")]
    published(home, first, known=known)
    now_known = ("run/job", "disk/quota")
    second = published(home, [], [said("run/job", "runs")], known=now_known)
    assert second == [("run/job", "runs"), ("disk/quota", "78 %"), ("disk/quota", "9 %")]
    third = published(home, [said("disk/quota", "80 %", "bytes")], known=now_known)
    assert third == [
        ("run/job", "runs"),
        ("disk/quota", "80 %"),
    ]  # the latest results replace all earlier ones


@pytest.mark.parametrize("left", ["", "[]", '{"checks": [1]}', '{"checks": [{}]}', "\0\0"])
def test_a_picture_that_cannot_be_read_is_none(tmp_path: Path, left: str) -> None:
    home = Home(tmp_path)
    home.status.write_text(left)
    assert published(home, [said("run/job", "runs")], known=("run/job",)) == [("run/job", "runs")]


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_cannot_say_is_null(odd: float) -> None:
    result = Result(Status.CRITICAL, "loss nan", {"loss": Metric(odd, "", 2.0, odd), "step": Metric(7)})
    said = observation_json(Observation(CHECK, "run-17", "run-17", result, NOW))
    assert said["metrics"] == {
        "loss": {"value": None, "unit": "", "warn": 2.0, "crit": None},
        "step": {"value": 7, "unit": "", "warn": None, "crit": None},
    }
    json.dumps(said, allow_nan=False)
