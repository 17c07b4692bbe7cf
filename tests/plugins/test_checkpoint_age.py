"""checkpoint_age on real files, with a clock that the tests turn."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.words import text_of
from watchdogd.batch.models import Job, Snapshot
from watchdogd.plugin import Result, Run, Status
from watchdogd.plugins.checkpoint_age.check import checkpoint_age

MINUTE, HOUR = 60.0, 3600.0
START = 1_800_000_000.0
JOB = Job(id="88_1", raw_id="88", name="tr4", user="alice", state="RUNNING", nodes="n1", started_at=START)


@dataclass
class Saving:
    """A folder of checkpoints, and the check that looks at it."""

    folder: Path
    now: float = START
    job: Job | None = JOB
    known: bool = True
    memory: dict[str, Any] = field(default_factory=dict)
    wanted: dict[str, Any] = field(default_factory=lambda: {"checkpoint_every": 3 * HOUR})

    def save(self, name: str, size: int = 1000, files: int = 4) -> Path:
        path = self.folder / name
        path.mkdir()
        for number in range(files):
            part = path / f"mp_rank_{number:02d}.pt"
            part.write_bytes(b"x" * size)
            os.utime(part, (self.now, self.now))
        os.utime(path, (self.now, self.now))
        return path

    def look(self, passed: float = 0.0) -> dict[str, Result]:
        self.now += passed
        jobs = ((self.job,) if self.job else ()) if self.known else None
        injected = {
            "run": Run("run-4", "tr4"),
            "snapshot": Snapshot(self.now, jobs=jobs, trouble="" if self.known else "squeue is silent"),
            "memory": self.memory,
            "now": self.now,
        }
        parameters = {"checkpoints": str(self.folder / "global_step*"), **self.wanted}
        return {result.subject: result for result in checkpoint_age.results(parameters, injected)}


@pytest.fixture
def saving(tmp_path: Path) -> Saving:
    return Saving(tmp_path)


def test_checkpoints_that_come_in_time_are_fine(saving: Saving) -> None:
    for step in range(5):
        saving.now += 3 * HOUR
        saving.save(f"global_step{step}")
        saving.look()
        saving.look(MINUTE)
        seen = saving.look(3 * MINUTE)
        assert {result.status for result in seen.values()} == {Status.OK}
    assert "the newest checkpoint is 4m old" in text_of(seen[""])
    assert seen["content"].metrics["size"].value == 4000
    assert "room for" in text_of(seen["room"])


def spoil(saving: Saving, path: Path, text: bytes | None = None) -> None:
    """Take a shard away, or write another in its place; their folder is as old as before."""
    path.unlink()
    if text is not None:
        path.write_bytes(text)
        os.utime(path, (saving.now, saving.now))
    os.utime(path.parent, (saving.now, saving.now))


def settle(saving: Saving) -> Result:
    """What is said of whether they are whole, once the newest counts as written."""
    saving.look(MINUTE)
    return saving.look(3 * MINUTE)["whole"]


def test_one_that_lacks_a_shard_is_told_and_critical_where_no_whole_one_is_young(saving: Saving) -> None:
    for step in (1, 2):
        saving.save(f"global_step{step}", size=2000, files=8)
        assert settle(saving).status is Status.OK
        saving.now += 3 * HOUR
    saving.save("global_step3", size=2000, files=8)
    spoil(saving, saving.folder / "global_step3" / "mp_rank_05.pt")
    flawed = settle(saving)
    assert flawed.status is Status.WARNING
    said = "global_step3 is not whole: 7 of 8 mp_rank_*.pt are there (mp_rank_05.pt is missing)"
    assert flawed.summary.endswith(said)
    assert flawed.metrics["whole"].value == 2
    saving.save("global_step4", size=2000, files=8)
    assert settle(saving).status is Status.OK, "the newest one is whole again"
    for step in (5, 6):
        saving.now += 3 * HOUR
        saving.save(f"global_step{step}", size=2000, files=8)
        spoil(saving, saving.folder / f"global_step{step}" / "mp_rank_05.pt", b"")
        flawed = settle(saving)
    assert flawed.status is Status.CRITICAL
    assert flawed.summary.startswith("the last whole checkpoint is 6h")
    assert flawed.facts[0].endswith("mp_rank_05.pt is empty")


def test_fewer_whole_ones_than_should_be_kept(saving: Saving) -> None:
    first = saving.save("global_step1")
    assert settle(saving).status is Status.OK, "the first one is alone"
    saving.now += 3 * HOUR
    saving.save("global_step2")
    assert settle(saving).status is Status.OK
    for part in first.iterdir():
        part.unlink()
    first.rmdir()
    few = saving.look(MINUTE)["whole"]
    assert few.status is Status.WARNING
    assert few.summary == "only 1 of the 1 newest is whole, 2 should be"
    saving.wanted["keep"] = 1
    assert saving.look(MINUTE)["whole"].status is Status.OK


@pytest.mark.parametrize(
    ("tracker", "said", "bad"),
    [
        ("latest", "global_step1", False),
        ("latest", "global_step7", True),
        ("latest_checkpointed_iteration.txt", "1", False),
        ("latest_checkpointed_iteration.txt", "7", True),
        ("latest_checkpointed_iteration.txt", "release", True),
    ],
)
def test_a_tracker_that_names_what_is_not_there(saving: Saving, tracker: str, said: str, bad: bool) -> None:
    saving.save("global_step1")
    (saving.folder / tracker).write_text(said)
    found = settle(saving)
    assert (found.status is not Status.OK) == bad
    assert (f"names {said}, which is not there: nothing would load" in text_of(found)) == bad


def test_a_tracker_that_names_one_that_is_not_whole(saving: Saving) -> None:
    for step in (1, 2, 3):
        path = saving.save(f"global_step{step}", size=2000)
        if step == 2:
            spoil(saving, path / "mp_rank_01.pt")
        settle(saving)
        saving.now += HOUR
    (saving.folder / "latest").write_text("global_step2")
    found = settle(saving)
    assert found.status is Status.WARNING
    assert "latest names global_step2, and " in found.summary


def test_how_long_a_save_takes_and_what_share_of_the_time(saving: Saving) -> None:
    path = saving.save("global_step1")
    os.utime(path / "mp_rank_03.pt", (saving.now + 324, saving.now + 324))
    saving.now += 330
    metrics = settle(saving).metrics
    assert metrics["save_time"].value == 324
    assert metrics["save_share"].value == pytest.approx(3.0)


def work(saving: Saving, number: int, hours: float) -> list[Status]:
    """A job of the chain, from its start to its end."""
    saving.job = replace(JOB, id=f"{number}", raw_id=f"{number}", started_at=saving.now)
    return [saving.look(10 * MINUTE)[""].status for _ in range(round(6 * hours))]


def test_jobs_that_are_too_short_to_be_late_and_save_nothing_are_told(saving: Saving) -> None:
    saving.save("global_step1")
    saving.look(MINUTE)
    assert {*work(saving, 1, 2.5), *work(saving, 2, 2.5)} == {Status.OK}
    assert work(saving, 3, 0.5)[-1] is Status.WARNING
    result = saving.look()[""]
    assert "nothing saved by the last 2 jobs, which worked for 5h in all" in text_of(result)
    assert {*work(saving, 4, 0.1), *work(saving, 5, 0.1)} == {Status.WARNING}, (
        "what just began has lost nothing"
    )
    assert work(saving, 6, 2.5)[-1] is Status.WARNING
    assert work(saving, 7, 0.5)[-1] is Status.CRITICAL
    saving.save("global_step2")
    assert saving.look()[""].status is Status.OK


def test_a_chain_whose_jobs_save_as_they_end_is_fine(saving: Saving) -> None:
    for number in range(8):
        assert set(work(saving, number, 2.5)) == {Status.OK}
        saving.save(f"global_step{number}")


def test_one_crash_before_a_checkpoint_is_told_by_the_job_alone(saving: Saving) -> None:
    saving.wanted["allowance"] = 600.0
    assert {*work(saving, 1, 2.9), *work(saving, 2, 2.9)} == {Status.OK}


def test_a_late_one_is_a_warning_and_two_missed_are_critical(saving: Saving) -> None:
    saving.save("global_step1")
    assert saving.look()[""].status is Status.OK
    assert saving.look(3.7 * HOUR)[""].status is Status.OK
    result = saving.look(0.1 * HOUR)[""]
    assert result.status is Status.WARNING
    assert "no checkpoint for 3h48m of work (one every 3h)" in text_of(result)
    assert "job 88_1 runs on n1" in text_of(result)
    assert saving.look(3 * HOUR)[""].status is Status.CRITICAL
    saving.save("global_step2")
    assert saving.look()[""].status is Status.OK


def test_a_late_one_is_not_told_later_because_the_clock_is_set_back(saving: Saving) -> None:
    saving.job = replace(JOB, started_at=START - 24 * HOUR)
    saving.save("global_step1")
    saving.look(HOUR)
    saving.look(-8 * HOUR)
    assert saving.look(4 * HOUR)[""].status is Status.WARNING


def test_none_at_all_is_told_from_the_jobs_start_on(saving: Saving) -> None:
    assert saving.look(HOUR)[""].status is Status.OK
    result = saving.look(3 * HOUR)[""]
    assert result.status is Status.WARNING
    assert "none matches" in text_of(result)


def test_an_own_allowance(saving: Saving) -> None:
    saving.wanted |= {"allowance": 60.0}
    saving.save("global_step1")
    saving.look()
    assert saving.look(3 * HOUR + 61)[""].status is Status.WARNING


def test_waiting_is_no_work(saving: Saving) -> None:
    saving.save("global_step1")
    saving.look()
    saving.job = replace(JOB, state="PENDING", started_at=None)
    assert saving.look(10 * HOUR)[""].status is Status.OK
    saving.job = replace(JOB, raw_id="89", started_at=saving.now)
    assert saving.look(3.5 * HOUR)[""].status is Status.OK
    assert saving.look(0.5 * HOUR)[""].status is Status.WARNING


def test_a_queue_that_does_not_answer_makes_lateness_unknown(saving: Saving) -> None:
    saving.save("global_step1")
    saving.look()
    saving.known = False
    assert saving.look(HOUR)[""].status is Status.OK
    assert saving.look(3 * HOUR)[""].status is Status.UNKNOWN


def test_one_that_is_much_smaller_or_empty_is_told_once_it_is_written(saving: Saving) -> None:
    for step in range(3):
        saving.save(f"global_step{step}")
        saving.look(HOUR)
    saving.now += 3 * HOUR
    path = saving.save("global_step3", files=1)
    assert saving.look()["content"].status is Status.OK
    saving.look(MINUTE)
    result = saving.look(2 * MINUTE)["content"]
    assert result.status is Status.WARNING
    assert "the newest checkpoint looks truncated: 1 kB where others have 4 kB" in text_of(result)
    (path / "mp_rank_00.pt").unlink()
    os.utime(path, (saving.now, saving.now))
    saving.look()
    assert saving.look(3 * MINUTE)["content"].status is Status.CRITICAL


@pytest.mark.parametrize("mark", ["mp_rank_00.pt.tmp", "save-unfinished", "optim.incomplete"])
def test_one_that_is_given_up_half_way_is_told_and_does_not_count(saving: Saving, mark: str) -> None:
    saving.save("global_step1")
    saving.look()
    saving.now += 3 * HOUR
    marked = saving.save("global_step2") / mark
    marked.touch()
    os.utime(marked, (saving.now, saving.now))
    os.utime(marked.parent, (saving.now, saving.now))
    saving.look()
    assert saving.look(20 * MINUTE)["content"].status is Status.OK
    seen = saving.look(40 * MINUTE)
    assert seen["content"].status is Status.WARNING
    assert mark in text_of(seen["content"])
    assert seen[""].status is Status.WARNING


def test_a_distributed_checkpoint_without_its_metadata_is_unfinished(saving: Saving) -> None:
    for number in (1, 2):
        saving.now += 3 * HOUR
        path = saving.save(f"global_step{number}")
        for name in ("__0_0.distcp", "__1_0.distcp", ".metadata"):
            (path / name).write_bytes(b"x" * 1000)
            os.utime(path / name, (saving.now, saving.now))
        os.utime(path, (saving.now, saving.now))
        saving.look()
    assert saving.look(HOUR)["content"].status is Status.OK
    (path / ".metadata").unlink()
    os.utime(path, (saving.now, saving.now))
    assert saving.look()["content"].status is Status.OK
    seen = saving.look(HOUR)["content"]
    assert seen.status is Status.WARNING
    assert f"{path}/.metadata, which is missing, marks an unfinished checkpoint" in text_of(seen)


@pytest.mark.parametrize(
    ("name", "tracker", "said"),
    [
        ("global_step{}", "latest", "global_step{}"),
        ("global_step{}", "latest_checkpointed_iteration.txt", "{}\n"),
        ("iter_{:07d}", "latest_checkpointed_iteration.txt", "{}"),
    ],
)
def test_one_that_the_frameworks_tracker_does_not_name_yet_is_being_written(
    saving: Saving, name: str, tracker: str, said: str
) -> None:
    saving.wanted["checkpoints"] = f"{saving.folder}/*"

    def finish(step: int) -> None:
        (saving.folder / tracker).write_text(said.format(step))
        os.utime(saving.folder / tracker, (saving.now, saving.now))

    for step in (900, 1000):
        saving.now += 3 * HOUR
        saving.save(name.format(step))
        saving.now += MINUTE
        finish(step)
    whole = saving.look(10 * MINUTE)["content"]
    assert whole.summary == "the newest checkpoint has 4 kB"
    assert whole.facts[0].endswith(name.format(1000))
    saving.now += 3 * HOUR
    new = saving.save(name.format(1100), files=1)
    seen = saving.look(20 * MINUTE)
    assert f"3h31m old\n{saving.folder}/{name.format(1000)}\n" in text_of(seen[""])
    assert seen["content"].status is Status.OK
    assert f"a checkpoint is being written\n{new}\n{saving.folder}/{tracker}, which names" in text_of(
        seen["content"]
    )
    given_up = saving.look(11 * MINUTE)["content"]
    assert given_up.status is Status.WARNING
    assert f"and not {new.name}, marks an unfinished checkpoint, unchanged for 31m" in text_of(given_up)
    finish(1100)
    seen = saving.look()
    assert f"31m old\n{new}\n" in text_of(seen[""])
    assert "looks truncated" in text_of(seen["content"])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("global_step900", "nobody keeps it: DeepSpeed's save_latest=False"),
        ("", "it is just being written"),
        ("\x00\x01" * 2000, "it is something else"),
        ("global_step5000", "the run went back to an earlier one"),
    ],
)
def test_a_tracker_that_tells_nothing_of_the_newest_ones_changes_nothing(
    saving: Saving, said: str, why: str
) -> None:
    (saving.folder / "latest").write_text(said)
    os.utime(saving.folder / "latest", (saving.now, saving.now))
    for step in (1000, 1100):
        saving.now += HOUR
        saving.save(f"global_step{step}")
    assert saving.look(HOUR)["content"].facts[0].endswith("global_step1100"), why


def test_a_model_converted_by_megatron_comes_before_every_step(saving: Saving) -> None:
    (saving.folder / "latest_checkpointed_iteration.txt").write_text("release")
    os.utime(saving.folder / "latest_checkpointed_iteration.txt", (saving.now, saving.now))
    saving.now += HOUR
    path = saving.save("global_step500")
    (saving.folder / "latest").mkdir()  # something else of that name
    assert f"a checkpoint is being written\n{path}\n" in text_of(saving.look(10 * MINUTE)["content"])


def test_no_room_for_the_next_one_is_critical(saving: Saving, monkeypatch: pytest.MonkeyPatch) -> None:
    saving.save("global_step1")
    saving.look()
    assert saving.look(3 * MINUTE)["room"].status is Status.OK
    real = os.statvfs(saving.folder)
    fields = list(real)
    fields[4] = 0  # f_bavail
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(fields))
    result = saving.look()["room"]
    assert result.status is Status.CRITICAL
    assert "no room for the next checkpoint of 4 kB" in text_of(result)


def test_links_do_not_lead_astray(saving: Saving) -> None:
    path = saving.save("global_step1")
    (path / "loop").symlink_to(path)
    (path / "dangling").symlink_to("nowhere")
    saving.look()
    assert saving.look(3 * MINUTE)["content"].metrics["size"].value >= 4000
