"""Machine translation and vectors of words."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "marian",
    field="translation",
    source="https://github.com/marian-nmt/marian/issues/120 and /issues/376, https://github.com/marian-nmt/marian-dev/issues/480",
    chatter=("[{clock}] monitor: load 31.{n}",),
    chatter_every=60.0,
    death="[2026-02-03 12:00:00] Error: CUDA error 700 'an illegal memory access was encountered' - /src/marian/tensors/gpu/device.cu:32\n"
    "[2026-02-03 12:00:00] Error: Aborted from void marian::gpu::Device::reserve(size_t)\n",
)
def marian(life: Life) -> Iterator[Event]:
    """An update line each nine minutes, `Cost` instead of loss; three models are saved, then validated and translated."""
    clock = Clock()
    yield Phase.START
    yield f"[{clock()}] [marian] Running on n001 as process 4121 with command line:\n[{clock()}] [config] after-epochs: 0\n"
    yield from clock.wait(life.about(20))
    yield Phase.PREPARE
    yield f"[{clock()}] [data] Loading SentencePiece vocabulary from file vocab.spm\n"
    yield from clock.wait(life.about(15))
    yield f"[{clock()}] [SQLite] Creating primary index\n[{clock()}] [batching] Collecting statistics for batch fitting with step size 10\n"
    yield from clock.wait(life.about(340))
    yield f"[{clock()}] [batching] Done. Typical MB size is 31,412 target words\n[{clock()}] Training started\n"
    yield Phase.TRAIN
    sentences = 0
    for update in range(2000, 120_001, 2000):
        took = life.about(540, 0.2)
        yield from clock.wait(took)
        sentences += int(life.about(210_000))
        cost = life.loss(update / 120_000, 7.1, 2.6, 0.04)
        yield f"[{clock()}] Ep. {1 + update // 60_000} : Up. {update} : Sen. {sentences:,} : Cost {cost:.8f} : Time {took:.2f}s : {9e6 / took:.2f} words/s : L.r. 3.0000e-04\n"
        if update % 10_000 == 0:
            yield Phase.SAVE
            for name in ("model.npz.orig.npz", "model.npz"):
                yield f"[{clock()}] Saving model weights and runtime parameters to /data/mt/{name}\n"
                yield from clock.wait(life.about(4))
            yield f"[{clock()}] Saving Adam parameters to /data/mt/model.npz.optimizer.npz\n"
            yield from clock.wait(life.about(14))
            yield Phase.EVALUATE
            yield f"[{clock()}] [valid] Ep. {1 + update // 60_000} : Up. {update} : cross-entropy : {cost * 24:.4f} : new best\n"
            yield from clock.wait(life.about(25))
            yield f"[{clock()}] [valid] Ep. {1 + update // 60_000} : Up. {update} : translation : {31 - cost:.2f} : stalled {update % 3} times (last best: 30.13)\n"
            yield from clock.wait(life.about(190))
            yield Phase.TRAIN
    yield Phase.AFTER
    yield f"[{clock()}] Training finished\n"
    yield from clock.wait(life.about(30))


@form(
    "opennmt-py",
    field="translation",
    source="https://github.com/OpenNMT/OpenNMT-py/issues",
    chatter=("[2026-02-03 {clock},113 INFO] worker alive",),
    chatter_every=30.0,
)
def opennmt(life: Life) -> Iterator[Event]:
    """`Step 50/20000; acc: ...; xent: ...`, shards that are loaded on the way, a validation each 2,000 steps."""
    clock = Clock()
    yield Phase.START
    yield f"[{clock()},101 INFO] Missing transforms field for corpus_1 data, set to default: [].\n[{clock()},102 INFO] Parsed 2 corpora from -data.\n"
    yield from clock.wait(life.about(25))
    yield Phase.PREPARE
    yield f"[{clock()},331 INFO] Building model...\n"
    yield from clock.wait(life.about(40))
    yield f"[{clock()},777 INFO] encoder: 44238848\n[{clock()},778 INFO] * number of parameters: 93326081\n[{clock()},779 INFO] Starting training on GPU: [0]\n"
    yield from clock.wait(life.about(90))
    yield Phase.TRAIN
    for step in range(50, 20_001, 50):
        yield from clock.wait(life.about(41, 0.08))
        cross = life.loss(step / 20_000, 9.1, 1.9, 0.05)
        yield (
            f"[{clock()},212 INFO] Step {step}/20000; acc: {80 - cross * 7:.1f}; ppl: {2.7**cross:6.1f}; xent: {cross:.1f}; lr: 0.00{step % 99:02}; "
            f"sents: {int(life.about(30000))}; bsz: 3610/3500/141; 21034/20011 tok/s; {int(clock.passed):6} sec;\n"
        )
        if step % 400 == 0:
            yield f"[{clock()},214 INFO] * Transform statistics for corpus_1(100.00%):\n\t\t\t* FilterTooLongStat(filtered={step // 7})\n"
        if step % 2000 == 0:
            yield Phase.EVALUATE
            yield f"[{clock()},219 INFO] valid stats calculation and sentences rebuilding\n"
            yield from clock.wait(life.about(130))
            yield f"[{clock()},901 INFO] Validation perplexity: {2.7**cross * 1.1:.3f}\n[{clock()},902 INFO] Validation accuracy: {78 - cross * 7:.4f}\n"
            yield Phase.SAVE
            yield f"[{clock()},911 INFO] Saving checkpoint model_step_{step}.pt\n"
            yield from clock.wait(life.about(22))
            yield Phase.TRAIN


@form(
    "fasttext",
    field="vectors of words",
    source="https://github.com/facebookresearch/fastText/issues",
    chatter=("\nslurm_monitor {clock} rss 81 GB",),
    chatter_every=60.0,
)
def fasttext(life: Life) -> Iterator[Event]:
    """Words are read in silence but for a count over itself, then a percentage that moves each few seconds, never a newline."""
    yield Phase.START
    yield Phase.PREPARE
    for millions in range(20, 1401, 20):
        yield f"\rRead {millions}M words"
        yield life.about(6)
    yield "\rRead 1412M words\nNumber of words:  2519370\nNumber of labels: 0\n"
    yield life.about(75)
    yield Phase.TRAIN
    for tick in range(2400):
        yield life.about(4.2, 0.05)
        left = (2400 - tick) * 4
        yield f"\rProgress: {tick / 24:5.1f}% words/sec/thread: {life.about(61000, 0.03):7.0f} lr: {0.05 * (1 - tick / 2400):9.6f} avg.loss: {life.loss(tick / 2400, 3.1, 0.4, 0.005):9.6f} ETA: {left // 3600:3}h{left // 60 % 60:2}m{left % 60:2}s"
    yield "\rProgress: 100.0% words/sec/thread:   61211 lr:  0.000000 avg.loss:  0.401112 ETA:   0h 0m 0s\n"
    yield Phase.AFTER
    yield life.about(140)
