"""Pre-training on many nodes."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "megatron-lm",
    field="pre-training",
    source="https://github.com/NVIDIA/Megatron-LM",
    chatter=("[NCCL watchdog] {clock} heartbeat {n}",),
    chatter_every=60.0,
    death='[rank3]: Traceback (most recent call last):\n[rank3]:   File "pretrain_gpt.py", line 201, in <module>\n'
    "[rank3]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3.\n",
    tells_loss=True,
)
def megatron(life: Life) -> Iterator[Event]:
    """Helpers of data sets are compiled, a first step of a minute, then one of 7 s; each 400 a validation, each 800 a save."""
    yield Phase.START
    yield "using world size: 64, data-parallel size: 8, context-parallel size: 1, tensor-model-parallel size: 4\n"
    yield "> setting random seeds to 4711 ...\n> compiling dataset index builder ...\n"
    yield life.about(35)
    yield ">>> done with dataset index builder. Compilation time: 34.812 seconds\n"
    yield Phase.PREPARE
    yield "> building train, validation, and test datasets for GPT ...\n"
    yield life.about(260)
    yield " > finished creating GPT datasets ...\n[after dataloaders are built] datetime: 2026-03-11 08:06:10 \n"
    yield "training ...\n"
    yield life.about(70)
    for step in range(1, 2401):
        if step == 1:
            yield Phase.TRAIN
        yield life.about(7.1, 0.03)
        if step % 5 == 0:
            loss = life.loss(step / 2400, 10.9, 2.6)
            yield (
                f" [2026-03-11 08:{step // 60 % 60:02}:{step % 60:02}] iteration {step:8}/    2400 | consumed samples: {step * 512:12} | "
                f"elapsed time per iteration (ms): {life.about(7100, 0.03):.1f} | throughput per GPU (TFLOP/s/GPU): 402.1 | "
                f"learning rate: 1.5E-04 | global batch size:   512 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: 0.4{step % 90} | "
                "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
            )
        if step % 400 == 0:
            yield Phase.EVALUATE
            for part in range(1, 33):
                yield f"Evaluating iter {part}/32\n"
                yield life.about(2.4)
            loss = life.loss(step / 2400, 10.9, 2.7)
            yield f" validation loss at iteration {step} | lm loss value: {loss:.6E} | lm loss PPL: {loss * 7:.6E} | \n"
            yield Phase.TRAIN
        if step % 800 == 0:
            yield Phase.SAVE
            yield f"saving checkpoint at iteration {step:7} to /scratch/gpt/ckpt in torch_dist format\n"
            yield life.about(95)
            yield f"  successfully saved checkpoint from iteration {step:7} to /scratch/gpt/ckpt [ t 1/4, p 1/2 ]\n"
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "[after training is done] datetime: 2026-03-11 13:10:02 \n"
    yield life.about(120)


@form(
    "deepspeed-prints",
    field="pre-training",
    source="https://github.com/microsoft/DeepSpeed",
    chatter=("n004: nvidia-smi {clock} 100 % 79 GB",),
    death="n004: RuntimeError: CUDA error: an illegal memory access was encountered\n"
    "[2026-03-11 10:00:00,001] [ERROR] [launch.py:325:sigkill_handler] ['python', 'train.py'] exits with return code = 1\n",
)
def deepspeed(life: Life) -> Iterator[Event]:
    """Two lines each ten steps, with node prefixes of pdsh; overflows skip the first steps."""
    yield Phase.START
    for rank in range(8):
        yield f"n00{rank // 4}: [2026-03-11 08:00:0{rank},113] [INFO] [comm.py:637:init_distributed] cdb=None\n"
    yield life.about(80)
    yield Phase.PREPARE
    yield "n000: Using /home/carol/.cache/torch_extensions as PyTorch extensions root...\nn000: Building extension module fused_adam...\n"
    for part in range(1, 4):
        yield life.about(25)
        yield f"n000: [{part}/3] nvcc -o multi_tensor_adam{part}.cuda.o\n"
    yield "n000: Time to load fused_adam op: 74.31 seconds\n"
    yield life.about(150)
    yield Phase.TRAIN
    scale = 65536
    for step in range(10, 6001, 10):
        yield life.about(31, 0.05)
        if step < 60:
            yield (
                f"n000: [2026-03-11 08:1{step // 10}:00,222] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! "
                f"Rank 0 Skipping step. Attempted loss scale: {scale}, but hysteresis is 2. Reducing hysteresis to 1\n"
            )
            scale //= 2
        yield (
            f"n000: [2026-03-11 09:{step // 10 % 60:02}:02,931] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=5, "
            f"lr=[{3e-5 * min(step / 500, 1):.6g}], mom=[(0.9, 0.95)]\n"
            f"n000: [2026-03-11 09:{step // 10 % 60:02}:02,932] [INFO] [timer.py:260:stop] epoch=0/micro_step={step * 4}/global_step={step}, "
            f"RunningAvgSamplesPerSec={life.about(41.2, 0.02):.4f}, CurrSamplesPerSec={life.about(41.3, 0.05):.4f}, MemAllocated=14.2GB, MaxMemAllocated=61.3GB\n"
        )
        if step % 1500 == 0:
            yield Phase.SAVE
            yield f"n000: [2026-03-11 11:00:00,001] [INFO] [torch_checkpoint_engine.py:21:save] [Torch] Saving out/global_step{step}/mp_rank_00_model_states.pt...\n"
            yield life.about(240)
            yield f"n000: [2026-03-11 11:04:00,001] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint global_step{step} is ready now!\n"
            yield Phase.TRAIN


@form(
    "torchtitan",
    field="pre-training",
    source="https://github.com/pytorch/torchtitan",
    chatter=("[rank0]:[titan] {clock} - root - DEBUG - flight recorder: {n} entries",),
    tells_loss=True,
)
def torchtitan(life: Life) -> Iterator[Event]:
    """Colours in the lines, the first step compiles for four minutes, asynchronous saves, an hour on a slow file system."""
    yield Phase.START
    yield "[rank0]:[titan] 2026-03-11 08:00:01,204 - root - INFO - Starting job: Llama 3 8B training\n"
    yield life.about(30)
    yield Phase.PREPARE
    yield "[rank0]:[titan] 2026-03-11 08:00:31,101 - root - INFO - Preparing c4 dataset from allenai/c4\n"
    yield life.about(95)
    yield "[rank0]:[titan] 2026-03-11 08:02:11,552 - root - INFO - Compiling each TransformerBlock with torch.compile\n"
    yield "[rank0]:[titan] 2026-03-11 08:02:12,021 - root - INFO - Training starts at step 1\n"
    yield life.about(240)
    yield Phase.TRAIN
    for step in range(1, 4001, 10):
        pace = 31 if 1500 < step < 2100 else 22
        yield life.about(pace, 0.06)
        loss = life.loss(step / 4000, 12.2, 2.9)
        yield (
            f"[rank0]:[titan] 2026-03-11 09:{step // 10 % 60:02}:10,110 - root - INFO - \x1b[31mstep: {step:2}  \x1b[32mloss: {loss:7.4f}  "
            f"\x1b[33mmemory: 47.21GiB(59.68%)  \x1b[34mtps: {220000 // pace:,}  \x1b[36mtflops: 401.2  \x1b[35mmfu: 40.5%\x1b[39m\n"
        )
        if step % 500 == 491:
            yield Phase.SAVE
            yield "[rank0]:[titan] 2026-03-11 09:40:00,110 - root - INFO - Saving the checkpoint (or staging if async is enabled).\n"
            yield life.about(50)
            yield "[rank0]:[titan] 2026-03-11 09:40:50,010 - root - INFO - Finished saving the checkpoint in 49.81 seconds.\n"
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "[rank0]:[titan] 2026-03-11 12:00:00,110 - root - INFO - Sleeping 2 seconds for other ranks to complete\n"
    yield life.about(60)


@form(
    "maxtext",
    field="pre-training",
    source="https://github.com/AI-Hypercomputer/maxtext",
    chatter=(
        "I0311 {clock}.000121 139871 coordination_service_agent.cc:611] Coordination agent heartbeat {n}",
    ),
    chatter_every=60.0,
    tells_loss=True,
)
def maxtext(life: Life) -> Iterator[Event]:
    """Steps of ten seconds after a silent compilation of eight minutes; TFLOP/s in each line."""
    yield Phase.START
    yield "Updating keys from env and command line: ['run_name', 'steps']\nRunning Model: llama2-7b\n"
    yield life.about(100)
    yield Phase.PREPARE
    yield "Num_devices: 64, shape (1, 1, 64, 1, 1)\nSetting up checkpoint logger...\n"
    yield life.about(480)
    yield "Memstats: After params initialized:\n\tUsing (GB) 31.2 / 95.74 (32.588%) on TPU_0(process=0,(0,0,0,0))\n"
    yield Phase.TRAIN
    for step in range(1500):
        took = life.about(38 if step == 0 else 10.4, 0.02)
        yield took
        loss = life.loss(step / 1500, 10.8, 2.4)
        yield (
            f"completed step: {step}, seconds: {took:.3f}, TFLOP/s/device: {2200 / took:.3f}, Tokens/s/device: {49152 / took:.3f}, "
            f"total_weights: 4194304, loss: {loss:.3f}\n"
        )
        if step and step % 250 == 0:
            yield Phase.EVALUATE
            yield f"eval metrics after step: {step}: starting\n"
            for part in range(40):
                yield life.about(4)
                if part % 10 == 0:
                    yield f"Completed eval step {part}\n"
            yield f"eval metrics after step: {step}, loss={loss + 0.04:.3f}, total_weights=10485760.0\n"
            yield Phase.TRAIN


@form(
    "olmo",
    field="pre-training",
    source="https://github.com/allenai/OLMo",
    chatter=(
        "2026-03-11 {clock}.112  n001:0  olmo.util:165  WARNING  retrying request {n} to remote storage",
    ),
    tells_loss=True,
)
def olmo(life: Life) -> Iterator[Event]:
    """A block of indented metrics each ten steps, evaluations of many tasks each with its own counted batches."""
    yield Phase.START
    yield "2026-03-11 08:00:00.812\tn001:0\tolmo.train:88\tINFO\tCLI environment prepared\n"
    yield life.about(60)
    yield Phase.PREPARE
    yield "2026-03-11 08:01:01.101\tn001:0\tscripts.train:221\tINFO\tBuilding model...\n"
    yield life.about(180)
    yield "2026-03-11 08:04:02.330\tn001:0\tscripts.train:300\tINFO\tStarting training...\n"
    yield Phase.TRAIN
    for step in range(10, 5001, 10):
        yield life.about(29, 0.05)
        loss = life.loss(step / 5000, 11.0, 2.5)
        yield (
            f"2026-03-11 09:{step // 10 % 60:02}:12.010\tn001:0\tolmo.train:944\tINFO\t[step={step}/5000,epoch=0]\n"
            f"    optim/total_grad_norm=0.{step % 900 + 100}\n    train/CrossEntropyLoss={loss:.3f}\n    train/Perplexity={loss * 31:.1f}\n"
            f"    throughput/total_tokens={step * 4194304:,}\n    throughput/device/tokens_per_second={life.about(9100, 0.02):,.0f}\n"
            f"    throughput/device/batches_per_second=0.3447\n    System/Peak GPU Memory (MB)=41,237\n"
        )
        if step % 1000 == 0:
            yield Phase.EVALUATE
            yield "2026-03-11 10:00:00.510\tn001:0\tolmo.train:990\tINFO\tStarting evaluation for 'all-small-ppl-validation'\n"
            for task, batches in (("all-small-ppl-validation", 60), ("piqa", 26), ("hellaswag", 140)):
                for batch in range(0, batches, 10):
                    yield life.about(17)
                    yield f"2026-03-11 10:02:00.110\tn001:0\tolmo.train:1012\tINFO\t[eval_step={batch + 1}/{batches}]\n"
                yield f"2026-03-11 10:03:00.110\tn001:0\tolmo.train:1030\tINFO\tFinished evaluation of {task}\n"
            yield Phase.SAVE
            yield "2026-03-11 10:04:00.110\tn001:0\tolmo.train:771\tINFO\tSaving checkpoint...\n"
            yield life.about(130)
            yield f"2026-03-11 10:06:10.110\tn001:0\tolmo.train:780\tINFO\tCheckpoint saved to /scratch/olmo/step{step}\n"
            yield Phase.TRAIN


@form(
    "nemo-bar",
    field="pre-training",
    source="https://github.com/NVIDIA/NeMo",
    chatter=("[NeMo W 2026-03-11 {clock} nemo_logging:405] straggler section: {n} reports",),
    tells_loss=True,
)
def nemo(life: Life) -> Iterator[Event]:
    """Plain lines with pipes for each tenth step, a validation that counts by itself, a save that names the epoch's step."""
    yield Phase.START
    yield "[NeMo I 2026-03-11 08:00:02 exp_manager:396] Experiments will be logged at /scratch/nemo/run7\n"
    yield life.about(90)
    yield Phase.PREPARE
    for part in range(4):
        yield f"[NeMo I 2026-03-11 08:02:00 utils:302] Building GPTDataset splits with sizes=[{part}, 512, 51200]\n"
        yield life.about(75)
    yield "Sanity checking Validation: iteration 1/2\nSanity checking Validation: iteration 2/2\n"
    yield life.about(60)
    yield Phase.TRAIN
    for step in range(0, 3000, 10):
        yield life.about(46, 0.04)
        loss = life.loss(step / 3000, 11.2, 2.2)
        yield (
            f"Training epoch 0, iteration {step}/2999 | lr: 2.999e-05 | global_batch_size: 256 | global_step: {step} | "
            f"reduced_train_loss: {loss:.3f} | train_step_timing in s: {life.about(4.6, 0.03):.3f} | consumed_samples: {(step + 1) * 256}\n"
        )
        if step % 500 == 490:
            yield Phase.EVALUATE
            for part in range(1, 33):
                yield f"Validation: iteration {part}/32\n"
                yield life.about(3.1)
            yield f"Epoch 0, global step {step + 9}: 'reduced_train_loss' reached {loss:.5f}\n"
            yield Phase.SAVE
            yield f"[NeMo I 2026-03-11 09:41:00 model_checkpoint:522] Async checkpoint save for step {step + 10} started\n"
            yield life.about(40)
            yield Phase.TRAIN


@form(
    "fairseq",
    field="pre-training",
    source="https://github.com/facebookresearch/fairseq",
    chatter=("2026-03-11 {clock} | INFO | cluster.probe | host memory 312 GB",),
    tells_loss=True,
)
def fairseq(life: Life) -> Iterator[Event]:
    """Dictionaries with strings for numbers; a validation and a save of two files at each epoch's end."""
    yield Phase.START
    yield "2026-03-11 08:00:01 | INFO | fairseq_cli.train | task: TranslationTask\n"
    yield life.about(35)
    yield Phase.PREPARE
    yield "2026-03-11 08:00:40 | INFO | fairseq.tasks.translation | data-bin/wmt train de-en 4512018 examples\n"
    yield life.about(160)
    updates = 0
    for epoch in range(1, 9):
        yield f"2026-03-11 08:03:00 | INFO | fairseq.trainer | begin training epoch {epoch}\n"
        yield Phase.TRAIN
        for _ in range(100, 2101, 100):
            yield life.about(72, 0.07)
            updates += 100
            loss = life.loss(updates / 16800, 13, 4)
            shown = f"{epoch - 1 + updates % 2100 / 2100:.3f}"
            yield (
                f'2026-03-11 08:1{epoch}:09 | INFO | train_inner | {{"epoch": {epoch}, "update": {shown}, "loss": "{loss:.3f}", "nll_loss": '
                f'"{loss * 0.9:.3f}", "ppl": "{loss * 40:.2f}", "wps": "61211.4", "ups": "1.39", "num_updates": "{updates}", "lr": "0.0005", "gnorm": "0.71"}}\n'
            )
        yield Phase.EVALUATE
        yield f'2026-03-11 09:0{epoch}:00 | INFO | fairseq_cli.train | begin validation on "valid" subset\n'
        yield life.about(110)
        yield f'2026-03-11 09:0{epoch}:51 | INFO | valid | {{"epoch": {epoch}, "valid_loss": "4.{9 - epoch}11", "valid_num_updates": "{updates}"}}\n'
        yield Phase.SAVE
        yield f"2026-03-11 09:0{epoch}:52 | INFO | fairseq.checkpoint_utils | Preparing to save checkpoint for epoch {epoch} @ {updates} updates\n"
        yield life.about(45)
        yield f"2026-03-11 09:0{epoch}:59 | INFO | fairseq.checkpoint_utils | Saved checkpoint checkpoints/checkpoint{epoch}.pt (epoch {epoch} @ {updates} updates, score 4.1)\n"
    yield Phase.AFTER
    yield "2026-03-11 12:00:00 | INFO | fairseq_cli.train | done training in 13811.2 seconds\n"


@form(
    "composer-blocks",
    field="pre-training",
    source="https://github.com/mosaicml/llm-foundry",
    chatter=("{clock}: rank0[811][MainThread]: DEBUG: streaming.base.world: cache usage {n} MB",),
    tells_loss=True,
)
def composer(life: Life) -> Iterator[Event]:
    """`[batch=…/…]:` over a block of metrics for each batch; evaluations are blocks of the same kind."""
    yield Phase.START
    yield "2026-03-11 08:00:01,111: rank0[811][MainThread]: INFO: __main__: Building tokenizer...\n"
    yield life.about(50)
    yield Phase.PREPARE
    yield "2026-03-11 08:00:52,010: rank0[811][MainThread]: INFO: __main__: Building train loader...\n"
    yield life.about(330)
    yield "2026-03-11 08:06:22,400: rank0[811][MainThread]: INFO: __main__: Starting training...\n"
    yield Phase.TRAIN
    for batch in range(1, 1201):
        yield life.about(14, 0.05)
        loss = life.loss(batch / 1200, 11.5, 2.7)
        yield (
            f"[batch={batch}/1200]:\n\t Train time/batch: {batch - 1}\n\t Train time/sample: {(batch - 1) * 512}\n\t Train time/token: {(batch - 1) * 1048576}\n"
            f"\t Train loss/train/total: {loss:.4f}\n\t Train throughput/batches_per_sec: 0.0714\n\t Train time/train: {batch * 14 / 3600:.4f}\n"
            f"\t Train time/val: {batch // 200 * 0.1:.4f}\n\t Train time/total: {batch * 14.5 / 3600:.4f}\n"
        )
        if batch % 200 == 0:
            yield Phase.EVALUATE
            for part in range(25, 101, 25):
                yield f"[Eval batch={part}/100] Eval on eval/c4 data\n"
                yield life.about(70)
            yield f"[Eval batch=100/100] Eval on eval/c4 data:\n\t Eval metrics/eval/LanguageCrossEntropy: {loss + 0.05:.4f}\n"
            yield Phase.TRAIN
