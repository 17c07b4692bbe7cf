"""Bars, dots and long preparations."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "tqdm-never-a-newline",
    field="home-made",
    source="https://github.com/tqdm/tqdm",
    chatter=("\r[{clock}] gpu temp 61 C",),
)
def endless_bar(life: Life) -> Iterator[Event]:
    """One bar over an unknown total, `1211it [3:11:01, 8.12s/it]`, and not a single newline."""
    yield Phase.START
    yield life.about(45)
    yield Phase.TRAIN
    for step in range(1, 2600):
        yield f"\r{step}it [{step * 8 // 3600}:{step * 8 // 60 % 60:02}:{step * 8 % 60:02},  {life.about(8.1):.2f}s/it]"
        yield life.about(8, 0.12)


@form(
    "dots",
    field="home-made",
    source="https://github.com/pytorch/pytorch/issues (scripts of reporters)",
    chatter=("\ncheck {clock}: ok",),
    chatter_every=120.0,
)
def dots(life: Life) -> Iterator[Event]:
    """A dot each 50 batches, and a summary of the epoch after fifty dots."""
    yield Phase.START
    yield "loading ... ok\n"
    yield life.about(60)
    yield Phase.TRAIN
    for epoch in range(1, 13):
        yield f"epoch {epoch} "
        for _ in range(50):
            yield life.about(22)
            yield "."
        yield f" loss {life.loss(epoch / 12, 3, 0.5):.3f}\n"


@form(
    "tokenising-for-hours",
    field="data preparation",
    source="https://github.com/huggingface/datasets",
    chatter=("watch {clock}: 211 GB free",),
    chatter_every=60.0,
    tells_loss=True,
)
def tokenising(life: Life) -> Iterator[Event]:
    """Three maps and a grouping, each with its bar of half an hour, one that flags near 100 %; then two hours of steps."""
    yield Phase.START
    yield "Generating train split: 0 examples [00:00, ? examples/s]"
    yield life.about(20)
    yield Phase.PREPARE
    for name, total, pace in (
        ("Generating train split", 3_000_000, 16.0),
        ("Tokenizing (num_proc=32)", 3_000_000, 22.0),
        ("Grouping texts in chunks of 4096", 3_000_000, 14.0),
        ("Saving the dataset (41/41 shards)", 700_000, 9.0),
    ):
        for part in range(101):
            slow = 4 if part > 96 else 1
            yield f"\r{name}: {part:3}%|{'█' * (part // 10)}| {total * part // 100}/{total} [{part // 4}:{part % 60:02}<{(100 - part) // 4}:11, {life.about(1800, 0.3):.2f} examples/s]"
            yield life.about(pace * slow, 0.2)
        yield "\n"
        yield life.about(25)
    yield "trainable params: 41,943,040 || all params: 8,072,204,288\n"
    yield life.about(140)
    yield Phase.TRAIN
    for step in range(1, 601):
        yield life.about(14)
        yield f"{{'loss': {life.loss(step / 600, 2.2, 0.9):.4f}, 'grad_norm': 0.7{step % 90}, 'learning_rate': {2e-4 * (1 - step / 600):.3g}, 'epoch': {step / 300:.2f}}}\n"


@form(
    "axolotl",
    field="fine-tuning",
    source="https://github.com/axolotl-ai-cloud/axolotl",
    chatter=("[2026-03-11 {clock},112] [DEBUG] [axolotl.monitor] [PID:71] gpu memory 71.2GB",),
    death='[2026-03-11 10:00:00,001] [ERROR] [axolotl.train] [PID:71] training failed\nTraceback (most recent call last):\n  File "train.py", line 12, in <module>\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB.\n',
    tells_loss=True,
)
def axolotl(life: Life) -> Iterator[Event]:
    """Colours and PIDs, packing of samples with bars, a bar and a dictionary for each step, evaluations with bars."""
    yield Phase.START
    yield "[2026-03-11 08:00:01,112] [INFO] [axolotl.utils.config] [PID:71] [RANK:0] config ok\n"
    yield life.about(50)
    yield Phase.PREPARE
    for title, pace in (
        ("Tokenizing Prompts (num_proc=64)", 3),
        ("Dropping Long Sequences", 1),
        ("Add position_id column (Sample Packing)", 2),
    ):
        for part in range(0, 101, 4):
            yield f"\r{title}: {part:3}%|{'█' * (part // 10)}| {part * 2110}/211000 [00:{part % 60:02}<01:00, 2811.2 examples/s]"
            yield life.about(pace * 4)
        yield "\n"
    yield "[2026-03-11 08:06:01,112] [INFO] [axolotl.train] [PID:71] [RANK:0] Starting trainer...\n"
    yield life.about(45)
    yield Phase.TRAIN
    for step in range(1, 801):
        yield life.about(21, 0.05)
        yield f"{{'loss': {life.loss(step / 800, 1.6, 0.7):.4f}, 'grad_norm': 0.4{step % 90}, 'learning_rate': {2e-5 * (1 - step / 800):.3g}, 'epoch': {step / 400:.2f}}}\n"
        yield f"\r{step // 8:3}%|{'█' * (step // 80)}| {step}/800 [{step * 21 // 3600}:{step * 21 // 60 % 60:02}:{step * 21 % 60:02}<4:01:11, 21.02s/it]"
        if step % 200 == 0:
            yield Phase.EVALUATE
            for part in range(0, 61, 2):
                yield f"\r {part * 100 // 60:3}%|{'█' * (part // 6)}| {part}/60 [00:{part:02}<01:01,  3.1s/it]"
                yield life.about(6.2)
            yield f"\n{{'eval_loss': {life.loss(step / 800, 1.6, 0.8):.4f}, 'eval_runtime': 186.2, 'eval_samples_per_second': 2.6, 'epoch': {step / 400:.2f}}}\n"
            yield Phase.SAVE
            yield f"[2026-03-11 09:30:00,112] [INFO] [axolotl.train] [PID:71] saving checkpoint-{step}\n"
            yield life.about(70)
            yield Phase.TRAIN


@form(
    "scene-fitting",
    field="vision",
    source="https://github.com/graphdeco-inria/gaussian-splatting",
    chatter=("viewer {clock}: no client",),
)
def scenes(life: Life) -> Iterator[Event]:
    """Nine scenes one after another, each a bar of 30,000 with its own falling loss, evaluated twice, then rendered."""
    yield Phase.START
    yield life.about(10)
    for scene in range(9):
        yield Phase.PREPARE
        yield f"Optimizing output/scene{scene}\nReading camera 1/185"
        for camera in range(10, 186, 25):
            yield f"\rReading camera {camera}/185"
            yield life.about(6)
        yield "\nNumber of points at initialisation :  54275\n"
        yield life.about(20)
        yield Phase.TRAIN
        for step in range(0, 30_001, 100):
            pace = 3.0 + step / 10_000
            yield f"\rTraining progress: {step // 300:3}%|{'█' * (step // 3000)}| {step}/30000 [{step // 1800:02}:{step % 60:02}<11:01, 31.1it/s, Loss={life.loss(step / 30_000, 0.3, 0.04):.7f}]"
            yield life.about(pace)
            if step in (7000, 30_000):
                yield Phase.EVALUATE
                yield f"\n[ITER {step}] Evaluating test: L1 0.0{scene}1 PSNR 24.{step % 90}\n\n[ITER {step}] Saving Gaussians\n"
                yield life.about(25)
                yield Phase.TRAIN
        yield "\nTraining complete.\n"
    yield Phase.AFTER
    for view in range(0, 201, 5):
        yield f"\rRendering progress: {view // 2}%|{'█' * (view // 20)}| {view}/200 [00:{view % 60:02}<00:41,  2.1it/s]"
        yield life.about(3)
