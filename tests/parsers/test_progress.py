"""Training logs of many frameworks, read without configuration."""

# ruff: noqa: E501 - log lines stand as programs write them

from __future__ import annotations

import math
import time

import pytest

from watchdogd.parsers.logs import measures
from watchdogd.parsers.logs.log_lines import LogLine, read_lines
from watchdogd.parsers.logs.progress import latest, progress, progress_by, words


def loss(text: str) -> float | None:
    return measures.loss(text, measures.spots_of(text))


def seconds(text: str) -> float | None:
    return measures.seconds(text, measures.spots_of(text))


def cost(text: str) -> tuple[str, float] | None:
    return measures.cost(text, measures.spots_of(text), seconds(text))


MEGATRON = (
    " iteration     7310/  200000 | consumed samples:      7485440 | elapsed time per iteration (ms): 18250.5 |"
    " learning rate: 1.2E-04 | global batch size:  1024 | lm loss: 2.514821E+00 | loss scale: 65536.0 |"
    " grad norm: 0.214 | number of skipped iterations:   0 | number of nan iterations:   0 |"
)
MEGATRON_IN_SECONDS = (
    "[default7]: iteration      410/  115000 | consumed samples:        65600 | consumed tokens:    134348800 |"
    " elapsed time per iteration (s): 105.25 | learning rate: 5.9E-05 | global batch size:  2048 |"
    " lm loss: 3.25E+00 | number of skipped iterations:   0 | samples per second: 19.5 | TFLOPs: 149.0 |"
)
LINES = [
    (MEGATRON_IN_SECONDS, "iteration", 410, 3.25),
    (MEGATRON, "iteration", 7310, 2.514821),
    (
        " iteration        3/    1000 | elapsed time per iteration (ms): 9.1 | lm-loss: 9.1E+00 |",
        "iteration",
        3,
        9.1,
    ),
    (
        "[2024-02-03 10:11:12,345] [INFO] [logging.py:96:log_dist] [Rank 0] step=40, skipped=3, lr=[0.0], mom=[(0.9, 0.9)]",
        "step",
        40,
        None,
    ),
    (
        "[titan] 2025-03-04 11:12:13,014 - root - INFO - step: 1,210  loss:  3.8812  grad_norm:  0.4  memory: 40.1GiB(42.2%)",
        "step",
        1210,
        3.8812,
    ),
    (
        "I0707 20:30:40 metric_logger.py:181] completed step: 77, seconds: 5.101, TFLOP/s/device: 301.2, loss: 4.511",
        "step",
        77,
        4.511,
    ),
    ("iter 460: loss 2.9130, time 101.50ms, mfu 31.12%", "iter", 460, 2.913),
    ("step 500: train loss 2.8011, val loss 3.0101", "step", 500, 2.8011),
    ("[batch=17/4800]:", "batch", 17, None),
    ("         Train loss/train/total: 8.4410", None, None, 8.441),
    ("[2025-05-06 07:08:09] INFO     [olmo.train:816, rank=0] [step=91/5000]", "step", 91, None),
    ("    train/CrossEntropyLoss=2.91", None, None, 2.91),
    (
        '2023-04-05 06:07:08 | INFO | train_inner | {"epoch": 2, "update": 1.25, "loss": "4.101", "num_updates": "900"}',
        "num_updates",
        900,
        4.101,
    ),
    (
        '2023-04-05 06:07:08 | INFO | train_inner | {"epoch": 1, "update": 0.31, "loss": "9.5"}',
        "update",
        0.31,
        9.5,
    ),
    (
        "2022-01-02 03:04:05,678 epoch 2 - iter 30/100 - loss 1.25012 - samples/sec: 20.10 - lr: 0.1",
        "iter",
        230,
        1.25012,
    ),
    (
        "Epoch 3:  40%|████      | 20/50 [01:02<01:33, 3.10s/it, v_num=2, train_loss=2.110]",
        "batch",
        170,
        2.11,
    ),
    (
        "Epoch 0: :  46%|███ | 6/13 [05:19<06:13, reduced_train_loss=9.50, global_step=41.00, consumed_samples=1.0]",
        "global_step",
        41,
        9.5,
    ),
    ("{'loss': 2.4512, 'grad_norm': 1.2, 'learning_rate': 4.9e-05, 'epoch': 0.37}", "epoch", 0.37, 2.4512),
    ("{'loss': '1.9', 'grad_norm': '0.2', 'learning_rate': '1e-05', 'epoch': '1.02'}", "epoch", 1.02, 1.9),
    (" 37%|███▋      | 370/1000 [1:02:10<1:45:50,  9.95s/it]", "bar of 1000", 370, None),
    ("Progress on:train 21.0it/90.0it rate:70.1s/it remaining:1:20:00 elapsed:24:10", "train", 21, None),
    ("Progress on:train 1.37kit/40.0kit rate:1.4s/it postfix:loss:2.5", "train", 1370, 2.5),
    ("Train Epoch: 2 [ 61440/1000000 (6%)] Loss: 4.75 LR: 0.0004", "batch", 2061440, 4.75),
    ("[PAX STATUS]: step_i: 730, training loss: 2.25", "step", 730, 2.25),
    ("Steps:90/7000 [1.3%]", "step", 90, None),
    (" 41/600 ━━━━━━━━━━━━━━━━━━━━ 1:02 9ms/step - accuracy: 0.5 - loss: 0.75", "bar of 600", 41, 0.75),
    (" 42/600 ━━━━━━━━━━━━━━━━━━━━ 13s 24ms/step - loss: 0.75", "bar of 600", 42, 0.75),
    ("step 12 done, loss=0.5", "step", 12, 0.5),
    ("[Epoch 3, Batch 200] loss: 0.5", "step of each epoch", 3e9 + 200, 0.5),
    ('{"epoch": 3, "step": 40, "loss": 0.5}', "step of each epoch", 3e9 + 40, 0.5),
    ("| epoch   2 |   400/ 3000 batches | lr 5.00 | ms/batch 35.25 | loss  5.12", "batch", 6400, 5.12),
    ("12.5 ms/batch 35.25 | 0.3 s/step 7 | per step 0.5 | step 90 | loss 5.5", "step", 90, 5.5),
    ("ms/batch 35.25, loss 5.5", None, None, 5.5),
    ("Iteration 1,200 of 50,000: loss 2.5", "step", 1200, 2.5),
    ("step       7/19560 | loss 6.5 (+0.12z)", "step", 7, 6.5),
    ("step 1,200,000, loss 2.5", "step", 1_200_000, 2.5),
    ('{"step": 70, "loss": 2.25}', "step", 70, 2.25),
    ('{"current_steps": 15, "total_steps": 300, "loss": 1.75}', "step", 15, 1.75),
    ("Epoch [2/9], Step [40/700], Loss: 0.25", "step of each epoch", 2e9 + 40, 0.25),
    ("Epoch: [3][  20/400]  Time 0.2 (0.3)  Loss 5.5e+00 (6.0e+00)", "batch", 1220, 5.5),
    ("Train: 4 [  50/1251 (  4%)]  Loss: 6.51 (6.70)  Time: 0.4s", "batch", 5054, 6.51),
    ("Epoch(train)  [2][  30/500]  lr: 1e-3  time: 0.4  loss: 0.75", "batch", 1030, 0.75),
    (" eta: 1:02:03  iter: 59  total_loss: 4.5  loss_cls: 1.5", "step", 59, 4.5),
    (
        "Epoch 4 | iter 25 step 5 | loss train: 3.5, val: n/a | iter time: 99.5 ms",
        "step of each epoch",
        4e9 + 25,
        3.5,
    ),
    ("30/600 [=>............................] - ETA: 9:59 - loss: 0.5", "bar of 600", 30, 0.5),
    (" samples/sec: 31.5 | iteration     20/   900 | lm_loss: 6.5E+00 |", "iteration", 20, 6.5),
    ("iteration: 8 / 90  Loss: 3.25", "step", 8, 3.25),
    ("41it [1:02:03,  3.20s/it]", "iteration of a bar", 41, None),
    ("Epoch 3: |          | 20/? [01:02<?, 3.1it/s]", "batch of each epoch", 3_000_000_020, None),
    (
        "Epoch 0:   6%|# | 320/5000 [6:28:43<94:39:17, 1.3it/s, reduced_train_loss=2.5, global_step=3.2e+4]",
        "batch",
        320,
        2.5,
    ),
    ("mmdet - INFO - Epoch [3][50/7000]\tlr: 1e-02, time: 0.9, loss: 1.25", "batch", 21050, 1.25),
    ("[12/100][120/3000] Loss_D: 0.5 Loss_G: 2.1", "batch", 36120, None),
    (
        "[n1:0/2] (trainer:464) INFO: 2epoch:train:1-640batch: loss=12.5,",
        "batch of each epoch",
        2e9 + 640,
        12.5,
    ),
    ("     91300 iter, 7 epoch / 20 epochs", "iter", 91300, None),
    ("|    total_timesteps      | 3584        |", "timesteps", 3584, None),
    ("\u2502 training_iteration                    7 \u2502", "iteration", 7, None),
    ("| epoch 004:   120 / 700 loss=4.5, ups=0", "batch", 2920, 4.5),
    ("I0301 logging_writer.py:48] [120] collection=train loss=2.5, timing=1", "step", 120, 2.5),
    ("I0301 local.py:41] Setting work unit notes: 1.2 steps/s, 4.0% (90/3000), ETA: 40m", "step", 90, None),
    ("stage 0/9  [#####-------]  505/3272  00:27:39", "step", 505, None),
    ("loss: 2.301234  [ 6464/60000]", "batch", 6464, 2.301234),
    ("[3,  2000] loss: 2.250", "batch of each epoch", 3e9 + 2000, 2.25),
    ("[12:11:10] Epoch 3 [120/1250] loss 2.5", "batch", 3870, 2.5),
    ("Epoch 3 | 120/1250 | loss 2.5", "batch", 3870, 2.5),
    ('level=info step="120" loss="2.5"', "step", 120, 2.5),
    ("batch_idx: 120, loss: 2.5", "step", 120, 2.5),
    ("Progress: 12.3% (120/1000) loss 2.5", "step", 120, 2.5),
    (" STEP NUMBER                 =          120", "step", 120, None),
    ("   12 F= -.12345E+03 E0= -.12345E+03", "step", 12, None),
    ("12.0%,1200,-12345.12,298.1", "step", 1200, None),
    ("   0/99  14.3G  0.105  118  640: 100%|####| 57/58 00:31", "batch", 57, None),
    (" NSTEP =     5000   TIME(PS) =      10.000  TEMP(K) =   300.12", "step", 5000, None),
    ("ENERGY:  500000     1231.1 2311.3", "step", 500000, None),
    ("[36]\ttrain-rmse:0.5\teval-rmse:0.6", "iteration", 36, None),
    ("36:\tlearn: 0.32\ttotal: 5m\tremaining: 2m", "iteration", 36, None),
    (
        " 4/90   2.1G  1.1   81  640: 50% \u2501\u2501\u2501\u2501\u2500 230/460 3.1it/s 1:12<1:14",
        "bar of 460",
        230,
        None,
    ),
    ("Update: 40%|## | 1.20k/3.00k [11:53<17:20, 1.7it/s]", "scaled bar", 1200, None),
    ("12000 examples [00:10, 1200 examples/s]", "iteration of a bar", 12000, None),
    ("step 9/90 | loss 2.5 | load-balance-loss 0.01", "step", 9, 2.5),
    ("iterations:163, train acc:0.25, train loss:4.5", "step", 163, 4.5),
    ("[ROUND 4/20] loss 0.5", "step", 4, 0.5),
    ("Episode 120  reward: 20.0", "step", 120, None),
    ("epoch: 2 step: 40, loss is 2.5", "step", 40, 2.5),
    ("fps step: 51234 fps total: 1234 epoch: 12/1000", "epoch", 12, None),
    ("2026-01-02 03:04:05.6: Epoch 7", "epoch", 7, None),
    ("Epoch 3/100, loss: 0.5, val_loss: 0.75", "epoch", 3, 0.5),
    ("[120/5000] loss 2.5", "step", 120, 2.5),
    ("Tokens seen: 12,345,678", "items", 12_345_678, None),
    ("   1766000   298.15   -1234.5     0.0   -1100.2", "step", 1_766_000, None),
    ("         50000      100.00000", "step", 50000, None),
    ("Progress on:eval 12.0it/31.0it rate:1.2it/s postfix:loss:3.1", "work", 12, 3.1),
    ("[d2.evaluation.evaluator]: Inference done 11/500. Dataloading: 0.1 s/iter.", "work", 11, None),
    ("[>>>      ] 15/500, 11.2 task/s, elapsed: 1s, ETA: 44s", "work", 15, None),
    ("Loading checkpoint shards:  33%|### | 1/3 [00:12<00:24, 12.1s/it]", "work", 1, None),
    ("model.safetensors:  12%|# | 615M/4.98G [00:10<01:12, 60.1MB/s]", "work", 615e6, None),
    ("[test-gpt] step 12, loss 2.5", "step", 12, 2.5),
    ("loss 2.5, valid acc 91 | step 500", "step", 500, 2.5),
    ("Validation: step 12/100", "work", 12, None),
    ("Eval step 12/100 loss 2.5", "work", 12, 2.5),
    ("Epoch(val)  [3][ 150/1250]    eta: 0:01:11", "work", 3900, None),
    (
        "Epoch 3: |          | 20it [01:02, 3.10it/s, v_num=2, train_loss=2.25]",
        "batch of each epoch",
        3_000_000_020,
        2.25,
    ),
]


@pytest.mark.parametrize(("text", "series", "number", "value"), LINES)
def test_progress_and_loss_of_known_forms(
    text: str, series: str | None, number: float | None, value: float | None
) -> None:
    report = progress(text)
    assert (report.series, report.number) == (series, number) if report else series is None
    assert loss(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "saving checkpoint at iteration   33241 to /scratch/ckpt",
        " > number of parameters on (tensor, pipeline) model parallel rank (3, 13): 805560320",
        "time (ms) | forward-compute: 148.22 | optimizer: 3.1",
        "[Rank 7] (after 20 iterations) memory (MB) | allocated: 19494.9",
        "n1:81:82 [0] NCCL INFO 12 coll channels, 16 p2p channels, 4 p2p channels per peer",
        "***** Running training *****",
        "srun: Force Terminated job step 7654321",
        "  Total optimization steps = 16",
        "Waiting in store based barrier (world_size=2, worker_count=1, timeout=0:30:00)",
        "still waiting for rank 3 at step 12",
        "heartbeat epoch=1732770000",
        "max epoch: 300",
        "epochs: 300",
        "This epoch took 137.1 s",
        "Epoch time: 148.5 s",
        "    0    69    35     -     0     0     0     0  2619  1980",
        "Downloading shards: retry 3 of batch 7",
    ],
)
def test_what_is_no_progress(text: str) -> None:
    assert progress(text) is None


@pytest.mark.parametrize(
    "text", ["val loss 3.1", "eval_loss: 3", "valid_loss=1.2", "loss scale: 4096.0", "moe_gate_loss: 2"]
)
def test_what_is_no_training_loss(text: str) -> None:
    assert loss(text) is None


def test_a_loss_may_be_no_number() -> None:
    assert math.isnan(loss("lm loss: NaN |") or 0.0)
    assert math.isnan(loss("loss=-NAN") or 0.0)
    assert loss("{'loss': inf, 'epoch': 0.1}") == math.inf


def test_what_tells_nan_without_saying_a_loss() -> None:
    assert math.isnan(loss(" iteration 9/ 90 | number of nan iterations:   3 |") or 0.0)
    assert math.isnan(loss("{'loss': 0.0, 'grad_norm': nan, 'epoch': 0.2}") or 0.0)
    assert loss(" iteration 9/ 90 | number of nan iterations:   0 |") is None


@pytest.mark.parametrize(
    ("text", "unit", "seconds_each"),
    [
        (MEGATRON, "sample", 18.2505 / 1024),
        (MEGATRON_IN_SECONDS, "sample", 1 / 19.5),
        ("step: 20  loss: 3.1  memory: 9.5GiB(9%)  tps: 2,500  mfu: 31%", "token", 1 / 2500),
        ("global_step=10, RunningAvgSamplesPerSec=12.5, CurrSamplesPerSec=13.0", "sample", 0.08),
        ("| 7/16 [06:58<08:59, 2.5it/s]", "iteration", 0.4),
        ("iter 460: loss 2.9130, time 101.50ms, mfu 31.12%", "iteration", 0.1015),
    ],
)
def test_what_a_unit_of_work_costs(text: str, unit: str, seconds_each: float) -> None:
    found = cost(text)
    assert found
    assert found[0] == unit
    assert found[1] == pytest.approx(seconds_each)


def test_seconds_of_an_iteration() -> None:
    assert seconds(MEGATRON) == pytest.approx(18.2505)
    assert seconds(MEGATRON_IN_SECONDS) == pytest.approx(105.25)
    assert seconds("| 7/16 [06:58<08:59, 58.93s/it]") == pytest.approx(58.93)
    assert seconds("| 7/16 [06:58<08:59, 2.5it/s]") == pytest.approx(0.4)
    assert seconds("train loss 2.5") is None


def test_the_users_pattern() -> None:
    report = progress_by(r"consumed (\S+) tokens", "consumed 1,250,000 tokens")
    assert report
    assert report.number == 1_250_000
    assert progress_by(r"consumed (\S+) tokens", "consumed many tokens") is None
    assert progress_by(r"(?<=at )\d+", "at 77") is not None


def test_lines_are_cut_at_carriage_returns_and_rid_of_colours_and_ranks() -> None:
    data = (
        b"0: \x1b[36mhello\x1b[0m\r\n"
        b"[node3:5]: iteration 4/ 9 |\n"
        b"[rank12]:[E1109 x.cpp:1] [Rank 12] Watchdog\n"
        b"[1,7]<stdout>: out\n"
        b"\r  1%| | 1/9 [00:01<00:08]\r  2%| | 2/9 [00:02<00:07]\n"
    )
    lines, done = read_lines(data)
    assert done == len(data)
    assert [(line.rank, line.text) for line in lines[:4]] == [
        ("0", "hello"),
        ("node3:5", "iteration 4/ 9 |"),
        ("rank12", "[E1109 x.cpp:1] [Rank 12] Watchdog"),
        ("1,7", "out"),
    ]
    assert [line.final for line in lines[4:]] == [False, True]


def test_an_unfinished_line_is_read_but_not_done_with() -> None:
    lines, done = read_lines(b"one\niteration 12")
    assert [line.text for line in lines] == ["one", "iteration"]
    assert done == 4
    assert read_lines(b"") == ([], 0)
    assert read_lines(b"one \xff\xfe of 20 shards\n")[0][0].text == "one \ufffd\ufffd of 20 shards"
    assert read_lines(b"\xff\xfe\n") == ([], 3), "noise is no line"


def test_progress_is_told_in_the_words_of_the_log() -> None:
    assert words("iteration", 12, 2_500_000) == "iteration 12/2,500,000"
    assert words("bar of 600", 30, 600) == "30/600"
    assert words("epoch", 0.37) == "epoch 0.37"
    assert words("batch of each epoch", 3_000_000_020) == "epoch 3, batch 20"


@pytest.mark.parametrize(
    "again",
    [
        "Epoch 3: ",
        "Epoch 3:   7%|# ",
        "━ Epoch 3/4 ━━ ",
        "Epoch 3 ",
        "loss' ",
        " - loss' 'epoch' ",
        "epoch 3 - iter ",
        "Epoch(train)  [",
        "Iter(train) [    ",
        "num_updates ",
        "step=   step: 1,",
        "tokens per sec ",
        "val_x_ loss ",
        "12/",
        "12/34 ━━━━━━━━━━ ",
        "[12/34] [",
        "12/34 x",
        "1.2k/3k [1:11",
        " 1 0.5",
        "work unit notes: ",
        "tokens seen 1,",
        "epoch " + " " * 20,
        "Test:  [",
        "epoch 3 [",
        "loss: 1 [",
        "step number ",
        "12/34 it/s 1:1",
        "1",
        " ",
    ],
)
def test_a_line_of_megabytes_costs_no_more_than_its_length(again: str) -> None:
    """In the CPU's time, which another process does not lengthen: a search to the line's end from each of
    its words takes minutes."""
    text = again * (128 * 1024 // len(again)) + "<"
    began = time.process_time()
    for look in (progress, loss, seconds, cost, lambda text: latest(LogLine(text))):
        look(text)
    assert time.process_time() - began < 10


def test_of_a_line_of_many_epochs_the_count_belongs_to_the_one_before_it() -> None:
    line = "Epoch 3: 100%|##| 90/90 [00:09<00:00]" * 40 + "Epoch 4: Epoch 5:   1%| | 1/90 [00:01<01:30]"
    found = progress(latest(LogLine(line)))
    assert found
    assert words(found.series, found.number) == "batch 451"
    rich = progress("Epoch 3/9 Epoch 4/9 ━━━━━ 12/90 0:00:01")
    assert rich
    assert rich.number == 4 * 90 + 12
