"""The page counts what is open beside the runs, and says how to answer each incident."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import TYPE_CHECKING

import pytest

from tests.web.evening import gathered
from watchdogd.declaration import Column
from watchdogd.incidents.models import HOME_CLOSED, HOME_SILENT
from watchdogd.plugin import Status
from watchdogd.web.columns import in_words
from watchdogd.web.render import answers, render
from watchdogd.web.run_forecast import headline

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("states", "others", "said"),
    [
        ("running", (Status.CRITICAL,), "The run trains; 1 CRITICAL open"),
        ("running hung", (Status.WARNING, Status.CRITICAL, Status.WARNING),
         "1 of 2 runs trains, 1 stalled; 1 CRITICAL, 2 WARNING open"),
        ("", (Status.WARNING,), "No run is watched; 1 WARNING open"),
    ],
)  # fmt: skip
def test_the_headline_counts_what_the_runs_do_not_tell(
    states: str, others: tuple[Status, ...], said: str
) -> None:
    assert headline(states.split(), others) == said


def test_each_open_incident_has_its_answers_and_says_that_it_comes_and_goes(tmp_path: Path) -> None:
    content = replace(gathered(tmp_path), command="watchdogd --home /data/w")
    flaps = content.open[0].incident
    status = {**content.status, "incidents": [{"id": flaps.id, "flapping": True}]}
    page = unescape(render(replace(content, status=status)))
    for row in content.open:
        number, target = row.incident.id, row.incident.target
        assert (f"<code>watchdogd --home /data/w ack {number}</code>" in page) is not bool(
            row.incident.acknowledged_by
        )
        assert f"<code>watchdogd --home /data/w silence {target} --for 2h</code>" in page
    assert len(re.findall("comes and goes", page)) == 2, "among all, and in the view of its run"


@pytest.mark.parametrize("fault", [HOME_SILENT, HOME_CLOSED])
def test_no_answer_is_offered_where_none_is_recorded(tmp_path: Path, fault: str) -> None:
    incident = gathered(tmp_path).open[0].incident
    assert answers(incident)
    assert answers(replace(incident, fault=fault)) == []


def test_times_stand_alone_in_words() -> None:
    columns = {"log": Column("log", time="since"), "ends": Column("ends", time="until"), "n": Column("n")}
    cells = {"log": "1s", "ends": "3h29m", "n": "7"}
    assert in_words(cells, columns) == {"log": "1s ago", "ends": "in 3h29m", "n": "7"}
