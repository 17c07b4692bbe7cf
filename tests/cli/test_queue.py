"""queue: the team's jobs in one table, with what each waits for; the rest is tried on a real Slurm."""

from __future__ import annotations

from pathlib import Path

from watchdogd.batch.models import Job
from watchdogd.cli import queue
from watchdogd.config.loading import parse

NOW = 1_795_800_000.0
RUNS = Job("88", "88", "tr11", "alice", "RUNNING", nodes="n1", started_at=NOW - 60, ends_at=NOW + 600)
LATER = Job("91", "91", "tr11", "bob", "PENDING", "Priority", start_estimate=NOW + 900)
SOON = Job("92", "92", "other", "bob", "PENDING", "Resources", start_estimate=NOW + 90)
NEVER = Job("90_[3-9]", "90", "tr11", "bob", "PENDING", "DependencyNeverSatisfied", dependency="afterok:87")
HELD = Job("93", "93", "tr11", "bob", "PENDING", "JobHeldUser")


def test_what_runs_first_then_by_expected_start_what_never_starts_last() -> None:
    assert [job.id for job in queue.order([NEVER, LATER, HELD, SOON, RUNS])] == [
        "88",
        "92",
        "91",
        "90_[3-9]",
        "93",
    ]


def test_what_a_job_waits_for_and_the_fix_where_it_is_never_satisfied() -> None:
    assert queue.waits_for(RUNS) == ""
    assert queue.waits_for(LATER) == "Priority"
    assert queue.waits_for(NEVER) == (
        "a job it depends on ended otherwise than it asks (afterok:87): scancel 90_[3-9], and submit it anew"
    )
    assert queue.waits_for(HELD) == "held by its user: scontrol release 93"


def test_a_job_as_json_names_its_run(tmp_path: Path) -> None:
    config = parse(
        '[runs.glm]\njob_name = "tr11"\n[channels.c]\ntype = "console"\n', tmp_path / "config.toml"
    )
    seen = queue.as_json(NEVER, config, frozenset({"alice", "bob"}))
    assert (seen["run"], seen["never"], seen["expected_at"]) == ("glm", True, None)
    assert queue.as_json(SOON, config, frozenset({"bob"}))["run"] is None
