"""Messages name the log, the limit and the job that they are about."""

from __future__ import annotations

from pathlib import Path

from tests.golden import checks
from tests.golden.checks import end, job, liveness
from watchdogd.incidents.models import Observation
from watchdogd.plugin import Result
from watchdogd.plugins.job_liveness.postmortem import Remains, post_mortem

START = checks.START


def test_a_post_mortem_names_the_file_that_it_read(tmp_path: Path) -> None:
    log, other = tmp_path / "pike-5.log", tmp_path / "out-5"
    log.write_text("step 4: loss 2.0\nCUDA out of memory\n")
    other.write_text("srun: error\n")
    died = Remains("5", "5", None, 2e9, outputs=(str(other),))
    assert post_mortem(died, str(log), "").facts[1] == f"log: {log}"
    assert post_mortem(died, "", "").facts[1] == f"log: {other}"
    assert post_mortem(Remains("5", "5", None, 2e9), "", "").facts == ("", "")


def test_a_crash_loop_names_cause_log_and_what_helps_against_it() -> None:
    crashed = [
        end(str(40 + at), started_at=START + 60 * at - 50, ended_at=START + 60 * at) for at in range(1, 5)
    ]
    loop = [
        {"jobs": (job(str(41 + at), started_at=START + 60 * at + 2),), "endings": tuple(crashed[:at])}
        for at in range(1, 5)
    ]
    said = liveness({"jobs": (job("41"),)}, *loop, cause="GPU out of memory")["crashes"].result
    assert said.summary.endswith("GPU out of memory")
    assert "log: /scratch/tr11/train.log" in said.facts
    assert said.advice[0].sentence.startswith("Lower its memory use")


def test_a_queue_that_runs_empty_names_the_job_and_how_it_was_submitted() -> None:
    near = {"jobs": (job("88", ends_at=START + 1200, time_limit=72300.0),)}
    said = liveness(near)["queue"].result
    assert said.summary.startswith("job 88 ends in ")
    (advice,) = said.advice
    assert "job 88" in advice.sentence
    assert advice.command.startswith("sacct ")
    off = liveness({**near, "endings": None, "endings_trouble": "sacct is off"})["queue"].result
    assert [each.command for each in off.advice] == [""]


def _result(told: Result | Observation) -> Result:
    return told.result if isinstance(told, Observation) else told


def test_wanted_lines_name_the_log_and_the_limit(tmp_path: Path) -> None:
    said = dict(checks.log(tmp_path))
    must, must_not = _result(said["an expected line does not come"]), _result(said["a forbidden line"])
    assert must.facts[0].startswith("log: ")
    assert must.facts[1].startswith("expected within ")
    assert must_not.facts[0].startswith("log: ")
    assert "must_not_see" in must_not.facts[1]
