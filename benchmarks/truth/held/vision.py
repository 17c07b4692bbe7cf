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


@form(
    "stylegan",
    field="synthesis of images",
    source="https://github.com/NVlabs/stylegan2-ada-pytorch/issues/182 and https://github.com/NVlabs/stylegan3/issues/216",
    chatter=(
        "torch/nn/modules/module.py:1051: UserWarning: Named tensors and all their associated APIs are an experimental feature.",
    ),
    chatter_every=180.0,
)
def stylegan(life: Life) -> Iterator[Event]:
    """`tick 14    kimg 56.1     time 1h 38m 21s`, a tick of three minutes, metrics each tenth take twelve minutes."""
    clock = Clock()
    yield Phase.START
    yield 'Training options:\n{\n  "num_gpus": 4,\n  "image_snapshot_ticks": 10,\n  "random_seed": 0\n}\nLaunching processes...\n'
    yield from clock.wait(life.about(40))
    yield Phase.PREPARE
    yield 'Loading training set...\nNum images:  61204\nImage shape: [3, 512, 512]\n\nConstructing networks...\nSetting up PyTorch plugin "bias_act_plugin"... '
    yield from clock.wait(life.about(70))
    yield 'Done.\nSetting up PyTorch plugin "upfirdn2d_plugin"... '
    yield from clock.wait(life.about(60))
    yield "Done.\nExporting sample images...\nInitializing logs...\nTraining for 400 kimg...\n\n"
    yield from clock.wait(life.about(50))
    for tick in range(101):
        yield Phase.TRAIN
        took = life.about(8 if tick == 0 else 178, 0.03)
        yield from clock.wait(took)
        hours = (
            f"{int(clock.passed // 3600)}h {int(clock.passed // 60 % 60):02}m {int(clock.passed % 60):02}s"
        )
        yield (
            f"tick {tick:<5} kimg {tick * 4.0:<8.1f} time {hours:<12} sec/tick {took:<7.1f} sec/kimg {took / 4:<7.2f} maintenance {life.about(0.3):<6.1f} "
            f"cpumem 5.88   gpumem 9.79   reserved 10.64  augment {min(0.6, tick * 0.004):.3f}\n"
        )
        if tick % 10 == 0:
            yield Phase.EVALUATE
            yield "Evaluating metrics...\n"
            yield from clock.wait(life.about(1100 if tick == 0 else 700))
            yield f'{{"results": {{"fid50k_full": {8 + 300 / (tick + 1):.6f}}}, "metric": "fid50k_full", "total_time": 701.2, "num_gpus": 4, "snapshot_pkl": "network-snapshot-{tick * 4:06}.pkl"}}\n'
    yield Phase.AFTER
    yield "\nExiting...\n"


@form(
    "metric-logger",
    field="vision",
    source="https://github.com/facebookresearch/detr/issues and https://github.com/facebookresearch/mae/issues",
    chatter=(
        "| distributed init (rank 3): still waiting for rank 5, {seconds} s",
        "nfs: server fs2 not responding, still trying",
    ),
    chatter_every=45.0,
    death="[rank5]: RuntimeError: DataLoader worker (pid(s) 8812, 8813) exited unexpectedly\n",
    tells_loss=True,
)
def metric_logger(life: Life) -> Iterator[Event]:
    """`Epoch: [3]  [ 220/1251]  eta: ...  loss: median (mean)`, a `Test:` of the same form, a JSON line of averages."""
    clock = Clock()
    yield Phase.START
    for rank in range(8):
        yield f"| distributed init (rank {rank}): env://, gpu {rank}\n"
    yield from clock.wait(life.about(35))
    yield Phase.PREPARE
    yield "Namespace(accum_iter=1, batch_size=128, blr=0.00015, epochs=12, mask_ratio=0.75, model='mae_vit_base')\nDataset ImageFolder\n    Number of datapoints: 1281167\n"
    yield from clock.wait(life.about(240))
    yield "Start training for 12 epochs\n"
    for epoch in range(12):
        yield Phase.TRAIN
        for batch in (*range(0, 1251, 20), 1250):
            yield from clock.wait(life.about(9.4) + (30 if batch == 0 else 0))
            loss = life.loss((epoch + batch / 1251) / 12, 1.0, 0.41, 0.01)
            yield (
                f"Epoch: [{epoch}]  [{batch:4}/1251]  eta: {Clock.long((1251 - batch) * 0.47)}  lr: 0.000150  loss: {loss:.4f} ({loss * 1.01:.4f})  "
                f"time: {life.about(0.47):.4f}  data: {life.about(0.01, 0.5):.4f}  max mem: 21011\n"
            )
        yield f"Epoch: [{epoch}] Total time: 0:09:{48 + epoch % 10} (0.4701 s / it)\nAveraged stats: lr: 0.000150  loss: {loss:.4f} ({loss:.4f})\n"
        yield Phase.EVALUATE
        for batch in range(0, 261, 20):
            yield f"Test:  [{batch:3}/261]  eta: 0:0{3 - batch // 90}:01  loss: 0.9{batch} (0.93)  acc1: 71.0{batch} (70.2)  time: 0.61  data: 0.30  max mem: 21011\n"
            yield from clock.wait(life.about(12))
        yield Phase.SAVE
        yield f'{{"train_lr": 0.00015, "train_loss": {loss:.6f}, "epoch": {epoch}, "n_parameters": 111907840}}\n'
        yield from clock.wait(life.about(6))
    yield Phase.AFTER
    yield "Training time 2:30:11\n"


@form(
    "nerfstudio",
    field="scenes",
    source="https://github.com/maturk/dn-splatter/issues/110",
    chatter=("[{clock}] websocket: viewer client lost, waiting for a new one",),
    chatter_every=30.0,
)
def nerfstudio(life: Life) -> Iterator[Event]:
    """Three scenes of the job script in a row, each `4090 (13.63%)  43.140 ms  12 m, 39 s  14.86 M` without a loss."""
    clock = Clock()
    for scene in ("harbour", "quarry", "library"):
        yield Phase.START
        yield f"+ ns-train nerfacto-huge --data data/{scene}\n[{clock('%H:%M:%S')}] Saving config to: outputs/{scene}/nerfacto/config.yml                      experiment_config.py:136\n"
        yield from clock.wait(life.about(30))
        yield Phase.PREPARE
        for image in range(0, 901, 9):
            yield f"\rLoading data batch: {image // 9:3}% {'━' * (image // 40)} {image}/900 0:0{image // 400}:11"
            yield from clock.wait(life.about(2.5))
        yield (
            "\nStep (% Done)       Train Iter (time)    ETA (time)           Train Rays / Sec\n"
            + "-" * 81
            + "\n"
        )
        yield Phase.TRAIN
        for step in range(0, 100_001, 100):
            took = life.about(4.1)
            yield from clock.wait(took)
            left = int((100_000 - step) * 0.041)
            yield f"{step} ({step / 1000:.2f}%)       {took * 10:.3f} ms            {left // 60} m, {left % 60} s         {life.about(1.2):.2f} M\n"
            if step % 25_000 == 0 and step:
                yield Phase.EVALUATE
                yield "Evaluating all images ...\n"
                yield from clock.wait(life.about(150))
                yield Phase.TRAIN
        yield f"╭─────── 🎉 Training Finished 🎉 ───────╮\n│  Config File    outputs/{scene}/nerfacto/config.yml │\n╰───────────────────────────────────────╯\n"
    yield Phase.AFTER
    for frame in range(0, 241, 4):
        yield f"\r🎥 Rendering 🎥 {frame * 100 // 240}% {'━' * (frame // 10)} {frame}/240 0.{frame % 9}1 fps"
        yield from clock.wait(life.about(6))
    yield "\n"
