"""What a drop-in's job has come to, in words; pure."""

from dataclasses import replace

from watchdogd.batch.models import Ending, Job
from watchdogd.daemon.dropins.dropin_job_result import (
    JobResult,
    alive,
    base,
    belongs,
    newest,
    over,
    worse,
)
from watchdogd.plugin import Status

NOW = 1_790_000_000.0
MARK = "watchdogd:0a1b cron.daily/tidy.slurm"


def waiting(job_id: str, reason: str = "Priority", ago: float = 60.0, state: str = "PENDING") -> Job:
    return Job(job_id, job_id, "tidy", "alice", state, reason, comment=MARK, submitted_at=NOW - ago)


def ended(job_id: str, state: str = "COMPLETED", code: int = 0, lasted: float = 90.0) -> Ending:
    start = NOW - 500
    return Ending(
        job_id, job_id, "tidy", "alice", state, code, 0, NOW - 900, start, start + lasted, "node1", "", MARK
    )


def test_tasks_and_components_belong_to_what_was_submitted() -> None:
    assert [belongs(waiting(each), "88") for each in ("88", "88_1", "88_[2-9%1]", "88+1", "881", "8")] == [
        True, True, True, True, False, False,
    ]  # fmt: skip
    assert [base(waiting(each)) for each in ("88", "88_1", "88_[2-9%1]", "88+1")] == ["88"] * 4


def test_the_newest_with_the_mark() -> None:
    jobs = [waiting("88", ago=60), waiting("90", ago=5), Job("91", "91", "tidy", "alice", "RUNNING")]
    found = newest(jobs, MARK)
    assert found is not None
    assert found.id == "90"
    assert newest(jobs, MARK + "x") is None


def test_waiting_is_well_until_it_lasts_longer_than_the_cadence_and_an_hour() -> None:
    assert alive([waiting("88")], "88", 300.0, NOW) == JobResult(Status.OK, "job 88 waits (Priority)")
    assert alive([waiting("88", ago=1800)], "88", 300.0, NOW).status is Status.OK
    assert alive([waiting("88", ago=3700)], "88", 300.0, NOW).status is Status.WARNING
    assert alive([waiting("88", ago=3700)], "88", 86400.0, NOW).status is Status.OK


def test_what_holds_it_for_good_is_told_with_the_mend() -> None:
    held = alive([waiting("88", "JobHeldUser")], "88", 300.0, NOW)
    assert held.status is Status.WARNING
    assert [each.command for each in held.advice] == ["scontrol release 88"]


def test_one_task_that_runs_makes_it_running() -> None:
    running = Job("88_1", "89", "tidy", "alice", "RUNNING", nodes="node3", started_at=NOW - 60)
    word = alive([waiting("88_[2-9]"), running], "88", 300.0, NOW)
    assert word.status is Status.OK
    assert word.text == "job 88 runs for 1m on node3"


def test_an_end_is_told_when_its_exit_code_and_who_cancelled_it_are_known() -> None:
    assert ended("88", "FAILED", 3).complete
    assert not replace(ended("88", "FAILED"), exit_code=None).complete
    assert not ended("88", "CANCELLED").complete
    assert replace(ended("88", "CANCELLED"), cancelled_by="bob").complete


def test_ends_in_words() -> None:
    assert over([ended("88")], "88").text.startswith("job 88 ended well after 90s, at ")
    bad = over([ended("88", "FAILED", 3)], "88")
    assert bad.status is Status.CRITICAL
    assert bad.text.startswith("job 88 FAILED (exit 3) after 90s on node1, at ")
    tasks = [ended(f"88_{task}", "TIMEOUT" if task > 2 else "COMPLETED") for task in range(1, 10)]
    many = over(tasks, "88").text
    assert many.startswith("7 of 9 tasks of job 88 did not end well: 88_3 TIMEOUT after 90s on node1, ")
    assert "and 2 more" in many


def test_a_job_that_its_owner_cancelled_is_a_warning() -> None:
    cancelled = replace(ended("88", "CANCELLED"), cancelled_by="alice")
    meant = over([cancelled], "88")
    assert meant.status is Status.WARNING
    assert meant.text.startswith("job 88 cancelled by its owner alice after 90s on node1, at ")
    assert over([replace(cancelled, cancelled_by="bob")], "88").status is Status.CRITICAL
    assert over([cancelled, ended("88_2", "FAILED", 3)], "88").status is Status.CRITICAL


def test_a_bad_end_stays_told_beside_what_is_now() -> None:
    bad, good = JobResult(Status.CRITICAL, "job 88 FAILED"), JobResult(Status.OK, "job 88 ended well")
    now = JobResult(Status.OK, "job 90 runs")
    assert worse(good, now) == now
    assert worse(bad, now) == JobResult(Status.CRITICAL, "job 88 FAILED; now job 90 runs")
    never = JobResult(Status.WARNING, "job 90 will not start")
    assert worse(JobResult(Status.UNKNOWN, "nobody knows"), never).status is Status.UNKNOWN
