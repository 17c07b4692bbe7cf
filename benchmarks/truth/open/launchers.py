"""What launchers and job scripts put around a training's lines."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "srun-labels",
    field="launchers",
    source="https://slurm.schedmd.com/srun.html (--label)",
    chatter=("2: [{clock}] keepalive",),
    chatter_every=60.0,
    death="5: Fatal Python error: Segmentation fault\n5: \n5: Current thread 0x00007f12 (most recent call first):\nsrun: error: n002: task 5: Segmentation fault (core dumped)\n",
    tells_loss=True,
)
def srun_labels(life: Life) -> Iterator[Event]:
    """Eight ranks that all print the same step, each line with its task's number, in any order."""
    yield Phase.START
    for rank in range(8):
        yield f"{rank}: joined group of 8 from n00{rank // 4}\n"
        yield life.about(4)
    yield life.about(120)
    yield Phase.TRAIN
    for step in range(1, 901):
        yield life.about(15, 0.06)
        loss = life.loss(step / 900, 8, 2)
        for rank in life.random.sample(range(8), 8):
            yield f"{rank}: step {step} loss {loss * life.random.gauss(1, 0.01):.3f} ({life.about(15):.1f} s)\n"
        if step % 300 == 0:
            yield Phase.SAVE
            yield f"0: writing state of step {step}\n"
            yield life.about(130)
            yield Phase.TRAIN


@form(
    "torchrun-tee",
    field="launchers",
    source="https://pytorch.org/docs/stable/elastic/run.html (--tee 3)",
    chatter=("[default0]:[{clock}] store barrier: waiting for {n} keys",),
    death="[default1]:[rank1]:[E311 10:00:00.001 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4711, OpType=ALLREDUCE) ran for 600001 milliseconds before timing out.\n",
    tells_loss=True,
)
def torchrun_tee(life: Life) -> Iterator[Event]:
    """`[default0]:` before every line; the elastic agent restarts the group once, and steps begin from the checkpoint."""
    yield Phase.START
    yield "W0311 08:00:01.001000 71 torch/distributed/run.py:757] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n"
    yield life.about(70)
    step, broke = 0, False
    while step < 1500:
        yield Phase.PREPARE
        for rank in range(4):
            yield f"[default{rank}]:loading shard {rank} of weights, resuming at step {step}\n"
        yield life.about(130)
        yield Phase.TRAIN
        while step < 1500:
            step += 1
            yield life.about(11)
            yield f"[default0]:step={step}/1500 loss={life.loss(step / 1500, 6, 1.2):.4f} tok/s={life.about(91000, 0.03):.0f}\n"
            if step % 250 == 0:
                yield f"[default0]:checkpoint of step {step} written\n"
            if step == 820 and not broke:
                broke = True
                yield '[default3]:Traceback (most recent call last):\n[default3]:  File "train.py", line 88, in step\n[default3]:RuntimeError: CUDA error: uncorrectable ECC error encountered\n'
                yield "E0311 10:40:11.001000 71 torch/distributed/elastic/multiprocessing/api.py:826] failed (exitcode: 1) local_rank: 3 (pid: 7104) of binary: python\n"
                yield life.about(40)
                yield "I0311 10:40:51.001000 71 torch/distributed/elastic/agent/server/api.py:870] [default] Worker group FAILED. 3/3 attempts left; will restart worker group\n"
                yield life.about(60)
                step = 750
                break


@form(
    "job-script-stages",
    field="launchers",
    source="https://github.com/espnet/espnet (run.sh: stages)",
    chatter=("[{clock}] squeue: 1 job of this user",),
    chatter_every=120.0,
    tells_loss=True,
)
def stages(life: Life) -> Iterator[Event]:
    """`Stage 1/5` to `5/5`: copying, features with counts, the training, averaging, decoding of an hour with counts."""
    yield Phase.START
    yield "+ module load cuda/12.4\n+ echo Stage 1/5: copy data to local disk\nStage 1/5: copy data to local disk\n"
    yield Phase.PREPARE
    for part in range(1, 13):
        yield f"rsync: part-{part:02}.tar  4.1G  100%  210.11MB/s    0:00:19 (xfr#{part}, to-chk={12 - part}/13)\n"
        yield life.about(35)
    yield "Stage 2/5: features\n"
    for done in range(0, 30_001, 500):
        yield f"features: {done} utterances done\n"
        yield life.about(12)
    yield "Stage 3/5: train\n"
    yield life.about(100)
    yield Phase.TRAIN
    for step in range(20, 8001, 20):
        yield life.about(18)
        yield f"update {step} nll {life.loss(step / 8000, 9, 1.5):.3f} ({step % 2000 // 20} % of this pass)\n"
    yield Phase.AFTER
    yield "Stage 4/5: average the last checkpoints\n"
    yield life.about(140)
    yield "Stage 5/5: decode\n"
    for job in range(1, 33):
        yield life.about(80)
        yield f"decoded part {job} of 32, WER so far 11.{job}\n"
    yield "all stages done\n"


@form(
    "mpirun-tags",
    field="launchers",
    source="https://github.com/horovod/horovod",
    chatter=("[{clock}] [1,2]<stderr>: Stalled ranks: 3",),
    chatter_every=60.0,
    tells_loss=True,
)
def mpirun_tags(life: Life) -> Iterator[Event]:
    """`[1,0]<stdout>:` of each rank; a bar of `Iter #12: 310.2 img/sec` kind and losses of the first rank."""
    yield Phase.START
    for rank in range(4):
        yield f"[1,{rank}]<stderr>:NCCL version 2.20.5+cuda12.4\n"
    yield life.about(90)
    yield Phase.TRAIN
    for epoch in range(1, 11):
        for batch in range(0, 900, 20):
            yield life.about(21)
            loss = life.loss((epoch - 1 + batch / 900) / 10, 7, 2)
            yield f"[1,0]<stdout>:Train Epoch: {epoch} [{batch * 64}/57600 ({batch / 9:.0f}%)]\tLoss: {loss:.6f}\n"
        yield Phase.EVALUATE
        for rank in range(4):
            yield f"[1,{rank}]<stdout>:evaluating shard {rank}\n"
        yield life.about(75)
        yield f"[1,0]<stdout>:Test set: Average loss: {life.loss(epoch / 10, 7, 2.1):.4f}, Accuracy: {50 + epoch}.12%\n"
        yield Phase.TRAIN


@form(
    "accelerate-rank-prefix",
    field="launchers",
    source="https://github.com/huggingface/accelerate",
    chatter=("[rank1]:[W311 {clock}.112 ProcessGroupNCCL.cpp:1250] heartbeat monitor alive",),
    tells_loss=True,
)
def accelerate(life: Life) -> Iterator[Event]:
    """A bar of the whole run whose postfix has loss and lr; previews that are drawn each 200 steps for two minutes."""
    yield Phase.START
    yield "03/11/2026 08:00:01 - INFO - __main__ - Distributed environment: MULTI_GPU  Backend: nccl\nNum processes: 8\n"
    yield life.about(40)
    yield Phase.PREPARE
    yield "03/11/2026 08:00:41 - INFO - __main__ - ***** Running training *****\n03/11/2026 08:00:41 - INFO - __main__ -   Total optimization steps = 2000\n"
    yield life.about(90)
    yield Phase.TRAIN
    for step in range(1, 2001):
        yield life.about(5, 0.06)
        yield f"\rSteps: {step / 20:3.0f}%|{'█' * (step // 200)}| {step}/2000 [{step * 5 // 60:02}:{step * 5 % 60:02}<{(2000 - step) // 12:02}:00,  5.01s/it, lr=1e-5, step_loss={life.loss(step / 2000, 0.4, 0.1):.4f}]"
        if step % 200 == 0:
            yield Phase.SAVE
            yield f"\n03/11/2026 09:00:00 - INFO - accelerate.accelerator - Saving current state to out/checkpoint-{step}\n"
            yield life.about(25)
            yield Phase.EVALUATE
            yield "03/11/2026 09:00:25 - INFO - __main__ - Running validation... \n Generating 4 images with prompt: a lamp.\n"
            yield life.about(120)
            yield Phase.TRAIN
