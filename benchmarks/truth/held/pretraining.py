"""Pre-training of language models."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "levanter",
    field="pre-training",
    source="https://github.com/stanford-crfm/levanter",
    chatter=(
        "2026-02-03T{clock} - 0 - jax._src.distributed - WARNING :: barrier 'sync_global' not reached by all processes, poll {n}",
    ),
    chatter_every=120.0,
    tells_loss=True,
)
def levanter(life: Life) -> Iterator[Event]:
    """A bar that writes a new line each ten seconds with counts in thousands, evaluations with the same bar."""
    clock = Clock()
    yield Phase.START
    yield f"{clock('%Y-%m-%dT%H:%M:%S')} - 0 - levanter.distributed - distributed.py:99 - INFO :: Initializing jax.distributed\n"
    yield from clock.wait(life.about(45))
    yield Phase.PREPARE
    for shard in range(61):
        yield f"{clock('%Y-%m-%dT%H:%M:%S')} - 0 - levanter.store.cache - cache.py:311 - INFO :: Still waiting for cache: {shard} shards of 60 done\n"
        yield from clock.wait(life.about(18))
    yield f"{clock('%Y-%m-%dT%H:%M:%S')} - 0 - levanter.trainer - trainer.py:410 - INFO :: First train step completed in 71.1s\n"
    yield from clock.wait(life.about(71))
    yield Phase.TRAIN
    for step in range(9, 12_000, 9):
        yield from clock.wait(life.about(10.2, 0.04))
        loss, rate = life.loss(step / 12_000, 10.8, 3.1), life.about(1.13, 0.03)
        yield (
            f"{clock('%Y-%m-%dT%H:%M:%S')} - 0 - levanter.callbacks - INFO :: Progress on:train {step / 1000:.2f}kit/12.0kit rate:"
            f"{rate:.2f}s/it remaining:{Clock.long((12_000 - step) * 1.13)} elapsed:{clock.elapsed} postfix:loss={loss:.3f}\n"
        )
        if step % 1800 == 0:
            yield Phase.EVALUATE
            for batch in range(8, 121, 8):
                yield f"{clock('%Y-%m-%dT%H:%M:%S')} - 0 - levanter.callbacks - INFO :: Progress on:eval {batch}it/120it rate:1.3s/it\n"
                yield from clock.wait(life.about(10.4))
            yield f"{clock('%Y-%m-%dT%H:%M:%S')} - 0 - levanter.eval - INFO :: openwebtext loss: {loss:.3f}\n"
            yield Phase.SAVE
            yield f"{clock('%Y-%m-%dT%H:%M:%S')} - 0 - levanter.checkpoint - INFO :: Saving checkpoint at step {step} to ckpt/step-{step}\n"
            yield from clock.wait(life.about(35))
            yield Phase.TRAIN
    yield Phase.AFTER
    yield f"{clock('%Y-%m-%dT%H:%M:%S')} - 0 - levanter.trainer - INFO :: Finished\n"
