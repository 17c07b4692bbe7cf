"""Fine-tuning of language and image models."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "torchtune",
    field="fine-tuning",
    source="https://github.com/pytorch/torchtune/issues",
    chatter=("[{clock}] host memory 412 GiB of 512 GiB", "[{clock}] /dev/shm 3 %"),
    chatter_every=60.0,
    tells_loss=True,
)
def torchtune(life: Life) -> Iterator[Event]:
    """A bar `epoch|step|Loss` that begins anew each epoch; a monitor of the job script writes beside it."""
    clock = Clock(
        lambda now: f"[{now('%H:%M:%S')}] host memory {380 + int(now.passed) % 60} GiB of 512 GiB\n"
    )
    yield Phase.START
    yield "INFO:torchtune.utils._logging:Running FullFinetuneRecipeDistributed with resolved config:\n\nbatch_size: 2\n"
    yield from clock.wait(life.about(55))
    yield Phase.PREPARE
    yield "INFO:torchtune.utils._logging:FSDP is enabled. Instantiating model and loading checkpoint on Rank 0 ...\n"
    yield from clock.wait(life.about(210))
    yield "INFO:torchtune.utils._logging:Memory stats after model init:\n\tGPU peak memory active: 9.21 GiB\n"
    for epoch in range(1, 4):
        yield Phase.TRAIN
        for step in range(1, 661):
            yield from clock.wait(life.about(6.4))
            done = (epoch - 1) * 660 + step
            loss = life.loss(done / 1980, 2.6, 0.9, 0.08)
            yield f"\r{epoch}|{done}|Loss: {loss}:  {step * 100 // 660}%|██▌  | {step}/660 [{Clock.long(step * 6.4)}<1:02:11,  6.41s/it]"
        yield Phase.SAVE
        yield "\nINFO:torchtune.utils._logging:Saving checkpoint. This may take some time. Retrieving full model state dict...\n"
        yield from clock.wait(life.about(260))
        for part in range(1, 5):
            yield f"INFO:torchtune.utils._logging:Model checkpoint of size 4.9 GiB saved to out/epoch_{epoch}/model-0000{part}-of-00004\n"
            yield from clock.wait(life.about(14))
    yield Phase.AFTER
    yield "starting lm-eval ...\n"
    yield from clock.wait(life.about(400))
    yield "|  Tasks  |Version|Filter|n-shot|Metric|Value |\n|arc_easy |      1|none  |     0|acc   |0.7812|\n"


@form(
    "litgpt",
    field="fine-tuning",
    source="https://github.com/Lightning-AI/litgpt/issues",
    chatter=("gpu0 98% 61C 402W | gpu1 98% 63C 398W",),
    tells_loss=True,
)
def litgpt(life: Life) -> Iterator[Event]:
    """A line each micro step, of which every fourth is a step; `val: n/a` until the first validation."""
    clock = Clock(
        lambda _: (
            f"gpu0 {life.random.randint(92, 99)}% 61C 402W | gpu1 {life.random.randint(92, 99)}% 63C 398W\n"
        ),
        30.0,
    )
    yield Phase.START
    yield "{'checkpoint_dir': PosixPath('ckpt/falcon-7b'),\n 'devices': 2,\n 'precision': 'bf16-true'}\n"
    yield from clock.wait(life.about(35))
    yield Phase.PREPARE
    yield "Number of trainable parameters: 3,506,176\nNumber of non-trainable parameters: 7,217,189,760\nValidating ...\n"
    yield from clock.wait(life.about(140))
    yield Phase.TRAIN
    val = "n/a"
    for number in range(1, 4801):
        yield from clock.wait(life.about(2.4))
        loss, step = life.loss(number / 4800, 2.2, 0.8, 0.05), number // 4
        yield (
            f"Epoch {number // 2400 + 1} | iter {number} step {step} | loss train: {loss:.3f}, val: {val} | iter time: "
            f"{life.about(2400):.2f} ms{' (step)' if number % 4 == 0 else ''}\n"
        )
        if number % 800 == 0:
            yield Phase.EVALUATE
            yield "Validating ...\n"
            took = life.about(330)
            yield from clock.wait(took)
            val = f"{loss + 0.04:.3f}"
            yield (
                f"Recommend a recipe for a rainy day.\nBelow is an instruction that describes a task.\n\n### Response:\n"
                f"Lentil soup with 2 carrots and 1 leek.\n\niter {number}: val loss {val}, val time: {took * 1000:.2f} ms\n"
            )
            yield Phase.SAVE
            yield f"Saving adapter weights to 'out/step-{step:06}/lit_model.pth'\n"
            yield from clock.wait(life.about(9))
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "| Total training time: 14021.12 s\n"
    yield from clock.wait(life.about(330))
    yield "| Final val loss: 0.852\n"


@form(
    "kohya-lora",
    field="fine-tuning of diffusion models",
    source="https://github.com/kohya-ss/sd-scripts and https://github.com/bmaltais/kohya_ss/issues/2123",
    chatter=("[nvsmi] 23871MiB / 24564MiB 100%",),
    chatter_every=20.0,
    tells_loss=True,
)
def kohya(life: Life) -> Iterator[Event]:
    """One bar over all steps, a line each epoch, images that are sampled with a bar of their own."""
    clock = Clock(
        lambda _: (
            f"[nvsmi] {life.random.randint(23100, 23900)}MiB / 24564MiB {life.random.randint(95, 100)}%\n"
        ),
        20.0,
    )
    yield Phase.START
    yield "2026-02-03 10:00:03 INFO     Loading settings from /data/lora/marmot.toml                 train_util.py:4008\n"
    yield from clock.wait(life.about(30))
    yield Phase.PREPARE
    yield "                    INFO     caching latents with caching strategy.                   train_util.py:1000\n"
    for image in range(0, 641, 8):
        yield f"\r {image * 100 // 640}%|{'█' * (image // 80)}| {image}/640 [{Clock.long(image * 0.6)}<05:11,  1.62it/s]"
        yield from clock.wait(life.about(5))
    yield "\nrunning training / 学習開始\n  num train images * repeats / 学習画像の数×繰り返し回数: 6400\n  num epochs / epoch数: 8\n"
    step = 0
    for epoch in range(1, 9):
        yield Phase.TRAIN
        yield f"\nepoch {epoch}/8\n"
        for _ in range(400):
            yield from clock.wait(life.about(3.9))
            step += 1
            yield (
                f"\rsteps: {step * 100 // 3200:3}%|{'█' * (step // 320):10}| {step}/3200 [{clock.elapsed}<2:11:02,  3.91s/it, "
                f"avr_loss={life.loss(step / 3200, 0.16, 0.08, 0.05):.3g}]"
            )
        yield Phase.SAVE
        yield f"\nsaving checkpoint: /data/lora/out/marmot-{epoch:06}.safetensors\n"
        yield from clock.wait(life.about(6))
        yield Phase.EVALUATE
        yield f"generating sample images at step / サンプル画像生成 ステップ: {step}\n"
        for image in range(6):
            yield f"prompt: a marmot on a bicycle, style {image}\nheight: 1024\nwidth: 1024\nsample_steps: 30\n"
            for part in range(0, 31, 2):
                yield f"\r{part * 100 // 30:3}%|{'█' * (part // 3)}| {part}/30 [00:{part:02}<00:20,  1.1it/s]"
                yield from clock.wait(life.about(2))
            yield "\n"
    yield Phase.AFTER
    yield "model saved.\n"


@form(
    "diffusers-script",
    field="fine-tuning of diffusion models",
    source="https://github.com/huggingface/diffusers (examples/text_to_image/train_text_to_image.py)",
    chatter=("02/03/2026 {clock} - WARNING - fsspec - slow read from s3://tiles ({n})",),
    chatter_every=40.0,
)
def diffusers_script(life: Life) -> Iterator[Event]:
    """A bar whose loss is noise and never falls, images for the eye each 500 steps, data that stall for minutes."""
    clock = Clock()
    yield Phase.START
    yield "02/03/2026 10:00:09 - INFO - __main__ - Distributed environment: MULTI_GPU  Backend: nccl\nNum processes: 4\n"
    yield from clock.wait(life.about(60))
    yield Phase.PREPARE
    yield "{'variance_type', 'thresholding'} was not found in config. Values will be initialized to default values.\n"
    yield from clock.wait(life.about(150))
    yield "02/03/2026 10:03:44 - INFO - __main__ - ***** Running training *****\n02/03/2026 10:03:44 - INFO - __main__ -   Total optimization steps = 5000\n"
    yield Phase.TRAIN
    for step in range(1, 5001):
        if life.random.random() < 0.002:
            yield f"\n{clock('%m/%d/%Y %H:%M:%S')} - WARNING - fsspec - slow read from s3://tiles ({step % 5 + 1})\n"
            yield from clock.wait(life.about(110, 0.4))
        yield from clock.wait(life.about(2.1))
        noise = abs(life.random.gauss(0.07, 0.04))
        yield f"\rSteps: {step // 50:3}%|{'█' * (step // 500):10}| {step}/5000 [{clock.elapsed}<2:41:19,  2.10s/it, lr=1e-5, step_loss={noise:.4f}]"
        if step % 500 == 0:
            yield Phase.SAVE
            yield f"{clock('%m/%d/%Y %H:%M:%S')} - INFO - accelerate.accelerator - Saving current state to sd/checkpoint-{step}\n"
            yield from clock.wait(life.about(28))
            yield Phase.EVALUATE
            yield f"{clock('%m/%d/%Y %H:%M:%S')} - INFO - __main__ - Running validation... \n"
            yield from clock.wait(life.about(160))
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "\nConfiguration saved in sd/model_index.json\n"
    yield from clock.wait(life.about(40))
