"""What a reader of logs is least ready for: counts that fall, buffers, tables that are drawn again, survived deaths."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form

MONITOR = ("2027/01/15 {clock}.214, 0, 100 %, 61 %, 124.1{n} W, 42",)


@form(
    "mini-batches-to-go",
    field="home-made",
    source="scripts of students: print(f'{len(loader) - i} mini-batches to go')",
    chatter=("[{clock}] heartbeat {n} from worker 3, alive for {seconds}s",),
    death="Traceback (most recent call last):\n  File \"fit.py\", line 88, in <module>\n    main()\nKeyError: 'shard-00412'\n",
)
def mini_batches_to_go(life: Life) -> Iterator[Event]:
    """A count that falls within each epoch, and begins anew from above."""
    clock = Clock()
    yield Phase.START
    yield "4 GPUs, 1204 mini-batches an epoch\n"
    yield Phase.PREPARE
    yield from clock.wait(life.about(300))
    for epoch in range(1, 7):
        yield Phase.TRAIN
        for left in range(1204, 0, -12):
            yield f"[ep {epoch}] {left} mini-batches to go, obj {life.loss(epoch / 7, 6, 2):.4f}\n"
            yield from clock.wait(life.about(21))
        yield Phase.EVALUATE
        yield "dev set\n"
        yield from clock.wait(life.about(240))


@form(
    "buffered-stdout",
    field="home-made",
    source="https://stackoverflow.com (python's stdout in a file is written in blocks of 8 KiB)",
    chatter=MONITOR,
    chatter_every=60.0,
)
def buffered(life: Life) -> Iterator[Event]:
    """Nobody flushes: some 130 lines at once, each twenty minutes, the last of them cut."""
    clock, said, step = Clock(), "", 0
    yield Phase.START
    yield "srun: job 88 has been allocated resources\n"
    yield Phase.TRAIN
    while step < 2600:
        step += 1
        said += f"step {step:7d}  loss {life.loss(step / 2600, 8, 2):.5f}  lr 2.000e-04  tok/s {life.random.randint(41_000, 43_000)}\n"
        yield from clock.wait(life.about(8.2))
        if len(said) > 8192:
            yield said[:8192]
            said = said[8192:]


@form(
    "only-percents",
    field="data preparation",
    source="progress of tools that print whole percents each minute",
    chatter=("[{clock}] heartbeat {n} from worker 3, alive for {seconds}s",),
)
def only_percents(life: Life) -> Iterator[Event]:
    """The same percent in a row of lines: it rises once in a quarter of an hour."""
    clock = Clock()
    yield Phase.START
    yield "reading the index\n"
    yield from clock.wait(life.about(70))
    yield Phase.TRAIN
    for minute in range(420):
        yield f"processing... {minute // 14}%\n"
        yield from clock.wait(life.about(60, 0.02))


@form(
    "optuna-survives",
    field="search of parameters",
    source="https://github.com/optuna/optuna/issues/2864 (trials that fail of memory)",
    chatter=("[{clock}] heartbeat {n} from the storage's keeper",),
)
def optuna(life: Life) -> Iterator[Event]:
    """Each ninth trial runs out of the GPU's memory, is logged with its traceback, and the next one begins."""
    clock = Clock()
    yield Phase.START
    yield f"[I {clock()}] A new study created in RDB with name: sweep-9\n"
    yield Phase.TRAIN
    for trial in range(42):
        yield from clock.wait(life.about(480, 0.2))
        if trial % 9 == 5:
            yield (
                f"[W {clock()}] Trial {trial} failed with parameters: {{'width': 2048}} because of the following error: "
                "OutOfMemoryError('CUDA out of memory. Tried to allocate 3.81 GiB').\nTraceback (most recent call last):\n"
                '  File "/opt/env/lib/python3.11/site-packages/optuna/study/_optimize.py", line 201, in _run_trial\n'
                "    value_or_values = func(trial)\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.81 GiB.\n"
                f"[W {clock()}] Trial {trial} failed with value None.\n"
            )
        else:
            yield (
                f"[I {clock()}] Trial {trial} finished with value: {life.random.uniform(0.8, 0.95):.6f} and parameters: "
                f"{{'n_layers': {life.random.randint(1, 4)}, 'width': {life.random.randint(64, 900)}}}. Best is trial 3 with value: 0.9511.\n"
            )


@form(
    "ray-tune-drawn-again",
    field="search of parameters",
    source="https://github.com/ray-project/ray/pull/3498 (its status table, each half minute)",
    chatter=(
        "== Status ==\nCurrent time: {clock} (running for 03:1{n}:00.11)\n| PPO_walker_00000 | RUNNING | 10.2.0.4:860 | 52 | 10930.4 | 416000 |\n| PPO_walker_00001 | RUNNING | 10.2.0.4:861 | 49 | 10299.8 | 392000 |",
    ),
)
def ray_tune(life: Life) -> Iterator[Event]:
    """The table of all trials is drawn again whether or not anything is new in it."""
    clock, done = Clock(), [0, 0]
    yield Phase.START
    yield "INFO worker.py:1538 -- Started a local Ray instance.\n"
    yield from clock.wait(life.about(80))
    yield Phase.TRAIN
    for draw in range(600):
        if draw % 4 == 3:
            which = life.random.randrange(2)
            done[which] += 1
            yield f"Result for PPO_walker_{which:05d}:\n  episode_reward_mean: {done[which] * 8.1 - 900:.3f}\n  training_iteration: {done[which]}\n"
        rows = "".join(
            f"| PPO_walker_{row:05d} | RUNNING | 10.2.0.4:86{row} | {each} | {each * 210.2:.1f} | {each * 8000} |\n"
            for row, each in enumerate(done)
        )
        yield f"== Status ==\nCurrent time: {clock()} (running for 00:{draw // 2:02d}:00.11)\n{rows}"
        yield from clock.wait(life.about(30, 0.02))


@form(
    "rollouts-collected",
    field="reinforcement learning from rewards",
    source="https://github.com/thinking-machines-lab/tinker-cookbook/pull/822 (waits for rollouts)",
    chatter=(
        "{clock} WARNING [training_loop] Step 40: waiting for rollouts (63/64 groups collected, 1 in flight)",
    ),
)
def rollouts(life: Life) -> Iterator[Event]:
    """A warning each half minute that says how many are there; one total is reached in every step."""
    clock = Clock()
    yield Phase.START
    yield "loading the sampler\n"
    yield from clock.wait(life.about(200))
    yield Phase.TRAIN
    for step in range(40):
        there = 0
        while there < 64:
            there = min(64, there + life.random.randint(0, 8))
            yield from clock.wait(life.about(30, 0.02))
            yield f"{clock()} WARNING [training_loop] Step {step}: waiting for rollouts ({there}/64 groups collected, {life.random.randint(80, 128)} in flight)\n"
        yield from clock.wait(life.about(60))
        yield f"{clock()} INFO [training_loop] Step {step}: done reward/total {0.2 + step / 900:.4f} kl {life.random.uniform(0.001, 0.01):.5f}\n"


@form(
    "elastic-thrice",
    field="launchers",
    source="https://github.com/pytorch/pytorch (elastic agent: restarts its worker group)",
    chatter=MONITOR,
    chatter_every=60.0,
)
def elastic(life: Life) -> Iterator[Event]:
    """The group dies twice of a rank and is started anew, from a checkpoint some steps before."""
    clock, step = Clock(), 0
    for attempt in range(3):
        yield Phase.START
        yield f"[{clock()}] rendezvous round {attempt} world_size=16\n"
        yield from clock.wait(life.about(540 if attempt else 240))
        yield Phase.TRAIN
        step = max(step - 37, 0)
        for _ in range(250):
            step += 1
            yield f"s={step} | J={life.loss(step / 750, 6, 2):.4f} | |g|={life.random.uniform(0.2, 0.5):.3f} | 9.81s\n"
            yield from clock.wait(life.about(19))
        if attempt < 2:
            yield (
                'Traceback (most recent call last):\n  File "/opt/app/train.py", line 201, in step\n    out = model(batch)\n'
                f"RuntimeError: NCCL communicator was aborted on rank 7.\n[{clock()}] Worker group FAILED. {3 - attempt}/3 attempts left; will restart worker group\n"
            )


@form(
    "caret-folds",
    field="statistics",
    source="https://topepo.github.io/caret (verboseIter)",
    chatter=("/dev/data0  98T  61T  37T  63% /data",),
    chatter_every=300.0,
    death="Error in `[.data.frame`(x, idx) : undefined columns selected\nCalls: train -> fit\nExecution halted\n",
)
def caret(life: Life) -> Iterator[Event]:
    """No count at all but the fold's and the repetition's, in names."""
    clock = Clock()
    yield Phase.START
    yield "Loading required package: lattice\n"
    yield from clock.wait(life.about(120))
    yield Phase.TRAIN
    for repetition in range(1, 5):
        for fold in range(1, 11):
            for mtry in (2, 8, 14):
                said = f"Fold{fold:02d}.Rep{repetition}: mtry={mtry}, min.node.size=5, splitrule=variance\n"
                yield f"+ {said}"
                yield from clock.wait(life.about(55 * (1 + mtry / 6), 0.2))
                yield f"- {said}"


@form(
    "simulated-dates",
    field="oceans",
    source="https://github.com/E3SM-Project/E3SM/issues/743 (components that tell a date alone)",
    chatter=(
        "[rank7]:[W115 {clock}.112 ProcessGroupNCCL.cpp:1496] Warning: still waiting, waited {seconds}s",
    ),
    chatter_every=60.0,
)
def simulated_dates(life: Life) -> Iterator[Event]:
    """The only clock is a date of the model, twenty minutes further each nine seconds."""
    clock = Clock()
    yield Phase.START
    yield " Reading namelist from file namelist.ocean\n"
    yield Phase.PREPARE
    yield from clock.wait(life.about(480))
    yield Phase.TRAIN
    for step in range(1600):
        day, minute = divmod(20 * step, 1440)
        yield f" Doing timestep 0001-{1 + day // 28:02d}-{1 + day % 28:02d}_{minute // 60:02d}:{minute % 60:02d}:00\n"
        yield from clock.wait(life.about(9))


@form(
    "german-numbers",
    field="home-made",
    source="programs under a German locale: 12.400 is a count, 2,3451 a measure",
    chatter=("WARNUNG: neuer Versuch {n}, Verbindung zu metrics:4317",),
    chatter_every=45.0,
)
def german(life: Life) -> Iterator[Event]:
    """Points between thousands, commas before decimals."""
    clock = Clock()
    yield Phase.START
    yield "Daten werden geladen ...\n"
    yield Phase.PREPARE
    yield from clock.wait(life.about(420))
    yield Phase.TRAIN
    for step in range(100, 50_001, 100):
        loss = f"{life.loss(step / 50_000, 6, 2):.4f}".replace(".", ",")
        yield f"Schritt {step:,}".replace(",", ".") + f"   Verlust {loss}   (3,2 s je Schritt)\n"
        yield from clock.wait(life.about(32))
        if step % 10_000 == 0:
            yield Phase.SAVE
            yield "Zwischenstand wird gesichert\n"
            yield from clock.wait(life.about(180))
            yield Phase.TRAIN
