"""Frameworks whose loops draw bars or tables by themselves."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "lightning-bars",
    field="vision",
    source="https://github.com/Lightning-AI/pytorch-lightning",
    chatter=("[{clock}] gpu_guard: power 412 W",),
    tells_loss=True,
)
def lightning(life: Life) -> Iterator[Event]:
    """One bar an epoch that is drawn over itself, validation below it, the next epoch from 0 again."""
    yield Phase.START
    yield "GPU available: True (cuda), used: True\nLOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0,1,2,3]\n"
    yield life.about(25)
    yield Phase.PREPARE
    yield "\rSanity Checking DataLoader 0: 100%|██████████| 2/2 [00:31<00:00,  0.06it/s]"
    yield life.about(60)
    for epoch in range(14):
        yield Phase.TRAIN
        for batch in range(0, 1251, 10):
            yield life.about(7)
            yield (
                f"\rEpoch {epoch}: {batch // 12.51:3.0f}%|{'█' * (batch // 126)}| {batch}/1251 [{batch // 86:02}:{batch % 60:02}<12:01,  1.42it/s, "
                f"v_num=7, train_loss_step={life.loss((epoch + batch / 1251) / 14, 7, 1.6):.3f}]"
            )
        yield Phase.EVALUATE
        for batch in range(0, 98, 7):
            yield f"\rValidation DataLoader 0: {batch}%|{'█' * (batch // 10)}| {batch}/98 [00:{batch % 60:02}<00:40,  2.2it/s]"
            yield life.about(4)
        yield "\n"
    yield Phase.AFTER
    yield "`Trainer.fit` stopped: `max_epochs=14` reached.\n"
    yield life.about(200)


@form(
    "keras3-bar",
    field="vision",
    source="https://github.com/keras-team/keras",
    chatter=("I0000 00:00:1800.{n} 71 cuda_dnn.cc: allocator heartbeat",),
    tells_loss=True,
)
def keras(life: Life) -> Iterator[Event]:
    """Backspaces and colours around `120/500 ━━━━`, the epoch's validation silent at the end of its bar."""
    yield Phase.START
    yield "2026-03-11 08:00:01.100121: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on.\n"
    yield life.about(50)
    yield Phase.TRAIN
    for epoch in range(1, 21):
        yield f"Epoch {epoch}/20\n"
        if epoch == 1:
            yield life.about(90)
        for batch in range(4, 501, 4):
            yield life.about(4.4)
            loss = life.loss((epoch - 1 + batch / 500) / 20, 3, 0.4)
            bar = "━" * (batch // 25)
            yield (
                f"\r\x1b[1m{batch}/500\x1b[0m \x1b[32m{bar}\x1b[0m\x1b[37m{'━' * (20 - len(bar))}\x1b[0m \x1b[1m{(500 - batch) * 11 // 10}s\x1b[0m "
                f"1s/step - accuracy: 0.{4000 + batch} - loss: {loss:.4f}"
            )
        yield life.about(85)
        yield f"\r\x1b[1m500/500\x1b[0m \x1b[32m{'━' * 20}\x1b[0m\x1b[37m\x1b[0m \x1b[1m640s\x1b[0m 1s/step - accuracy: 0.71 - loss: 0.91 - val_accuracy: 0.6{epoch} - val_loss: 1.0{40 - epoch}\n"


@form(
    "timm",
    field="vision",
    source="https://github.com/huggingface/pytorch-image-models",
    chatter=("{clock} host: load average 31.{n}",),
    tells_loss=True,
)
def timm(life: Life) -> Iterator[Event]:
    """`Train: 3 [ 100/625 ( 16%)]`, Test lines at each epoch's end, the list of the best checkpoints."""
    yield Phase.START
    yield "Training in distributed mode with multiple processes, 1 device per process. Process 0, total 8\n"
    yield life.about(40)
    yield "Scheduled epochs: 12. LR stepped per epoch.\n"
    yield life.about(90)
    for epoch in range(12):
        yield Phase.TRAIN
        for batch in [*range(0, 625, 50), 624]:
            yield life.about(63, 0.08)
            loss = life.loss((epoch + batch / 625) / 12, 6.9, 2.2)
            yield (
                f"Train: {epoch} [{batch:4}/625 ({batch / 6.24:3.0f}%)]  Loss: {loss:#.3g} ({loss * 1.01:#.3g})  Time: 1.261s, 1624.01/s  "
                f"(1.270s, 1612.88/s)  LR: 1.000e-03  Data: 0.012 (0.021)\n"
            )
        yield Phase.EVALUATE
        for batch in (0, 24, 48):
            yield f"Test: [{batch:4}/48]  Time: 1.{batch} (1.214)  Loss:   1.{batch} (1.901)  Acc@1:  61.{batch} ( 60.21)\n"
            yield life.about(22)
        yield Phase.SAVE
        yield "Current checkpoints:\n" + "".join(
            f" ('./output/train/checkpoint-{old}.pth.tar', {40 + 2.1 * old:.3f})\n"
            for old in range(epoch, max(epoch - 5, -1), -1)
        )
        yield life.about(8)
    yield Phase.AFTER
    yield "*** Best metric: 63.1 (epoch 11)\n"


@form(
    "mmengine",
    field="vision",
    source="https://github.com/open-mmlab/mmdetection",
    chatter=("2026/03/11 {clock} - mmengine - WARNING - file client retry",),
    tells_loss=True,
)
def mmengine(life: Life) -> Iterator[Event]:
    """`Epoch(train) [3][ 150/1833]` with an eta, validation each epoch and COCO's table after minutes of accumulation."""
    yield Phase.START
    yield "2026/03/11 08:00:01 - mmengine - INFO - Distributed training is not used, all SyncBatchNorm layers are reverted\n"
    yield life.about(40)
    yield Phase.PREPARE
    yield "loading annotations into memory...\n"
    yield life.about(25)
    yield "Done (t=24.21s)\ncreating index...\nindex created!\n"
    yield life.about(45)
    for epoch in range(1, 9):
        yield Phase.TRAIN
        for batch in range(50, 1834, 50):
            yield life.about(33, 0.06)
            loss = life.loss((epoch + batch / 1833) / 9, 3, 0.9)
            yield (
                f"2026/03/11 09:{batch // 50:02}:41 - mmengine - INFO - Epoch(train)  [{epoch}][{batch:4}/1833]  base_lr: 2.0000e-02 lr: 2.0000e-02  eta: {9 - epoch}:11:41  "
                f"time: 0.6612  data_time: 0.0102  memory: 7211  loss: {loss:.4f}  loss_rpn_cls: 0.0{epoch}41  loss_bbox: 0.2911  acc: 91.{batch}\n"
            )
        yield Phase.SAVE
        yield f"2026/03/11 10:00:00 - mmengine - INFO - Saving checkpoint at {epoch} epochs\n"
        yield life.about(12)
        yield Phase.EVALUATE
        for batch in range(50, 626, 50):
            yield f"2026/03/11 10:0{epoch}:11 - mmengine - INFO - Epoch(val)  [{epoch}][{batch:3}/625]    eta: 0:01:{(625 - batch) // 12:02}  time: 0.2011  data_time: 0.0021  memory: 1211\n"
            yield life.about(11)
        yield "2026/03/11 10:09:11 - mmengine - INFO - Evaluating bbox...\nLoading and preparing results...\nAccumulating evaluation results...\n"
        yield life.about(140)
        yield f"DONE (t=22.11s).\n Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.{300 + epoch}\n"


@form(
    "fastai-table",
    field="vision",
    source="https://github.com/fastai/fastai",
    chatter=("sampler {clock}: rss 21 GB",),
    chatter_every=60.0,
    tells_loss=True,
)
def fastai(life: Life) -> Iterator[Event]:
    """A table whose row comes when an epoch of nine minutes is over; the header once."""
    yield Phase.START
    yield "Downloading: resnet34-b627a593.pth\n"
    yield life.about(40)
    yield "epoch     train_loss  valid_loss  error_rate  time    \n"
    yield Phase.TRAIN
    for epoch in range(32):
        took = life.about(540, 0.04)
        yield took
        loss = life.loss(epoch / 32, 2.5, 0.3)
        yield f"{epoch}         {loss:.6f}    {loss + 0.04:.6f}    0.{900 - epoch * 20}000    {int(took) // 60:02}:{int(took) % 60:02}     \n"
    yield Phase.AFTER
    yield life.about(100)


@form(
    "paddle",
    field="vision",
    source="https://github.com/PaddlePaddle/PaddleOCR",
    chatter=("[2026/03/11 {clock}] ppocr WARNING: queue of loader is empty",),
    tells_loss=True,
)
def paddle(life: Life) -> Iterator[Event]:
    """`epoch: [1/500], global_step: 10` with `eta: 1 day, 2:11:02`; evaluation bar; best metric lines that repeat."""
    yield Phase.START
    yield "[2026/03/11 08:00:01] ppocr INFO: Architecture : \n[2026/03/11 08:00:01] ppocr INFO:     Backbone : \n"
    yield life.about(30)
    yield Phase.PREPARE
    yield "[2026/03/11 08:00:31] ppocr INFO: Initialize indexs of datasets:['train.txt']\n"
    yield life.about(120)
    yield Phase.TRAIN
    for step in range(10, 9001, 10):
        yield life.about(14)
        loss = life.loss(step / 9000, 28, 1)
        yield (
            f"[2026/03/11 09:{step // 40 % 60:02}:11] ppocr INFO: epoch: [{step // 300 + 1}/30], global_step: {step}, lr: 0.000500, acc: 0.{step % 999:03}, loss: {loss:.6f}, "
            f"avg_reader_cost: 0.00112 s, avg_batch_cost: 1.40112 s, avg_samples: 128.0, ips: 91.32 samples/s, eta: {(9000 - step) // 2571}:1{step % 10}:02\n"
        )
        if step % 1500 == 0:
            yield Phase.EVALUATE
            for part in range(0, 101, 10):
                yield f"\reval model:: {part:3}%|{'█' * (part // 10)}| {part}/100 [00:{part % 60:02}<00:21,  1.9it/s]"
                yield life.about(6)
            yield f"\n[2026/03/11 10:00:00] ppocr INFO: cur metric, acc: 0.{step}, fps: 811.2\n[2026/03/11 10:00:00] ppocr INFO: save best model is to ./output/best_accuracy\n"
            yield Phase.TRAIN
