"""Speech recognition, synthesis and translation."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "espnet",
    field="speech",
    source="https://github.com/espnet/espnet/issues/2183",
    chatter=("[n04:0/2] 2026-02-03 {clock},311 (build:88) WARNING: worker 3 needs {seconds} s for a batch",),
    chatter_every=100.0,
    tells_loss=True,
)
def espnet(life: Life) -> Iterator[Event]:
    """A line each twentieth of an epoch, that is four minutes, with ranges of batches; decoding afterwards."""
    clock = Clock()
    yield Phase.START
    yield "# python3 -m espnet2.bin.asr_train --use_preprocessor true --output_dir exp/asr_ebf\n# Started at Tue Feb  3 10:00:00 UTC 2026\n#\n"
    yield from clock.wait(life.about(40))
    yield Phase.PREPARE
    yield f"[n04:0/2] {clock()},081 (asr:490) INFO: Vocabulary size: 5000\n"
    yield from clock.wait(life.about(190))
    yield f"[n04:0/2] {clock()},412 (abs_task:1280) INFO: Model structure:\nESPnetASRModel(\n  (specaug): SpecAug()\n)\n"
    for epoch in range(1, 5):
        started = f"{epoch}/40epoch started. Estimated time to finish: 1 day, 22 hours and 11.{epoch} seconds"
        yield f"[n04:0/2] {clock()},102 (trainer:301) INFO: {started}\n"
        yield Phase.TRAIN
        for part in range(20):
            yield from clock.wait(life.about(230))
            loss = life.loss((epoch - 1 + part / 20) / 4, 120, 14)
            yield (
                f"[n04:0/2] {clock()},604 (trainer:762) INFO: {epoch}epoch:train:{part * 682 + 1}-{part * 682 + 682}batch: iter_time=1.878e-04, "
                f"forward_time=0.134, loss_ctc={loss * 1.4:.3f}, loss_att={loss * 0.8:.3f}, acc={0.9 - loss / 150:.3f}, loss={loss:.3f}, "
                f"backward_time=0.111, optim_step_time=0.030, optim0_lr0={part * 1e-5 + 1e-6:.3e}, train_time=1.347\n"
            )
        yield Phase.EVALUATE
        took = life.about(300)
        yield from clock.wait(took)
        yield (
            f"[n04:0/2] {clock()},418 (trainer:357) INFO: {epoch}epoch results: [train] iter_time=1.9e-04, loss={loss:.3f}, acc=0.712, "
            f"time=1 hour, 16 minutes and 41.{epoch} seconds, total_count={epoch * 13640}, [valid] loss_ctc=21.{epoch}, acc=0.75{epoch}, "
            f"loss={loss * 1.1:.3f}, time={took:.2f} seconds, total_count={epoch * 311}\n"
        )
        yield Phase.SAVE
        yield f"[n04:0/2] {clock()},902 (trainer:412) INFO: The best model has been updated: valid.acc\n"
        yield from clock.wait(life.about(12))
    yield Phase.AFTER
    yield "# Accounting: time=19120 threads=1\nasr.sh: Stage 12: Decoding: training_dir=exp/asr_ebf\n"
    for number in range(0, 2700, 50):
        yield f"{clock()},118 (asr_inference:800) INFO: speech length: {life.random.randint(40_000, 300_000)}\n{clock()},512 (beam_search:429) INFO: best hypo: spk{number}\n"
        yield from clock.wait(life.about(16))


@form(
    "icefall",
    field="speech",
    source="https://github.com/k2-fsa/icefall/issues/569",
    chatter=(
        "[rank2]:[W203 {clock}.774 TCPStore.cpp:138] [c10d] recvValue failed on SocketImpl(fd=81): Connection reset by peer",
    ),
    chatter_every=60.0,
    tells_loss=True,
)
def icefall(life: Life) -> Iterator[Event]:
    """Each fiftieth batch from four ranks in turn that is not theirs, long brackets, epochs of 40 minutes."""
    clock = Clock()
    yield Phase.START
    for rank in (2, 0, 3, 1):
        yield f"2026-02-03 10:00:0{rank},331 INFO [train.py:1199] ({rank}/4) Training started\n"
    yield from clock.wait(life.about(30))
    yield Phase.PREPARE
    yield f"{clock()},530 INFO [asr_datamodule.py:451] (0/4) About to get train cuts\n"
    yield from clock.wait(life.about(150))
    yield f"{clock()},530 INFO [train.py:1331] (0/4) Sanity check -- see if any of the batches in epoch 1 would cause OOM.\n"
    yield from clock.wait(life.about(100))
    for epoch in range(1, 6):
        yield Phase.TRAIN
        for batch in range(0, 5001, 50):
            yield from clock.wait(life.about(24))
            loss = life.loss((epoch - 1 + batch / 5000) / 5, 7.2, 0.24, 0.06)
            for rank in sorted(range(4), key=lambda _: life.random.random()):
                one = loss * life.random.gauss(1, 0.03)
                yield (
                    f"{clock()},{life.random.randint(100, 999)} INFO [train.py:1031] ({rank}/4) Epoch {epoch}, batch {batch}, loss[loss={one:.4g}, "
                    f"simple_loss={one * 1.6:.4g}, pruned_loss={one * 0.4:.4g}, over {life.random.randint(9000, 19000)}.00 frames. ], tot_loss["
                    f"loss={loss:.4g}, simple_loss={loss * 1.6:.4g}, pruned_loss={loss * 0.4:.4g}, over {life.random.randint(2000000, 3000000)}.31 "
                    f"frames. ], batch size: {life.random.randint(30, 99)}, lr: {2.2e-2 / epoch:.2e}, grad_scale: 32.0\n"
                )
            if batch % 2500 == 0 and batch:
                yield Phase.EVALUATE
                yield f"{clock()},120 INFO [train.py:1054] (0/4) Computing validation loss\n"
                yield from clock.wait(life.about(70))
                yield f"{clock()},430 INFO [train.py:1063] (0/4) Epoch {epoch}, validation: loss={loss * 1.05:.4g}, over 944034.00 frames.\n"
                yield f"{clock()},431 INFO [train.py:1064] (0/4) Maximum memory allocated so far is 29311MB\n"
                yield Phase.TRAIN
        yield Phase.SAVE
        yield f"{clock()},311 INFO [checkpoint.py:75] (0/4) Saving checkpoint to zipformer/exp/epoch-{epoch}.pt\n"
        yield from clock.wait(life.about(7))
    yield Phase.AFTER
    yield f"{clock()},900 INFO [train.py:1310] (0/4) Done!\n{clock()},988 INFO [decode.py:1001] Decoding started\n"
    for batch in range(0, 1200, 50):
        yield f"{clock()},900 INFO [decode.py:790] batch {batch}/1240, cuts processed until now is {batch * 21}\n"
        yield from clock.wait(life.about(30))


@form(
    "fairseq",
    field="translation",
    source="https://github.com/facebookresearch/fairseq/issues/2493",
    chatter=(
        "2026-02-03 {clock} | WARNING | fairseq.data.iterators | prefetch queue is empty, waited {seconds}s",
    ),
    chatter_every=50.0,
    tells_loss=True,
)
def fairseq(life: Life) -> Iterator[Event]:
    """Bars between columns, epochs whose averages are JSON of strings, overflows of the loss scale."""
    clock = Clock()
    yield Phase.START
    yield "2026-02-03 10:00:09 | INFO | fairseq.distributed.utils | distributed init (rank 0): tcp://n03:14711\n"
    yield from clock.wait(life.about(45))
    yield Phase.PREPARE
    yield f"{clock()} | INFO | fairseq.data.data_utils | loaded 35,762,532 examples from: data-bin/en_is/train.en-is.en\n"
    yield from clock.wait(life.about(200))
    yield f"{clock()} | INFO | fairseq.trainer | loading train data for epoch 1\n"
    yield from clock.wait(life.about(70))
    update = 0
    for epoch in range(1, 13):
        yield f"{clock()} | INFO | fairseq.trainer | begin training epoch {epoch}\n{clock()} | INFO | fairseq_cli.train | Start iterating over samples\n"
        yield Phase.TRAIN
        for number in range(100, 2001, 100):
            yield from clock.wait(life.about(58))
            update += 100
            loss = life.loss(update / 24_000, 13, 4.1)
            if life.random.random() < 0.04:
                yield f"{clock()} | INFO | fairseq.trainer | NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: 16.0\n"
            yield (
                f"{clock()} | INFO | train_inner | epoch {epoch:03}:  {number:5} / 2011 loss={loss:.3f}, nll_loss={loss * 0.8:.3f}, ppl={2**loss:.2f}, "
                f"wps={life.about(52_000, 0.02):.1f}, ups=1.72, wpb=30201.1, bsz=1024, num_updates={update}, lr={update * 1e-8:.6g}, gnorm=1.1{epoch}, "
                f"loss_scale=16, train_wall={life.about(57):.0f}, gb_free=11.2, wall={clock.passed:.0f}\n"
            )
        yield Phase.EVALUATE
        yield f'{clock()} | INFO | fairseq_cli.train | begin validation on "valid" subset\n'
        yield from clock.wait(life.about(130))
        yield f"{clock()} | INFO | valid | epoch {epoch:03} | valid on 'valid' subset | loss {loss:.3f} | ppl {2**loss:.2f} | num_updates {update} | best_loss 4.2\n"
        yield Phase.SAVE
        yield f"{clock()} | INFO | fairseq.checkpoint_utils | Preparing to save checkpoint for epoch {epoch} @ {update} updates\n"
        yield from clock.wait(life.about(18))
        yield (
            f'{clock()} | INFO | train | {{"epoch": {epoch}, "train_loss": "{loss:.3f}", "train_wps": "51210.2", "train_num_updates": "{update}", '
            f'"train_gnorm": "1.12", "train_wall": "{clock.passed:.0f}"}}\n'
        )
    yield Phase.AFTER
    yield f"{clock()} | INFO | fairseq_cli.train | done training in 14811.2 seconds\n"
    yield from clock.wait(life.about(420))
    yield "| Generate test with beam=5: BLEU4 = 24.11, 55.1/30.2/18.4/11.7 (BP=1.000)\n"


@form(
    "speechbrain",
    field="speech",
    source="https://github.com/speechbrain/speechbrain/issues",
    chatter=("speechbrain.utils.train_logger - wandb: 502 encountered (Bad Gateway), retrying request",),
    chatter_every=40.0,
    death='speechbrain.core - Exception:\nTraceback (most recent call last):\n  File "train.py", line 501, in <module>\nRuntimeError: DataLoader worker (pid 9120) is killed by signal: Bus error.\n',
    tells_loss=True,
)
def speechbrain(life: Life) -> Iterator[Event]:
    """A bar an epoch, a bar of its validation without values, then one line for both."""
    clock = Clock()
    yield Phase.START
    yield "speechbrain.core - Beginning experiment!\nspeechbrain.core - Experiment folder: results/wav2vec_is/1986\n"
    yield from clock.wait(life.about(40))
    yield Phase.PREPARE
    yield "lang_prepare - Creating train.csv...\n"
    yield from clock.wait(life.about(270))
    yield "speechbrain.core - Info: ckpt_interval_minutes arg from hparam file is used\nspeechbrain.core - 318.4M trainable parameters in ASR\n"
    for epoch in range(1, 9):
        yield Phase.TRAIN
        yield f"speechbrain.utils.epoch_loop - Going into epoch {epoch}\n"
        for batch in range(6, 1501, 6):
            yield from clock.wait(life.about(6.6))
            loss = life.loss((epoch - 1 + batch / 1500) / 8, 6, 0.5, 0.01)
            yield f"\r{batch // 15:3}%|{'█' * (batch // 150):10}| {batch}/1500 [{Clock.long(batch * 1.1)}<27:11,  1.10s/it, train_loss={loss:.3g}]"
            if batch == 750:
                yield Phase.SAVE
                yield f"\nspeechbrain.utils.checkpoints - Saved an intra-epoch checkpoint in results/save/CKPT+{clock('%Y-%m-%d+%H-%M-%S')}+00\n"
                yield from clock.wait(life.about(9))
                yield Phase.TRAIN
        yield Phase.EVALUATE
        yield "\n"
        for batch in range(0, 181, 3):
            yield f"\r{batch * 100 // 180:3}%|{'█' * (batch // 18):10}| {batch}/180 [{Clock.long(batch * 1.3)}<03:11,  1.31s/it]"
            yield from clock.wait(life.about(4))
        yield f"\nspeechbrain.utils.train_logger - epoch: {epoch}, lr_model: 9.0e-01 - train loss: {loss:.2e} - valid loss: {loss * 1.1:.2e}, valid CER: 4.1{epoch}, valid WER: 12.{epoch}\n"
    yield Phase.AFTER
    yield "speechbrain.utils.epoch_loop - loading best checkpoint\n"
    for batch in range(0, 201, 2):
        yield f"\r{batch // 2:3}%|███ | {batch}/200 [{Clock.long(batch * 3)}<10:11,  3.1s/it]"
        yield from clock.wait(life.about(6))
    yield "\nspeechbrain.utils.train_logger - Epoch loaded: 8 - test loss: 5.11e-01, test CER: 4.02, test WER: 12.40\n"


@form(
    "coqui-vits",
    field="speech synthesis",
    source="https://github.com/coqui-ai/TTS/issues",
    chatter=(" [!] Character '͡' not found in the vocabulary. Discarding it.",),
    chatter_every=35.0,
)
def coqui(life: Life) -> Iterator[Event]:
    """Indented blocks with a value and its average in brackets each 25 steps, adversarial losses that sway."""
    clock = Clock()
    yield Phase.START
    yield " > Setting up Audio Processor...\n | > sample_rate:22050\n | > hop_length:256\n > Training Environment:\n | > Num. of GPUs: 1\n"
    yield from clock.wait(life.about(50))
    yield Phase.PREPARE
    yield " | > Found 13100 files in /data/puffin_speech\n > Computing phonemes ...\n"
    for share in range(0, 13_101, 131):
        yield f"\r {share * 100 // 13_100:3}%|{'█' * (share // 1310):10}| {share}/13100 [0{share // 4000}:11<08:02, 22.10it/s]"
        yield from clock.wait(life.about(6))
    step = 0
    for epoch in range(14):
        yield f"\n\n\x1b[4m\x1b[1m > EPOCH: {epoch}/1000\x1b[0m\n --> /data/runs/vits-February-03\n\n\x1b[1m > TRAINING ({clock()}) \x1b[0m\n"
        yield Phase.TRAIN
        for number in range(0, 406, 25):
            yield from clock.wait(life.about(43))
            step += 25
            yield (
                f"\n\x1b[1m   --> TIME: {clock()} -- STEP: {number}/406 -- GLOBAL_STEP: {step}\x1b[0m\n"
                f"     | > loss_disc: {life.about(2.6, 0.1):.5f}  (2.61022)\n     | > loss_gen: {life.about(2.1, 0.2):.5f}  (2.09911)\n"
                f"     | > loss_kl: {life.about(1.4, 0.2):.5f}  (1.41010)\n     | > loss_mel: {life.about(18 + 30 / (epoch + 1)):.5f}  (21.10041)\n"
                f"     | > current_lr_0: 0.00020 \n     | > step_time: {life.about(1.7):.4f}  (1.70121)\n     | > loader_time: 0.0101  (0.0122)\n\n"
            )
        yield Phase.EVALUATE
        yield "\n\x1b[1m > EVALUATION \x1b[0m\n"
        for number in range(13):
            yield from clock.wait(life.about(9))
            yield f"\x1b[1m   --> STEP: {number}\x1b[0m\n     | > loss_mel: {life.about(20):.5f}  (20.1)\n"
        yield " | > Synthesizing test sentences.\n"
        yield from clock.wait(life.about(30))
        yield Phase.SAVE
        yield f"\n > BEST MODEL : /data/runs/vits-February-03/best_model_{step}.pth\n"
        yield from clock.wait(life.about(11))
    yield Phase.AFTER
