"""Pre-training of language models."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "nemo-megatron",
    field="pre-training",
    source="https://github.com/NVIDIA-NeMo/Speech/issues/7957",
    chatter=(
        "n011:22017:22611 [3] NCCL INFO [Proxy Service 11] progress thread polls, {seconds} s",
        "[n012:0]:[W203 {clock} socket.cpp:752] [c10d] The client socket cannot be initialized to connect to [n011]:29500",
    ),
    chatter_every=45.0,
    death="[rank5]:[E203 12:31:07.881 ProcessGroupNCCL.cpp:632] [Rank 5] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=40112, OpType=ALLREDUCE, NumelIn=8192, NumelOut=8192, Timeout(ms)=600000) ran for 600031 milliseconds\n",
    tells_loss=True,
)
def nemo_megatron(life: Life) -> Iterator[Event]:
    """One bar over 300,000 steps that is drawn anew with each, a validation with its own bar each 1000."""
    clock = Clock()
    yield Phase.START
    yield "[NeMo I 2026-02-03 10:00:04 exp_manager:396] Experiments will be logged at exp/gpt1b/2026-02-03_10-00-04\n"
    yield from clock.wait(life.about(70))
    yield Phase.PREPARE
    yield "> building indices for blendable datasets ...\n > sample ratios:\n   dataset 0, input: 0.31, achieved: 0.31\n"
    yield from clock.wait(life.about(310))
    yield "[NeMo I 2026-02-03 10:06:21 nlp_overrides:228] Configuring DDP for model parallelism.\n"
    yield from clock.wait(life.about(140))
    yield Phase.TRAIN
    for step in range(41_001, 46_001):
        yield from clock.wait(life.about(95 if step == 41_001 else 2.3, 0.06))
        loss = life.loss((step - 41_000) / 5000, 3.3, 2.8)
        yield (
            f"\rEpoch 0: :  {step / 3015:.0f}%|█▎        | {step}/301500 [{clock.elapsed}<171:40:12, v_num=0-71, "
            f"reduced_train_loss={loss:.3f}, global_step={step:.3g}, consumed_samples={step * 512:.3g}, "
            f"train_step_timing in s={life.about(2.3):.3f}, val_loss=2.950]"
        )
        if step % 1000 == 0:
            yield Phase.EVALUATE
            yield "\n"
            for batch in range(1, 41):
                yield f"\rValidation DataLoader 0: : {batch}/40 [{Clock.long(batch * 3)}<00:40, 0.31it/s]"
                yield from clock.wait(life.about(3.2))
            yield Phase.SAVE
            yield (
                f"\nEpoch 0, global step {step}: 'val_loss' reached {loss:.5f} (best {loss:.5f}), saving model to "
                f"'exp/gpt1b/checkpoints/gpt--val_loss={loss:.2f}-step={step}.ckpt' as top 3\n"
            )
            yield from clock.wait(life.about(85))
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "\n`Trainer.fit` stopped: `max_time=3:30:00` reached.\n"
    yield from clock.wait(life.about(120))


@form(
    "maxtext",
    field="pre-training",
    source="https://github.com/AI-Hypercomputer/maxtext/issues/8",
    chatter=(
        "I0203 {clock}.114021 140112 event_manager.cc:182] Still waiting for a D2H transfer of 8.4 GiB",
        "W0203 {clock}.402133 140112 coordination_service_agent.cc:661] Heartbeat to the coordinator took 4.1s, attempt {n}",
    ),
    chatter_every=90.0,
    tells_loss=True,
)
def maxtext(life: Life) -> Iterator[Event]:
    """A line each step of 8 s; the first compiles for six minutes, checkpoints go on in the background."""
    clock = Clock()
    yield Phase.START
    yield "I0203 10:00:08.331201 140737 pyconfig.py:521] Config param base_emb_dim: 4096\nSystem Information: Jax Version: 0.4.37\n"
    yield from clock.wait(life.about(80))
    yield Phase.PREPARE
    yield "Creating checkpoint manager...\nNum_devices: 64, shape (1, 64, 1, 1, 1)\nMemstats: After params initialized:\n"
    yield from clock.wait(life.about(40))
    yield Phase.TRAIN
    for step in range(2400):
        took = life.about(360) if step == 0 else life.about(5.7, 0.02)
        yield from clock.wait(took)
        yield (
            f"completed step: {step}, seconds: {took:.3f}, TFLOP/s/device: {764.7 / took:.3f}, Tokens/s/device: "
            f"{49152 / took:.3f}, total_weights: 196608, loss: {life.loss(step / 2400, 10.9, 2.4):.3f}\n"
        )
        if step % 400 == 399:
            yield Phase.SAVE
            yield f"I{clock('%m%d %H:%M:%S')}.771012 140737 checkpoint_manager.py:1983] [process=0][step={step}] Starting async save.\n"
            yield from clock.wait(life.about(22))
            yield f"saved a checkpoint at step {step}\n"
            yield Phase.EVALUATE
            yield f"I{clock('%m%d %H:%M:%S')}.771012 140737 train.py:610] Completed eval step 0\n"
            for batch in range(1, 30):
                yield from clock.wait(life.about(3))
                yield f"Completed eval step {batch}\n"
            yield f"average loss after step={step}: eval_loss={life.loss(step / 2400, 10.9, 2.5):.3f}, total_weights=5898240.0\n"
            yield Phase.TRAIN
    yield Phase.AFTER


@form(
    "composer",
    field="pre-training",
    source="https://github.com/mosaicml/llm-foundry/issues/444",
    chatter=(
        "WARNING: composer.callbacks.health: gpu 3 temperature 71 C",
        "2026-02-03 {clock},201: rank0[11406][Thread-3]: INFO: streaming.base.util: shard cache 61 % used",
    ),
    tells_loss=True,
)
def composer(life: Life) -> Iterator[Event]:
    """A block of a dozen lines each batch of 21 s, and blocks of its evaluation each 200."""
    clock = Clock()
    yield Phase.START
    yield "2026-02-03 10:00:31,402: rank0[11406][MainThread]: INFO: composer.trainer.trainer: Run name: mpt-9-dolphin\n"
    yield from clock.wait(life.about(95))
    yield Phase.PREPARE
    yield f"{clock()},101: rank0[11406][MainThread]: INFO: __main__: Building train loader...\n"
    yield from clock.wait(life.about(180))
    yield "max_seq_len: 4096\nglobal_seed: 29\nmodel:\n  name: mpt_causal_lm\n  d_model: 2048\n  n_layers: 24\n"
    yield f"{clock()},811: rank0[11406][MainThread]: INFO: composer.trainer.trainer: Setting seed to 29\nStarting training...\n"
    yield from clock.wait(life.about(45))
    for batch in range(1, 901):
        if batch == 1:
            yield Phase.TRAIN
        yield from clock.wait(life.about(55 if batch == 1 else 17))
        loss = life.loss(batch / 900, 11.6, 3)
        yield (
            f"[batch={batch}/48000]:\n\t Train time/batch: {batch - 1}\n\t Train time/sample: {(batch - 1) * 320}\n"
            f"\t Train time/token: {(batch - 1) * 1310720}\n\t Train memory/peak_reserved_mem: 51.3280\n"
            f"\t Train memory/alloc_retries: 0\n\t Train trainer/device_train_microbatch_size: 8\n"
            f"\t Train loss/train/total: {loss:.4f}\n\t Train metrics/train/LanguageCrossEntropy: {loss:.4f}\n"
            f"\t Train throughput/batches_per_sec: 0.0588\n\t Train time/total: {clock.passed / 3600:.4f}\n"
            f"\t Train lr-DecoupledAdamW/group0: 0.0003\n"
        )
        if batch % 200 == 0:
            yield Phase.EVALUATE
            for done in range(1, 31):
                yield f"[Eval batch={done}/30] Eval on eval data\n"
                yield from clock.wait(life.about(8))
            yield f"\t Eval metrics/eval/LanguageCrossEntropy: {loss + 0.04:.4f}\n"
            yield Phase.SAVE
            yield f"{clock()},007: rank0[11406][MainThread]: DEBUG: composer.checkpoint.state: Saving monolithic checkpoint\n"
            yield from clock.wait(life.about(130))
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "Done.\n"


@form(
    "olmo",
    field="pre-training",
    source="https://github.com/allenai/OLMo/issues/692",
    chatter=(
        "2026-02-03 {clock}.301\tn031:0\twandb.sdk:119\tWARNING\tretry {n} of upload failed: 502 Bad Gateway",
    ),
    chatter_every=60.0,
    death="[n031:7]: torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 7/8 clients joined.\n",
    tells_loss=True,
)
def olmo(life: Life) -> Iterator[Event]:
    """A record of several indented lines each step of 39 s, large numbers with commas."""
    clock = Clock()
    yield Phase.START
    yield f"{clock()}.211\tn031:0\tolmo.util:163\tINFO\tCLI environment prepared\n"
    yield from clock.wait(life.about(50))
    yield Phase.PREPARE
    yield f"{clock()}.611\tn031:0\ttrain:140\tINFO\tTotal number of parameters: 1,176,764,416\n"
    yield from clock.wait(life.about(160))
    yield f"{clock()}.102\tn031:0\ttrain:261\tINFO\tStarting training...\n    System/Peak GPU Memory (MB)=6,784\n"
    yield Phase.TRAIN
    for step in range(1, 401):
        yield from clock.wait(life.about(39.3, 0.02) + (60 if step == 1 else 0))
        loss = life.loss(step / 400, 11.2, 4.0)
        yield (
            f"{clock()}.526\tn031:0\tolmo.train:908\tINFO\t[step={step}/739328,epoch=0]\n    optim/total_grad_norm="
            f"{life.about(2):.4f}\n    train/CrossEntropyLoss={loss:.3f}\n    train/Perplexity={2.718**loss:,.0f}\n"
            f"    throughput/total_tokens={step * 1048576:,}\n    throughput/device/tokens_per_second={life.about(26668, 0.01):,.0f}\n"
            "    throughput/device/batches_per_second=0.0254\n"
        )
        if step % 100 == 0:
            yield Phase.SAVE
            yield f"{clock()}.580\tn031:0\ttrain:302\tINFO\tSaving checkpoint...\n"
            yield from clock.wait(life.about(240))
            yield f"{clock()}.992\tn031:0\ttrain:305\tINFO\tCheckpoint saved to run/step{step}\n"
            yield Phase.EVALUATE
            yield f"{clock()}.993\tn031:0\tolmo.train:1002\tINFO\tRunning evaluation for 'pile-val'...\n"
            for batch in range(4, 81, 4):
                yield from clock.wait(life.about(14))
                yield f"{clock()}.201\tn031:0\tolmo.train:1021\tINFO\t[eval_step={batch}/80]\n"
            yield f"{clock()}.203\tn031:0\tolmo.train:1029\tINFO\tEval metrics:\n    eval/pile-val/CrossEntropyLoss={loss:.4f}\n"
            yield Phase.TRAIN
    yield Phase.AFTER


@form(
    "torchtitan",
    field="pre-training",
    source="https://github.com/pytorch/torchtitan/pull/1287",
    chatter=(
        "[rank0]:[titan] 2026-02-03 {clock},735 - root - INFO - [GC] Performing periodical GC collection. 0.06 seconds.",
    ),
    chatter_every=150.0,
    tells_loss=True,
)
def torchtitan(life: Life) -> Iterator[Event]:
    """A line each ten steps with colours; the second hour is a third slower."""
    clock = Clock()
    yield Phase.START
    yield "[rank0]:[titan] 2026-02-03 10:00:11,402 - root - INFO - Starting job: Llama 3 8B training\n"
    yield from clock.wait(life.about(60))
    yield Phase.PREPARE
    yield f"[rank0]:[titan] {clock()},330 - root - INFO - Compiling each TransformerBlock with torch.compile\n"
    yield from clock.wait(life.about(100))
    yield f"[rank0]:[titan] {clock()},330 - root - INFO - Training starts at step 1, with local batch size 1, sequence length 8192\n"
    yield Phase.TRAIN
    for step in (1, *range(10, 6001, 10)):
        slow = 1.3 if 3600 < clock.passed < 7200 else 1.0
        yield from clock.wait(life.about(48 if step == 1 else 14 * slow, 0.03))
        loss = life.loss(step / 6000, 12.2, 3)
        yield (
            f"[rank0]:[titan] {clock()},970 - root - INFO - \x1b[31mstep: {step:2}  \x1b[32mloss: {loss:8.4f}  \x1b[38;5;208mgrad_norm: "
            f"{life.about(1.2):7.4f}  \x1b[33mmemory: 49.66GiB(52.28%)  \x1b[34mtps: {5855 / slow:,.0f}  \x1b[36mtflops: "
            f"{339 / slow:.2f}  \x1b[35mmfu: {34 / slow:.2f}%\x1b[39m\n"
        )
        if step % 50 == 0:
            yield f"[rank0]:[titan] {clock()},735 - root - INFO - [GC] Performing periodical GC collection. 0.06 seconds.\n"
        if step % 500 == 0:
            yield Phase.SAVE
            yield f"[rank0]:[titan] {clock()},811 - root - INFO - Saving the checkpoint (or staging if async is enabled).\n"
            took = life.about(75)
            yield from clock.wait(took)
            yield f"[rank0]:[titan] {clock()},811 - root - INFO - Finished saving the checkpoint (or staging) in {took:.2f} seconds.\n"
            yield Phase.TRAIN
    yield Phase.AFTER
    yield f"[rank0]:[titan] {clock()},811 - root - INFO - Sleeping 2 seconds for other ranks to complete\n"
    yield from clock.wait(3)
    yield f"[rank0]:[titan] {clock()},811 - root - INFO - Training completed\n"


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
