"""Logs that a program reads: JSON lines, logfmt, columns."""

from __future__ import annotations

import json
from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "json-lines",
    field="pre-training",
    source="https://github.com/facebookresearch/lingua",
    chatter=('{{"level": "debug", "ts": "2026-03-11T{clock}Z", "msg": "prefetch queue", "depth": 0}}',),
    tells_loss=True,
)
def json_lines(life: Life) -> Iterator[Event]:
    """Nested objects, one a line; evaluations are objects with other keys; a timestamp in each."""
    yield Phase.START
    yield (
        json.dumps({"level": "info", "ts": "2026-03-11T08:00:01Z", "msg": "config loaded", "world": 32})
        + "\n"
    )
    yield life.about(60)
    yield Phase.PREPARE
    for shard in range(24):
        yield (
            json.dumps(
                {
                    "level": "info",
                    "ts": f"2026-03-11T08:01:{shard:02}Z",
                    "msg": "shard indexed",
                    "shard": shard,
                    "of": 24,
                }
            )
            + "\n"
        )
        yield life.about(14)
    yield Phase.TRAIN
    for step in range(5, 4001, 5):
        yield life.about(17, 0.06)
        row = {
            "level": "info",
            "ts": f"2026-03-11T09:{step // 60 % 60:02}:{step % 60:02}Z",
            "global_step": step,
            "data": {"tokens": step * 2_097_152, "epoch": 0},
            "loss": {"out": round(life.loss(step / 4000, 11, 2.3), 4)},
            "speed": {
                "wps": round(life.about(11_000, 0.02), 1),
                "curr_iter_time": round(life.about(3.4, 0.03), 4),
            },
        }
        yield json.dumps(row) + "\n"
        if step % 1000 == 0:
            yield Phase.EVALUATE
            yield json.dumps({"level": "info", "msg": "eval started", "global_step": step}) + "\n"
            yield life.about(420)
            yield (
                json.dumps(
                    {"level": "info", "msg": "eval done", "global_step": step, "piqa": 0.6 + step / 90_000}
                )
                + "\n"
            )
            yield Phase.TRAIN


@form(
    "logfmt",
    field="home-made",
    source="https://github.com/kr/logfmt",
    chatter=('ts=2026-03-11T{clock}Z level=debug msg="lease renewed" holder=n001',),
    tells_loss=True,
)
def logfmt(life: Life) -> Iterator[Event]:
    """`ts=… level=info msg="step" step=3 loss=…`; episodes of a slow store that the script waits out."""
    yield Phase.START
    yield 'ts=2026-03-11T08:00:01Z level=info msg="starting" run=blue-17\n'
    yield life.about(80)
    yield Phase.TRAIN
    for step in range(1, 1801):
        if step in (700, 1300):
            for attempt in range(1, 6):
                yield f'ts=2026-03-11T10:00:0{attempt}Z level=warn msg="store slow, retrying" attempt={attempt} of=5 err="read timeout"\n'
                yield life.about(30)
        yield life.about(8, 0.1)
        yield f'ts=2026-03-11T09:{step // 8 % 60:02}:{step * 8 % 60:02}Z level=info msg="step" step={step} loss={life.loss(step / 1800, 7, 1.3):.4f} dur={life.about(8000):.0f}ms\n'
        if step % 300 == 0:
            yield Phase.SAVE
            yield f'ts=2026-03-11T09:50:00Z level=info msg="checkpoint" step={step}\n'
            yield life.about(60)
            yield Phase.TRAIN


@form(
    "csv-on-stdout",
    field="home-made",
    source="https://github.com/facebookresearch/ijepa",
    chatter=("# monitor {clock} ok",),
    chatter_every=60.0,
    tells_loss=True,
)
def csv_rows(life: Life) -> Iterator[Event]:
    """A header once, then `epoch,itr,loss,mask-A,time`, batches counted anew in each epoch."""
    yield Phase.START
    yield "epoch,itr,loss,mask-A,mask-B,time (ms)\n"
    yield life.about(130)
    yield Phase.TRAIN
    for epoch in range(1, 16):
        for batch in range(0, 1200, 10):
            yield life.about(9)
            yield f"{epoch},{batch},{life.loss((epoch - 1 + batch / 1200) / 15, 2, 0.4):.5f},{life.random.randint(18, 22)}.000,{life.random.randint(40, 60)}.000,{life.about(910):.0f}\n"


@form(
    "wandb-output",
    field="fine-tuning",
    source="https://github.com/wandb/wandb",
    chatter=(
        "wandb: Network error (ConnectTimeout), entering retry loop. {clock}",
        "wandb: 429 encountered, retrying request",
    ),
    tells_loss=True,
)
def wandb_output(life: Life) -> Iterator[Event]:
    """`wandb:` lines around a script's own prints; a survived network error for a quarter of an hour; sparklines at the end."""
    yield Phase.START
    yield "wandb: Currently logged in as: dora (lab). Use `wandb login --relogin` to force relogin\nwandb: Tracking run with wandb version 0.17.0\nwandb: Syncing run calm-river-88\n"
    yield life.about(110)
    yield Phase.TRAIN
    for step in range(1, 1401):
        yield life.about(13)
        yield f"Epoch {step // 350 + 1} | Batch {step % 350}/350 | Train Loss: {life.loss(step / 1400, 4, 0.7):.4f} | LR: {1e-4 * (1 - step / 1500):.2e}\n"
        if 610 <= step < 680 and step % 5 == 0:
            yield "wandb: Network error (ConnectionError), entering retry loop.\n"
        if step % 350 == 0:
            yield Phase.EVALUATE
            yield "Running validation\n"
            yield life.about(300)
            yield f"Validation Loss: {life.loss(step / 1400, 4, 0.8):.4f} | Perplexity: 3.{step}\n"
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "wandb: Waiting for W&B process to finish... (success).\n"
    yield life.about(120)
    yield "wandb: Run history:\nwandb: train/loss █▆▅▄▃▃▂▂▁▁\nwandb: Run summary:\nwandb: train/loss 0.71\n"
