"""What had no answer is told as one cause or as it is, in whatever order the answers come."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from watchdogd.daemon.dependencies import Dependency, Probes
from watchdogd.daemon.dependency_probes import LONGEST, DeferredResults
from watchdogd.incidents.models import Observation
from watchdogd.plugin import Result, Status, critical, ok

NOW = 1_790_000_000.0
FILES = "watchdogd/files:/scratch"
GROUND = Dependency(FILES, "/scratch", ("/scratch",), ("d/disk_quota",))
SILENT = replace(critical("/scratch does not answer on node5"), unanswered=True)


def seen(result: Result, at: float = NOW) -> tuple[Observation, ...]:
    return (Observation("d/disk_quota", "", "d", result, at),)


def statuses(withheld: DeferredResults, probes: Probes, now: float) -> list[Status]:
    found = withheld.release(probes.silent, probes.answered, now)
    return [each.result.status for results in found.values() for each in results]


def ask(probes: Probes, withheld: DeferredResults, now: float) -> bool:
    return bool(probes.calls({FILES: GROUND}, (), (), 60.0, now, withheld.open))


@pytest.fixture
def probes() -> Probes:
    return Probes()


@pytest.fixture
def withheld() -> DeferredResults:
    return DeferredResults()


def test_it_waits_for_the_file_systems_word_and_is_then_no_fault_of_its_own(
    probes: Probes, withheld: DeferredResults
) -> None:
    withheld.keep("d/disk_quota", (FILES,), seen(SILENT), NOW)
    assert statuses(withheld, probes, NOW) == []
    assert ask(probes, withheld, NOW)
    probes.result(GROUND, answered=False, host="node5")
    assert statuses(withheld, probes, NOW + 10) == [Status.UNKNOWN]
    assert withheld.checks == frozenset()
    withheld.keep("d/disk_quota", (FILES,), seen(SILENT), NOW + 20)
    assert statuses(withheld, probes, NOW + 20) == [Status.UNKNOWN], "it is known to be silent"


def test_an_answer_to_an_older_question_does_not_count(probes: Probes, withheld: DeferredResults) -> None:
    probes.note("d/disk_quota", late=True)
    assert ask(probes, withheld, NOW)
    withheld.keep("d/disk_quota", (FILES,), seen(SILENT), NOW + 1)
    probes.result(GROUND, answered=True, host="node5")
    assert statuses(withheld, probes, NOW + 1) == []
    assert ask(probes, withheld, NOW + 1), "asked anew before its time"
    probes.result(GROUND, answered=True, host="node5")
    assert statuses(withheld, probes, NOW + 2) == [Status.CRITICAL], "it is the check's own finding"


def test_the_newest_word_is_kept_and_a_good_one_ends_it(probes: Probes, withheld: DeferredResults) -> None:
    withheld.keep("d/disk_quota", (FILES,), seen(SILENT), NOW)
    withheld.keep("d/disk_quota", (FILES,), seen(SILENT, NOW + 5), NOW + 5)
    assert ask(probes, withheld, NOW + 1)
    probes.result(GROUND, answered=True, host="node5")
    found = withheld.release(probes.silent, probes.answered, NOW + 6)
    assert [each.at for each in found["d/disk_quota"]] == [NOW + 5]
    withheld.keep("d/disk_quota", (FILES,), seen(SILENT), NOW + 7)
    withheld.drop("d/disk_quota")
    assert statuses(withheld, probes, NOW + 2 * LONGEST) == []


@pytest.mark.parametrize("later", [LONGEST, -3600.0])
def test_where_nobody_finds_out_it_is_told_as_it_is(
    probes: Probes, withheld: DeferredResults, later: float
) -> None:
    withheld.keep("d/disk_quota", (FILES,), seen(SILENT), NOW)
    assert statuses(withheld, probes, NOW + later) == [Status.CRITICAL]


def test_what_a_check_finds_beside_is_told_as_it_is(probes: Probes, withheld: DeferredResults) -> None:
    both = (*seen(ok("room enough")), *seen(replace(SILENT, subject="write")))
    withheld.keep("d/disk_quota", (FILES,), both, NOW)
    probes.result(GROUND, answered=False, host="node5")
    assert statuses(withheld, probes, NOW) == [Status.OK, Status.UNKNOWN]


@pytest.mark.parametrize("silent", [*itertools.product([True, False], repeat=2)])
def test_of_several_file_systems_one_that_is_silent_is_enough(
    probes: Probes, withheld: DeferredResults, silent: tuple[bool, bool]
) -> None:
    dependencies = [replace(GROUND, name=f"watchdogd/files:/{name}") for name in "ab"]
    withheld.keep("d/disk_quota", tuple(dependency.name for dependency in dependencies), seen(SILENT), NOW)
    asked = probes.calls(
        {dependency.name: dependency for dependency in dependencies}, (), (), 60.0, NOW, withheld.open
    )
    assert len(asked) == 2
    for dependency, quiet in zip(dependencies, silent, strict=True):
        probes.result(dependency, answered=not quiet, host="node5")
    assert statuses(withheld, probes, NOW) == [Status.UNKNOWN if any(silent) else Status.CRITICAL]
