"""Other fields and languages: solvers in Fortran and C++, workflows, federated learning, prints of many kinds."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form

BEAT = "[{clock}] heartbeat {n} from worker 3, alive for {seconds}s"
GPU = "2027/01/15 {clock}.214, 0, 100 %, 61 %, 124.1{n} W, 42"
RETRY = "WARNING: retrying (attempt {n}) connection to metrics.cluster.local:4317"
DISK = "/dev/data0  98T  61T  37T  63% /data"


@form(
    "allennlp",
    field="language",
    source="https://github.com/allenai/allennlp/issues/379",
    chatter=(BEAT,),
    tells_loss=True,
)
def allennlp(life: Life) -> Iterator[Event]:
    """Batches of an epoch with rounded figures, and a validation without a word in between."""
    clock = Clock()
    yield Phase.START
    yield f"{clock()},448 - INFO - allennlp.common.params - trainer.optimizer.type = adagrad\n"
    yield from clock.wait(life.about(200))
    for epoch in range(9):
        yield f"{clock()},962 - INFO - allennlp.training.trainer - Epoch {epoch}/139\n"
        yield Phase.TRAIN
        for batch in range(1, 4168, 550):
            loss = life.loss((epoch + batch / 4168) / 9, 6, 1)
            yield f"{clock()},950 - INFO - allennlp.training.trainer - Batch {batch}/4168: accuracy: 0.{41 + epoch}, loss: {loss:.2f} ||\n"
            yield from clock.wait(life.about(110))
        yield Phase.EVALUATE
        yield f"{clock()},111 - INFO - allennlp.training.trainer - Validating\n"
        yield from clock.wait(life.about(420))


@form(
    "deeprm",
    field="reinforcement learning",
    source="https://github.com/hongzimao/deeprm/issues/10",
    chatter=(GPU,),
    chatter_every=60.0,
)
def deeprm(life: Life) -> Iterator[Event]:
    """A block of tabbed lines each 100 seconds, whose loss goes up and down; tests each hour."""
    clock = Clock()
    yield Phase.TRAIN
    for step in range(180):
        yield (
            f"-----------------\nIteration: \t {step}\nNumTrajs: \t 200\nNumTimesteps: \t {life.random.randint(32_000, 36_000)}\n"
            f"Loss:     \t {life.random.uniform(0.1, 0.9)}\nMeanRew: \t {step / 9 - 257} +- {life.random.uniform(50, 70)}\n"
            f"Elapsed time\t {life.about(103)} seconds\n-----------------\n"
        )
        yield from clock.wait(life.about(103))
        if step % 60 == 59:
            yield Phase.EVALUATE
            yield "saving the policy, running test trajectories\n"
            yield from clock.wait(life.about(600))
            yield Phase.TRAIN


@form(
    "amr-wind",
    field="fluids",
    source="https://github.com/kynema/kynema-sgf/pull/203",
    chatter=(DISK,),
    chatter_every=300.0,
)
def amr_wind(life: Life) -> Iterator[Event]:
    """Steps that adapt, with a table of inner solvers each; plot files take minutes."""
    clock, passed = Clock(), 0.0
    yield Phase.START
    yield "Initializing AMReX (23.11)...\nMPI initialized with 512 MPI processes\n"
    yield from clock.wait(life.about(540))
    yield Phase.TRAIN
    for step in range(1, 1200):
        took = life.random.uniform(0.22, 0.25)
        solvers = "".join(
            f"\n  {name:<26} {life.random.randint(1, 6)}        {life.random.random():.9f}       {life.random.random():.9f}e-05"
            for name in ("MAC_projection", "temperature_solve", "velocity_solve")
        )
        yield f"Step: {step} dt: {took:.10f} Time: {passed:.10f} to {passed + took:.10f}\nCFL: 0.5 (conv: 0.413797 diff: 0 src: 0.207609 )\n{solvers}\n"
        passed += took
        yield from clock.wait(life.about(12))
        if step % 300 == 0:
            yield Phase.SAVE
            yield f"Writing plot file       plt{step:05d} at time {passed:.6f}\n"
            yield from clock.wait(life.about(360))
            yield Phase.TRAIN


@form(
    "qmcpack",
    field="materials",
    source="https://github.com/QMCPACK/qmcpack/pull/5058",
    chatter=(BEAT,),
    death="Fatal Error. Aborting at WalkerControl: population has died out\n",
)
def qmcpack(life: Life) -> Iterator[Event]:
    """Five lines a section, each eleven minutes."""
    clock = Clock()
    yield Phase.START
    yield "  QMCPACK 3.17.1\n  Total number of MPI ranks = 64\n"
    yield from clock.wait(life.about(200))
    yield Phase.TRAIN
    for section in range(9):
        yield f"  Start DMC Driver\n  QMC counter        = {section}\nDMC Warmup completed in {life.about(120):.4e} secs\n"
        yield from clock.wait(life.about(130))
        for block in (1, 101, 201, 301, 400):
            yield f"Completed block {block:4d} of 400 average 7.00412 secs/block after {block * 7.0:.2f} secs\n"
            yield from clock.wait(life.about(680 if block < 400 else 20))


@form(
    "ufs-weather",
    field="weather",
    source="https://github.com/ufs-community/ufs-weather-model/issues/1163",
    chatter=(DISK,),
    chatter_every=300.0,
)
def ufs_weather(life: Life) -> Iterator[Event]:
    """Phases of each step by rank 0, writes by rank 480, a restart in the middle."""
    clock = Clock()
    yield Phase.START
    yield "[0]  MPP_DOMAINS_STACK high water mark=      203112\n"
    yield from clock.wait(life.about(360))
    yield Phase.TRAIN
    for step in range(1, 1800):
        yield f"[0] PASS: fcstRUN phase 1, n_atmsteps = {step:14d} time is {life.about(6.6):11.6f}\n"
        yield from clock.wait(life.about(7))
        if step % 36 == 0:
            yield f"[480] netcdf_parallel Write Time is   {life.about(10):.5f} at Fcst   {step // 12:02d}:00\n"
        if step % 600 == 0:
            yield Phase.SAVE
            yield "[480] writing restart, intermediate\n"
            yield from clock.wait(life.about(480))
            yield Phase.TRAIN


@form(
    "fortran-exponents",
    field="fluids",
    source="solvers of research groups: format(d12.4)",
    chatter=(RETRY,),
    chatter_every=45.0,
    death="forrtl: severe (174): SIGSEGV, segmentation fault occurred\n",
)
def fortran(life: Life) -> Iterator[Event]:
    """Exponents with a D."""
    clock = Clock()
    yield Phase.START
    yield " grid  1024 x 1024 x  512\n"
    yield from clock.wait(life.about(300))
    yield Phase.TRAIN
    for step in range(100, 35_000, 100):
        said = (
            f"  it={step:8d}  t= {step * 3e-4:.4E}  dt= 3.0000E-04  umax= {life.random.uniform(1, 2):.4E}\n"
        )
        yield said.replace("E", "D")
        yield from clock.wait(life.about(42))
        if step % 8000 == 0:
            yield Phase.SAVE
            yield f"  writing restart  fort.{step // 8000 + 10:04d}\n"
            yield from clock.wait(life.about(270))
            yield Phase.TRAIN


@form(
    "snakemake-anew",
    field="genomes",
    source="https://github.com/snakemake/snakemake/issues/759",
    chatter=(RETRY,),
    chatter_every=45.0,
)
def snakemake(life: Life) -> Iterator[Event]:
    """Job numbers in any order, one count of what is done, uneven pauses."""
    clock = Clock()
    yield Phase.START
    yield "Building DAG of jobs...\nJob stats:\njob      count\nalign    5200\ntotal    10400\n"
    yield from clock.wait(life.about(180))
    yield Phase.TRAIN
    for done in range(1, 240):
        job = life.random.randint(1, 10_400)
        yield f"[{clock('%a %b %d %H:%M:%S %Y')}]\nFinished job {job}.\n{done} of 10400 steps ({done // 104}%) done\n\nrule align:\n    output: out/s{job}.bam\n    jobid: {job}\n    threads: 8\n"
        yield from clock.wait(life.about(95, 0.35))


@form(
    "logfmt-of-go",
    field="records",
    source="programs in Go: level=info msg=",
    chatter=('time={clock} level=info msg="heartbeat" uptime={seconds}s goroutines=48 seq={n}',),
    chatter_every=15.0,
    tells_loss=True,
)
def logfmt(life: Life) -> Iterator[Event]:
    """One record a line."""
    clock = Clock()
    yield Phase.START
    yield f'time={clock("%Y-%m-%dT%H:%M:%SZ")} level=info msg="dataset opened" shards=512\n'
    yield from clock.wait(life.about(300))
    yield Phase.TRAIN
    for step in range(10, 7000, 10):
        yield f'time={clock("%Y-%m-%dT%H:%M:%SZ")} level=info msg="step done" step={step} loss={life.loss(step / 7000, 6, 2):.4f} tok={step * 49152} dur=19.8s\n'
        yield from clock.wait(life.about(20))


@form(
    "json-of-lists",
    field="records",
    source="loggers of our own: step as [epoch, batch]",
    chatter=(
        '{{"ts":1800000{n},"lvl":"INFO","event":"sys","gpu":[{{"id":0,"util":100,"w":124}}],"uptime":{seconds}}}',
    ),
    chatter_every=20.0,
    death="Traceback (most recent call last):\n  File \"train.py\", line 411, in <module>\n    main()\nKeyError: 'shard-00412'\n",
)
def json_of_lists(life: Life) -> Iterator[Event]:
    """Epoch and batch in a list, in records of a logging library; who dies is no record."""
    clock = Clock()
    yield Phase.START
    yield '{"lvl":"INFO","event":"boot","world":64}\n'
    yield from clock.wait(life.about(420))
    for epoch in range(3):
        yield Phase.TRAIN
        for batch in range(400):
            yield f'{{"ts":{1_800_000_000 + clock.passed:.3f},"lvl":"INFO","event":"train","step":[{epoch},{batch}],"m":{{"loss":{life.loss((epoch + batch / 400) / 3, 6, 2):.4f},"gn":0.4}}}}\n'
            yield from clock.wait(life.about(12))
        yield Phase.EVALUATE
        yield f'{{"lvl":"INFO","event":"eval","m":{{"ppl":{life.about(9):.3f}}}}}\n'
        yield from clock.wait(life.about(360))


@form(
    "pdsh-nodes",
    field="launchers",
    source="https://github.com/deepspeedai/DeepSpeed (pdsh's prefix)",
    chatter=("gpu-b04: " + RETRY,),
    death="gpu-b05: ERROR: LoadError: DomainError with -1.0\n",
)
def pdsh(life: Life) -> Iterator[Event]:
    """Each line behind its host's name."""
    clock = Clock()
    yield Phase.START
    yield "gpu-b03: [INFO] [comm.py:637:init_distributed] cdb=None\n"
    yield from clock.wait(life.about(840))
    yield Phase.TRAIN
    for step in range(10, 6000, 10):
        yield f"gpu-b03: steps: {step} loss: {life.loss(step / 6000, 6, 2):.4f} iter time (s): {life.about(2.3):.3f} samples/sec: {life.about(410):.3f}\n"
        if step % 40 == 0:
            yield "gpu-b04: [WARNING] [stage3.py:1949:step] 3 pytorch allocator cache flushes since last step\n"
        yield from clock.wait(life.about(24))


@form(
    "pmemd",
    field="molecular dynamics",
    source="https://ambermd.org (mdout)",
    chatter=("Mem:  503  212  101  3  187  288",),
    chatter_every=60.0,
)
def pmemd(life: Life) -> Iterator[Event]:
    """Blocks of energies each minute and a half."""
    clock = Clock()
    yield Phase.START
    yield "          Amber 22 PMEMD                              2022\n   4.  RESULTS\n"
    yield Phase.TRAIN
    for step in range(50_000, 9_000_000, 50_000):
        yield from clock.wait(life.about(88))
        yield f"\n NSTEP = {step:8d}   TIME(PS) = {step * 0.004 + 1000:11.3f}  TEMP(K) = {life.about(300, 0.003):8.2f}  PRESS = {life.random.uniform(-30, 30):7.1f}\n Etot   = {life.about(-255_000, 0.001):12.4f}  EKtot   =   60412.1140\n"


@form(
    "flower",
    field="federated learning",
    source="https://github.com/flwrlabs/flower (ServerApp)",
    chatter=("I0115 {clock}.112 139 chttp2_transport.cc:2841] ipv4:10.2.0.9:443: Keepalive ping acked",),
    chatter_every=120.0,
)
def flower(life: Life) -> Iterator[Event]:
    """Rounds of eleven minutes; each seventh has a client that failed."""
    clock = Clock()
    yield Phase.START
    yield "INFO :      Starting Flower ServerApp, config: num_rounds=300\n"
    yield from clock.wait(life.about(100))
    yield Phase.TRAIN
    for number in range(1, 40):
        yield f"INFO :      \nINFO :      [ROUND {number}]\nINFO :      configure_fit: strategy sampled 10 clients (out of 100)\n"
        yield from clock.wait(life.about(540, 0.15))
        failed = number % 7 == 0
        yield f"INFO :      aggregate_fit: received {10 - failed} results and {int(failed)} failures\nINFO :      fit progress: ({number}, {2 / number**0.3:.6f}, {clock.passed:.4f})\n"
        yield from clock.wait(life.about(120))


@form(
    "chinese",
    field="home-made",
    source="scripts whose words are Chinese",
    chatter=(RETRY,),
    chatter_every=45.0,
)
def chinese(life: Life) -> Iterator[Event]:
    """Epoch, step of a total, loss and time, in words of no known format."""
    clock = Clock()
    yield Phase.START
    yield "正在加载数据集 …… 共 118201 条\n"
    yield from clock.wait(life.about(360))
    for epoch in range(1, 8):
        yield Phase.TRAIN
        for step in range(0, 1200, 10):
            yield f"第 {epoch} 轮，步 {step}/1200，损失 {life.loss((epoch + step / 1200) / 8, 6, 2):.4f}，用时 3.2 秒\n"
            yield from clock.wait(life.about(16))
        yield Phase.EVALUATE
        yield f"第 {epoch} 轮验证中\n"
        yield from clock.wait(life.about(300))


@form("epoch-dots", field="vision", source="https://github.com/tensorflow/docs (EpochDots)", chatter=(BEAT,))
def epoch_dots(life: Life) -> Iterator[Event]:
    """A dot each epoch, a line each hundred of them."""
    clock = Clock()
    yield Phase.START
    yield "num_features: 9\n"
    yield from clock.wait(life.about(60))
    yield Phase.TRAIN
    for epoch in range(2400):
        if epoch % 100 == 0:
            yield f"\nEpoch: {epoch}, abs_error:{9 / (1 + epoch / 100):.4f},  loss:{90 / (1 + epoch / 100):.4f},  \n"
        yield "."
        yield from clock.wait(life.about(7.5))


@form("specfem", field="seismics", source="https://github.com/SPECFEM/specfem3d/issues/773", chatter=(BEAT,))
def specfem(life: Life) -> Iterator[Event]:
    """Blocks that count up and down, beside two clocks of the wall."""
    clock = Clock()
    yield Phase.START
    yield " preparing mass matrices\n Starting time iteration loop...\n"
    yield Phase.TRAIN
    for step in range(500, 60_000, 500):
        yield from clock.wait(life.about(150))
        yield f" Time step # {step:12d}\n Time:   {step * 4.45e-4:.7f}      seconds\n Elapsed time in seconds = {clock.passed:18.12f}\n Time steps done = {step:12d}  out of       400000\n Time steps remaining = {400_000 - step:12d}\n We have done    {step / 4000:.5f}     % of that\n"


@form(
    "nest",
    field="neurons",
    source="https://github.com/nest/nest-simulator/issues/1435",
    chatter=(GPU,),
    chatter_every=60.0,
)
def nest(life: Life) -> Iterator[Event]:
    """Simulated tenths of seconds beside minutes of the wall."""
    clock = Clock()
    yield Phase.START
    yield "Building network ...\n"
    yield Phase.PREPARE
    yield from clock.wait(life.about(780))
    yield Phase.TRAIN
    for step in range(1, 500):
        yield from clock.wait(life.about(36))
        yield f"100.0 ms run time = {life.about(35):.2f} s\nRun time =  {clock.passed / 60:.2f} min\nTime =  {step * 0.1} s\n"


@form(
    "two-seeds-in-turn",
    field="reinforcement learning",
    source="scripts that train several seeds in turn",
    chatter=(BEAT,),
)
def two_seeds(life: Life) -> Iterator[Event]:
    """One of two ends earlier than the other."""
    clock = Clock()
    yield Phase.START
    yield "seeds 11 and 12 on one GPU\n"
    yield Phase.TRAIN
    for update in range(1, 500):
        for seed in (11, 12) if update <= 240 else (12,):
            yield f"[seed {seed}] upd {update} ret {update * 0.3 - 200:.2f} len {life.random.randint(150, 220)}\n"
            yield from clock.wait(life.about(19))
        if update == 240:
            yield "[seed 11] finished: mean return -128.1\n"


@form(
    "curriculum",
    field="pre-training",
    source="runs whose context grows by phases",
    chatter=(BEAT,),
    tells_loss=True,
)
def curriculum(life: Life) -> Iterator[Event]:
    """The loss begins higher in each phase."""
    clock, update = Clock(), 0
    for phase, context in enumerate((1024, 4096, 16_384), 1):
        yield Phase.START
        yield f"phase {phase}: ctx {context}\n"
        yield from clock.wait(life.about(300))
        yield Phase.TRAIN
        for within in range(500):
            update += 1
            loss = life.loss(within / 500, 3 + phase * 0.3, 2 + phase * 0.3, 0.01)
            yield f"[u {update:06d}] nll {loss:.4f} gn 0.41 {8.1 + phase:.1f}s/u\n"
            yield from clock.wait(life.about(8 + 2 * phase))
