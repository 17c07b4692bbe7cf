"""Records for machines."""

from __future__ import annotations

import json
from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "pretty-json",
    field="records over several lines",
    source="scripts with print(json.dumps(metrics, indent=2)), e.g. https://github.com/facebookresearch/denoiser",
    chatter=('{{\n  "kind": "host",\n  "load": 31.2,\n  "rss_gb": 88.1\n}}',),
    chatter_every=60.0,
    tells_loss=True,
)
def pretty_json(life: Life) -> Iterator[Event]:
    """An object over eight lines each 40 s, an object of the host each minute between them."""
    clock = Clock(
        lambda _: (
            json.dumps({"kind": "host", "load": round(life.about(31, 0.1), 1), "rss_gb": 88.1}, indent=2)
            + "\n"
        )
    )
    yield Phase.START
    yield json.dumps({"kind": "config", "lr": 3e-4, "batch": 64, "updates": 9000}, indent=2) + "\n"
    yield from clock.wait(life.about(130))
    yield Phase.TRAIN
    for update in range(30, 9001, 30):
        yield from clock.wait(life.about(40))
        loss = life.loss(update / 9000, 1.9, 0.3)
        yield (
            json.dumps(
                {
                    "kind": "train",
                    "update": update,
                    "metrics": {"loss": loss, "snr_db": round(14 - loss * 4, 3)},
                    "frames": update * 64 * 400,
                },
                indent=2,
            )
            + "\n"
        )
        if update % 1500 == 0:
            yield Phase.EVALUATE
            yield json.dumps({"kind": "begin", "what": "pesq", "files": 824}, indent=2) + "\n"
            yield from clock.wait(life.about(310))
            yield (
                json.dumps(
                    {
                        "kind": "valid",
                        "update": update,
                        "metrics": {"pesq": 2.1 + update / 9000, "loss": loss * 1.1},
                    },
                    indent=2,
                )
                + "\n"
            )
            yield Phase.TRAIN
    yield Phase.AFTER


@form(
    "prometheus-text",
    field="records of a metrics exporter",
    source="https://prometheus.io/docs/instrumenting/exposition_formats (scrapes that a job script appends to its log)",
    chatter=('node_memory_used_bytes 9.1121e+10\ntrainer_up 1\ntrainer_queue_length{{queue="out"}} 64',),
    chatter_every=30.0,
)
def prometheus(life: Life) -> Iterator[Event]:
    """A scrape each half minute whatever happens; what trains is told by counters that rise with it."""
    tokens = loss = 0.0
    clock = Clock(
        lambda _: (
            f'node_memory_used_bytes {life.about(9.1e10, 0.01):.4e}\ntrainer_up 1\ntrainer_queue_length{{queue="out"}} {life.random.randint(0, 64)}\n'
            + (
                f'trainer_tokens_total {tokens:.0f}\ntrainer_loss{{split="train"}} {loss:.4f}\n'
                if tokens
                else ""
            )
        ),
        30.0,
    )
    yield Phase.START
    yield "exporter listens on :9101\n"
    yield from clock.wait(life.about(100))
    yield Phase.PREPARE
    yield "trainer_phase 1\n"
    yield from clock.wait(life.about(400))
    yield Phase.TRAIN
    for step in range(1, 1401):
        tokens += 524_288
        loss = life.loss(step / 1400, 9, 3)
        yield from clock.wait(life.about(9))
        if step % 350 == 0:
            yield Phase.SAVE
            yield f"trainer_checkpoints_total {step // 350}\n"
            yield from clock.wait(life.about(100))
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "trainer_up 0\n"
