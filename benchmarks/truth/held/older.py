"""Frameworks of yesterday that still run, and trainings of very small batches."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "tf-estimator",
    field="older frameworks",
    source="https://github.com/tensorflow/models/issues (object_detection/model_main.py)",
    chatter=("W0203 {clock}.211212 140 summary_iterator.py:31] retry",),
    chatter_every=60.0,
    tells_loss=True,
)
def estimator(life: Life) -> Iterator[Event]:
    """`loss = 12.3, step = 100 (12.3 sec)`, a rate in a line of its own, saves that start evaluations, which count in tens."""
    yield Phase.START
    yield "INFO:tensorflow:Using config: {'_model_dir': '/data/ssd', '_save_checkpoints_steps': 2000}\n"
    yield life.about(30)
    yield Phase.PREPARE
    yield "INFO:tensorflow:Calling model_fn.\n"
    yield life.about(45)
    yield "INFO:tensorflow:Done calling model_fn.\nINFO:tensorflow:Create CheckpointSaverHook.\nINFO:tensorflow:Graph was finalized.\n"
    yield life.about(100)
    yield Phase.TRAIN
    for step in range(0, 20_001, 100):
        loss = life.loss(step / 20_000, 14, 1.6, 0.18)
        took = life.about(52, 0.05)
        if step:
            yield f"INFO:tensorflow:global_step/sec: {100 / took:.5f}\n"
        yield f"INFO:tensorflow:loss = {loss:.7f}, step = {step}{f' ({took:.3f} sec)' if step else ''}\n"
        yield took
        if step and step % 2000 == 0:
            yield Phase.SAVE
            yield f"INFO:tensorflow:Saving checkpoints for {step} into /data/ssd/model.ckpt.\n"
            yield life.about(11)
            yield Phase.EVALUATE
            yield "INFO:tensorflow:Calling model_fn.\n"
            yield life.about(40)
            for done in range(10, 101, 10):
                yield f"INFO:tensorflow:Evaluation [{done}/100]\n"
                yield life.about(7)
            yield f"INFO:tensorflow:Saving dict for global step {step}: DetectionBoxes_Precision/mAP = 0.2{step // 100}, loss = {loss * 1.1:.6f}\n"
            yield Phase.TRAIN


@form(
    "caffe",
    field="older frameworks",
    source="https://github.com/BVLC/caffe/issues",
    chatter=("I0203 {clock}.301112  4121 data_layer.cpp:73] Restarting data prefetching from start.",),
    chatter_every=90.0,
    death="F0203 12:00:00.000001  4121 math_functions.cu:79] Check failed: error == cudaSuccess (77 vs. 0)  an illegal memory access was encountered\n*** Check failure stack trace: ***\n",
    tells_loss=True,
)
def caffe(life: Life) -> Iterator[Event]:
    """glog lines, a loss of single batches beside outputs and the rate, a test each 500 iterations."""
    clock = Clock()

    def say(text: str) -> str:
        return f"I0203 {clock('%H:%M:%S')}.121212  4121 {text}\n"

    yield Phase.START
    yield say("caffe.cpp:218] Using GPUs 0, 1")
    yield from clock.wait(life.about(20))
    yield Phase.PREPARE
    for layer in range(60):
        yield say(f"net.cpp:86] Creating Layer conv{layer}") + say(f"net.cpp:124] Setting up conv{layer}")
        yield from clock.wait(0.3)
    yield say("solver.cpp:57] Solver scaffolding done.")
    yield Phase.TRAIN
    for step in range(0, 12_001, 20):
        loss = life.loss(step / 12_000, 6.9, 1.5, 0.15)
        yield say(
            f"solver.cpp:239] Iteration {step} ({life.about(1.1, 0.02):.5f} iter/s, 17.{step % 99:02}s/20 iters), loss = {loss:.6g}"
        )
        yield say(f"solver.cpp:258]     Train net output #0: loss = {loss:.6g} (* 1 = {loss:.6g} loss)")
        yield say(f"sgd_solver.cpp:112] Iteration {step}, lr = {0.01 * (1 - step / 12_001):.6g}")
        yield from clock.wait(life.about(17.5, 0.03))
        if step % 500 == 0:
            yield Phase.EVALUATE
            yield say(f"solver.cpp:347] Iteration {step}, Testing net (#0)")
            yield from clock.wait(life.about(85))
            yield say(f"solver.cpp:414]     Test net output #0: accuracy = {0.7 - loss / 20:.5g}") + say(
                f"solver.cpp:414]     Test net output #1: loss = {loss * 1.05:.6g} (* 1 = {loss * 1.05:.6g} loss)"
            )
            yield Phase.TRAIN


@form(
    "mxnet-gluon",
    field="older frameworks",
    source="https://github.com/dmlc/gluon-cv/issues",
    chatter=("[{clock}] src/operator/nn/cudnn: workspace {n}",),
    chatter_every=60.0,
    tells_loss=True,
)
def gluon(life: Life) -> Iterator[Event]:
    """`[Epoch 0][Batch 99], Speed: ..., CrossEntropy=...`, epochs of twelve minutes, a cost line, a validation map of twenty lines."""
    yield Phase.START
    yield "INFO:root:Namespace(batch_size=32, data_shape=608, epochs=16)\n"
    yield life.about(30)
    yield Phase.PREPARE
    yield "[10:00:41] src/operator/nn/./cudnn/./cudnn_algoreg-inl.h:97: Running performance tests to find the best convolution algorithm, this can take a while...\n"
    yield life.about(85)
    yield Phase.TRAIN
    for epoch in range(16):
        for batch in range(99, 3600, 100):
            yield life.about(21, 0.05)
            loss = life.loss((epoch + batch / 3600) / 16, 9.5, 2.1, 0.1)
            yield f"INFO:root:[Epoch {epoch}][Batch {batch}], LR: 1.00E-03, Speed: {life.about(151, 0.04):.3f} samples/sec, ObjLoss={loss:.3f}, BoxCenterLoss={loss / 2:.3f}, loss={loss * 1.5:.3f}\n"
        yield f"INFO:root:[Epoch {epoch}] Training cost: 756.211, ObjLoss={loss:.3f}, BoxCenterLoss={loss / 2:.3f}\n"
        yield Phase.EVALUATE
        yield life.about(230)
        yield f"INFO:root:[Epoch {epoch}] Validation: \naeroplane=0.7{epoch:02}\nbicycle=0.7{epoch:02}\nmAP=0.7{epoch:02}\n"
        yield Phase.TRAIN


@form(
    "unsloth-lora",
    field="fine-tuning",
    source="https://github.com/unslothai/unsloth/issues",
    chatter=("wandb: WARNING {clock} sync is slow",),
    chatter_every=60.0,
    tells_loss=True,
)
def unsloth(life: Life) -> Iterator[Event]:
    """Batches of two, so that losses lie anywhere between half and twice; a dictionary each step and a bar."""
    yield Phase.START
    yield "🦥 Unsloth: Will patch your computer to enable 2x faster free finetuning.\n"
    yield life.about(40)
    yield Phase.PREPARE
    for part in range(0, 52_001, 1000):
        yield f"\rUnsloth: Tokenizing [{chr(34)}text{chr(34)}] (num_proc=8): {part * 100 // 52_000:3}%|{'█' * (part // 5200):10}| {part}/52000 [00:{part // 1000:02}<00:30, 811.11 examples/s]"
        yield life.about(1.2)
    yield "\n==((====))==  Unsloth - 2x faster free finetuning | Num GPUs used = 1\n   \\\\   /|    Num examples = 51,760 | Num Epochs = 1 | Total steps = 2,000\n"
    yield life.about(60)
    yield Phase.TRAIN
    for step in range(1, 2001):
        yield life.about(6.2, 0.25)
        noise = life.random.lognormvariate(0.0, 0.32)
        loss = life.loss(min(step / 300, 1), 2.1, 1.05, 0.02) * noise
        yield f"{{'loss': {loss:.4f}, 'grad_norm': {0.4 * noise:.6f}, 'learning_rate': {2e-4 * (1 - step / 2001):.6g}, 'epoch': {step / 6470:.2f}}}\n"
        yield f"\r{step * 100 // 2000:3}%|{'█' * (step // 200):10}| {step}/2000 [{step * 6 // 60}:{step * 6 % 60:02}<1:11:11,  6.21s/it]"
        if step % 500 == 0:
            yield Phase.SAVE
            yield life.about(12)
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "{'train_runtime': 12400.1, 'train_samples_per_second': 1.3, 'train_loss': 1.08, 'epoch': 0.31}\n"
    yield "Unsloth: Merging 4bit and LoRA weights to 16bit...\n"
    yield life.about(420)
    yield "Unsloth: Saving tokenizer... Done.\n"


@form(
    "rl-games",
    field="reinforcement learning of robots",
    source="https://github.com/Denys88/rl_games and https://github.com/isaac-sim/IsaacLab/issues/3484",
    chatter=("2026-02-03 {clock} [612,119ms] [Warning] [omni.client.python] Detected a blocking function.",),
    chatter_every=60.0,
)
def rl_games(life: Life) -> Iterator[Event]:
    """`fps step: ... epoch: 12/1500 frames: ...`, and a line at each new best reward."""
    yield Phase.START
    yield "[INFO]: Parsing configuration from: isaaclab_tasks.config.ant:AntEnvCfg\n"
    yield life.about(70)
    yield Phase.PREPARE
    yield "[INFO][AppLauncher]: Loading experience file: isaaclab.python.headless.kit\n2026-02-03 10:01:04 [16,119ms] [Warning] [omni.client.python] Detected a blocking function.\n"
    yield life.about(210)
    yield "self.seed = 42\nStarted to train\n"
    yield Phase.TRAIN
    for epoch in range(1, 1501):
        yield life.about(7.4, 0.06)
        yield f"fps step: {life.about(91211, 0.03):.0f} fps step and policy inference: {life.about(71211, 0.03):.0f} fps total: {life.about(51211, 0.03):.0f} epoch: {epoch}/1500 frames: {epoch * 393_216}\n"
        if epoch > 40 and epoch % 17 == 0:
            yield f"saving next best rewards:  [{epoch * 3 + life.random.random():.6f}]\n=> saving checkpoint 'runs/ant/nn/ant.pth'\n"
            yield life.about(2)
        if epoch % 500 == 0:
            yield Phase.SAVE
            yield f"=> saving checkpoint 'runs/ant/nn/last_ant_ep_{epoch}.pth'\n"
            yield life.about(6)
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "MAX EPOCHS NUM!\n"
    yield life.about(45)


@form(
    "r-loop",
    field="home-made",
    source="forum posts: message(Sys.time(), ' finished replicate ', i) in scripts of R",
    chatter=("(keepalive)",),
    chatter_every=600.0,
)
def replicates(life: Life) -> Iterator[Event]:
    """A replicate takes eleven minutes, or twice that; warnings of packages in between."""
    clock = Clock()
    yield Phase.START
    yield "Loading required package: Matrix\nThe following objects are masked from 'package:stats': filter, lag\n"
    yield from clock.wait(life.about(20))
    yield Phase.TRAIN
    for number in range(1, 41):
        yield from clock.wait(life.about(660, 0.08) * life.random.choice((1, 1, 1, 2)))
        yield f"{clock()} finished replicate {number}\n"
        if number % 9 == 0:
            yield 'Warning message:\nIn checkConv(attr(opt, "derivs"), opt$par): Model failed to converge with max|grad| = 0.0021\n'
