"""Vision: detection, classification, segmentation."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "yolo",
    field="vision",
    source="https://github.com/ultralytics/ultralytics/issues",
    chatter=("WARNING dataloader worker (pid 7101) is slow, queue size {n}",),
)
def yolo(life: Life) -> Iterator[Event]:
    """Epochs of three minutes, each a bar that begins anew, and the bar of its validation."""
    yield Phase.START
    yield "Ultralytics 8.3.12 Python-3.11 torch-2.5 CUDA:0 (81GB)\nAMP: running Automatic Mixed Precision (AMP) checks...\n"
    yield life.about(30)
    yield Phase.PREPARE
    for image in range(0, 118_001, 2_000):
        yield f"\rtrain: Scanning labels/train2017... {image} images, 12 backgrounds, 0 corrupt: {image // 1180}%|█"
        yield life.about(7)
    yield "\nStarting training for 40 epochs...\n"
    for epoch in range(1, 41):
        yield Phase.TRAIN
        yield "\n      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
        for batch in range(0, 925, 37):
            yield life.about(7)
            yield (
                f"\r      {epoch}/40      41.2G     {life.loss(epoch / 40, 3, 1):.3f}      1.4{batch % 10}      1.21"
                f"        211        640: {batch // 9}%|█| {batch}/925 [01:{batch % 60:02}<02:11,  5.10it/s]"
            )
        yield Phase.EVALUATE
        yield "\n"
        for batch in range(0, 79, 13):
            yield life.about(5)
            yield f"\r                 Class     Images  Instances      Box(P          R      mAP50: {batch}%|█| {batch}/79"
        yield f"\n                   all       5000      36335      0.6{epoch}      0.5{epoch}      0.5{epoch}\n"
    yield Phase.AFTER
    yield "\n40 epochs completed in 2.312 hours.\nOptimizer stripped from runs/detect/train/weights/last.pt, 22.5MB\n"
    yield life.about(90)


@form(
    "detectron2",
    field="vision",
    source="https://github.com/facebookresearch/detectron2/issues",
    chatter=("[02/03 {clock} d2.monitor]: host memory 71.2 GB",),
    tells_loss=True,
)
def detectron2(life: Life) -> Iterator[Event]:
    """A line each twenty iterations, an evaluation of a quarter of an hour each 5000."""
    yield Phase.START
    yield "[02/03 10:00:00 detectron2]: Rank of current process: 0. World size: 8\n"
    yield life.about(25)
    yield Phase.PREPARE
    yield "[02/03 10:00:31 d2.data.datasets.coco]: Loading instances_train2017.json takes 19.21 seconds.\n"
    yield life.about(80)
    yield "[02/03 10:02:01 d2.engine.train_loop]: Starting training from iteration 0\n"
    yield Phase.TRAIN
    for iteration in range(19, 20_000, 20):
        yield life.about(9)
        loss = life.loss(iteration / 20_000, 4, 0.8)
        yield (
            f"[02/03 11:00:{iteration % 60:02} d2.utils.events]:  eta: 2:01:12  iter: {iteration}  total_loss: {loss:.4g}  "
            f"loss_cls: 0.4{iteration}  time: 0.4501  data_time: 0.0102  lr: 0.02  max_mem: 11021M\n"
        )
        if iteration % 5000 == 4999:
            yield Phase.EVALUATE
            for image in range(0, 5000, 250):
                yield life.about(45)
                yield f"[02/03 12:00:00 d2.evaluation.evaluator]: Inference done {image}/5000. 0.0811 s/iter. ETA=0:04:11\n"
            yield Phase.TRAIN


@form(
    "imagenet-example",
    field="vision",
    source="https://github.com/pytorch/examples/tree/main/imagenet",
    chatter=("gpu 0: 100 % 312 W 71 C", "gpu 1: 100 % 309 W 70 C"),
    tells_loss=True,
)
def imagenet(life: Life) -> Iterator[Event]:
    """Batches counted anew in each epoch, with averages in brackets, and a test behind each epoch."""
    yield Phase.START
    yield "=> creating model 'resnet50'\n"
    yield life.about(60)
    for epoch in range(6):
        yield Phase.TRAIN
        for batch in range(0, 5005, 50):
            yield life.about(12)
            loss = life.loss((epoch + batch / 5005) / 6, 7, 1.4)
            yield (
                f"Epoch: [{epoch}][{batch:4}/5005]\tTime  0.231 ( 0.240)\tData  0.001 ( 0.009)\t"
                f"Loss {loss:.4e} ({loss * 1.01:.4e})\tAcc@1  {life.random.uniform(40, 60):.2f} ( 51.20)\n"
            )
        yield Phase.EVALUATE
        for batch in range(0, 196, 50):
            yield life.about(14)
            yield f"Test: [{batch:3}/196]\tTime  0.811 ( 0.790)\tLoss 1.9{batch}e+00 (1.90e+00)\tAcc@1  61.11 ( 60.8)\n"
        yield f" *   Acc@1 6{epoch}.120 Acc@5 84.901\n"
