"""Vision: detection, reading, segmentation of medical images, models of image and text."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "mmengine",
    field="vision",
    source="https://github.com/open-mmlab/mmdetection/issues",
    chatter=("02/03 {clock} - mmengine - WARNING - The file client petrel is slow, {n} retries",),
    chatter_every=60.0,
    tells_loss=True,
)
def mmengine(life: Life) -> Iterator[Event]:
    """`Epoch(train) [3][ 50/1466]` and `Epoch(val) [3][ 50/625]` by turns, learning rates, eta of days."""
    clock = Clock()

    def line(text: str) -> str:
        return f"{clock('%m/%d %H:%M:%S')} - mmengine - INFO - {text}\n"

    yield Phase.START
    yield line(
        "\n"
        + "-" * 60
        + "\nSystem environment:\n    sys.platform: linux\n    CUDA available: True\n    MMEngine: 0.10.4"
    )
    yield from clock.wait(life.about(50))
    yield Phase.PREPARE
    yield "loading annotations into memory...\n"
    yield from clock.wait(life.about(70))
    yield "Done (t=68.21s)\ncreating index...\nindex created!\n"
    yield line("Checkpoints will be saved to work_dirs/dino_otters.")
    for epoch in range(1, 13):
        yield Phase.TRAIN
        for batch in range(50, 1467, 50):
            yield from clock.wait(life.about(37))
            loss = life.loss((epoch - 1 + batch / 1466) / 12, 28, 6)
            yield line(
                f"Epoch(train)  [{epoch}][{batch:4}/1466]  base_lr: 1.0000e-04 lr: 1.0000e-04  eta: {12 - epoch}:11:02  time: {life.about(0.74):.4f}  "
                f"data_time: 0.0102  memory: 14123  grad_norm: {life.about(70, 0.3):.4f}  loss: {loss:.4f}  loss_cls: {loss / 9:.4f}  loss_bbox: {loss / 7:.4f}"
            )
        yield Phase.SAVE
        yield line(f"Saving checkpoint at {epoch} epochs")
        yield from clock.wait(life.about(10))
        yield Phase.EVALUATE
        for batch in range(50, 626, 50):
            yield line(
                f"Epoch(val)  [{epoch}][{batch}/625]    eta: 0:0{batch % 4}:11  time: 0.3110  data_time: 0.0061  memory: 2201"
            )
            yield from clock.wait(life.about(15))
        yield line("Evaluating bbox...")
        yield "Loading and preparing results...\nDONE (t=1.87s)\nRunning per image evaluation...\n"
        yield from clock.wait(life.about(85))
        yield f"DONE (t=71.20s).\n Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.{300 + epoch * 12}\n"
        yield line(
            f"Epoch(val) [{epoch}][625/625]    coco/bbox_mAP: 0.{300 + epoch * 12}  data_time: 0.0061  time: 0.3110"
        )
    yield Phase.AFTER


@form(
    "paddleocr",
    field="vision",
    source="https://github.com/PaddlePaddle/PaddleOCR/issues/16562",
    chatter=(
        "I0203 {clock}.331 4410 tcp_store.cc:292] receive shutdown event? false, waiting ({n})",
        "[gpu monitor] util 100 mem 11326",
    ),
    chatter_every=40.0,
    tells_loss=True,
)
def paddleocr(life: Life) -> Iterator[Event]:
    """Steps that count on over short epochs, a bar `eval model::` each 1500, a monitor beside each two minutes."""
    clock = Clock(
        lambda _: (
            f"[gpu monitor] util {life.random.randint(60, 100)} mem {life.random.randint(11200, 11400)}\n"
        ),
        120.0,
    )

    def line(text: str) -> str:
        return f"[{clock('%Y/%m/%d %H:%M:%S')}] ppocr INFO: {text}\n"

    yield Phase.START
    yield line("Architecture : ") + line("    model_type : det") + line("profiler_options : None")
    yield from clock.wait(life.about(45))
    yield Phase.PREPARE
    yield line("Initialize indexs of datasets:['/data/receipts/train.txt']")
    yield from clock.wait(life.about(110))
    yield line(
        "During the training process, after the 0th iteration, an evaluation is run every 1500 iterations"
    )
    step = 0
    for epoch in range(1, 61):
        yield Phase.TRAIN
        for _ in range(3):
            yield from clock.wait(life.about(68))
            step += 30
            loss = life.loss(step / 5400, 4.2, 0.9)
            yield line(
                f"epoch: [{epoch}/60], global_step: {step}, lr: 0.001000, loss: {loss:.6f}, loss_shrink_maps: {loss * 0.5:.6f}, loss_threshold_maps: "
                f"{loss * 0.4:.6f}, avg_reader_cost: {life.about(1.8):.5f} s, avg_batch_cost: {life.about(2.2):.5f} s, avg_samples: 16.0, "
                f"ips: 7.31 samples/s, eta: 3:1{epoch % 10}:02, max_mem_reserved: 11326 MB, max_mem_allocated: 10599 MB"
            )
        yield Phase.SAVE
        yield line("save model in ./output/det_receipts/latest")
        yield from clock.wait(life.about(4))
        if epoch % 15 == 0:
            yield Phase.EVALUATE
            for image in range(0, 501, 10):
                yield f"\reval model:: {image // 5:3}%|{'█' * (image // 50):10}| {image}/500 [{Clock.long(image)}<05:11,  1.02s/it]"
                yield from clock.wait(life.about(9))
            yield "\n" + line(
                f"cur metric, precision: 0.8{epoch}, recall: 0.7{epoch}, hmean: 0.7{epoch}, fps: 19.1"
            )
    yield Phase.AFTER
    yield line("best metric, hmean: 0.8312, epoch: 57")


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
    "keras-fit",
    field="vision",
    source="https://github.com/keras-team/keras/issues",
    chatter=(
        "2026-02-03 {clock}.118201: I tensorflow/core/framework/local_rendezvous.cc:404] Local rendezvous is aborting with status: OUT_OF_RANGE",
    ),
    chatter_every=60.0,
    tells_loss=True,
)
def keras_fit(life: Life) -> Iterator[Event]:
    """A bar of Keras 3 that goes back in its line, the epoch's line with val_loss after a silent validation."""
    clock = Clock()
    yield Phase.START
    yield "2026-02-03 10:00:07.201331: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on.\nFound 128116 files belonging to 1000 classes.\n"
    yield from clock.wait(life.about(110))
    yield Phase.PREPARE
    yield 'Model: "convnext_tiny"\n┏━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┓\n┃ Layer (type)  ┃      Param # ┃\n┗━━━━━━━━━━━━━━━┻━━━━━━━━━━━━━━┛\n Total params: 28,589,128 (109.06 MB)\n'
    yield from clock.wait(life.about(40))
    for epoch in range(1, 16):
        yield Phase.TRAIN
        yield f"Epoch {epoch}/15\n"
        for batch in range(1, 2002, 10):
            yield from clock.wait(life.about(100 if (epoch, batch) == (1, 1) else 3.7))
            loss = life.loss((epoch - 1 + batch / 2002) / 15, 6.9, 1.2)
            yield (
                f"\r\x1b[1m{batch:4}/2002\x1b[0m \x1b[32m{'━' * (batch // 100)}\x1b[0m\x1b[37m{'━' * (20 - batch // 100)}\x1b[0m \x1b[1m"
                f"{Clock.long((2002 - batch) * 0.37)[2:]}\x1b[0m 371ms/step - accuracy: {0.9 - loss / 8:.4f} - loss: {loss:.4f}"
            )
        yield Phase.EVALUATE
        yield f"\r\x1b[1m2002/2002\x1b[0m \x1b[32m{'━' * 20}\x1b[0m \x1b[1m0s\x1b[0m 371ms/step - accuracy: {0.9 - loss / 8:.4f} - loss: {loss:.4f}"
        yield from clock.wait(life.about(140))
        yield f"\nEpoch {epoch}: val_accuracy improved to 0.{50 + epoch}11, saving model to best.keras\n"
        yield (
            f"\r\x1b[1m2002/2002\x1b[0m \x1b[32m{'━' * 20}\x1b[0m \x1b[1m{742 + epoch}s\x1b[0m 371ms/step - accuracy: {0.9 - loss / 8:.4f} - loss: {loss:.4f} - "
            f"val_accuracy: 0.{50 + epoch}11 - val_loss: {loss * 1.1:.4f} - learning_rate: 1.0000e-04\n"
        )
    yield Phase.AFTER
    yield "Restoring model weights from the end of the best epoch: 14.\n"
    yield from clock.wait(life.about(90))


@form(
    "timm",
    field="vision",
    source="https://github.com/huggingface/pytorch-image-models/issues",
    chatter=(
        "[W203 {clock}.551 socket.cpp:697] [c10d] The IPv6 network addresses of (n08, 29500) cannot be retrieved",
    ),
    chatter_every=60.0,
    death="[rank6]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, remote process exited or there was a network error\n",
    tells_loss=True,
)
def timm(life: Life) -> Iterator[Event]:
    """`Train: 3 [ 200/1251 ( 16%)]` each fiftieth batch, `Test: [..]` with averages, the list of best checkpoints."""
    clock = Clock()
    yield Phase.START
    yield "Training in distributed mode with multiple processes, 1 device per process.Process 0, total 8, device cuda:0.\n"
    yield from clock.wait(life.about(40))
    yield Phase.PREPARE
    yield "Model vit_small_patch16_224 created, param count:22050664\nData processing configuration for current model + dataset:\n\tinput_size: (3, 224, 224)\n"
    yield from clock.wait(life.about(75))
    yield "Scheduled epochs: 300. LR stepped per epoch.\n"
    for epoch in range(121, 141):
        yield Phase.TRAIN
        for batch in (*range(0, 1251, 50), 1250):
            yield from clock.wait(life.about(16.5) + (25 if batch == 0 else 0))
            loss = life.loss((epoch - 121 + batch / 1251) / 20, 3.3, 2.9, 0.05)
            yield (
                f"Train: {epoch} [{batch:>4d}/1251 ({batch * 100 / 1250:>3.0f}%)]  Loss: {loss:#.3g} ({loss * 1.01:#.3g})  Time: {life.about(0.33):.3f}s, "
                f"{life.about(3100):>7.2f}/s  (0.331s, 3093.65/s)  LR: {5e-4:.3e}  Data: 0.012 (0.021)\n"
            )
        yield Phase.EVALUATE
        for batch in (0, 24, 48):
            yield f"Test: [{batch:>4d}/48]  Time: 0.411 (0.611)  Loss:   1.0{batch} ( 1.31)  Acc@1:  70.{batch} ( 69.1)  Acc@5:  90.1 ( 89.7)\n"
            yield from clock.wait(life.about(14))
        yield f"Current checkpoints:\n ('./output/train/checkpoint-{epoch}.pth.tar', 69.{epoch})\n ('./output/train/checkpoint-119.pth.tar', 68.91)\n\n"
    yield Phase.AFTER
    yield "*** Best metric: 69.921 (epoch 138)\n"
