"""log_staleness where two things meet: a job that takes over, its Guard, its log, an edit of config.toml."""

from __future__ import annotations

import getpass
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.plugins.words import text_of
from watchdogd.batch.models import Job, Snapshot
from watchdogd.plugin import Progress, Result, Run, Status
from watchdogd.plugins.log_staleness.check import log_staleness
from watchdogd.plugins.log_staleness.run_log import RunLog
from watchdogd.system.codec import codec_of

if TYPE_CHECKING:
    from collections.abc import Callable

MINUTE = 60.0
START = 1_800_000_000.0
FIRST = Job("71", "71", "opal", getpass.getuser(), "RUNNING", nodes="c[1-2]", started_at=START)
LOAD = "hello, I load 40 shards\n"


class Chain:
    """A run in its jobs, minute by minute: what its log and its Guard say, and the looks at them."""

    def __init__(self, folder: Path, **wanted: Any) -> None:
        self.folder, self.now, self.job = folder, START, FIRST
        self.log, self.pattern = folder / "opal.log", str(folder / "opal.log")
        self.run = Run("opal-2", "opal", inbox=str(folder))
        self.wanted: dict[str, Any] = wanted
        self.memory: dict[str, Any] = {}
        self.step = 0

    def write(self, text: str, ago: float = 0.0, path: Path | None = None) -> None:
        path = path or self.log
        with path.open("a") as file:
            file.write(text)
        os.utime(path, (self.now - ago, self.now - ago))

    def beat(self, ago: float = 0.0, pid: int = 300, **said: Any) -> None:
        path = self.folder / f"opal-2.beat.c1.{pid}.json"
        mine = {"run": "opal-2", "host": "c1", "pid": pid, "job": self.job.raw_id, "step": self.step}
        path.write_text(json.dumps({**mine, **said}))
        os.utime(path, (self.now - ago, self.now - ago))

    def train(self) -> None:
        """One step, logged and then told to the Guard."""
        self.iterate()
        self.beat(ago=2.0, loss=2.5)

    def iterate(self, loss: str = "2.5") -> None:
        self.step += 1
        self.write(f" iteration {self.step:8d}/    9000 | lm loss: {loss} |\n", ago=3.0)

    def look(self) -> dict[str, Result]:
        injected = {
            "run": self.run,
            "snapshot": Snapshot(self.now, jobs=(self.job,)),
            "memory": self.memory,
            "now": self.now,
        }
        found = log_staleness.results({"log": self.pattern, "stale_after": "auto", **self.wanted}, injected)
        return {result.subject: result for result in found}

    def best(self) -> float | None:
        """The lowest level of the loss that counts."""
        log = codec_of(RunLog).load(self.memory["state"])
        return log.curves.level.best if log and log.curves.level else None

    def minutes(self, count: int, each: Callable[[], None] = lambda: None) -> list[Result]:
        """What is said of the run in so many looks, `each` before every one."""
        said = []
        for _ in range(count):
            self.now += MINUTE
            each()
            said.append(self.look()[""])
        return said

    def take_over(self, job: str, *, ago: float = 0.0) -> None:
        self.job = replace(FIRST, id=job, raw_id=job, started_at=self.now - ago)


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


def fine(said: list[Result]) -> bool:
    return all(result.status is Status.OK for result in said)


@pytest.mark.parametrize("pid", [300, 301])
def test_the_last_beat_before_a_requeue_is_none_of_the_next_attempt(chain: Chain, pid: int) -> None:
    """The job has the same id, and takes longer to load than the run is ever silent."""
    chain.pattern = ""
    chain.minutes(120, chain.train)
    chain.job = replace(FIRST, state="PENDING")
    chain.minutes(3)
    chain.take_over("71", ago=-30.0)
    chain.now += 30.0
    said = chain.minutes(25)
    assert fine(said)
    assert "step" not in text_of(said[-1]).replace("steps", "")
    chain.step = 90
    chain.beat(pid=pid)
    assert "step 90, 0s ago" in text_of(chain.minutes(1, lambda: chain.beat(pid=pid))[0])
    assert chain.minutes(16)[-1].status is Status.CRITICAL


def test_a_beat_counts_where_the_clock_of_homes_file_server_is_slow(chain: Chain) -> None:
    chain.pattern = ""
    chain.minutes(20, chain.train)
    chain.take_over("72")

    def slow() -> None:
        chain.step += 1
        chain.beat(ago=700.0, pid=301)

    assert "step 22, " in text_of(chain.minutes(2, slow)[-1])


@pytest.mark.parametrize(
    "words", ["", "c1: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"]
)
def test_the_last_words_of_a_job_are_none_of_the_one_that_took_over(chain: Chain, words: str) -> None:
    chain.minutes(120, chain.iterate)
    chain.now += 30.0
    chain.iterate()
    chain.write(words, ago=2.0)
    chain.take_over("72")
    chain.now += 30.0
    chain.write(LOAD)
    assert fine([chain.look()[""], *chain.minutes(27)])
    chain.step = 100
    assert "iteration 101/9,000" in text_of(chain.minutes(1, chain.iterate)[0])
    assert chain.minutes(6)[-1].status is Status.CRITICAL


def test_a_job_of_its_own_log_is_heard_from_its_first_line_on(chain: Chain) -> None:
    chain.pattern = str(chain.folder / "opal*.log")
    chain.minutes(60, chain.iterate)
    chain.take_over("72")
    chain.log = chain.folder / "opal-72.log"
    assert "iteration 61/9,000" in text_of(chain.minutes(1, chain.iterate)[0])


def test_a_line_that_was_wanted_counts_in_the_minute_of_the_takeover(chain: Chain) -> None:
    chain.wanted = {"must_see": ({"match": "all ranks are here", "within": 300.0},)}
    chain.minutes(20, chain.iterate)
    chain.take_over("72")
    chain.minutes(1, lambda: chain.write("all ranks are here\n"))
    chain.minutes(6, chain.iterate)
    assert chain.look()["must_see"].status is Status.OK


def test_a_loss_of_an_earlier_job_ends_without_a_word(chain: Chain) -> None:
    chain.minutes(20, chain.iterate)
    chain.minutes(4, lambda: chain.iterate("nan"))
    assert chain.look()["loss"].status is Status.CRITICAL
    chain.take_over("72")
    chain.minutes(1, lambda: chain.write(LOAD))
    over = chain.look()["loss"]
    assert (over.status, over.quiet) == (Status.OK, True)
    assert over.summary == "not judged: job 72 has told none yet"
    chain.minutes(1, chain.iterate)
    assert chain.look()["loss"].summary == "loss 2.5"


@pytest.mark.parametrize("known", [True, False])
def test_logs_of_earlier_jobs_are_no_news_where_the_pattern_was_widened(chain: Chain, known: bool) -> None:
    chain.wanted = {"must_not_see": ("Using .0.nmn0",)}
    old = " iteration     8000/    9000 | lm loss: nan |\n" * 9 + "Using [0]nmn0\nCUDA out of memory\n"
    chain.write(old, ago=86400.0, path=chain.folder / "opal-70.log")
    chain.minutes(20 if known else 0, chain.iterate)
    chain.pattern = str(chain.folder / "opal*.log")
    for _ in range(3):
        chain.minutes(1, chain.iterate if known else lambda: None)
        found = chain.look()
        assert all(result.status is Status.OK for result in found.values()), found
    assert ("iteration 23/9,000" in text_of(found[""])) == known


def test_a_rhythm_of_heartbeats_is_none_of_a_job_without_a_guard(chain: Chain) -> None:
    def every_eighth() -> None:
        chain.step += 1
        if chain.step % 8 == 0:
            chain.write(f" iteration {chain.step:8d}/    9000 |\n")

    def both() -> None:
        every_eighth()
        chain.beat()

    chain.minutes(120, both)
    assert "limit 7m: learned" in text_of(chain.look()[""])
    chain.take_over("72")
    assert fine(chain.minutes(100, every_eighth))
    assert chain.minutes(33)[-1].status is Status.CRITICAL


def test_what_a_finished_run_does_last_is_no_hang(chain: Chain) -> None:
    chain.minutes(20, chain.train)
    chain.run = replace(chain.run, finished="ann: done")
    chain.write("exporting the weights\n")
    said = chain.minutes(120)
    assert fine(said)
    assert said[-1].summary == "not judged: marked finished by ann: done"


@pytest.mark.parametrize("ahead", [-40.0, 0.0, 40.0])
def test_a_phase_outlasts_the_beat_before_it_whatever_the_clocks(chain: Chain, ahead: float) -> None:
    chain.wanted = {"stale_after": 600.0, "quiet": ({"match": "saving", "allow": 2400.0},)}
    chain.minutes(10, chain.train)
    chain.now += MINUTE
    chain.step += 1
    chain.write("saving checkpoint\n", ago=44.0)
    chain.beat(ago=45.0 - ahead)
    assert fine([chain.look()[""], *chain.minutes(38)])
    assert chain.minutes(3)[-1].status is Status.CRITICAL


def test_a_phase_outlasts_the_beat_before_it_where_that_is_seen_later(chain: Chain) -> None:
    """Attributes of files are cached, for each file system by itself."""
    chain.wanted = {"stale_after": 600.0, "quiet": ({"match": "saving", "allow": 2400.0},)}
    chain.minutes(10, chain.train)
    chain.minutes(1, lambda: chain.write("saving checkpoint\n", ago=4.0))
    chain.step += 1
    chain.beat(ago=5.0)
    assert fine(chain.minutes(38))


def test_a_loss_that_is_told_every_tenth_step_is_counted_once(chain: Chain) -> None:
    chain.pattern = ""

    def step() -> None:
        chain.step += 1
        number = chain.step // 10
        chain.beat(losses=number, loss=float("nan") if number % 5 == 4 else 2.5)

    for _ in range(100):
        chain.minutes(1, step)
        assert chain.look().get("loss", Result(Status.OK, "")).status is Status.OK


@pytest.mark.parametrize("limit", ["auto", 600.0])
def test_a_save_that_the_guard_asked_for_has_its_time(chain: Chain, limit: Any) -> None:
    """The kill switch is set; the loop saves for longer than it is ever silent, and says nothing."""
    chain.wanted = {"stale_after": limit}
    chain.minutes(120, chain.train)
    chain.beat(asked="kill switch set by ann: wrong data")
    said = chain.minutes(28)
    assert fine(said) == (limit == "auto")
    if limit == "auto":
        assert "limit 30m: to save, as its Guard asked: kill switch set by ann: wrong data" in text_of(
            said[-1]
        )
        assert chain.minutes(3)[-1].status is Status.CRITICAL
        chain.minutes(2, chain.train)
        assert "limit 7m: learned" in text_of(chain.look()[""])


def test_a_start_has_the_grace_that_is_configured_for_it(chain: Chain) -> None:
    chain.wanted = {"stale_after": 600.0, "grace": 3600.0}
    chain.write(LOAD)
    said = chain.minutes(59)
    assert fine(said)
    assert "limit 1h: until a job's first progress line" in text_of(said[-1])
    assert chain.minutes(2)[-1].status is Status.CRITICAL
    chain.iterate()
    assert fine(chain.minutes(9))
    assert chain.minutes(2)[-1].status is Status.CRITICAL


def test_a_resume_is_measured_by_the_count_of_the_job_before(chain: Chain) -> None:
    """The log counts iterations; what the Guard counts begins anew with each job."""
    chain.minutes(60, chain.iterate)
    chain.take_over("72")
    chain.minutes(2, lambda: chain.beat(step=chain.now - START))
    chain.step = 40
    assert chain.best() == 2.5
    chain.minutes(1, chain.iterate)
    assert chain.best() == 2.5


def test_a_time_for_which_nobody_looked_is_no_pause_of_the_run(chain: Chain) -> None:
    chain.minutes(120, chain.iterate)
    for _ in range(180):
        chain.now += MINUTE
        chain.iterate()
    assert "limit 7m: learned" in text_of(chain.minutes(3, chain.iterate)[-1])


def test_a_run_that_is_looked_at_seldom_learns_all_the_same(chain: Chain) -> None:
    for _ in range(20):
        chain.now += 1200.0
        chain.iterate()
        chain.look()
    assert "limit 40m: learned" in text_of(chain.look()[""])


def test_the_time_for_which_a_job_was_suspended_is_no_pause_of_the_run(chain: Chain) -> None:
    chain.minutes(120, chain.iterate)
    chain.job = replace(FIRST, state="SUSPENDED")
    chain.minutes(180)
    chain.job = FIRST
    assert "limit 7m: learned" in text_of(chain.minutes(3, chain.iterate)[-1])


@pytest.mark.parametrize("limit", ["auto", 1200.0])
def test_ranks_that_are_started_again_within_the_job_have_left_their_crash(chain: Chain, limit: Any) -> None:
    chain.wanted = {"stale_after": limit}
    chain.minutes(30, chain.iterate)
    chain.write("c2: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n", ago=20.0)
    chain.write("[default] Worker group FAILED. 3/3 attempts left; will restart worker group\n", ago=19.0)
    assert fine([chain.look()[""], *chain.minutes(18, lambda: chain.write("building the graph\n"))])
    chain.minutes(2, chain.iterate)
    chain.write("c2: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    assert "after 'GPU out of memory'" in text_of(chain.minutes(7)[-1])


def pause(results: dict[str, Result]) -> str:
    progress = results[""].progress
    assert progress
    assert not progress.stalled
    return progress.pause


def test_others_are_told_of_a_phase_as_it_was_said(chain: Chain) -> None:
    chain.wanted = {"quiet": ({"match": "saving (all|some)", "allow": 2400.0},)}
    chain.minutes(120, chain.train)
    assert pause(chain.look()) == ""
    chain.write("saving all\n")
    assert pause(chain.look()) == "quiet phase 'saving (all|some)'"
    chain.minutes(3, chain.train)
    assert pause(chain.look()) == ""
    chain.beat(asked="kill switch set (by hand)")
    said = pause(chain.look())
    assert said == "to save, as its Guard asked: kill switch set (by hand)"


def told(result: Result) -> Progress:
    assert result.progress
    return result.progress


def test_whether_the_run_gets_on_is_a_field(chain: Chain) -> None:
    chain.minutes(30, chain.iterate)
    well = told(chain.look()[""])
    assert (well.stalled, well.recent(chain.now), round(well.within or 0.0)) == (False, True, 90)
    late = told(chain.minutes(2)[-1])
    assert (late.stalled, late.recent(chain.now), late.at) == (False, False, well.at)
    hung = told(chain.minutes(30)[-1])
    assert (hung.stalled, hung.recent(chain.now), hung.at) == (True, False, well.at)
    chain.job = replace(FIRST, state="PENDING")
    waits = told(chain.look()[""])
    assert waits == Progress(done=30.0, total=9000.0, unit="iteration", said=waits.said)
    assert waits.said == hung.said


def test_a_log_that_never_was_is_no_hang(chain: Chain) -> None:
    missing = chain.minutes(60)[-1]
    assert (missing.status, told(missing)) == (Status.CRITICAL, Progress())
