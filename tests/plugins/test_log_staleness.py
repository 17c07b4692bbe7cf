"""log_staleness on real files, with a clock that the tests turn."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.words import commands_of, text_of
from watchdogd.batch.models import Job, Snapshot
from watchdogd.plugin import Advice, Recovery, Result, Run, Sign, Status
from watchdogd.plugins.log_staleness.check import log_staleness
from watchdogd.plugins.log_staleness.run_log import RunLog
from watchdogd.plugins.log_staleness.stall_verdict import Heard
from watchdogd.system.codec import codec_of

MINUTE, HOUR = 60.0, 3600.0
START = 1_800_000_000.0
JOB = Job(id="88_1", raw_id="88", name="tr4", user="alice", state="RUNNING", nodes="n[1-2]", started_at=START)


@dataclass
class Training:
    """A log that is written to, and the check that looks at it, minute by minute."""

    path: Path
    now: float = START
    job: Job | None = JOB
    beside: tuple[Job, ...] = ()
    running: frozenset[tuple[str, str]] = frozenset()
    jobs_known: bool = True
    wanted: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    file_clock: float = 0.0
    log: str = ""
    backend: str = "slurm"
    failed: int = 0
    signs: tuple[Sign, ...] = ()

    def write(self, text: str, path: Path | None = None) -> None:
        target = path or self.path
        with target.open("ab") as file:
            file.write(text.encode())
        at = self.now + self.file_clock
        os.utime(target, (at, at))

    def look(self) -> dict[str, Result]:
        jobs = (self.job, *self.beside) if self.job else self.beside
        snapshot = Snapshot(
            self.now,
            jobs=jobs if self.jobs_known else None,
            running=self.running,
            backend=self.backend,
            trouble="" if self.jobs_known else "squeue did not answer within 10 s",
        )
        injected = {
            "run": Run("run-4", "tr4", backend=self.backend, signs=self.signs),
            "snapshot": snapshot,
            "memory": self.memory,
            "now": self.now,
            "failed": self.failed,
        }
        parameters = {"log": self.log or str(self.path), **self.wanted}
        return {result.subject: result for result in log_staleness.results(parameters, injected)}

    def known(self) -> RunLog:
        found = codec_of(RunLog).load(self.memory["state"])
        assert found
        return found

    def state(self) -> Status:
        return self.look()[""].status

    def iterate(self, first: int, count: int, every: float = MINUTE) -> list[Status]:
        """`count` iterations, one each `every`, with a look after each."""
        seen = []
        for number in range(first, first + count):
            self.now += every
            self.write(f" iteration {number:8d}/  90000 | elapsed time per iteration (ms): 30100.2 | ")
            self.write("learning rate: 6.0E-05 | lm loss: 2.31E+00 | loss scale: 1.0 |\n")
            seen.append(self.state())
        return seen


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path / "main_log.txt", wanted={"stale_after": 20 * MINUTE})


def wait(training: Training, seconds: float, every: float = MINUTE) -> list[Status]:
    """Looks while nothing is written."""
    seen = []
    for _ in range(round(seconds / every)):
        training.now += every
        seen.append(training.state())
    return seen


def test_a_run_that_iterates_is_fine(training: Training) -> None:
    assert set(training.iterate(1, 30)) == {Status.OK}
    result = training.look()[""]
    assert "iteration 30/90,000" in text_of(result)
    assert result.metrics["progress"].value == 30
    assert result.metrics["iteration_time"].value == pytest.approx(30.1002)
    assert result.metrics["loss"].value == pytest.approx(2.31)


def test_silence_is_critical_after_stale_after_and_not_before(training: Training) -> None:
    training.iterate(1, 5)
    assert set(wait(training, 19 * MINUTE)) == {Status.OK}
    training.now += MINUTE
    result = training.look()[""]
    assert result.status is Status.CRITICAL
    assert result.trigger == "on_hang"
    assert "stalled, no output for" in text_of(result)
    assert "limit 20m: stale_after in config.toml" in text_of(result)
    assert "at iteration 5/90,000" in text_of(result)
    assert "job 88_1 runs on n[1-2]" in text_of(result)
    assert "iteration        5/  90000" in result.details
    training.iterate(6, 1)
    assert training.state() is Status.OK


def test_lines_without_progress_are_stuck(training: Training) -> None:
    training.iterate(1, 5)
    for minute in range(19):
        training.now += MINUTE
        training.write(f"[heartbeat] still here {minute}\n iteration        5/  90000 | again\n")
        assert training.state() is Status.OK
    training.now += MINUTE
    training.write("[heartbeat] still here\n")
    result = training.look()[""]
    assert result.status is Status.CRITICAL
    assert "output but no progress" in text_of(result)
    assert "at iteration 5/90,000" in text_of(result)


def test_own_pattern_counts_alone(training: Training) -> None:
    training.wanted["progress"] = r"consumed (\d+) tokens"
    training.iterate(1, 3)
    for step in range(25):
        training.now += MINUTE
        training.write("consumed 100 tokens\n")
        training.iterate(4 + step, 1, every=0)
    assert training.state() is Status.CRITICAL
    training.write("consumed 101 tokens\n")
    assert training.state() is Status.OK


def test_a_pattern_that_never_fits_is_told(training: Training) -> None:
    training.wanted["progress"] = r"stp (\d+)"
    training.iterate(1, 29)
    assert training.state() is Status.OK
    training.iterate(30, 3)
    result = training.look()[""]
    assert result.status is Status.WARNING
    assert "no line of" in text_of(result)


def test_a_quiet_phase_has_its_own_allowance_and_the_message_says_so(training: Training) -> None:
    training.wanted["quiet"] = [{"match": "saving checkpoint", "allow": 40 * MINUTE}]
    training.iterate(1, 3)
    training.write("saving checkpoint at iteration       3 to /scratch/ckpt\n")
    assert set(wait(training, 39 * MINUTE)) == {Status.OK}
    training.now += MINUTE
    result = training.look()[""]
    assert result.status is Status.CRITICAL
    assert "limit 40m: quiet phase 'saving checkpoint'" in text_of(result)
    training.iterate(4, 2)
    assert wait(training, 21 * MINUTE)[-1] is Status.CRITICAL


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (None, "no job runs"),
        (replace(JOB, state="PENDING", reason="Priority", started_at=None), "job 88_1 waits (Priority)"),
        (replace(JOB, state="SUSPENDED"), "job 88_1 is suspended"),
        (replace(JOB, state="COMPLETING"), "job 88_1 is completing"),
    ],
)
def test_not_judged_while_no_job_runs(training: Training, job: Job | None, why: str) -> None:
    training.iterate(1, 3)
    training.job = job
    assert set(wait(training, HOUR)) == {Status.OK}
    assert training.look()[""].summary == f"not judged: {why}"
    training.job = JOB
    assert set(wait(training, 19 * MINUTE)) == {Status.OK}
    assert wait(training, 2 * MINUTE)[-1] is Status.CRITICAL


def test_a_process_that_is_stopped_stalls_and_is_let_go_on(training: Training) -> None:
    training.backend = "process"
    training.job = replace(JOB, id="4711", name="run-4")
    training.iterate(1, 3)
    training.job = replace(training.job, state="SUSPENDED", reason="stopped by a signal")
    assert wait(training, 31 * MINUTE)[-1] is Status.CRITICAL
    stalled = training.look()[""]
    assert stalled.summary.startswith("stalled, suspended, no output for 31m")
    assert "process 4711 is suspended on n[1-2], stopped by a signal" in stalled.facts
    assert commands_of(stalled) == ["kill -CONT 4711"]


def test_a_process_that_hangs_can_be_ended_where_it_runs(training: Training) -> None:
    training.backend = "process"
    training.job = replace(JOB, id="4711", name="run-4", nodes="ws1")
    training.iterate(1, 3)
    assert wait(training, 31 * MINUTE)[-1] is Status.CRITICAL
    *_, end = training.look()[""].advice
    assert end == Advice(f"To end it, on ws1 (as {JOB.user}):", "kill 4711", "cancel")


def test_a_flag_of_slurms_hides_no_hang_and_a_state_that_nobody_knows_makes_it_unknown(
    training: Training,
) -> None:
    training.iterate(1, 3)
    training.job = replace(JOB, state="SIGNALING")
    assert wait(training, 21 * MINUTE)[-1] is Status.CRITICAL
    training.job = replace(JOB, state="HIBERNATING")
    result = training.look()[""]
    assert result.status is Status.UNKNOWN
    assert "is in a state that this watchdogd does not know, HIBERNATING" in text_of(result)


def test_a_queue_that_does_not_answer_makes_silence_unknown(training: Training) -> None:
    training.iterate(1, 3)
    training.jobs_known = False
    assert training.state() is Status.OK
    training.now += 30 * MINUTE
    result = training.look()[""]
    assert result.status is Status.UNKNOWN
    assert "squeue did not answer" in text_of(result)


def test_a_log_may_come_after_its_job_but_not_too_late(training: Training) -> None:
    assert set(wait(training, 19 * MINUTE)) == {Status.OK}
    assert "no file matches" in text_of(training.look()[""])
    training.now += MINUTE
    assert training.state() is Status.CRITICAL
    training.write("starting\n")
    assert training.state() is Status.OK


def test_a_folder_in_the_place_of_the_log_is_told_as_such(training: Training) -> None:
    training.path.mkdir()
    training.now += 20 * MINUTE
    result = training.look()[""]
    assert (result.status, result.trigger) == (Status.CRITICAL, "")
    assert f"\n{training.path} is a folder (set log to the files in it, as {training.path}/*)\n" in text_of(
        result
    )
    training.log = f"{training.path}/*"
    training.write("starting\n", training.path / "out")
    assert training.state() is Status.OK


def test_an_old_log_is_no_news_of_a_new_job(training: Training) -> None:
    training.write("from last week\n")
    os.utime(training.path, (START - 7 * 86400, START - 7 * 86400))
    training.now += 5 * MINUTE
    assert training.state() is Status.OK
    assert wait(training, 16 * MINUTE)[-1] is Status.CRITICAL


def test_a_resume_may_start_lower(training: Training) -> None:
    training.iterate(4990, 10)
    training.job = replace(JOB, raw_id="89", id="88_2", started_at=training.now)
    training.write("one more line of the old job: iteration     5001/  90000 | x\n")
    assert set(training.iterate(4700, 120)) == {Status.OK}


def test_the_same_iterations_over_and_over_are_stuck(training: Training) -> None:
    training.iterate(100, 30)
    seen = []
    for _ in range(4):
        seen += training.iterate(105, 15)
    assert seen[-1] is Status.CRITICAL


def test_epochs_and_bars_begin_anew(training: Training) -> None:
    for epoch in range(6):
        for step in range(0, 40, 2):
            training.now += MINUTE
            training.write(f"\rtrain: {step * 2}%|### | {step}/40 [00:{step:02d}<01:00, 1.20s/it]")
            assert training.state() is Status.OK, (epoch, step)
        training.write("\rtrain: 100%|#####| 40/40 [00:59<00:00, 1.20s/it]\n")


def grow(training: Training, text: str, minutes: int = 30) -> list[Status]:
    """`text`, in which {} is the minute, written each minute, with a look after each."""
    seen = []
    for minute in range(1, minutes + 1):
        training.now += MINUTE
        training.write(text.format(minute))
        seen.append(training.state())
    return seen


@pytest.mark.parametrize(
    "text",
    [
        "step {} loss 2.5 ",
        "step {}, batch 7 ",
        "iter {0}: loss 2.5, time 900.0ms | ",
        "\x1b[2K\x1b[1Gstep {} of many",
        "\x08\x08\x08\x08step {} of many",
        "\x1b[1G {}%|# | {}/90 [10:10<5:50,  9.95s/it]".replace("{}", "{0}"),
        "\r{0}/90 [====>....] - ETA: 9:59",
    ],
)
def test_a_line_that_never_ends_tells_its_last_number(training: Training, text: str) -> None:
    assert set(grow(training, text)) == {Status.OK}
    assert training.look()[""].metrics["progress"].value >= 29
    standing = grow(training, text.replace("{0}", "30").replace("{}", "30"))
    assert standing[-1] is Status.CRITICAL
    assert "output but no progress" in text_of(training.look()[""])
    training.now += MINUTE
    training.write("\nstep 31\n")
    assert training.state() is Status.OK


@pytest.mark.parametrize("text", ["x", "#", "\r{}%", "\x08\x08\x08{}%", "\r[={}=>"])
@pytest.mark.parametrize("known", [True, False])
def test_bytes_that_neither_end_a_line_nor_tell_a_number_are_no_stuck(
    training: Training, text: str, known: bool
) -> None:
    if known:
        training.iterate(1, 3)
    assert set(grow(training, text)) == {Status.OK}
    assert wait(training, 21 * MINUTE)[-1] is Status.CRITICAL
    assert "no output" in text_of(training.look()[""])


@pytest.mark.parametrize(
    "text",
    [
        ".",
        " . . .",
        "\u2026",
        "\rwaiting |\rwaiting /\rwaiting -\rwaiting \\",
        "\b|",
        "\b/\b-",
        "\r\u280b loading data\r\u2819 loading data",
        "\rwaiting for ranks.\rwaiting for ranks..\rwaiting for ranks...",
        "\x1b[2K\x1b[1G\x1b[36m\u25d0\x1b[0m rendezvous",
    ],
)
def test_dots_and_spinners_after_the_last_number_are_no_progress(training: Training, text: str) -> None:
    assert set(grow(training, text)) == {Status.OK}, "where no number was told nothing is known of its growth"
    training.write("\n")
    training.iterate(1, 3)
    seen = grow(training, text)
    assert (seen[10], seen[-1]) == (Status.OK, Status.CRITICAL)
    assert "output but no progress" in text_of(training.look()[""])
    training.write("\niteration 4/ 90 | lm loss: 2.5 |\n")
    assert training.state() is Status.OK


def test_a_line_that_goes_on_after_a_crash_is_no_work(training: Training) -> None:
    training.iterate(1, 3)
    training.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    assert grow(training, "x")[-1] is Status.CRITICAL


def test_of_a_line_without_an_end_only_what_is_new_is_read(training: Training) -> None:
    training.write("." * 300_000)
    training.look()
    training.write("step 8 ")
    training.look()
    (place,) = training.known().files.places.values()
    assert 0 < place.size - place.offset <= 4096
    assert training.look()[""].metrics["progress"].value == 8


def test_batches_that_begin_anew_with_each_epoch_are_no_hang(training: Training) -> None:
    """The first report of an epoch is far from 0: it looks like a run that repeats itself."""
    for epoch in range(6):
        for batch in range(100, 600, 100):
            training.now += 7 * MINUTE
            training.write(f"[Epoch {epoch}, Batch {batch}] loss: 0.5\n")
            assert training.state() is Status.OK, (epoch, batch)
    assert training.look()[""].summary.startswith("epoch 5, step 500, 0s ago")


def test_batches_below_the_line_of_their_epoch_are_no_hang(training: Training) -> None:
    for epoch in range(1, 7):
        training.write(f"=== Epoch {epoch} ===\n")
        for batch in range(100, 600, 100):
            training.now += 7 * MINUTE
            training.write(f"step {batch} loss 0.5\n")
            assert training.state() is Status.OK, (epoch, batch)


def test_how_long_a_batch_takes_is_no_progress(training: Training) -> None:
    for batch in range(200, 6000, 200):
        training.now += 7 * MINUTE
        training.write(f"| epoch   1 | {batch:5d}/ 8000 batches | ms/batch 35.{batch % 7} | loss  5.12 |\n")
        assert training.state() is Status.OK, batch


def test_a_bar_without_a_total_is_told_as_epoch_and_batch(training: Training) -> None:
    for rank in (1, 0):
        for step in (20, 30 - 5 * rank):
            training.write(f"[rank{rank}]: Epoch 3: | | {step}it [01:02, 3.10it/s, train_loss=2.25]\n")
    metrics = training.look()[""].metrics
    assert (metrics["epoch"].value, metrics["batch"].value) == (3, 30)
    assert "progress" not in metrics
    training.now += 21 * MINUTE
    summary = text_of(training.look()[""])
    assert "at epoch 3, batch 30" in summary
    assert "was rank 1, at epoch 3, batch 25" in summary
    assert "30000" not in summary


def test_truncated_replaced_and_rotated_logs_are_read_on(training: Training, tmp_path: Path) -> None:
    training.iterate(1, 3)
    training.path.write_bytes(b"")
    training.iterate(4, 2)
    assert training.look()[""].metrics["progress"].value == 5
    training.path.rename(tmp_path / "main_log.txt.1")
    training.iterate(6, 2)
    assert training.look()[""].metrics["progress"].value == 7
    fresh = tmp_path / "fresh"
    training.iterate(8, 1)
    training.write(" iteration  9/  90000 | x\n", fresh)
    fresh.rename(training.path)
    assert training.look()[""].metrics["progress"].value == 9


def test_the_newest_of_all_files_counts_through_a_symlink_too(training: Training, tmp_path: Path) -> None:
    training.log = str(tmp_path / "main_log*.txt")
    training.iterate(1, 3)
    real = tmp_path / "elsewhere" / "log"
    real.parent.mkdir()
    training.now += 15 * MINUTE
    training.write(" iteration  4/  90000 | x\n", real)
    (tmp_path / "main_log_2.txt").symlink_to(real)
    assert training.state() is Status.OK
    assert set(wait(training, 19 * MINUTE)) == {Status.OK}
    result = training.look()[""]
    assert "main_log_2.txt" in text_of(result)
    assert "iteration 4/90,000" in text_of(result)


def test_the_pulse_is_no_log(training: Training, tmp_path: Path) -> None:
    pulse = tmp_path / "pulse.txt"
    training.log, training.wanted["written"] = str(tmp_path / "*.txt"), ("/elsewhere", str(pulse))
    training.iterate(1, 3)
    for _ in range(20):
        training.now += MINUTE
        training.write("run-4 is well: iteration 99\n", pulse)
        state = training.state()
    assert state is Status.CRITICAL


def test_the_pulse_is_no_log_whatever_way_leads_to_it(training: Training, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "scratch").symlink_to("logs")
    training.path = tmp_path / "logs" / "main.txt"
    training.log = str(tmp_path / "logs" / "*.txt")
    training.wanted["written"] = (str(tmp_path / "scratch" / "pulse.txt"),)
    training.iterate(1, 3)
    training.now += 20 * MINUTE
    training.write("run-5 is well: iteration 99\n", tmp_path / "logs" / "pulse.txt")
    assert training.state() is Status.CRITICAL


@pytest.mark.parametrize("file_clock", [-3 * HOUR, -90.0, 90.0, 3 * HOUR])
def test_a_file_servers_clock_that_differs_changes_nothing(training: Training, file_clock: float) -> None:
    training.file_clock = file_clock
    training.now += MINUTE
    training.write("starting\n")
    training.state()
    assert set(training.iterate(1, 30)) == {Status.OK}
    states = wait(training, 22 * MINUTE)
    assert set(states[:18]) == {Status.OK}
    assert states[-1] is Status.CRITICAL


def test_only_new_bytes_are_read(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    from watchdogd.parsers.logs import log_files

    asked: list[int] = []
    real = log_files.read

    def counted(path: str, begin: int, end: int) -> bytes:
        asked.append(end - begin)
        return real(path, begin, end)

    monkeypatch.setattr(log_files, "read", counted)
    with training.path.open("wb") as file:
        file.seek(5_000_000_000)
        file.write(b"\n iteration  7/  90000 | x\n")
    training.iterate(8, 1)
    assert asked == [log_files.FIRST_LOOK]
    training.state()
    assert len(asked) == 1
    training.write("ten bytes\n")
    training.state()
    assert asked[1:] == [10]
    assert training.look()[""].metrics["progress"].value == 8


def test_invalid_bytes_and_half_lines_are_read(training: Training) -> None:
    training.now += MINUTE
    with training.path.open("wb") as file:
        file.write(b"\xff\xfe\x00 garbage \x80\n0: iteration  12/  90000 | lm loss: 2.")
    training.state()
    training.write("5E+00 |\nrank 1: iteration  13/  90000 |\n")
    assert training.look()[""].metrics["progress"].value == 13


def test_auto_waits_half_an_hour_until_it_knows_the_rhythm(training: Training) -> None:
    training.wanted = {}
    training.iterate(1, 3)
    assert set(wait(training, 29 * MINUTE)) == {Status.OK}
    assert wait(training, 2 * MINUTE)[-1] is Status.CRITICAL
    assert "until the run's rhythm is known" in text_of(training.look()[""])


def test_auto_tells_a_hang_of_a_quick_run_in_minutes(training: Training) -> None:
    training.wanted = {}
    training.iterate(1, 200, every=30)
    states = wait(training, 7 * MINUTE, every=30)
    assert set(states[:9]) == {Status.OK}
    assert states[-1] is Status.CRITICAL
    assert "limit 7m: learned from the run's own rhythm" in text_of(training.look()[""])


def test_auto_lives_with_announced_evaluations(training: Training) -> None:
    training.wanted = {}
    step = 1
    for _ in range(3):
        assert set(training.iterate(step, 60)) == {Status.OK}
        step += 60
        training.write("***** Running Evaluation *****\n")
        assert set(wait(training, 20 * MINUTE)) == {Status.OK}
    assert set(training.iterate(step, 5)) == {Status.OK}
    assert wait(training, 7 * MINUTE)[-1] is Status.CRITICAL


def test_the_end_of_a_job_that_hung_is_no_recovery(training: Training) -> None:
    training.iterate(1, 5)
    assert wait(training, 21 * MINUTE)[-1] is Status.CRITICAL
    training.job = None
    ended = training.look()[""]
    assert ended.recovery == Recovery("its job ended", recovered=False)
    training.job = replace(JOB, state="PENDING", nodes="", started_at=None)
    requeued = training.look()[""]
    assert requeued.recovery == Recovery(
        "job 88_1 was requeued", "waits to start", timed=False, recovered=False
    )
    training.job = replace(JOB, raw_id="89", id="88_2", started_at=training.now)
    training.now += MINUTE
    result = training.look()[""]
    assert result.status is Status.OK
    assert result.recovery == Recovery("the next job began", "job 88_2", recovered=False)
    training.iterate(1, 2)
    reached = "iteration 2/90,000 (5 before), job 88_2"
    assert training.look()[""].recovery == Recovery("the next job makes progress", reached)
    assert wait(training, 21 * MINUTE)[-1] is Status.CRITICAL
    training.iterate(6, 2)
    assert training.look()[""].recovery == Recovery("makes progress again", "iteration 7/90,000")


def test_a_hung_job_that_still_runs_beside_the_next_one_is_named(training: Training) -> None:
    training.iterate(1, 5)
    assert wait(training, 21 * MINUTE)[-1] is Status.CRITICAL
    training.beside = (JOB,)
    training.job = replace(JOB, raw_id="89", id="88_2", started_at=training.now)
    training.iterate(1, 2)
    reached = "iteration 2/90,000 (5 before), job 88_2 (job 88_1 still runs)"
    assert training.look()[""].recovery == Recovery("the next job makes progress", reached)


def test_one_that_hung_and_goes_on_has_recovered(training: Training) -> None:
    training.iterate(1, 5)
    assert wait(training, 21 * MINUTE)[-1] is Status.CRITICAL
    training.iterate(6, 2)
    training.job = None
    assert training.look()[""].summary == "not judged: no job runs"


def test_in_a_log_of_many_ranks_the_first_to_stop_is_named(training: Training) -> None:
    training.write("9: warning: once at the start\n9: and once more\n")
    for minute in range(1, 12):
        training.now += MINUTE
        told = [rank for rank in range(4) if minute < 11 or rank != 2]
        training.write("".join(f"{rank}: step {minute} done\n" for rank in told))
        training.state()
    assert wait(training, 20 * MINUTE)[-1] is Status.CRITICAL
    assert "the first to stop of 4 was rank 2, at 10\n" in text_of(training.look()[""])


def test_ranks_that_stop_together_blame_none(training: Training) -> None:
    for minute in range(1, 12):
        training.now += MINUTE
        training.write("".join(f"{rank}: step {minute} done\n" for rank in (2, 0, 3, 1)))
        training.state()
    assert wait(training, 20 * MINUTE)[-1] is Status.CRITICAL
    assert "first to stop" not in text_of(training.look()[""])


def test_the_node_of_a_peer_is_named_ready_to_be_left_out(training: Training) -> None:
    training.job = replace(JOB, nodes="n[1-3]")
    training.write("0: n2:71:92 [0] NCCL INFO Bootstrap : Using ib0:10.255.0.7<0>\n")
    training.iterate(1, 3)
    training.write(
        "1: n1:70:91 [0] socket.cc:540 NCCL WARN Net : Connection closed by remote peer 10.255.0.7<4242>\n"
    )
    assert wait(training, 21 * MINUTE)[-1] is Status.CRITICAL
    assert "with peer 10.255.0.7, which is n2 (--exclude=n2)" in text_of(training.look()[""])


def test_a_crash_before_the_first_progress_is_not_given_a_starts_time(training: Training) -> None:
    training.now += MINUTE
    training.write("3: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n")
    training.state()
    for minute in range(6):
        training.now += MINUTE
        training.write(f"0: heartbeat {minute}\n")
        state = training.state()
    assert state is Status.CRITICAL


def test_a_segmentation_fault_is_told_with_its_core_file(training: Training, tmp_path: Path) -> None:
    training.job = replace(JOB, work_dir=str(tmp_path))
    training.iterate(1, 3)
    (tmp_path / "core.4711").write_bytes(b"core")
    os.utime(tmp_path / "core.4711", (training.now, training.now))
    training.write("n1: Segmentation fault (core dumped)\n")
    assert wait(training, 6 * MINUTE)[-1] is Status.CRITICAL
    assert f": segmentation fault, core file {tmp_path}/core.4711" in text_of(training.look()[""])


class Beating:
    """The Guard's heartbeat of a run, in an inbox of its own; no log."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, START
        self.memory: dict[str, Any] = {}
        self.user = getpass.getuser()
        self.job = replace(JOB, user=self.user)

    def beat(self, step: int, *, job: str = "88", loss: float | None = 2.5) -> None:
        path = self.folder / "run-4.beat.n1.4711.json"
        said = {"run": "run-4", "job": job, "host": "n1", "pid": 4711, "step": step, "loss": loss}
        path.write_text(json.dumps(said))
        os.utime(path, (self.now, self.now))

    def look(self, **wanted: Any) -> dict[str, Result]:
        run = Run("run-4", "tr4", inbox=str(self.folder))
        injected = {
            "run": run,
            "snapshot": Snapshot(self.now, jobs=(self.job,)),
            "memory": self.memory,
            "now": self.now,
        }
        found = log_staleness.results({"stale_after": 20 * MINUTE, **wanted}, injected)
        return {result.subject: result for result in found}


@pytest.fixture
def beating(tmp_path: Path) -> Beating:
    return Beating(tmp_path)


def test_the_heartbeat_is_progress_without_any_log(beating: Beating) -> None:
    assert "no log is configured" in text_of(beating.look()[""])
    for step in range(30):
        beating.now += MINUTE
        beating.beat(step)
        result = beating.look()
        assert result[""].status is Status.OK
    assert "step 29, " in text_of(result[""])
    assert result["loss"].summary == "loss 2.5"
    for _ in range(21):
        beating.now += MINUTE
        silent = beating.look()[""]
    assert silent.status is Status.CRITICAL
    assert silent.summary == "stalled, no heartbeat for 21m (limit 20m), at step 29"
    assert ": process 4711 on n1\n" in text_of(silent)


def test_a_beating_loop_whose_step_stands_still_is_stuck(beating: Beating) -> None:
    for step in (*range(5), *[5] * 22):
        beating.now += MINUTE
        beating.beat(step, loss=float("nan"))
        result = beating.look()
    assert result[""].status is Status.CRITICAL
    assert result[""].summary.startswith("stalled, heartbeat but no progress for ")
    assert result[""].summary.endswith(", at step 5")
    assert ": process 4711 on n1\n" in text_of(result[""])
    assert result["loss"].status is Status.CRITICAL


def test_a_silent_log_beside_a_beating_guard_is_fine(beating: Beating, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("nothing more to say\n")
    os.utime(log, (START, START))
    for step in range(40):
        beating.now += MINUTE
        beating.beat(step)
        assert beating.look(log=str(log))[""].status is Status.OK


class Guarded(Beating):
    """A loop as README shows it: every step is logged first, and then told to the Guard."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.log = folder / "train.log"

    def write(self, text: str, ago: float = 0.0) -> None:
        with self.log.open("a") as file:
            file.write(text)
        os.utime(self.log, (self.now - ago, self.now - ago))

    def train(self, steps: Iterable[int]) -> Result:
        for step in steps:
            self.now += MINUTE
            self.write(f" iteration {step:8d}/    4000 | lm loss: 2.5E+00 |\n", ago=2.0)
            self.beat(step)
            result = self.look(log=str(self.log))[""]
        return result


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path)


def test_a_log_that_tells_its_number_is_quoted_though_the_guard_beats_later(guarded: Guarded) -> None:
    result = guarded.train(range(1, 8))
    assert "iteration 7/4,000, " in text_of(result)
    assert result.metrics["total"].value == 4000
    guarded.now += 21 * MINUTE
    summary = text_of(guarded.look(log=str(guarded.log))[""])
    assert "no output for" in summary
    assert f": {guarded.log}\n" in summary
    assert "at iteration 7/4,000" in summary


def test_a_beat_counts_on_where_the_log_tells_no_number_any_more(guarded: Guarded) -> None:
    guarded.train(range(1, 8))
    for step in range(8, 40):
        guarded.now += MINUTE
        guarded.beat(step)
        result = guarded.look(log=str(guarded.log))[""]
        assert result.status is Status.OK
    assert "step 39, " in text_of(result)
    assert "iteration 40/4,000, " in text_of(guarded.train([40]))


def test_a_quiet_phase_outlasts_the_beat_of_the_step_before_it(guarded: Guarded) -> None:
    quiet = ({"match": "saving checkpoint", "allow": 40 * MINUTE},)
    guarded.train([1, 2, 3])
    guarded.now += MINUTE
    guarded.write("saving checkpoint at iteration 4\n", ago=1.0)
    guarded.beat(4)
    for _ in range(39):
        result = guarded.look(log=str(guarded.log), quiet=quiet)[""]
        assert result.status is Status.OK, result.summary
        guarded.now += MINUTE
    guarded.now += 2 * MINUTE
    assert "quiet phase 'saving checkpoint'" in text_of(guarded.look(log=str(guarded.log), quiet=quiet)[""])


def test_the_second_beat_after_a_quiet_phase_ends_it(guarded: Guarded) -> None:
    quiet = ({"match": "saving checkpoint", "allow": 40 * MINUTE},)
    guarded.train([1, 2, 3])
    guarded.write("saving checkpoint at iteration 4\n")
    assert "quiet phase" in text_of(guarded.look(log=str(guarded.log), quiet=quiet)[""])
    guarded.now += MINUTE
    guarded.beat(4)
    assert "quiet phase" in text_of(guarded.look(log=str(guarded.log), quiet=quiet)[""])
    guarded.now += MINUTE
    guarded.beat(5)
    assert "quiet phase" not in text_of(guarded.look(log=str(guarded.log), quiet=quiet)[""])
    guarded.now += 21 * MINUTE
    assert guarded.look(log=str(guarded.log), quiet=quiet)[""].status is Status.CRITICAL


def test_a_cause_outlasts_the_beat_of_the_step_before_it(guarded: Guarded) -> None:
    guarded.train([1, 2, 3])
    guarded.now += MINUTE
    guarded.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n", ago=1.0)
    guarded.beat(4)
    guarded.look(log=str(guarded.log))
    guarded.now += 21 * MINUTE
    assert ": GPU out of memory" in text_of(guarded.look(log=str(guarded.log))[""])


def test_a_beat_of_an_earlier_job_is_none(beating: Beating) -> None:
    beating.now += MINUTE
    beating.beat(7, job="80")
    assert "no Guard has told its step" in text_of(beating.look()[""])


@pytest.mark.slow
def test_auto_learns_evaluations_that_nobody_announces(training: Training) -> None:
    training.wanted = {}
    training.iterate(1, 60)
    assert set(wait(training, 12 * MINUTE)) == {Status.OK}
    for hour in range(1, 8):
        assert set(training.iterate(60 * hour + 1, 60)) == {Status.OK}
        assert set(wait(training, 12 * MINUTE)) == {Status.OK}


def test_auto_gives_a_start_its_time(training: Training) -> None:
    training.wanted = {}
    training.iterate(1, 60)
    training.job = replace(JOB, raw_id="89", started_at=training.now)
    training.write("loading\n")
    assert set(wait(training, 25 * MINUTE)) == {Status.OK}
    assert wait(training, 6 * MINUTE)[-1] is Status.CRITICAL


@pytest.mark.parametrize("word", ["nan", "inf", "NaN"])
def test_a_loss_that_stays_no_number_is_critical(training: Training, word: str) -> None:
    training.iterate(1, 5)
    for number in range(6, 9):
        training.now += MINUTE
        training.write(f" iteration  {number}/  90000 | lm loss: {word} |\n")
        result = training.look()["loss"]
        assert (result.status is Status.CRITICAL) == (number == 8)
    assert "3 times in a row" in text_of(result)
    assert "last good 2.31" in text_of(result)
    training.iterate(9, 1)
    assert training.look()["loss"].status is Status.OK


def test_lines_that_must_and_must_not_come(training: Training) -> None:
    training.wanted |= {
        "must_see": [{"match": "Using aws-ofi-rccl", "within": 10 * MINUTE}],
        "must_not_see": [r"Using \[0\]nmn0"],
    }
    training.state()
    training.iterate(1, 9)
    assert training.look()["must_see"].status is Status.OK
    training.iterate(10, 2)
    assert training.look()["must_see"].status is Status.CRITICAL
    assert training.look()["must_not_see"].status is Status.OK
    training.write("n1: NCCL INFO NET/OFI Using aws-ofi-rccl 1.4\nn1: NCCL INFO Using [0]nmn0:10.0.0.1\n")
    assert training.look()["must_see"].status is Status.OK
    assert training.look()["must_not_see"].status is Status.CRITICAL
    training.job = replace(JOB, raw_id="89", started_at=training.now)
    assert training.look()["must_not_see"].status is Status.OK


def test_the_cause_in_the_tail_is_named(training: Training) -> None:
    training.iterate(1, 3)
    training.write(
        "[rank5]:[E1109 16:13:20 ProcessGroupNCCL.cpp:616] [Rank 5] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE) ran for 600089 milliseconds before timing out.\n"
    )
    wait(training, 21 * MINUTE)
    assert ": collective timed out on rank 5" in text_of(training.look()[""])


def test_a_connection_that_came_after_all_is_not_named(training: Training) -> None:
    training.iterate(1, 3)
    training.write("Connection refused; retrying in 5 s\n")
    training.look()
    training.now += MINUTE
    training.write("Connected to n2\n")
    wait(training, 21 * MINUTE)
    assert "cause" not in text_of(training.look()[""])


def test_a_log_that_may_not_be_read_is_unknown(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    from watchdogd.parsers.logs import log_files

    def refuse(path: str, begin: int, end: int) -> bytes:
        raise PermissionError(13, "Permission denied", path)

    training.write("x\n")
    monkeypatch.setattr(log_files, "read", refuse)
    result = training.look()[""]
    assert result.status is Status.UNKNOWN
    mend = f"have its owner run: chmod g+r {training.path}"
    assert result.facts == (f"{training.path} cannot be read: Permission denied ({mend})",)


def test_memory_is_plain_json_and_small(training: Training) -> None:
    training.iterate(1, 400)
    assert len(json.dumps(training.memory)) < 6000


def megatron(
    number: int, *, loss: float = 2.3, ms: float = 30000, batch: int = 1024, skipped: int = 0
) -> str:
    return (
        f" iteration {number:8d}/  90000 | elapsed time per iteration (ms): {ms} |"
        f" global batch size: {batch:5d} |"
        f" lm loss: {loss:E} | number of skipped iterations: {skipped:3d} | number of nan iterations: 0 |\n"
    )


def test_a_loss_that_rises_and_stays_is_a_warning(training: Training) -> None:
    training.write("".join(megatron(n, loss=5 - 2.7 * min(n, 100) / 100) for n in range(1, 200)))
    assert training.look()["loss"].status is Status.OK
    training.write("".join(megatron(n, loss=7.5) for n in range(200, 209)))
    assert training.look()["loss"].status is Status.OK
    training.write("".join(megatron(n, loss=6.9) for n in range(209, 240)))
    result = training.look()["loss"]
    assert result.status is Status.WARNING
    assert result.summary == "loss rose from 2.3 to 6.9"
    assert result.facts == ("6.9 in the last 24 reports",)


def test_a_first_job_has_not_resumed(training: Training) -> None:
    training.write("".join(megatron(n, loss=2.3) for n in range(1, 21)))
    training.state()
    training.write("".join(megatron(n, loss=6.9) for n in range(21, 47)))
    assert "rose from 2.3 to 6.9" in training.look()["loss"].summary


def test_a_loss_that_jumps_at_a_resume_is_a_warning_and_a_new_beginning_is_none(training: Training) -> None:
    training.write("".join(megatron(n) for n in range(1000, 1100)))
    training.state()
    training.job = replace(JOB, raw_id="89", started_at=training.now)
    training.state()
    training.write("".join(megatron(n, loss=2.9) for n in range(1090, 1120)))
    assert "since this job resumed" in text_of(training.look()["loss"])
    training.job = replace(JOB, raw_id="90", started_at=training.now)
    training.state()
    training.write("".join(megatron(n, loss=9.9) for n in range(1, 60)))
    assert training.look()["loss"].status is Status.OK


def test_a_resume_is_held_against_the_loss_at_its_own_step(training: Training) -> None:
    """The checkpoint lies before the falls of the loss that the crash has lost."""
    training.write("".join(megatron(n, loss=6 - n / 100) for n in range(1, 300)))
    training.state()
    training.job = replace(JOB, raw_id="89", started_at=training.now)
    training.state()
    training.write("".join(megatron(n, loss=6 - n / 100) for n in range(100, 180)))
    assert training.look()["loss"].status is Status.OK


def test_slower_iterations_are_a_warning_and_a_batch_ramp_up_is_none(training: Training) -> None:
    training.write("".join(megatron(n) for n in range(1, 60)))
    training.write("".join(megatron(n, ms=60000, batch=2048) for n in range(60, 120)))
    assert training.look()["throughput"].status is Status.OK
    training.write("".join(megatron(n, ms=110000, batch=2048) for n in range(120, 150)))
    result = training.look()["throughput"]
    assert result.status is Status.WARNING
    assert "83 % longer for the same work" in text_of(result)


def test_a_storm_of_skipped_iterations_is_a_warning_but_not_at_the_start(training: Training) -> None:
    training.write("".join(megatron(n, skipped=1) for n in range(1, 40)))
    assert training.look()["skipped"].status is Status.OK
    training.write("".join(megatron(n) for n in range(40, 80)))
    assert training.look()["skipped"].status is Status.OK
    training.write("".join(megatron(n, skipped=n % 2) for n in range(80, 110)))
    assert training.look()["skipped"].status is Status.WARNING


def test_after_a_line_that_no_training_survives_five_minutes_are_enough(training: Training) -> None:
    training.iterate(1, 3)
    training.write("3: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n")
    assert set(wait(training, 4 * MINUTE)) == {Status.OK}
    wait(training, MINUTE)
    result = training.look()[""]
    assert result.status is Status.CRITICAL
    assert "limit 5m: after 'GPU out of memory' in the log" in text_of(result)
    training.iterate(4, 1)
    assert set(wait(training, 19 * MINUTE)) == {Status.OK}


def test_with_a_log_for_each_node_the_first_to_stop_is_named(training: Training, tmp_path: Path) -> None:
    training.log = str(tmp_path / "node*.log")
    for minute in range(10):
        training.now += MINUTE
        for node in range(4):
            if (node, minute > 6) != (2, True):
                training.write(f"step {minute}\n", tmp_path / f"node{node}.log")
        training.state()
    wait(training, 20 * MINUTE)
    result = training.look()[""]
    assert result.status is Status.CRITICAL
    assert f"the first to stop of 4 was {tmp_path}/node2.log" in text_of(result)


def test_what_was_wrong_with_a_job_ends_quietly_with_it(training: Training) -> None:
    training.write("".join(megatron(n, loss=float("nan")) for n in range(1, 9)))
    assert training.look()["loss"].status is Status.CRITICAL
    training.job = None
    result = training.look()["loss"]
    assert (result.status, result.quiet) == (Status.OK, True)


def test_a_misspelt_phase_is_told(training: Training) -> None:
    training.wanted["quiet"] = [{"match": "saving"}]
    with pytest.raises(ValueError, match=r"quiet: write \{ match = 'pattern', allow = '40m' \}"):
        training.look()


def test_a_file_that_vanishes_while_it_is_read_is_no_trouble(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    from watchdogd.parsers.logs import log_files

    def vanished(path: str, begin: int, end: int) -> bytes:
        raise FileNotFoundError(2, "No such file or directory", path)

    training.iterate(1, 2)
    monkeypatch.setattr(log_files, "read", vanished)
    training.now += MINUTE
    training.write("more\n")
    assert training.state() is Status.OK


def test_a_hang_is_not_seen_later_because_the_clock_is_set_back(training: Training) -> None:
    training.job = replace(JOB, started_at=START - 12 * HOUR)
    training.iterate(1, 5)
    wait(training, 10 * MINUTE)
    training.now -= 5 * HOUR
    assert training.state() is Status.OK
    assert wait(training, 20 * MINUTE)[-1] is Status.CRITICAL


def test_what_looks_did_not_get_through_is_not_read_again_and_a_hang_behind_it_is_told(
    training: Training,
) -> None:
    training.iterate(1, 10)
    training.write("Connection refused " + "a:" * 30_000 + "\n")
    training.failed = 1
    found = training.look()
    assert found["unread"].status is Status.UNKNOWN
    assert f"of {training.path}" in text_of(found["unread"])
    assert "tried 1 time\n" in text_of(found["unread"])
    training.failed = 0
    assert training.look()["unread"].status is Status.OK
    assert "connection" not in text_of(training.look()[""])
    training.failed = 2
    training.write("x\n")
    assert "tried 3 times\n" in text_of(training.look()["unread"])
    training.failed = 0
    assert wait(training, 40 * MINUTE)[-1] is Status.CRITICAL


@pytest.mark.parametrize(
    ("own", "other", "counts"),
    [
        ("out-88_1.txt", "out-91.txt", False),  # another run's job
        ("out-88_1.txt", "out-000091.txt", False),  # %6j
        ("out-88_1.txt", "out-88_1-rank1.txt", True),  # the run's own
        ("out-88_1.txt", "out-191.txt", True),  # nobody's that is known
        ("main.txt", "main-91.txt", True),  # the logs here are not named by jobs
    ],
)
def test_what_another_runs_job_writes_to_its_own_log_hides_no_hang(
    training: Training, tmp_path: Path, own: str, other: str, counts: bool
) -> None:
    training.path = tmp_path / own
    training.log = str(tmp_path / "*.txt")
    training.running = frozenset({("88_1", "88"), ("91", "91")})
    training.iterate(1, 40)
    training.path = tmp_path / other
    statuses = training.iterate(41, 40)
    assert statuses[-1] is (Status.OK if counts else Status.CRITICAL)


def buffered(training: Training, blocks: int, every: float, size: int = 8192) -> list[Status]:
    """A program whose output comes in blocks, looked at every ten minutes."""
    seen, step = [], 0
    text = ""
    for _ in range(blocks):
        while len(text) < size:
            step += 1
            text += f"step {step} loss 2.31 grad norm 0.44\n"
        training.write(text[:size])
        text = text[size:]
        for _ in range(round(every / (10 * MINUTE))):
            training.now += 10 * MINUTE
            seen.append(training.state())
    return seen


def test_a_job_that_writes_blocks_every_three_quarters_of_an_hour_is_not_hung(training: Training) -> None:
    training.wanted = {}
    assert set(buffered(training, 4, 40 * MINUTE)) == {Status.OK}
    for _ in range(18):
        training.now += 10 * MINUTE
        last = training.look()[""]
    assert last.status is Status.CRITICAL
    assert "PYTHONUNBUFFERED=1" in text_of(last)


def test_who_writes_line_by_line_gets_no_more_patience_and_no_advice(training: Training) -> None:
    training.wanted = {}
    buffered(training, 1, 10 * MINUTE)
    training.write("step 900 loss 2.30\n")
    training.now += 10 * MINUTE
    assert training.state() is Status.OK
    training.now += 40 * MINUTE
    last = training.look()[""]
    assert last.status is Status.CRITICAL
    assert "PYTHONUNBUFFERED" not in last.summary


def test_a_configured_limit_holds_for_blocks_too_and_the_way_out_is_named(training: Training) -> None:
    buffered(training, 2, 10 * MINUTE)
    training.now += 15 * MINUTE
    last = training.look()[""]
    assert (last.status, "python -u" in text_of(last)) == (Status.CRITICAL, True)


def test_a_log_that_was_not_written_to_for_long_is_not_said_to_grow() -> None:
    heard = Heard("/runs/tr4.out", START)
    assert heard.without_progress(START - 5 * MINUTE, START + 60) == "output but no progress"
    assert heard.without_progress(START - 60, START + 5 * MINUTE) == "no progress"
