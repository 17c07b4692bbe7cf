"""Speech recognition and synthesis."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "wenet",
    field="speech",
    source="https://github.com/wenet-e2e/wenet/issues (logs of users)",
    chatter=("2026-02-03 {clock},001 INFO waiting for CV device {n}",),
    tells_loss=True,
)
def wenet(life: Life) -> Iterator[Event]:
    """Epochs of an hour whose batches are told every hundredth by each of four ranks."""
    yield Phase.START
    yield "2026-02-03 10:00:00,123 INFO using accumulate grad, new batch size is 4 times larger than before\n"
    yield life.about(60)
    yield Phase.PREPARE
    yield "2026-02-03 10:01:03,511 INFO the number of model params: 48,309,834\n"
    yield life.about(200)
    for epoch in range(4):
        yield f"2026-02-03 10:04:23,120 INFO Epoch {epoch} TRAIN info lr 4e-08\n"
        yield Phase.TRAIN
        for batch in range(0, 6000, 100):
            yield life.about(60)
            loss = life.loss((epoch + batch / 6000) / 4, 90, 8)
            for rank in range(4):
                yield (
                    f"2026-02-03 10:05:00,4{rank} DEBUG TRAIN Batch {epoch}/{batch} loss {loss:.6f} loss_att "
                    f"{loss * 0.9:.6f} loss_ctc {loss * 1.3:.6f} lr 0.00040000 rank {rank}\n"
                )
        yield Phase.EVALUATE
        for batch in range(0, 300, 100):
            yield life.about(50)
            yield f"2026-02-03 11:05:00,482 DEBUG CV Batch {epoch}/{batch} loss 12.1{batch} history loss 11.9\n"
        yield f"2026-02-03 11:08:10,001 INFO Epoch {epoch} CV info cv_loss 11.8{epoch}\n"
        yield Phase.SAVE
        yield f"2026-02-03 11:08:11,001 INFO Checkpoint: save to checkpoint exp/conformer/{epoch}.pt\n"
        yield life.about(8)


@form(
    "espnet2",
    field="speech",
    source="https://github.com/espnet/espnet",
    chatter=("[n001] 2026-03-11 {clock},112 (monitor:41) DEBUG: iterator queue empty",),
    tells_loss=True,
)
def espnet(life: Life) -> Iterator[Event]:
    """`4epoch:train:1001-1100batch:` each five minutes, validation at the epoch's end, results in one long line."""
    yield Phase.START
    yield "# asr_train.py --ngpu 4\n# Started at Wed Mar 11 08:00:01 CET 2026\n"
    yield life.about(70)
    yield Phase.PREPARE
    yield "[n001] 2026-03-11 08:01:11,112 (asr:523) INFO: Vocabulary size: 5000\n"
    yield life.about(170)
    for epoch in range(1, 8):
        yield f"[n001] 2026-03-11 08:04:01,112 (trainer:289) INFO: {epoch}/7epoch started. Estimated time to finish: {8 - epoch} hours and 12 minutes\n"
        yield Phase.TRAIN
        for batch in range(100, 1101, 100):
            yield life.about(300, 0.06)
            loss = life.loss((epoch - 1 + batch / 1100) / 7, 180, 20)
            yield (
                f"[n001] 2026-03-11 09:00:01,112 (trainer:754) INFO: {epoch}epoch:train:{batch - 99}-{batch}batch: iter_time=1.2e-04, forward_time=0.811, "
                f"loss_ctc={loss * 1.1:.3f}, loss_att={loss * 0.9:.3f}, acc=0.{300 + epoch * 50}, loss={loss:.3f}, backward_time=1.211, optim0_lr0=1.2e-04, train_time=11.9\n"
            )
        yield Phase.EVALUATE
        yield life.about(240)
        yield (
            f"[n001] 2026-03-11 09:59:01,112 (trainer:343) INFO: {epoch}epoch results: [train] iter_time=1.2e-04, loss=4{epoch}.1, time=55 minutes and 2.11 seconds, "
            f"total_count={epoch * 1100}, [valid] loss_ctc=3{9 - epoch}.1, acc=0.71{epoch}, time=4 minutes, total_count={epoch * 60}\n"
        )
        yield Phase.SAVE
        yield "[n001] 2026-03-11 09:59:11,112 (trainer:391) INFO: There are no improvements in this epoch\n"
        yield life.about(20)
    yield Phase.AFTER
    yield '[n001] 2026-03-11 15:00:00,112 (average_nbest_models:69) INFO: Averaging 5best models: criterion="valid.acc": exp/valid.acc.ave_5best.pth\n'
    yield life.about(90)
    yield "# Accounting: time=25211 threads=1\n"


@form(
    "icefall",
    field="speech",
    source="https://github.com/k2-fsa/icefall",
    chatter=("2026-03-11 {clock},511 INFO [dataset.py:77] (2/4) cut queue refilled",),
    tells_loss=True,
)
def icefall(life: Life) -> Iterator[Event]:
    """`Epoch 1, batch 50, loss[…], tot_loss[…]` of each rank, a validation each 3000 batches, a save each 4000."""
    yield Phase.START
    for rank in range(4):
        yield f"2026-03-11 08:00:0{rank},112 INFO [train.py:1121] ({rank}/4) Training started\n"
    yield life.about(80)
    yield Phase.PREPARE
    yield "2026-03-11 08:01:21,112 INFO [train.py:1160] (0/4) About to create model\n"
    yield life.about(60)
    yield "2026-03-11 08:02:21,112 INFO [train.py:1371] (0/4) Sanity check -- see if any of the batches in epoch 1 would cause OOM.\n"
    yield life.about(110)
    total = 0
    for epoch in range(1, 5):
        yield Phase.TRAIN
        for batch in range(0, 8001, 50):
            yield life.about(24, 0.07)
            total += 50
            loss = life.loss(total / 32_000, 7, 0.2)
            for rank in range(4):
                yield (
                    f"2026-03-11 09:{total // 50 % 60:02}:01,{rank}12 INFO [train.py:1029] ({rank}/4) Epoch {epoch}, batch {batch}, loss[loss={loss:.4g}, simple_loss={loss * 1.2:.4g}, over 24111.00 frames. ], "
                    f"tot_loss[loss={loss * 1.01:.4g}, over 4711211.12 frames. ], batch size: 81, lr: 4.01e-02, grad_scale: 8.0\n"
                )
            if batch % 3000 == 0 and batch:
                yield Phase.EVALUATE
                for rank in range(4):
                    yield f"2026-03-11 10:00:01,{rank}12 INFO [train.py:1052] ({rank}/4) Computing validation loss\n"
                yield life.about(70)
                yield f"2026-03-11 10:01:11,112 INFO [train.py:1061] (0/4) Epoch {epoch}, validation: loss=0.{400 - epoch}, over 1639044.00 frames. \n"
                yield Phase.TRAIN
        yield Phase.SAVE
        yield f"2026-03-11 11:00:01,112 INFO [checkpoint.py:75] (0/4) Saving checkpoint to zipformer/exp/epoch-{epoch}.pt\n"
        yield life.about(35)


@form(
    "coqui-tts",
    field="speech",
    source="https://github.com/coqui-ai/TTS",
    chatter=(" | > dashboard: refreshed {clock}",),
    chatter_every=60.0,
    tells_loss=True,
)
def coqui(life: Life) -> Iterator[Event]:
    """Blocks of ` | > loss:` with averages behind them, colours, evaluation and sentences spoken after each epoch."""
    yield Phase.START
    yield " > Setting up Audio Processor...\n | > sample_rate:22050\n | > hop_length:256\n"
    yield life.about(30)
    yield Phase.PREPARE
    yield " | > Found 13100 files in /data/LJSpeech-1.1\n"
    yield life.about(60)
    for epoch in range(40):
        yield f"\n\x1b[4m\x1b[1m > EPOCH: {epoch}/1000\x1b[0m\n --> /scratch/run-March-11-2026_08+00AM\n\n\x1b[1m > TRAINING (2026-03-11 08:{epoch:02}:01) \x1b[0m\n"
        yield Phase.TRAIN
        for step in range(0, 406, 25):
            yield life.about(21)
            loss = life.loss((epoch + step / 406) / 40, 40, 22)
            yield (
                f"\n\x1b[1m   --> TIME: 2026-03-11 08:{epoch:02}:11 -- STEP: {step}/406 -- GLOBAL_STEP: {epoch * 406 + step}\x1b[0m\n     | > loss_disc: 2.{step}  (2.5101)\n"
                f"     | > loss_gen: 2.1{step}  (2.1991)\n     | > loss_mel: {loss * 0.8:.5f}  ({loss * 0.81:.5f})\n     | > loss_1: {loss:.5f}  ({loss * 1.01:.5f})\n     | > step_time: 0.8211  (0.8101)\n"
            )
        yield Phase.EVALUATE
        yield "\n\x1b[1m > EVALUATION \x1b[0m\n\n"
        for step in range(4):
            yield f"\x1b[1m   --> STEP: {step}\x1b[0m\n     | > loss_disc: 2.4{step}  (2.4101)\n"
            yield life.about(5)
        yield " | > Synthesizing test sentences.\n"
        yield life.about(28)
        yield f"\n  \x1b[1m--> EVAL PERFORMANCE\x1b[0m\n     | > avg_loader_time:\x1b[91m 0.0311 \x1b[0m(+0.00{epoch})\n     | > avg_loss_1:\x1b[92m {22 + 10 / (epoch + 1):.5f} \x1b[0m(-0.1{epoch})\n"
