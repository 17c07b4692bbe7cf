"""What frameworks write while they train, evaluate and hang, through log_staleness: minute by minute."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.test_log_staleness import MINUTE, Training, grow, wait
from tests.plugins.words import text_of
from watchdogd.plugin import Status


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path / "run.out", wanted={"stale_after": 20 * MINUTE})


NOISE = "Waiting for the server ({}), retry 7 in 30 s\n"


@pytest.mark.parametrize(
    "line",
    [
        "Epoch 0: |# | {0}/5000 [6:28:43<94:39:17, 1.3it/s, reduced_train_loss=2.5, global_step=3.2e+4]\r",
        "mmdet - INFO - Epoch [3][{0}/7000]\tlr: 1.0e-02, time: 0.9, memory: 4012, loss: 1.25\n",
        "[2/100][{0}/3000] Loss_D: 0.5 Loss_G: 2.1\n",
        "(trainer:464) INFO: 2epoch:train:1-{0}batch: iter_time=2e-04, loss=12.5, train_time=1.8\n",
        "| time/               |      |\n|    fps              | 120  |\n|    total_timesteps  | {0}00 |\n",
        "(Trainer pid=7, ip=10.3.0.7) step:{0} - actor/pg_loss:0.1 - timing_s/gen:29.6\n",
        "   {0}00   298.15   -1234.5     0.0   -1100.2\n",
        "           Step           Time\n         {0}00      100.00000\n\n   Energies (kJ/mol)\n",
        "2026-01-02 03:04:05: Epoch {0}\n03:04:06: Current learning rate: 0.01\n03:05:00: train_loss -0.5\n",
        "Epoch {0}/500 - 31s - accuracy: 0.5\n",
        "Train: |# | {0}.0/900 [11:53<17:20, 1.7s/it]\r",
    ],
)
def test_what_grows_is_progress_and_a_hang_after_it_is_told(training: Training, line: str) -> None:
    assert set(grow(training, line)) == {Status.OK}
    told = training.look()[""].summary
    assert grow(training, NOISE)[-1] is Status.CRITICAL, told
    assert "output but no progress" in text_of(training.look()[""])
    assert set(grow(training, line.replace("{0}", "9{0}"), 3)) == {Status.OK}


@pytest.mark.parametrize("stale_after", [20 * MINUTE, "auto"])
def test_epochs_that_take_long_are_no_hang_and_one_without_end_is(
    training: Training, stale_after: object
) -> None:
    training.wanted["stale_after"] = stale_after
    for epoch in range(5):
        training.write(f"Epoch {epoch}\n")
        assert set(grow(training, "seen one more shard ({} min)\n", 50)) == {Status.OK}, epoch
    training.write("Epoch 5\n")
    seen = grow(training, "seen one more shard ({} min)\n", 160)
    assert set(seen[:70]) == {Status.OK}
    assert seen[-1] is Status.CRITICAL
    summary = training.look()[""].summary
    assert summary.startswith("stalled, output but no progress for 2h")
    assert summary.endswith(", at epoch 5")


def test_beside_steps_an_epoch_that_stands_hides_no_hang(training: Training) -> None:
    for minute in range(1, 6):
        training.now += MINUTE
        training.write(f"step {minute}, loss 2.5\n")
        training.state()
    assert grow(training, "still in epoch 3, {} min\n")[-1] is Status.CRITICAL
    summary = training.look()[""].summary
    assert summary.startswith("stalled, output but no progress for ")
    assert summary.endswith(", at step 5")


@pytest.mark.parametrize(
    "start",
    [
        "Loading checkpoint shards: 100%|##| 3/3 [00:12<00:00,  4.1s/it]\n",
        "Fetching 12 files:   8%|# | 1/12 [00:10<01:50, 10.1s/it]\n",
        "micro batch 4, sequence 2048\n",
        "model.safetensors:  12%|# | 615M/4.98G [00:10<01:12, 60.1MB/s]\n",
    ],
)
def test_what_is_counted_at_the_start_is_no_progress_that_ends(training: Training, start: str) -> None:
    training.write(start)
    for shard in range(60):  # not as regularly as what only waits
        training.now += MINUTE
        training.write(f"shard {shard * 3 + shard % 3} of the corpus is seen\n")
        assert training.look()[""].status is Status.OK


def test_what_counts_as_something_that_waits_does_is_no_work_for_long(training: Training) -> None:
    training.write("reading the corpus\n")
    seen = grow(training, "still here ({})\n", 60)
    assert set(seen[:29]) == {Status.OK}
    assert seen[-1] is Status.CRITICAL


def test_a_download_that_begins_again_and_again_hides_no_hang(training: Training) -> None:
    training.iterate(1, 5)
    for _ in range(12):
        state = grow(training, "Downloading shards:   {0}%|# | {0}/90 [00:10<01:50, 10.1s/it]\r", 3)[-1]
    assert state is Status.CRITICAL


@pytest.mark.parametrize(
    "line",
    [
        "[d2.evaluation.evaluator]: Inference done {}/500. Dataloading: 0.1 s/iter. ETA=0:03:45\n",
        "Epoch(val)  [3][ {}/1250]    eta: 0:01:11  time: 0.06\n",
        "[>>>      ] {}/500, 11.2 task/s, elapsed: 1s, ETA: 44s\r",
        "[Eval batch={}/320] Eval on eval data\n",
        "Progress on:eval {}.0it/90.0it rate:1.2it/s postfix:loss:9.5\n",
        "Validation DataLoader 0:  46%|##  | {}/157 [00:02<00:02, 37.48it/s]\r",
        "Test: [ {}/90]\tTime 0.1 (0.2)\tLoss 9.5e+00 (9.0e+00)\n",
    ],
)
def test_an_evaluation_that_gets_on_is_no_hang(training: Training, line: str) -> None:
    training.iterate(1, 5)
    assert set(grow(training, line, 40)) == {Status.OK}
    assert grow(training, line.replace("{}", "40"))[-1] is Status.CRITICAL
    training.iterate(6, 1)
    result = training.look()[""]
    assert (result.status, result.metrics["progress"].value) == (Status.OK, 6)
    assert result.metrics["loss"].value == pytest.approx(2.31)


def test_an_exception_of_a_rank_is_the_cause_of_what_the_others_tell(training: Training) -> None:
    training.iterate(1, 3)
    training.write("5: Traceback (most recent call last):\n5: ValueError: no such shape\n")
    wait(training, 10 * MINUTE)
    training.write("0: [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)\n")
    wait(training, 21 * MINUTE)
    summary = text_of(training.look()[""])
    assert "error in the program on rank 5 (ValueError: no such shape)" in summary


@pytest.mark.parametrize(
    "line",
    [
        "[d2.e]: Start inference on 5000 batches",
        "Writing checkpoint to /scratch/x",
        "Compiling the train step, this may take a while",
        "Finished evaluation in 3 s",
        "Rebalancing the moons of Jupiter",
    ],
)
def test_the_first_silence_after_a_line_of_a_new_kind_has_its_time_and_the_next_as_long_as_it_took(
    training: Training, line: str
) -> None:
    training.wanted = {}
    training.iterate(1, 200, every=30)
    training.write(f"{line}\n")
    assert set(wait(training, 20 * MINUTE)) == {Status.OK}
    assert wait(training, 12 * MINUTE)[-1] is Status.CRITICAL
    for number in (201, 221, 241):
        training.iterate(number, 20, every=30)
        training.write(f"{line}\n")
        assert set(wait(training, 2 * MINUTE)) == {Status.OK}
