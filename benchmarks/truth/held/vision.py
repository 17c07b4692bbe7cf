"""Vision: detection, reading, segmentation of medical images, models of image and text."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "nnunet",
    field="medical imaging",
    source="https://github.com/MIC-DKFZ/nnUNet/issues/2965",
    chatter=(
        "using pin_memory on device 0",
        "W0203 {clock} 5 torch/_inductor/utils.py:1137] Not enough SMs to use max_autotune_gemm mode",
    ),
    chatter_every=200.0,
    death='Exception in thread Thread-2 (results_loop):\nTraceback (most recent call last):\n  File "threading.py", line 1016, in _bootstrap_inner\n'
    "RuntimeError: One or more background workers are no longer alive. Exiting. Please check the print statements above for the actual error message\n",
)
def nnunet(life: Life) -> Iterator[Event]:
    """Six lines an epoch of 160 s, losses below zero, then the prediction of all validation cases."""
    clock = Clock()
    yield Phase.START
    yield "\nUsing device: cuda:0\n\n#######################################################################\nPlease cite the following paper when using nnU-Net:\n"
    yield from clock.wait(life.about(25))
    yield Phase.PREPARE
    yield f"{clock()}.893867: unpacking dataset...\n"
    yield from clock.wait(life.about(330))
    yield f"{clock()}.474627: unpacking done...\n{clock()}.551622: do_dummy_2d_data_aug: False\n{clock()}.584742: This split has 212 training and 53 validation cases.\n"
    yield Phase.TRAIN
    best = 0.3
    for epoch in range(100):
        yield f"{clock()}.702593: \n{clock()}.704159: Epoch {epoch}\n{clock()}.705711: Current learning rate: {0.01 * (1 - epoch / 100) ** 0.9:.5f}\n"
        took = life.about(330 if epoch == 0 else 160, 0.05)
        yield from clock.wait(took)
        dice = min(0.93, 0.4 + epoch / 150) + life.random.gauss(0, 0.01)
        yield (
            f"{clock()}.743766: train_loss {-dice + life.random.gauss(0, 0.02):.4f}\n{clock()}.745121: val_loss {-dice + 0.05 + life.random.gauss(0, 0.02):.4f}\n"
            f"{clock()}.746762: Pseudo dice [np.float32({dice:.4f}), np.float32({dice - 0.1:.4f})]\n{clock()}.748258: Epoch time: {took:.2f} s\n"
        )
        if dice > best:
            best = dice
            yield f"{clock()}.938130: Yayy! New best EMA pseudo Dice: {best:.4f}\n"
    yield f"{clock()}.101102: Training done.\n"
    yield Phase.EVALUATE
    yield f"{clock()}.101188: Using splits from existing split file: splits_final.json\n"
    for case in range(53):
        yield f"{clock()}.201102: predicting liver_{case * 4:03}\n{clock()}.201733: liver_{case * 4:03}, shape torch.Size([1, 482, 512, 512]), rank 0\n"
        yield from clock.wait(life.about(48, 0.4))
    yield f"{clock()}.882101: Validation complete\n{clock()}.882190: Mean Validation Dice:  0.8811\n"
    yield Phase.AFTER


@form(
    "monai-tutorial",
    field="medical imaging",
    source="https://github.com/Project-MONAI/tutorials",
    chatter=("PersistentDataset cache warning: {clock} 2 files were read slowly",),
    chatter_every=60.0,
    tells_loss=True,
)
def monai(life: Life) -> Iterator[Event]:
    """`12/41, train_loss: 0.61` counted anew each epoch between rules, a quiet validation each second epoch."""
    clock = Clock()
    yield Phase.START
    yield "MONAI version: 1.3.0\nNumpy version: 1.26.4\nPytorch version: 2.3.1+cu121\n"
    yield from clock.wait(life.about(20))
    yield Phase.PREPARE
    for case in range(0, 33, 1):
        yield f"\rLoading dataset: {case * 100 // 32:3}%|{'█' * (case // 4):8}| {case}/32 [{Clock.long(case * 9)}<03:11,  9.2s/it]"
        yield from clock.wait(life.about(9))
    yield "\n"
    for epoch in range(1, 91):
        yield Phase.TRAIN
        yield f"----------\nepoch {epoch}/90\n"
        for step in range(1, 42):
            yield from clock.wait(life.about(3.4))
            loss = life.loss((epoch - 1 + step / 41) / 90, 0.72, 0.18, 0.06)
            yield f"{step}/41, train_loss: {loss:.4f}\n"
        yield f"epoch {epoch} average loss: {loss:.4f}\n"
        if epoch % 2 == 0:
            yield Phase.EVALUATE
            yield from clock.wait(life.about(52))
            yield f"current epoch: {epoch} current mean dice: 0.{60 + epoch // 4}11\nbest mean dice: 0.8411 at epoch: 62\n"
    yield Phase.AFTER
    yield "train completed, best_metric: 0.8411 at epoch: 62\n"
    yield from clock.wait(life.about(200))


@form(
    "open-clip",
    field="vision and language",
    source="https://github.com/mlfoundations/open_clip/issues",
    chatter=(
        "2026-02-03,{clock} | WARNING | Handling webdataset error (OSError('truncated tar')). Ignoring.",
    ),
    chatter_every=55.0,
    tells_loss=True,
)
def open_clip(life: Life) -> Iterator[Event]:
    """Samples over samples in brackets, throughput with units, errors of shards that are passed over all the time."""
    clock = Clock(
        lambda now: (
            f"{now('%Y-%m-%d,%H:%M:%S')} | WARNING | Handling webdataset error (OSError('truncated tar')). Ignoring.\n"
        ),
        410.0,
    )

    def line(text: str) -> str:
        return f"{clock('%Y-%m-%d,%H:%M:%S')} | INFO | {text}\n"

    yield Phase.START
    yield line(
        "Running in distributed mode with multiple processes. Device: cuda:0.Process (global: 0, local 0), total 16."
    )
    yield from clock.wait(life.about(65))
    yield Phase.PREPARE
    yield (
        line("Loaded ViT-B-16 model config.")
        + line("Model:")
        + "CLIP(\n  (visual): VisionTransformer(\n  )\n)\n"
    )
    yield from clock.wait(life.about(120))
    for epoch in range(4):
        yield line(f"Start epoch {epoch}")
        yield Phase.TRAIN
        for batch in range(0, 3126, 32):
            yield from clock.wait(life.about(31) + (80 if batch == 0 else 0))
            loss = life.loss((epoch + batch / 3126) / 4, 9.6, 2.4)
            yield line(
                f"Train Epoch: {epoch} [{batch * 4096:>8}/12804096 ({batch * 100 // 3125}%)] Data (t): {life.about(0.2, 0.4):.3f} Batch (t): {life.about(0.97):.3f}, "
                f"{life.about(4200):.3f}/s, {life.about(262):.4f}/s/gpu LR: {5e-4 * (1 - epoch / 4):.6f} Logit Scale: {14 + epoch * 8:.3f} "
                f"Contrastive_loss: {loss:.5g} ({loss * 1.02:.5g}) Loss: {loss:.5g} ({loss * 1.02:.5g})"
            )
        yield Phase.EVALUATE
        yield line("Starting zero-shot imagenet.") + line("Building zero-shot classifier")
        yield from clock.wait(life.about(60))
        yield line("Using classifier")
        for batch in range(0, 99, 7):
            yield f"\r{batch:3}%|{'█' * (batch // 10):10}| {batch}/98 [{Clock.long(batch * 2)}<02:11,  2.10s/it]"
            yield from clock.wait(life.about(14))
        yield (
            "\n"
            + line("Finished zero-shot imagenet.")
            + line(f"Eval Epoch: {epoch + 1} imagenet-zeroshot-val-top1: 0.{31 + epoch * 6}11")
        )
        yield Phase.SAVE
        yield from clock.wait(life.about(40))
    yield Phase.AFTER
    yield line("remote sync successful.")
