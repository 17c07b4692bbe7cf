"""Recommenders, graphs and games."""

from __future__ import annotations

import json
from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "dlrm",
    field="recommenders",
    source="https://github.com/facebookresearch/dlrm/issues",
    chatter=("{clock} UTC ganglia: sent {n} metrics",),
    chatter_every=60.0,
    tells_loss=True,
)
def dlrm(life: Life) -> Iterator[Event]:
    """`Finished training it 1024/306968 of epoch 0`, a loss that hardly falls, a test within the epoch; memory-mapped days first."""
    yield Phase.START
    yield "world size: 8, current rank: 0, local rank: 0\nUsing 8 GPU(s)...\n"
    yield life.about(30)
    yield Phase.PREPARE
    for day in range(24):
        yield f"Reading pre-processed data={day} /data/terabyte_processed_day_{day}\n"
        yield life.about(37)
    yield "Sparse fea = 26, Dense fea = 13\ntime/loss/accuracy (if enabled):\n"
    yield life.about(95)
    yield Phase.TRAIN
    for step in range(1024, 306_968, 1024):
        yield life.about(27, 0.05)
        loss = life.loss(0.9, 0.14, 0.124, 0.012)
        yield f"Finished training it {step}/306968 of epoch 0, {life.about(26.1, 0.05):.2f} ms/it, loss {loss:.6f}, accuracy {96.6 + loss:.3f} %\n"
        if step % 51_200 == 0:
            yield Phase.EVALUATE
            yield f"Testing at - {step}/306968 of epoch 0,\n"
            yield life.about(260)
            yield f" accuracy {96.7 + loss:.3f} %, best {96.9:.3f} %\n"
            yield Phase.TRAIN


@form(
    "hugectr",
    field="recommenders",
    source="https://github.com/NVIDIA-Merlin/HugeCTR/issues",
    chatter=("[HCTR][{clock}.102][INFO][RK0][tid #1]: heartbeat",),
    chatter_every=20.0,
    death="[HCTR][12:00:00.000][ERROR][RK2][main]: Runtime error: an illegal memory access was encountered\n"
    "\tcudaStreamSynchronize(gpu->get_stream()) at graph.cpp:411 (launch)\n",
    tells_loss=True,
)
def hugectr(life: Life) -> Iterator[Event]:
    """Blocks of settings, one line per 1,000 iterations, evaluations in one line, a dump of tables at the end."""
    clock = Clock()
    yield Phase.START
    yield "=====================================================Model Init=====================================================\n"
    yield f"[HCTR][{clock('%H:%M:%S')}.301][INFO][RK0][main]: Global seed is 1120821381\n"
    yield from clock.wait(life.about(50))
    yield Phase.PREPARE
    yield f"[HCTR][{clock('%H:%M:%S')}.301][INFO][RK0][main]: Vocabulary size: 33762577\n[HCTR][{clock('%H:%M:%S')}.511][INFO][RK0][main]: Graph analysis to resolve tensor dependency\n"
    yield from clock.wait(life.about(170))
    yield f"[HCTR][{clock('%H:%M:%S')}.302][INFO][RK0][main]: Use non-epoch mode with number of iterations: 400000\n"
    yield Phase.TRAIN
    for step in range(1000, 400_001, 1000):
        took = life.about(19, 0.04)
        yield from clock.wait(took)
        loss = life.loss(step / 400_000, 0.69, 0.121, 0.03)
        yield f"[HCTR][{clock('%H:%M:%S')}.551][INFO][RK0][main]: Iter: {step} Time(1000 iters): {took:.4f}s Loss: {loss:.6f} lr:{0.001 * (1 - step / 400_001):.6f}\n"
        if step % 50_000 == 0:
            yield Phase.EVALUATE
            yield f"[HCTR][{clock('%H:%M:%S')}.552][INFO][RK0][main]: Evaluating ...\n"
            yield from clock.wait(life.about(38))
            yield f"[HCTR][{clock('%H:%M:%S')}.553][INFO][RK0][main]: Evaluation, AUC: {0.81 - loss / 100:.5f}\n"
            yield Phase.TRAIN
    yield Phase.AFTER
    yield f"[HCTR][{clock('%H:%M:%S')}.900][INFO][RK0][main]: Rank0: Dump hash table from GPU0\n"
    yield from clock.wait(life.about(500))
    yield f"[HCTR][{clock('%H:%M:%S')}.900][INFO][RK0][main]: Dumping sparse weights to files, successful\n"


@form(
    "recbole",
    field="recommenders",
    source="https://github.com/RUCAIBox/RecBole/issues",
    chatter=("03 Feb {clock}    INFO  scheduler: nothing to do",),
    chatter_every=45.0,
)
def recbole(life: Life) -> Iterator[Event]:
    """A bar over each epoch and each evaluation, which goes when it is full, and coloured summaries of times."""
    yield Phase.START
    yield "03 Feb 10:00    INFO  ['run_recbole.py', '--model=SASRec']\n"
    yield life.about(15)
    yield Phase.PREPARE
    yield "03 Feb 10:00    INFO  Saving filtered dataset into [saved/ml-25m-SASRec.pth]\n"
    yield life.about(210)
    for epoch in range(24):
        yield Phase.TRAIN
        begun = life.about(1.5)
        for batch in range(0, 3601, 12):
            yield f"\r\x1b[1;35mTrain {epoch:5}\x1b[0m: {batch * 100 // 3600:3}%|{'█' * (batch // 360):10}| {batch}/3600 [{batch // 8 // 60:02}:{batch // 8 % 60:02}<01:10,  8.11it/s, \x1b[1;33mGPU RAM: 9.41 G/79.15 G\x1b[0m]"
            yield begun
        loss = life.loss(epoch / 24, 9000, 6100)
        yield f"\n03 Feb 10:{epoch:02}    INFO  \x1b[1;32mepoch {epoch} training\x1b[0m [\x1b[1;34mtime\x1b[0m: {begun * 301:.2f}s, \x1b[1;34mtrain loss\x1b[0m: {loss:.4f}]\n"
        yield Phase.EVALUATE
        for batch in range(0, 400, 8):
            yield f"\r\x1b[1;35mEvaluate   \x1b[0m: {batch // 4:3}%|{'█' * (batch // 40):10}| {batch}/400 [00:{batch // 8:02}<00:10,  4.11it/s]"
            yield life.about(1.9)
        yield f"\n03 Feb 10:{epoch:02}    INFO  \x1b[1;32mepoch {epoch} evaluating\x1b[0m [\x1b[1;34mtime\x1b[0m: 95.11s, \x1b[1;34mvalid_score\x1b[0m: {0.2 + epoch / 200:.6f}]\n"
        if epoch % 3 == 0:
            yield Phase.SAVE
            yield f"03 Feb 10:{epoch:02}    INFO  \x1b[1;34mSaving current\x1b[0m: saved/SASRec.pth\n"
            yield life.about(9)


@form(
    "pykeen",
    field="learning on graphs",
    source="https://github.com/pykeen/pykeen/issues",
    chatter=("INFO:watch:{clock} disk 71 %",),
    chatter_every=60.0,
)
def pykeen(life: Life) -> Iterator[Event]:
    """A bar over epochs, one over batches below it that comes and goes, then an evaluation in a bar of its own."""
    yield Phase.START
    yield "INFO:pykeen.pipeline.api:Using device: cuda:0\n"
    yield life.about(12)
    yield Phase.PREPARE
    yield "INFO:pykeen.triples.triples_factory:Creating inverse triples.\n"
    yield life.about(65)
    yield Phase.TRAIN
    for epoch in range(60):
        for batch in range(0, 1700, 17):
            yield f"\rTraining batches on cuda:0: {batch // 17:3}%|{'#' * (batch // 170):10}| {batch}/1.70k [00:{batch // 30:02}<00:30, 31.2batch/s]"
            yield life.about(0.9)
        loss = life.loss(epoch / 60, 1.2, 0.05, 0.01)
        yield f"\rTraining epochs on cuda:0: {epoch * 100 // 60:3}%|{'█' * (epoch // 6):10}| {epoch + 1}/60 [{epoch * 90 // 60:02}:{epoch * 90 % 60:02}<1:20:11, 90.11s/epoch, loss={loss:.3g}, prev_loss={loss * 1.01:.3g}]"
    yield "\n"
    yield Phase.EVALUATE
    yield "INFO:pykeen.evaluation.evaluator:Starting batch_size search for evaluation now...\n"
    yield life.about(55)
    for triple in range(0, 20_500, 128):
        yield f"\rEvaluating on cuda:0: {triple // 205:3}%|{'#' * (triple // 2050):10}| {triple / 1000:.1f}k/20.5k [00:11<00:31, 211triple/s]"
        yield life.about(4)
    yield "\nINFO:pykeen.evaluation.evaluator:Evaluation took 641.22s seconds\n"
    yield Phase.AFTER
    yield life.about(40)


@form(
    "lczero-training",
    field="games",
    source="https://github.com/LeelaChessZero/lczero-training/issues",
    chatter=("{clock} rsync: 12 new chunks",),
    chatter_every=120.0,
)
def lczero(life: Life) -> Iterator[Event]:
    """`step 100, lr=0.02 policy=... value=... mse=...`, waits for new games that are as long as they like, a dump of weights."""
    yield Phase.START
    yield "Using 2 gpus\n"
    yield life.about(45)
    yield Phase.PREPARE
    yield "got 91231 chunks for /data/games\n"
    yield life.about(120)
    yield "Using 8 worker processes.\n"
    yield Phase.TRAIN
    for step in range(100, 26_001, 100):
        yield life.about(36, 0.04)
        policy = life.loss(step / 26_000, 5.1, 1.9)
        yield f"step {step}, lr=0.02 policy={policy:.5f} value={policy / 3:.5f} mse=0.05{step % 977:03} moves={policy / 9:.5f} reg=0.11{step % 89:02} total={policy * 1.6:.5f} ({life.about(11500, 0.05):g} pos/s)\n"
        if step % 2000 == 0:
            yield Phase.EVALUATE
            yield life.about(60)
            yield f"step {step}, policy={policy:.5f} value={policy / 3:.5f} policy accuracy={50 - policy:.4f}% value accuracy=70.11% mse=0.0512\n"
            yield Phase.SAVE
            yield f"Model saved in file: /data/nets/T78-{step}\n"
            yield life.about(25)
            yield f"Weights saved as '/data/nets/T78-swa-{step}.pb.gz' 21.4M\n"
            yield life.about(life.random.choice((60, 240, 420)))
            yield Phase.TRAIN


@form(
    "katago-json",
    field="games",
    source="https://github.com/lightvector/KataGo/issues",
    chatter=("{clock}: Currently up to data row 1{n}00",),
    chatter_every=60.0,
)
def katago(life: Life) -> Iterator[Event]:
    """Training epochs of ten minutes between which it waits for data that selfplay makes; metrics as JSON beside prose."""
    yield Phase.START
    yield "Launching with args: ['train.py', '-traindir', '/k/train/b18']\nSeeding torch with 11\n"
    yield life.about(70)
    samples = 0
    for epoch in range(20):
        yield Phase.PREPARE
        yield "GC collect\nBeginning training epoch!\n"
        yield f"This epoch, using: /k/shuffled/{20_260_203 + epoch}-101112/train\n"
        yield life.about(20)
        yield Phase.TRAIN
        for _ in range(60):
            yield life.about(12, 0.06)
            samples += 25_600
            yield json.dumps({"p0loss": round(life.loss(samples / 3e7, 4.0, 1.8), 5), "vloss": 0.61, "nsamp": samples, "wsum": samples * 0.98, "pslr": 3e-5}) + "\n"  # fmt: skip
        yield "Finished training subepoch!\nSaving checkpoint: /k/train/b18/checkpoint.ckpt\n"
        yield Phase.SAVE
        yield life.about(14)
        yield "Export cycle counter = 3\n"
        yield life.about(3)
        yield "Waiting for new data, sleeping 30 seconds\n"
        yield Phase.PREPARE
        for _ in range(life.random.randrange(4, 16)):
            yield life.about(30, 0.02)
            yield "Not enough new data yet, sleeping 30 seconds\n"
