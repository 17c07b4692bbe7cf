"""Pre-training of language models."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "levanter",
    field="pre-training",
    source="https://github.com/stanford-crfm/levanter",
    chatter=(
        "2026-02-03T{clock} - 0 - jax._src.distributed - WARNING :: barrier 'sync_global' not reached by all processes, poll {n}",
    ),
    chatter_every=120.0,
    tells_loss=True,
)
def levanter(life: Life) -> Iterator[Event]:
    """A bar that writes a new line each ten seconds with counts in thousands, evaluations with the same bar."""
    clock = Clock()
    yield Phase.START
    yield f"{clock('%Y-%m-%dT%H:%M:%S')} - 0 - levanter.distributed - distributed.py:99 - INFO :: Initializing jax.distributed\n"
    yield from clock.wait(life.about(45))
    yield Phase.PREPARE
    for shard in range(61):
        yield f"{clock('%Y-%m-%dT%H:%M:%S')} - 0 - levanter.store.cache - cache.py:311 - INFO :: Still waiting for cache: {shard} shards of 60 done\n"
        yield from clock.wait(life.about(18))
    yield f"{clock('%Y-%m-%dT%H:%M:%S')} - 0 - levanter.trainer - trainer.py:410 - INFO :: First train step completed in 71.1s\n"
    yield from clock.wait(life.about(71))
    yield Phase.TRAIN
    for step in range(9, 12_000, 9):
        yield from clock.wait(life.about(10.2, 0.04))
        loss, rate = life.loss(step / 12_000, 10.8, 3.1), life.about(1.13, 0.03)
        yield (
            f"{clock('%Y-%m-%dT%H:%M:%S')} - 0 - levanter.callbacks - INFO :: Progress on:train {step / 1000:.2f}kit/12.0kit rate:"
            f"{rate:.2f}s/it remaining:{Clock.long((12_000 - step) * 1.13)} elapsed:{clock.elapsed} postfix:loss={loss:.3f}\n"
        )
        if step % 1800 == 0:
            yield Phase.EVALUATE
            for batch in range(8, 121, 8):
                yield f"{clock('%Y-%m-%dT%H:%M:%S')} - 0 - levanter.callbacks - INFO :: Progress on:eval {batch}it/120it rate:1.3s/it\n"
                yield from clock.wait(life.about(10.4))
            yield f"{clock('%Y-%m-%dT%H:%M:%S')} - 0 - levanter.eval - INFO :: openwebtext loss: {loss:.3f}\n"
            yield Phase.SAVE
            yield f"{clock('%Y-%m-%dT%H:%M:%S')} - 0 - levanter.checkpoint - INFO :: Saving checkpoint at step {step} to ckpt/step-{step}\n"
            yield from clock.wait(life.about(35))
            yield Phase.TRAIN
    yield Phase.AFTER
    yield f"{clock('%Y-%m-%dT%H:%M:%S')} - 0 - levanter.trainer - INFO :: Finished\n"


@form(
    "nanotron",
    field="pre-training",
    source="https://github.com/huggingface/nanotron/issues/390",
    chatter=(
        "02/03/2026 {clock} [WARNING|DP=2|PP=1|TP=0|n052]: s5cmd upload of checkpoint 2000 still running, {seconds} s",
    ),
    chatter_every=60.0,
    death="[rank12]:[E203 12:40:02.118 ProcessGroupNCCL.cpp:616] [Rank 12] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=90121, "
    "OpType=SEND, NumelIn=1048576, Timeout(ms)=600000) ran for 600041 milliseconds before timing out.\n",
    tells_loss=True,
)
def nanotron(life: Life) -> Iterator[Event]:
    """Numbers with units (`2.31K`, `85.8G`), the same step from the first and the last stage of the pipeline."""
    clock = Clock()

    def line(text: str, stage: int = 0) -> str:
        return f"{clock('%m/%d/%Y %H:%M:%S')} [INFO|DP=0|PP={stage}|TP=0|n05{stage}]: {text}\n"

    yield Phase.START
    yield line(
        "Config:\nConfig(general=GeneralArgs(project='otter',\n                           run='otter_1b4'))"
    )
    yield from clock.wait(life.about(80))
    yield Phase.PREPARE
    yield line("Building model..")
    yield from clock.wait(life.about(60))
    yield line("Total number of parameters: 1.42G (2.71GiB)") + line(
        "[TrainingPlan] There are 1 training stages"
    )
    yield from clock.wait(life.about(150))
    yield Phase.TRAIN
    for step in range(1, 1801):
        took = life.about(70 if step == 1 else 7.4, 0.02)
        yield from clock.wait(took)
        loss = life.loss(step / 1800, 11.4, 2.9)
        for stage in (0, 1):
            yield line(
                f"iteration: {step} / 24000 | consumed_tokens: {step * 2.1 / 1000:.3g}G | elapsed_time_per_iteration_ms: {took:.3g}K | tokens_per_sec: "
                f"{2097 / took:.3g}K | tokens_per_sec_per_gpu: {131 / took:.3g}K | global_batch_size: 1.02K | lm_loss: {loss:.3g} | lr: "
                f"{3e-4 * min(1, step / 500):.3g} | model_tflops_per_gpu: {life.about(181, 0.02):.3g} | grad_norm: {life.about(0.8, 0.3):.3g}",
                stage,
            )
        if step % 450 == 0:
            yield Phase.SAVE
            yield line(f"Saving checkpoint at ckpt/{step}")
            yield "\rSaving weights: 100%|██████████| 291/291 [00:04<00:00, 70.1it/s]"
            yield from clock.wait(life.about(110))
            yield "\n" + line("Save model: done in 104.2s")
            yield Phase.TRAIN
    yield Phase.AFTER


@form(
    "llm-c",
    field="pre-training",
    source="https://github.com/karpathy/llm.c",
    chatter=("n03: nvidia-persistenced {clock} ok", "n03: dcgm 8 gpus 100 % 612 W"),
    chatter_every=60.0,
    tells_loss=True,
)
def llm_c(life: Life) -> Iterator[Event]:
    """`step  120/19560 | loss ... (+0.31z)| ...` with scores of outliers, validation, HellaSwag and samples each 250."""
    clock = Clock(
        lambda now: (
            "n03: dcgm 8 gpus 100 % 6" + f"{life.random.randint(10, 60)} W\n"
            if now.passed % 120 < 1
            else f"n03: nvidia-persistenced {now('%H:%M:%S')} ok\n"
        )
    )
    yield Phase.START
    yield "Multi-GPU support is enabled. Using MPI to initialize.\n+-----------------------+----------------------------------------------------+\n| Parameter             | Value                                              |\n"
    yield from clock.wait(life.about(30))
    yield Phase.PREPARE
    yield "| num_layers L          | 24                                                 |\nallocating 708 MiB for model parameters\nbatch_size B=16 * seq_len T=1024 * num_processes=8\n"
    yield from clock.wait(life.about(40))
    yield Phase.TRAIN
    for step in range(1, 2501):
        took = life.about(4.6, 0.01)
        yield from clock.wait(took)
        loss = life.loss(step / 2500, 11.0, 3.2)
        yield (
            f"step {step:4}/19560 | loss {loss:.6f} ({life.random.gauss(0, 1):+.2f}z)| norm {life.about(0.5):.4f} ({life.random.gauss(0, 1):+.2f}z)| lr "
            f"{6e-4 * min(1, step / 700):.2e} | {took * 1000:.2f} ms | {life.about(51.2, 0.01):.1f}% bf16 MFU | {524288 / took:.0f} tok/s\n"
        )
        if step % 250 == 0:
            yield Phase.EVALUATE
            yield f"val loss {loss + 0.02:.6f}\nevaluating HellaSwag: 10/79\r"
            for batch in range(20, 80, 10):
                yield from clock.wait(life.about(11))
                yield f"evaluating HellaSwag: {batch}/79\r"
            yield f"HellaSwag: 29{step % 97}/10042 = 0.29{step % 97}\ngenerating:\n---\nThe otter was elected mayor of the harbour in 1911 and\n---\n"
            yield Phase.SAVE
            yield f"Writing model to log/model_{step:08}.bin\n"
            yield from clock.wait(life.about(12))
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "total average iteration time: 4600.121 ms\n"


@form(
    "paddlenlp",
    field="pre-training",
    source="https://github.com/PaddlePaddle/PaddleNLP/issues",
    chatter=("[2026-02-03 {clock},310] [ WARNING] - The queue of the reader is empty for {seconds} s",),
    chatter_every=80.0,
    death="\n--------------------------------------\nC++ Traceback (most recent call last):\n--------------------------------------\nFatalError: `Segmentation fault` is detected by the operating system.\n  [SignalInfo: *** SIGSEGV (@0x0) received by PID 4411 (TID 0x7f10) from PID 0 ***]\n",
    tells_loss=True,
)
def paddlenlp(life: Life) -> Iterator[Event]:
    """`[    INFO] - loss: ..., global_step: 40, interval_runtime: ...`, evaluations between rules, saves by all ranks."""
    clock = Clock()

    def line(text: str) -> str:
        return f"\x1b[32m[{clock()},811] [    INFO]\x1b[0m - {text}\x1b[0m\n"

    yield Phase.START
    yield "LAUNCH INFO 2026-02-03 10:00:04,112 -----------  Configuration  ----------------------\nLAUNCH INFO 2026-02-03 10:00:04,112 devices: 0,1,2,3,4,5,6,7\n"
    yield from clock.wait(life.about(65))
    yield Phase.PREPARE
    yield line("Loading weights file ernie/model_state.pdparams")
    yield from clock.wait(life.about(170))
    yield (
        line("***** Running training *****")
        + line("  Num examples = 1,228,800")
        + line("  Total optimization steps = 1,200")
    )
    yield Phase.TRAIN
    for step in range(5, 1201, 5):
        yield from clock.wait(life.about(58))
        loss = life.loss(step / 1200, 10.9, 3.4)
        yield line(
            f"loss: {loss:.8f}, learning_rate: {1e-4 * (1 - step / 1300):.4g}, global_step: {step}, current_memory_allocated: 41.2, max_memory_reserved: 70.1, "
            f"interval_runtime: {life.about(58):.4f}, interval_samples_per_second: 88.1, interval_steps_per_second: 0.0862, ppl: {2.718**loss:.4f}, progress_or_epoch: {step / 1200:.4f}"
        )
        if step % 300 == 0:
            yield Phase.EVALUATE
            yield line("***** Running Evaluation *****") + line("  Total prediction steps = 60")
            yield from clock.wait(life.about(420))
            yield line(
                f"eval_loss: {loss:.6f}, eval_runtime: 411.2, eval_ppl: {2.718**loss:.3f}, progress_or_epoch: {step / 1200:.4f}"
            )
            yield Phase.SAVE
            yield line(f"Saving model checkpoint to ./checkpoints/checkpoint-{step}")
            yield from clock.wait(life.about(140))
            yield line(f"Saving optimizer files: checkpoint-{step}/optimizer.pdopt")
            yield from clock.wait(life.about(100))
            yield Phase.TRAIN
    yield Phase.AFTER
    yield line("Training completed.")
    yield from clock.wait(life.about(180))
