"""Many results as one Nagios plugin: a first line that stands for all, and no more than Nagios reads."""

from __future__ import annotations

import math

from watchdogd.cli.check import nagios
from watchdogd.incidents.models import Observation
from watchdogd.plugin import Metric, Result, Status

NAME = "run-17/gpu_health"
READS = 8192
"""MAX_PLUGIN_OUTPUT_LENGTH of Nagios Core."""


def seen(subject: str, status: Status = Status.OK, **metrics: float) -> Observation:
    summary = f"{subject or 'all'} {status.name.lower()}"
    measured = {name: Metric(value, "W") for name, value in metrics.items()}
    return Observation(NAME, "run-17", "run-17", Result(status, summary, measured, subject=subject), 0.0)


def test_one_result_is_one_line() -> None:
    assert nagios(NAME, [seen("", power=300)]) == f"{NAME} OK - all ok | power=300W"


def test_the_first_line_stands_for_all_nodes() -> None:
    nodes = [seen("n1", power=300), seen("n2", Status.CRITICAL, power=20), seen("n3", Status.UNKNOWN)]
    first, *others = nagios(NAME, nodes).splitlines()
    assert first == f"{NAME} CRITICAL - n2 critical (2 of 3 not OK: n2, n3) | n2.power=20W n1.power=300W"
    assert others == ["UNKNOWN - n3 unknown", "OK - n1 ok"]
    assert nagios(NAME, [seen("n1"), seen("n2")]).splitlines()[0] == f"{NAME} OK - n1 ok (all 2 OK)"


def test_facts_and_advice_of_the_worst_stand_below_the_first_line_before_the_evidence() -> None:
    bad = Result(Status.WARNING, "never seen", details="last line").saying("job 7|8", advice=["scancel 7"])
    said = nagios(NAME, [Observation(NAME, "run-17", "run-17", bad, 0.0), seen("n1")])
    assert said.splitlines()[1:] == ["OK - n1 ok", "job 7¦8", "scancel 7", "last line"]


def test_a_thousand_nodes_are_as_much_as_is_read() -> None:
    nodes = [seen(f"node{number:04}", Status.WARNING, power=300, vram=80) for number in range(1000)]
    said = nagios(NAME, nodes)
    first, *others = said.splitlines()
    assert "(1000 of 1000 not OK: node0000, node0001, node0002, node0003, node0004 and 995 more)" in first
    assert first.endswith(("=300W", "=80W"))
    assert others[-1] == f"and 949 more: watchdogd check {NAME} --json"
    assert len(said.encode()) < READS


def test_what_would_break_the_line_or_is_no_number_is_left_out() -> None:
    said = nagios(NAME, [seen("a|b\nc'", power=1, load=math.inf)])
    assert said.count("\n") == 0
    assert said.partition(" | ")[2] == "'a¦b c.power'=1W"
