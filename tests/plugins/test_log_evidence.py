"""What log_staleness makes of lines that look like a death, a loss or a rank, and are none."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugins.test_log_staleness import MINUTE, Training, grow, wait
from tests.plugins.words import text_of
from watchdogd.plugin import DIVERGED, Status


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path / "out.txt")


@pytest.mark.parametrize(
    "line",
    [
        "AutoTuner: WARNING CUDA out of memory with 96 images, trying 48\n",
        "[INFO] torch.OutOfMemoryError was caught: micro batch goes from 6 to 3\n",
        "node agent options: --on-host-out-of-memory=none oom_kill 0\n",
        "[rank0]:W0203 11:12:13.1 99 select.py:7] No config. OutOfMemoryError: out of resource: tile_9\n",
        "pcieport 0000:41:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer\n",
    ],
)
def test_a_line_that_only_mentions_a_death_shortens_no_patience(training: Training, line: str) -> None:
    training.now += MINUTE
    training.write(line)
    assert set(wait(training, 26 * MINUTE)) == {Status.OK}


@pytest.mark.parametrize("prefix", ["", "n7: ", "[rank3]: "])
def test_a_death_is_one_where_who_died_says_nothing_more(training: Training, prefix: str) -> None:
    training.iterate(1, 30)
    training.write(f"{prefix}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB\n")
    assert wait(training, 6 * MINUTE)[-1] is Status.CRITICAL
    training.iterate(31, 5)
    training.write(f"{prefix}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB\n")
    seen = grow(training, f"{prefix}falling back to the smaller kernel, variant {{}}\n", 12)
    assert set(seen) == {Status.OK}


@pytest.mark.parametrize(
    "line",
    [
        lambda n: f"pass {n} | lowest loss 1.875 | loss nan\n",
        lambda n: f"pass {n}, loss: nan, target loss: 1.5\n",
        lambda n: f"pass {n} train_loss=nan\nminimum loss = 1.875\n",
        lambda n: f"[{n}/400] loss nan\nprevious best loss: 1.875\n\tdev loss: 1.9\n",
    ],
)
def test_a_record_of_the_past_clears_no_loss_that_is_none(
    training: Training, line: Callable[[int], str]
) -> None:
    for number in range(1, 12):
        training.now += MINUTE
        training.write(f"pass {number} | loss 2.{20 - number}\n")
        training.look()
    for number in range(12, 24):
        training.now += MINUTE
        training.write(line(number))
        found = training.look()
    assert found["loss"].status is Status.CRITICAL


@pytest.mark.parametrize(
    "line",
    ["iteration {}/5,000 | loss: {}", "step {}: train loss {}, val loss 2.9", "{{'loss': {1}, 'step': {0}}}"],
)
def test_a_loss_keeps_its_name_until_it_is_a_number_again(training: Training, line: str) -> None:
    """Several lines a look: that in which it recovers has some of both."""
    shown = line + "\n"
    losses = [*(f"2.{900 - n}" for n in range(40)), *["nan"] * 37, *(f"2.{500 - n}" for n in range(9))]
    found = []
    for begin in range(0, len(losses), 4):
        training.now += MINUTE
        training.write("".join(shown.format(n, losses[n]) for n in range(begin, min(begin + 4, len(losses)))))
        found.append(training.look()["loss"])
    said = [each.status for each in found[11:]]
    assert said == [*[Status.CRITICAL] * 8, *[Status.OK] * (len(said) - 8)]
    assert {each.kind for each in found[11:19]} == {DIVERGED}


def risen(training: Training, line: Callable[[int], str], count: int = 160) -> Status:
    """The worst that is said of the loss while these lines come."""
    worst = Status.OK
    for number in range(1, count):
        training.now += MINUTE
        training.write(line(number))
        found = training.look().get("loss")
        worst = max(worst, found.status) if found else worst
    return worst


@pytest.mark.parametrize("line", ["{} {} 0.01", "update {} nll {}", '{{"step": {}, "loss": {{"out": {}}}}}'])
def test_a_measure_without_a_known_name_that_becomes_no_number_is_told(training: Training, line: str) -> None:
    shown = line + "\n"
    assert risen(training, lambda n: shown.format(n, f"2.{200 - n}"), 40) is Status.OK
    assert risen(training, lambda n: shown.format(n + 40, "nan"), 10) is Status.WARNING


def test_a_loss_that_begins_at_zero_or_lies_about_it_has_not_risen(training: Training) -> None:
    chance = random.Random(4)
    loss = [0.05 * max(0, n - 30) * 0.003 + chance.gauss(0, 0.0004) for n in range(200)]
    assert risen(training, lambda n: f"{{'loss': {loss[n]:.6f}, 'epoch': {n / 700:.4f}}}\n") is Status.OK


def test_the_loss_of_a_policy_may_rise_and_another_may_not(training: Training) -> None:
    def policy(n: int) -> str:
        return f"step {n} loss {1 + n / 50:.3f} reward {n / 300:.3f}\n"

    assert risen(training, policy) is Status.OK


def test_each_trial_begins_with_a_high_loss(training: Training) -> None:
    def trial(n: int) -> str:
        return f"trial {n // 40} step {n % 40} loss {9 * 0.9 ** (n % 40) + 1:.3f}\n"

    assert risen(training, trial) is Status.OK


def test_longer_answers_take_longer_and_are_no_slowness(training: Training) -> None:
    for number in range(1, 140):
        training.now += MINUTE
        seconds, length = 15 + number / 2, 300 + 15 * number
        training.write(
            f"step {number} response_length/mean:{length}.5 loss 0.4\n\r {number}/900 [{seconds:.2f}s/it] "
        )
        training.write(f"\r {number}/900 [10:11<9:10:11, {seconds:.2f}s/it] ")
        found = training.look().get("throughput")
        assert found is None or found.status is Status.OK


def test_a_step_before_a_colon_is_no_rank(training: Training) -> None:
    assert set(grow(training, "{0}: 2.{0} at 0.01\n", 40)) == {Status.OK}
    assert grow(training, "waiting for the reader ({})\n", 40)[-1] is Status.CRITICAL
    training.write("9999: RuntimeError: no such shape\n")
    training.look()
    assert "rank 9999" not in text_of(training.look()[""])


def test_ranks_that_come_again_are_ranks(training: Training) -> None:
    for step in range(20):
        training.now += MINUTE
        training.write("".join(f"{rank}: step {step} loss 2.5\n" for rank in range(4)))
        training.look()
    training.write("2: RuntimeError: no such shape\n")
    wait(training, 31 * MINUTE)
    assert "on rank 2" in text_of(training.look()[""])


def test_what_a_run_does_after_its_last_step_is_no_hang(training: Training) -> None:
    for step in range(1, 61):
        training.now += MINUTE
        training.write(f"{step}/60 loss 1.{step}\n")
        training.look()
    assert set(grow(training, "uploading the weights\n", 50)) == {Status.OK}


@pytest.mark.parametrize("said", ["", "uploading the weights\n"])
def test_what_comes_to_nothing_after_the_last_step_is_reported_as_that(training: Training, said: str) -> None:
    for step in range(1, 181):
        training.now += MINUTE
        training.write(f"{step}/180 loss 1.{step % 9}\n")
        training.look()
    seen = grow(training, said, 125)
    assert set(seen[:115]) == {Status.OK}
    assert seen[-1] is Status.WARNING
    result = training.look()[""]
    assert result.summary.startswith("all its steps are done, but it still runs, ")
    assert result.summary.endswith(", at step 180/180")
    assert "limit 2h: after the last step" in text_of(result)
    assert result.kind == "over"
    assert result.progress
    assert not result.progress.stalled


def test_event_files_of_tensorboard_are_a_log(training: Training, tmp_path: Path) -> None:
    data = (
        Path(__file__).resolve().parents[1] / "samples/logs/events.out.tfevents.1800000000.n1"
    ).read_bytes()
    training.path = tmp_path / "events.out.tfevents.1800000000.n1"
    for end in range(60, len(data) + 40, 40):
        training.now += MINUTE
        training.path.write_bytes(data[:end])
        os.utime(training.path, (training.now, training.now))
        result = training.look()[""]
        assert result.status is Status.OK
    assert "step 120, " in result.summary
    assert training.look()["loss"].summary == "loss 1.25"
    assert wait(training, 40 * MINUTE)[-1] is Status.CRITICAL


UNCAUGHT = """Traceback (most recent call last):
  File "report.py", line 88, in <module>
shards.loader.MissingShard: shard 7 has no index
"""


def test_an_error_of_no_known_kind_is_quoted_with_its_rank(training: Training) -> None:
    training.iterate(1, 30)
    training.write("3: thread 'main' panicked at src/loader.rs:88:14\n")
    assert wait(training, 6 * MINUTE)[-1] is Status.CRITICAL
    quoted = ": last error in the log on rank 3 (thread 'main' panicked at src/loader.rs:88:14)"
    assert quoted in text_of(training.look()[""])


def test_a_record_of_an_error_raises_no_alarm_and_is_quoted_in_the_next_one(training: Training) -> None:
    training.iterate(1, 30)
    training.write("2026-02-03 10:11:12,131 - trainer.data - ERROR - shard 7 has no index\n")
    assert set(wait(training, 6 * MINUTE)) == {Status.OK}
    assert wait(training, 30 * MINUTE)[-1] is Status.CRITICAL
    assert "ERROR - shard 7 has no index)" in text_of(training.look()[""])
    training.iterate(31, 3)
    assert wait(training, 40 * MINUTE)[-1] is Status.CRITICAL
    result = training.look()[""]
    assert "shard 7" not in "\n".join([result.summary, *result.facts]), "work came after it"


def test_an_exception_that_nobody_caught_leaves_five_minutes_or_what_a_step_takes(training: Training) -> None:
    training.write(UNCAUGHT)
    assert wait(training, 6 * MINUTE)[-1] is Status.CRITICAL, "before the first step"
    for step in range(1, 13):
        training.write(f"step {step} loss 2.{step % 9}\n")
        wait(training, 20 * MINUTE)
    training.write(f"step 13 loss 2.5\n{UNCAUGHT}")
    assert set(wait(training, 25 * MINUTE)) == {Status.OK}
    assert wait(training, 8 * MINUTE)[-1] is Status.CRITICAL
    assert "limit 30m: after 'error in the program'" in text_of(training.look()[""])


def test_a_pause_that_began_with_a_line_like_before_is_named(training: Training) -> None:
    """So that idle GPUs are no news while it lasts."""
    for step in range(1, 61):
        training.now += MINUTE
        training.write(f"step {step} loss 2.{step % 9}\n")
        if step % 20 == 0:
            training.write("evaluating on 3 sets\n")
            wait(training, 9 * MINUTE)
        training.look()
    training.now += MINUTE
    training.write("step 61 loss 2.5\n")
    pause = training.look()[""].progress
    assert pause
    assert pause.pause == ""
    training.now += MINUTE
    training.write("evaluating on 3 sets\n")
    wait(training, 3 * MINUTE)
    pause = training.look()[""].progress
    assert pause
    assert pause.pause == "after 'evaluating on # sets'"
