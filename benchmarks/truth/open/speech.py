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
