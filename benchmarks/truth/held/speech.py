"""Speech recognition, synthesis and translation."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


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
    "kaldi-chain",
    field="speech",
    source="https://github.com/alphacep/vosk-api/issues/966 and https://github.com/kaldi-asr/kaldi/pull/3205",
    chatter=("queue.pl: error accessing file exp/chain/q/done.{n}: Stale file handle",),
    chatter_every=120.0,
)
def kaldi(life: Life) -> Iterator[Event]:
    """A script of stages: alignment by parallel jobs, `Iter: 78/959 ... (8.1% complete)`, graph, decoding."""
    clock = Clock()
    yield Phase.START
    yield "steps/make_mfcc.sh --nj 40 --cmd run.pl data/train exp/make_mfcc/train mfcc\n"
    yield from clock.wait(life.about(410))
    yield "steps/make_mfcc.sh: Succeeded creating MFCC features for train\n"
    yield Phase.PREPARE
    yield "steps/align_fmllr_lats.sh: feature type is lda\nsteps/align_fmllr_lats.sh: compiling training graphs\n"
    yield from clock.wait(life.about(640))
    yield "steps/align_fmllr_lats.sh: generating lattices containing alternate pronunciations.\n"
    yield from clock.wait(life.about(820))
    yield f"{clock()},110 [steps/nnet3/chain/train.py:386 - train - INFO ] Generating egs\nsteps/nnet3/chain/get_egs.sh: Generating training examples on disk\n"
    yield from clock.wait(life.about(700))
    yield f"{clock()},287 [steps/nnet3/chain/train.py:488 - train - INFO ] Training will run for 6.0 epochs = 260 iterations\n"
    yield Phase.TRAIN
    for step in range(260):
        yield f"{clock()},681 [steps/nnet3/chain/train.py:529 - train - INFO ] Iter: {step}/259   Jobs: {2 + step // 60}   Epoch: {step * 6 / 260:.2f}/6.0 ({step / 2.6:.1f}% complete)   lr: {0.0015 * 0.992**step:.6f}   \n"
        yield from clock.wait(life.about(44 + (60 if step % 20 == 19 else 0)))
    yield Phase.SAVE
    yield f"{clock()},002 [steps/nnet3/chain/train.py:585 - train - INFO ] Doing final combination to produce final.mdl\n"
    yield from clock.wait(life.about(230))
    yield "exp/chain/tdnn: num-iters=260 nj=2..6 num-params=17.8M dim=40+100->3016 combine=-0.041->-0.041 (over 3) logprob:train/valid[172,259,combine]=(-0.051,-0.041,-0.041/-0.059,-0.052,-0.052)\n"
    yield Phase.EVALUATE
    yield "utils/mkgraph.sh data/lang_test exp/chain/tdnn exp/chain/tdnn/graph\n"
    yield from clock.wait(life.about(340))
    yield "steps/nnet3/decode.sh --nj 20 --cmd run.pl exp/chain/tdnn/graph data/test_hires exp/chain/tdnn/decode_test\n"
    yield from clock.wait(life.about(760))
    yield Phase.AFTER
    yield "%WER 8.41 [ 4421 / 52576, 611 ins, 911 del, 2899 sub ] exp/chain/tdnn/decode_test/wer_10_0.0\n"


@form(
    "fairseq2",
    field="speech",
    source="https://github.com/facebookresearch/fairseq2/pull/795",
    chatter=("[02/03/26 {clock}] WARNING  fairseq2.gang - Monitored barrier takes long (try {n})",),
    chatter_every=60.0,
    tells_loss=True,
)
def fairseq2(life: Life) -> Iterator[Event]:
    """Metrics in one line with bars between, numbers with commas and units of bytes, validation in its own words."""
    clock = Clock()

    def line(text: str) -> str:
        return f"[{clock('%m/%d/%y %H:%M:%S')}] INFO     fairseq2 - {text}\n"

    yield Phase.START
    yield line("Log files stored under /data/kit/runs/w2v2_base/logs.")
    yield from clock.wait(life.about(40))
    yield Phase.PREPARE
    yield line("Loading and synchronizing the model across gang.")
    yield from clock.wait(life.about(130))
    yield line("Running training on 8 device(s).")
    yield Phase.TRAIN
    for step in range(100, 12_001, 100):
        yield from clock.wait(life.about(88))
        loss = life.loss(step / 12_000, 6.6, 1.9)
        yield line(
            f"Train Metrics (step {step:,}) - Loss: {loss:.4f} | Accuracy: {0.7 - loss / 12:.3f} | Gradient Norm: {life.about(0.7, 0.2):.4f} | Learning Rate: {step * 1e-8:.4g} | "
            f"Data Epoch: {step // 4000 + 1:,} | Number of Elements: {step * 11_021_400:,} | Elements per Second: {life.about(12_500_000, 0.03):,.0f} | "
            f"Wall Time: {clock.passed:,.0f}s | Peak Active Device Memory: 61.2 GiB"
        )
        if step % 3000 == 0:
            yield Phase.EVALUATE
            yield line(f"Starting validation after step {step:,}.")
            yield from clock.wait(life.about(190))
            yield line(f"Validation Metrics (step {step:,}) - Loss: {loss * 1.03:.4f} | Accuracy: 0.61")
            yield Phase.SAVE
            yield line(f"Preparing the checkpoint at step {step:,}.")
            yield from clock.wait(life.about(45))
            yield line(f"Checkpoint at step {step:,} saved.")
            yield Phase.TRAIN
    yield Phase.AFTER
    yield line("Training finished after 12,000 step(s).")
