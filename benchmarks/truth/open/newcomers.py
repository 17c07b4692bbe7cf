"""Forms that the judgement met when it was thought to be ready."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "modded-nanogpt",
    field="pre-training",
    source="https://github.com/KellerJordan/modded-nanogpt",
    chatter=("NCCL heartbeat {clock}",),
    tells_loss=True,
)
def speedrun(life: Life) -> Iterator[Event]:
    """The script prints its own source and nvidia-smi, compiles for minutes, then a line a step with the time of training."""
    yield Phase.START
    yield "import os\nimport sys\nwith open(sys.argv[0]) as f:\n    code = f.read()\n" + "=" * 100 + "\n"
    yield life.about(20)
    yield "Running Python 3.12.7\nRunning PyTorch 2.6.0.dev20250101+cu126\n| 0  NVIDIA H100 80GB HBM3 On | 00000000:19:00.0 Off | 0 |\n"
    yield Phase.PREPARE
    yield life.about(420)
    yield Phase.TRAIN
    passed = 0.0
    for step in range(1, 1771):
        took = life.about(8, 0.02)
        passed += took * 1000
        yield took
        if step % 125 == 0:
            yield f"step:{step}/1770 val_loss:{life.loss(step / 1770, 10, 3.28):.4f} train_time:{passed:.0f}ms step_avg:{passed / step:.2f}ms\n"
            yield life.about(11)
        yield f"step:{step}/1770 train_time:{passed:.0f}ms step_avg:{passed / step:.2f}ms train_loss:{life.loss(step / 1770, 10, 3.28):.4f}\n"


@form(
    "easylm-tqdm-dicts",
    field="pre-training",
    source="https://github.com/young-geng/EasyLM",
    chatter=("I{clock} jax_distributed: heartbeat sent",),
    tells_loss=True,
)
def easylm(life: Life) -> Iterator[Event]:
    """A pretty-printed dict of metrics of several lines each 50 steps, a bar beside it."""
    yield Phase.START
    yield "W0203 10:00:01 xla_bridge.py:352] No GPU/TPU found\n"
    yield life.about(90)
    yield Phase.PREPARE
    yield "0%|          | 0/20000 [00:00<?, ?it/s]"
    yield life.about(380)
    yield Phase.TRAIN
    for step in range(0, 20000, 50):
        yield life.about(34)
        yield f"\r{step // 200:3}%|{'█' * (step // 2000)}| {step}/20000 [{step // 60}:11<3:10:11,  1.47it/s]"
        yield f"\n\n{{'accuracy': {0.2 + step / 40000:.4f},\n 'gradient_norm': {life.about(0.7):.4f},\n 'learning_rate': 0.0003,\n 'loss': {life.loss(step / 20000):.4f},\n 'step': {step}}}\n\n"


@form(
    "nemo2-lightning",
    field="pre-training",
    source="https://github.com/NVIDIA/NeMo",
    chatter=("[NeMo W 2026-02-03 {clock} nemo_logging:405] zarr is slow",),
    tells_loss=True,
)
def nemo2(life: Life) -> Iterator[Event]:
    """`Training epoch 0, iteration 12/999 | lr: ... | global_step: 12 | reduced_train_loss: ...`, validation in iterations of its own."""
    yield Phase.START
    yield "[NeMo I 2026-02-03 10:00:01 megatron_init:269] Rank 0 has data parallel group : [0]\n"
    yield life.about(60)
    yield Phase.PREPARE
    yield "[NeMo I 2026-02-03 10:01:02 utils:302] Building GPTDataset splits with sizes=[512000, 5120, 512]\n"
    yield life.about(300)
    yield Phase.TRAIN
    for step in range(1000):
        yield life.about(11, 0.03)
        yield f"Training epoch 0, iteration {step}/999 | lr: {3e-4 * step / 1000:.3e} | global_batch_size: 512 | global_step: {step} | reduced_train_loss: {life.loss(step / 1000):.3f} | train_step_timing in s: {life.about(10.9, 0.02):.2f} | consumed_samples: {step * 512}\n"
        if step % 200 == 199:
            yield Phase.EVALUATE
            for part in range(1, 33):
                yield life.about(5)
                yield f"Validation: iteration {part}/32\n"
            yield Phase.SAVE
            yield f"[NeMo I 2026-02-03 11:01:02 nemo_logging:393] Async checkpoint save for step {step + 1} finalized successfully.\n"
            yield Phase.TRAIN


@form(
    "verl-steps-on-one-line",
    field="reinforcement learning from rewards",
    source="https://github.com/OpenRLHF/OpenRLHF (vLLM beside it)",
    chatter=(
        "INFO {clock} metrics.py:455] Avg prompt throughput: 0.0 tokens/s, Running: 0 reqs, Waiting: 0 reqs",
    ),
)
def rollouts(life: Life) -> Iterator[Event]:
    """Generation of many minutes in which vLLM writes, then experience, then optimiser steps of a bar; no loss that falls."""
    yield Phase.START
    yield "INFO 02-03 10:00:01 worker.py:1841 Started a local Ray instance.\n"
    yield life.about(200)
    yield Phase.TRAIN
    for episode in range(1, 25):
        for part in range(1, 9):
            for _ in range(4):
                yield life.about(11, 0.3)
                yield f"INFO metrics.py:455] Avg prompt throughput: {life.about(2100, 0.5):.1f} tokens/s, Running: {life.random.randint(1, 256)} reqs, Waiting: 0 reqs\n"
            yield f"Generate sequence: {part * 100 // 8}%|{'#' * part}| {part}/8 [0{part}:11<00:11, 44.1s/it]\n"
        for step in range(1, 17):
            yield life.about(9)
            yield f"Train epoch [1/1]: {step * 100 // 16}%|{'#' * step}| {step}/16 [00:{step:02}<00:11, 9.1s/it, pg=-{life.random.random() * 0.01:.3g}, rew={episode / 30 + life.random.random() * 0.1:.3f}, kl=0.00{step}]\n"
        yield f"Episode {episode}: policy updated\n"


@form(
    "alphazero-self-play",
    field="reinforcement learning",
    source="https://github.com/suragnair/alpha-zero-general",
    chatter=("[{clock}] gpu 0: 63 C",),
    tells_loss=True,
)
def alphazero(life: Life) -> Iterator[Event]:
    """Self-play of twenty minutes with one bar that begins anew, ten epochs of training, an arena, in each iteration."""
    yield Phase.START
    yield "2026-02-03 10:00:01 host INFO Loading Coach...\n"
    yield life.about(20)
    yield Phase.TRAIN
    for iteration in range(1, 13):
        yield f"INFO Starting Iter #{iteration} ...\n"
        for game in range(1, 101):
            yield life.about(12, 0.4)
            yield f"\rSelf Play: {game:3}%|{'█' * (game // 10)}| {game}/100 [{game // 5}:11<11:11, 12.01s/it]"
        yield "\n"
        for epoch in range(1, 11):
            yield f"EPOCH ::: {epoch}\n"
            for batch in range(20, 201, 20):
                yield life.about(3)
                yield f"\rTraining Net: {batch // 2:3}%|{'█' * (batch // 20)}| {batch}/200 [00:{batch // 7:02}<00:11, 6.8it/s, Loss_pi={life.loss((iteration * 10 + epoch) / 130, 4, 1):.2e}]"
            yield "\n"
        for game in range(1, 21):
            yield life.about(14, 0.4)
            yield f"\rArena.playGames (1): {game * 5:3}%|{'█' * (game // 2)}| {game}/20 [0{game // 5}:11<02:11, 14.01s/it]"
        yield f"\nINFO NEW/PREV WINS : {life.random.randint(8, 15)} / 9 ; DRAWS : 0\nINFO ACCEPTING NEW MODEL\n"


@form(
    "whisper-fine-tuning",
    field="speech",
    source="https://huggingface.co/blog/fine-tune-whisper",
    chatter=("You're using a WhisperTokenizerFast tokenizer. ({clock})",),
    chatter_every=60.0,
    tells_loss=True,
)
def whisper(life: Life) -> Iterator[Event]:
    """A map over the audio of half an hour, dicts of the Trainer each 25 steps, evaluations of ten minutes that generate."""
    yield Phase.START
    yield life.about(30)
    yield Phase.PREPARE
    for part in range(101):
        yield f"\rMap (num_proc=4): {part:3}%|{'█' * (part // 10)}| {part * 65}/6500 [{part // 4}:11<11:11, 4.1 examples/s]"
        yield life.about(17, 0.3)
    yield "\n"
    yield life.about(70)
    yield Phase.TRAIN
    for step in range(25, 4001, 25):
        yield life.about(75, 0.05)
        yield f"{{'loss': {life.loss(step / 4000, 1.2, 0.05):.4f}, 'grad_norm': {life.about(4):.4f}, 'learning_rate': {1e-5 * (1 - step / 4000):.3e}, 'epoch': {step / 400:.2f}}}\n"
        if step % 1000 == 0:
            yield Phase.EVALUATE
            yield life.about(640)
            yield f"{{'eval_loss': 0.2812, 'eval_wer': {30 - step / 400:.4f}, 'eval_runtime': 640.11, 'eval_samples_per_second': 4.5, 'epoch': {step / 400:.2f}}}\n"
            yield Phase.SAVE
            yield "Non-default generation parameters: {'max_length': 448}\n"
            yield life.about(15)
            yield Phase.TRAIN


@form(
    "ultralytics-detect",
    field="vision",
    source="https://github.com/ultralytics/ultralytics",
    chatter=("WARNING ⚠️ {clock} NMS time limit 2.050s exceeded",),
    tells_loss=False,
)
def ultralytics(life: Life) -> Iterator[Event]:
    """A bar an epoch with the losses as columns, another for validation, whose row of metrics follows."""
    yield Phase.START
    yield "Ultralytics 8.3.40 Python-3.11 torch-2.5 CUDA:0 (H100)\n"
    yield life.about(15)
    yield Phase.PREPARE
    for part in range(0, 101, 4):
        yield f"\rtrain: Scanning labels... {part * 1182} images, 11 backgrounds, 0 corrupt: {part:3}%|{'█' * (part // 10)}| {part * 1182}/118287 [00:{part // 2:02}<00:50]"
        yield life.about(3)
    yield "\n\n      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
    yield Phase.TRAIN
    for epoch in range(1, 41):
        for batch in range(0, 925, 25):
            yield life.about(5)
            yield f"\r      {epoch}/40      14.2G     {1.2 - epoch / 100:.3f}      {1.4 - epoch / 90:.3f}      1.21        {life.random.randint(40, 300)}        640: {batch * 100 // 924:3}%|{'█' * (batch // 100)}| {batch}/924 [{batch // 300}:11<02:11,  5.1it/s]"
        yield "\n"
        yield Phase.EVALUATE
        for batch in range(0, 157, 20):
            yield life.about(4)
            yield f"\r                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): {batch * 100 // 156:3}%|{'█' * (batch // 20)}| {batch}/156 [00:{batch // 5:02}<00:11]"
        yield f"\n                   all       5000      36335      0.{600 + epoch}      0.{500 + epoch}      0.{550 + epoch}      0.{390 + epoch}\n"
        yield Phase.TRAIN


@form(
    "k2-conformer-nextline",
    field="speech",
    source="https://github.com/k2-fsa/icefall (streaming, several valid intervals)",
    chatter=("{clock} INFO [lazy.py:88] still reading cuts_train.jsonl.gz",),
    tells_loss=True,
)
def zipformer(life: Life) -> Iterator[Event]:
    """Records of two losses a line, validation that computes amid an epoch, checkpoints by batch, and an average at the end."""
    yield Phase.START
    yield "2026-02-03 10:00:01,123 INFO [train.py:1108] (0/4) About to create model\n"
    yield life.about(40)
    yield Phase.PREPARE
    yield "2026-02-03 10:00:41,123 INFO [asr_datamodule.py:412] (0/4) About to get train cuts\n"
    yield life.about(400)
    yield "2026-02-03 10:07:21,123 INFO [train.py:1310] (0/4) Sanity check -- see if any of the batches in epoch 1 would cause OOM.\n"
    yield life.about(60)
    yield Phase.TRAIN
    for epoch in range(1, 9):
        for batch in range(0, 2000, 50):
            yield life.about(26)
            loss = life.loss((epoch * 2000 + batch) / 18000, 6, 0.4)
            yield f"2026-02-03 11:00:01,123 INFO [train.py:1020] (0/4) Epoch {epoch}, batch {batch}, loss[loss={loss:.4f}, simple_loss={loss * 1.1:.4f}, over {life.about(21000):.2f} frames. ], tot_loss[loss={loss:.4f}, over 4200000.00 frames. ], batch size: {life.random.randint(40, 300)}, lr: 4.41e-02, grad_scale: 16.0\n"
            if batch and batch % 1000 == 0:
                yield Phase.EVALUATE
                yield "2026-02-03 11:00:02,123 INFO [train.py:1043] (0/4) Computing validation loss\n"
                yield life.about(150)
                yield f"2026-02-03 11:02:32,123 INFO [train.py:1052] (0/4) Epoch {epoch}, validation: loss={loss * 1.05:.4f}, over 1649329.00 frames.\n"
                yield Phase.TRAIN
        yield Phase.SAVE
        yield f"2026-02-03 12:00:01,123 INFO [checkpoint.py:75] (0/4) Saving checkpoint to exp/epoch-{epoch}.pt\n"
        yield life.about(8)
        yield Phase.TRAIN


@form(
    "mindspore-callbacks",
    field="pre-training",
    source="https://gitee.com/mindspore/mindformers",
    chatter=("[WARNING] PS(9211,ffff,python):{clock} [scheduler_node.cc:142] heartbeat",),
    tells_loss=True,
)
def mindspore(life: Life) -> Iterator[Event]:
    """`{ Epoch:[  1/  2], step:[   40/ 1200], loss: 9.1, per_step_time: 5211ms, ... }` after a graph that compiles for a quarter of an hour."""
    yield Phase.START
    yield "2026-02-03 10:00:01,123 - mindformers[context.py:139] - INFO - device_num: 8\n"
    yield life.about(60)
    yield Phase.PREPARE
    yield "2026-02-03 10:01:01,123 - mindformers[base_trainer.py:782] - INFO - .........Starting Training Model..........\n"
    yield life.about(900)
    yield Phase.TRAIN
    for epoch in (1, 2):
        for step in range(2, 1201, 2):
            yield life.about(10.4, 0.02)
            yield f"2026-02-03 11:00:01,123 - mindformers[callback.py:316] - INFO - {{ Epoch:[{epoch:3}/  2], step:[{step:5}/ 1200], loss: {life.loss((epoch * 1200 + step - 1200) / 2400):.3f}, per_step_time: {life.about(5211, 0.02):.0f}ms, lr: 1e-05, overflow cond: False, loss_scale: 65536.0, global_norm: [{life.about(1.4):.4f}], train_throughput_per_npu: 171.1 }}\n"
            if step % 400 == 0:
                yield Phase.SAVE
                yield "2026-02-03 11:00:01,123 - mindformers[callback.py:778] - INFO - ......Saving ckpt......\n"
                yield life.about(140)
                yield Phase.TRAIN


@form(
    "h2o-progress-lines",
    field="AutoML",
    source="https://docs.h2o.ai/h2o/latest-stable/h2o-docs/automl.html",
    chatter=("{clock} INFO: GET /3/Cloud, parms: {{}}",),
)
def h2o(life: Life) -> Iterator[Event]:
    """One bar of hash signs that hardly moves for hours, lines of models beside it."""
    yield Phase.START
    yield "Checking whether there is an H2O instance running at http://localhost:54321.\n"
    yield life.about(30)
    yield Phase.TRAIN
    yield "AutoML progress: |\n"
    for model in range(1, 70):
        yield life.about(150, 0.6)
        yield f"10:{model % 60:02}:11.{model}: {('GBM', 'XGBoost', 'GLM', 'DeepLearning')[model % 4]}_{model // 4 + 1}_AutoML_1 [{('GBM', 'XGBoost', 'GLM', 'DeepLearning')[model % 4]} defaults] complete\n"
    yield "Best model: StackedEnsemble_AllModels\n"


@form(
    "lammps-minimise-then-run",
    field="molecular dynamics",
    source="https://docs.lammps.org/Howto_output.html",
    chatter=("WARNING: Neighbor list overflow averted ({clock})",),
)
def minimise(life: Life) -> Iterator[Event]:
    """A minimisation whose table ends, then ten runs with tables of their own and `Loop time` between them."""
    yield Phase.START
    yield "LAMMPS (29 Aug 2024)\nReading data file ...\n"
    yield life.about(70)
    yield Phase.PREPARE
    yield "Setting up cg style minimization ...\n   Step          Temp          E_pair         TotEng         Press\n"
    for step in range(0, 1500, 100):
        yield life.about(21)
        yield f"{step:10}   0              {-1.1e5 - step:.8g}     {-1.1e5 - step:.8g}     {life.random.gauss(0, 90):.8g}\n"
    yield "Loop time of 311.2 on 256 procs for 1411 steps with 1048576 atoms\n"
    yield Phase.TRAIN
    for part in range(10):
        yield "Setting up Verlet run ...\n   Step          Temp          E_pair         TotEng         Press\n"
        for step in range(part * 50000, part * 50000 + 50001, 1000):
            yield life.about(23, 0.05)
            yield f"{step:10}   {life.random.gauss(300, 1):.8g}      {-1.1e5 + life.random.gauss(0, 40):.8g}     {-1e5:.8g}     {life.random.gauss(0, 90):.8g}\n"
        yield "Loop time of 1160.1 on 256 procs for 50000 steps with 1048576 atoms\n\nPerformance: 3.7 ns/day\nPair    | 901.1 | 911.2 | 922.3 | 1.1 | 78.5\n"
        yield Phase.SAVE
        yield f"System init for write_restart ... {part}\n"
        yield life.about(9)
        yield Phase.TRAIN


@form(
    "cmake-then-train",
    field="home-made",
    source="job scripts that build their extensions first (flash-attn, apex)",
    chatter=("slurmstepd {clock}: keepalive",),
    tells_loss=True,
)
def builds(life: Life) -> Iterator[Event]:
    """Pip that builds for twenty minutes with lines of ever new kinds, then a training."""
    yield Phase.START
    yield "Processing ./flash-attention\n"
    yield life.about(40)
    yield Phase.PREPARE
    for number in range(1, 74):
        yield life.about(19, 0.7)
        yield f"  [{number}/73] nvcc -O3 -c csrc/flash_fwd_hdim{(32, 64, 96, 128)[number % 4]}_{('fp16', 'bf16')[number % 2]}_{'abcdefgh'[number % 8]}_sm90.cu -o build/{'xyzuvw'[number % 6] * 3}.o\n"
    yield "Successfully installed flash-attn-2.7.0\n"
    yield life.about(50)
    yield Phase.TRAIN
    for step in range(1, 900):
        yield life.about(12)
        yield f"it {step}: train loss {life.loss(step / 900):.3f} ({life.about(4.1):.1f}k tok/s)\n"


@form(
    "em-reconstruction",
    field="science",
    source="https://github.com/3dem/relion (Refine3D without a terminal)",
    chatter=("gpu-monitor {clock} ok",),
)
def refine(life: Life) -> Iterator[Event]:
    """Two bars of letters an iteration: expectation fills in a quarter of an hour without a number, maximisation in a minute."""
    yield Phase.START
    yield "RELION version: 5.0.0\n === RELION MPI setup ===\n"
    yield life.about(60)
    yield Phase.TRAIN
    for iteration in range(1, 26):
        yield f" Auto-refine: Iteration= {iteration}\n Auto-refine: Resolution= {9 - iteration / 6:.2f} (no gain for {iteration % 3} iter)\n Estimating accuracies in the orientational assignment ...\n"
        for part in range(1, 31):
            yield life.about(4)
            yield f'\r   {part}/  30 sec {"." * part}~~(,_,">'
        yield "\n Expectation iteration\n"
        for part in range(1, 61):
            yield life.about(11, 0.3)
            yield f'\r{part / 5:.2f}/{12.0:.2f} min {"." * part}~~(,_,">'
        yield "\n Maximization ...\n"
        yield life.about(50)


@form(
    "hmc-trajectories",
    field="science",
    source="https://github.com/paboyle/Grid (lattice QCD)",
    chatter=("Grid : Message : {seconds}.1 s : Memory: 41 GB",),
)
def lattice(life: Life) -> Iterator[Event]:
    """Conjugate gradients of many lines inside leapfrog steps inside trajectories of twenty minutes, each behind its wall time."""
    yield Phase.START
    yield "Grid : Message : 0.1 s : Requesting 134217728 byte stencil comms buffers\n"
    yield life.about(45)
    yield Phase.TRAIN
    passed = 45.0
    for trajectory in range(1, 13):
        yield f"Grid : HMC : {passed:.6f} s : -- # Trajectory = {trajectory}\n"
        for step in range(1, 13):
            for solve in range(1, 5):
                took = life.about(24, 0.2)
                passed += took
                yield took
                yield f"Grid : Iterative : {passed:.6f} s : ConjugateGradient Converged on iteration {life.random.randint(900, 1400)} computed residual {life.random.random() * 1e-8:.3e} true residual 9.1e-09 target 1e-08 ({solve})\n"
            yield f"Grid : Integrator : {passed:.6f} s : MD step {step}\n"
        yield Phase.SAVE
        yield f"Grid : HMC : {passed:.6f} s : Total H after trajectory = {life.random.gauss(4e6, 9):.4f} dH = {life.random.gauss(0, 0.2):.4f}\n"
        yield life.about(30)
        passed += 30
        yield Phase.TRAIN


@form(
    "tokenizer-then-bleu",
    field="translation",
    source="https://github.com/OpenNMT/OpenNMT-tf",
    chatter=("{clock} W tensorflow/core/data: cache is full",),
    tells_loss=True,
)
def seq2seq(life: Life) -> Iterator[Event]:
    """Steps beside rates, evaluations that translate a file without a word, and a BLEU that is computed by another program."""
    yield Phase.START
    yield "2026-02-03 10:00:01.123000: I onmt/runner.py:269] Restored checkpoint run/ckpt-0\n"
    yield life.about(60)
    yield Phase.PREPARE
    yield "2026-02-03 10:01:01.123000: I dataset_util.py:227] Training on 4,500,966 examples\n"
    yield life.about(200)
    yield Phase.TRAIN
    for step in range(100, 40_001, 100):
        yield life.about(28, 0.05)
        yield f"2026-02-03 11:00:01.123000: I training.py:189] Step = {step} ; steps/s = {life.about(3.51, 0.03):.2f}, source words/s = {life.about(41000, 0.02):.0f} ; Learning rate = 0.000{step % 90} ; Loss = {life.loss(step / 40_000, 8, 2.2):.6f}\n"
        if step % 5000 == 0:
            yield Phase.EVALUATE
            yield f"2026-02-03 11:00:01.123000: I training.py:202] Running evaluation for step {step}\n"
            yield life.about(420)
            yield f"2026-02-03 11:07:01.123000: I evaluation.py:285] Evaluation result for step {step}: loss = 1.9 ; perplexity = 6.{step % 9} ; bleu = {step / 2000:.2f}\n"
            yield Phase.SAVE
            yield f"2026-02-03 11:07:02.123000: I training.py:202] Saved checkpoint run/ckpt-{step}\n"
            yield life.about(4)
            yield Phase.TRAIN
