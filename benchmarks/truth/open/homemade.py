"""What people print by themselves."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "number-colon-loss",
    field="home-made",
    source="https://github.com/pjreddie/darknet and many scripts: f'{i}: loss {x}'",
    chatter=("heartbeat {n}",),
    tells_loss=True,
)
def number_colon(life: Life) -> Iterator[Event]:
    """`1012: 3.41` each five seconds."""
    yield Phase.START
    yield "yolov4\nlearning rate: 0.001, momentum: 0.949, decay: 0.0005\n"
    yield life.about(40)
    yield Phase.TRAIN
    for step in range(1, 2500):
        yield life.about(5)
        loss = life.loss(step / 2500, 900, 2)
        yield f" {step}: {loss:.6f}, {loss * 1.02:.6f} avg loss, 0.001000 rate, 4.81 seconds, {step * 64} images\n"


@form(
    "rare-epochs",
    field="home-made",
    source="forum posts of people who print once an epoch",
    chatter=("still here {n}",),
    chatter_every=300.0,
    tells_loss=True,
)
def rare_epochs(life: Life) -> Iterator[Event]:
    """One line an epoch, each 36 minutes, and nothing else."""
    yield Phase.START
    yield "start\n"
    yield Phase.TRAIN
    for epoch in range(18):
        yield life.about(2160, 0.04)
        yield f"ep {epoch} tr {life.loss(epoch / 18, 5, 1):.3f} te {life.loss(epoch / 18, 5, 1.2):.3f}\n"


@form(
    "values-without-count",
    field="home-made",
    source="forum posts: print(loss.item())",
    chatter=("mem 71.2 GB",),
)
def no_count(life: Life) -> Iterator[Event]:
    """The loss alone, each four seconds, and no count at all."""
    yield Phase.START
    yield "cuda:0\n"
    yield life.about(50)
    yield Phase.TRAIN
    for step in range(2400):
        yield life.about(4)
        yield f"{life.loss(step / 2400, 6, 2):.8f}\n"


@form(
    "monitor-beside",
    field="home-made",
    source="job scripts with a loop of nvidia-smi in the background",
    chatter=("{clock} | util 100 % | mem 71202 MiB | temp 61 C | sample {n}",),
    chatter_every=60.0,
    tells_loss=True,
)
def monitor_beside(life: Life) -> Iterator[Event]:
    """A monitor in the job script writes each minute from the first second on, beside the training."""
    yield Phase.START
    clock, sample, next_sample = 0.0, 0, 0.0

    def passing(seconds: float) -> Iterator[Event]:
        nonlocal clock, sample, next_sample
        end = clock + seconds
        while next_sample <= end:
            yield next_sample - clock
            clock, sample, next_sample = next_sample, sample + 1, next_sample + 60.0
            yield f"10:{sample % 60:02}:00 | util {life.random.randint(90, 100)} % | mem 71202 MiB | temp 6{sample % 3} C | sample {sample}\n"
        yield end - clock
        clock = end

    yield from passing(life.about(100))
    yield Phase.PREPARE
    yield "tokenising\n"
    yield from passing(life.about(900))
    yield Phase.TRAIN
    for step in range(1, 1000):
        yield from passing(life.about(11))
        yield f"training step={step} loss={life.loss(step / 1000, 9, 2):.3f}\n"
        if step % 250 == 0:
            yield Phase.EVALUATE
            yield "evaluating ...\n"
            yield from passing(life.about(400))
            yield f"accuracy {0.4 + step / 4000:.3f}\n"
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "uploading\n"
    yield from passing(life.about(700))
