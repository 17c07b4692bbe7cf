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
