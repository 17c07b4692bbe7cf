"""Pre-training of language models."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "nanogpt",
    field="pre-training",
    source="https://github.com/karpathy/nanoGPT",
    chatter=("[{clock}] monitor: 8 GPUs, 71 GB used", "[{clock}] monitor: disk 43 %"),
    tells_loss=True,
)
def nanogpt(life: Life) -> Iterator[Event]:
    """Iterations of 400 ms told every tenth, an evaluation of two minutes each 2000."""
    yield Phase.START
    yield "tokens per iteration will be: 491,520\n"
    yield life.about(20)
    yield Phase.PREPARE
    yield "found vocab_size = 50304 (inside data/owt/meta.pkl)\nInitializing a new model from scratch\n"
    yield "number of parameters: 123.59M\ncompiling the model... (takes a ~minute)\n"
    yield life.about(70)
    for iteration in range(0, 20_001, 100):
        if iteration % 2000 == 0:
            yield Phase.EVALUATE
            yield life.about(120)
            loss = life.loss(iteration / 20_000)
            yield f"step {iteration}: train loss {loss:.4f}, val loss {loss + 0.03:.4f}\n"
            if iteration:
                yield Phase.SAVE
                yield "saving checkpoint to out-owt\n"
                yield life.about(15)
            yield Phase.TRAIN
        for ten in range(0, 100, 10):
            yield 4.0
            took = life.about(400)
            loss = life.loss(iteration / 20_000)
            yield f"iter {iteration + ten}: loss {loss:.4f}, time {took:.2f}ms, mfu 38.{ten}%\n"
    yield Phase.AFTER
    yield life.about(30)
