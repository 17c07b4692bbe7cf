"""Molecules, materials and learning of science."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "gromacs",
    field="molecular dynamics",
    source="https://gitlab.com/gromacs/gromacs (mdrun -v) and forum posts",
    chatter=("NOTE: {clock} power cap of GPU 0 reached, 310 W",),
    chatter_every=30.0,
)
def gromacs(life: Life) -> Iterator[Event]:
    """`step 1200, will finish ...` over itself each few seconds; minimisation, equilibration and production in a row."""
    clock = Clock()
    stages = (("em", 0, 0.0), ("nvt", 50_000, 2.4), ("npt", 100_000, 2.6), ("md", 2_500_000, 2.6))
    for name, steps, seconds in stages:
        yield Phase.START
        yield f"                      :-) GROMACS - gmx grompp, 2024.2 (-:\n\nSetting the LD random seed to -1{len(name)}7\n\nThis run will generate roughly {len(name) * 81} Mb of data\n"
        yield from clock.wait(life.about(25))
        yield f"                      :-) GROMACS - gmx mdrun, 2024.2 (-:\n\nReading file {name}.tpr, VERSION 2024.2 (single precision)\nUsing 4 MPI threads\n\n"
        if not steps:
            yield Phase.PREPARE
            for step in range(1, 1200):
                yield f"Step={step:5}, Dmax= 1.{step % 9}e-02 nm, Epot= {-1.2e6 - step * 211:.5e} Fmax= {life.about(9e4 / step + 900, 0.4):.5e}, atom= {step * 7}\n"
                yield from clock.wait(life.about(0.4))
            continue
        yield f"starting mdrun 'Lysozyme of a marmot in water'\n{steps} steps, {steps / 500:.1f} ps.\n"
        yield from clock.wait(life.about(8))
        yield Phase.TRAIN
        for step in range(0, steps + 1, 500):
            yield f"\rstep {step}, will finish Tue Feb  3 1{4 + step % 2}:11:0{step % 7} 2026           "
            yield from clock.wait(life.about(seconds))
        yield f"\nWriting final coordinates.\n\n               Core t (s)   Wall t (s)        (%)\n       Time:    {clock.passed * 32:.3f}     {clock.passed:.3f}     3200.0\nPerformance:      {life.about(24):.3f}        1.001\n\n"
    yield Phase.AFTER


@form(
    "openfold-lightning",
    field="proteins",
    source="https://github.com/aqlaboratory/openfold/issues/19 and /198",
    chatter=(
        "WARNING:root:The exact sequence {n} was not found in 7xqk_A. Realigning the template to the actual sequence.",
    ),
    chatter_every=80.0,
)
def openfold(life: Life) -> Iterator[Event]:
    """A bar of Lightning of 30 s an iteration with lines of warnings amid it, validation of long proteins."""
    clock = Clock()
    yield Phase.START
    yield "[rank: 0] Seed set to 77843\n[2026-02-03 10:00:09,188] [INFO] [real_accelerator.py:161:get_accelerator] Setting ds_accelerator to cuda (auto detect)\n"
    yield from clock.wait(life.about(60))
    yield Phase.PREPARE
    yield "initializing deepspeed distributed: GLOBAL_RANK: 0, MEMBER: 1/8\n  | Name  | Type          | Params | Mode \n0 | model | AlphaFold     | 93.2 M | train\n"
    yield from clock.wait(life.about(150))
    for epoch in range(3):
        yield Phase.TRAIN
        for step in range(1, 251):
            yield from clock.wait(life.about(29, 0.25))
            if life.random.random() < 0.1:
                yield f"WARNING:root:The exact sequence {'MKV' * life.random.randint(1, 4)} was not found in {life.random.randint(1, 8)}abc_A. Realigning the template to the actual sequence.\n"
            yield (
                f"\rEpoch {epoch}: {step * 100 // 250:3}%|{'█' * (step // 25):10}| {step}/250 [{Clock.long(step * 29)}<1:11:02, 29.0s/it, v_num=x7k1, "
                f"train/loss_step={life.about(90 - 20 * epoch, 0.3):.1f}, train/lddt_ca_step={0.2 + epoch / 5:.3f}]"
            )
        yield Phase.EVALUATE
        for case in range(21):
            yield f"\rValidation DataLoader 0: {case * 5:3}%|{'█' * (case // 2):10}| {case}/20 [{Clock.long(case * 60)}<10:01, 61.0s/it]"
            yield from clock.wait(life.about(61, 0.4))
        yield Phase.SAVE
        yield f"\nEpoch {epoch}, global step {epoch * 250 + 250}: 'val/lddt_ca' was not in top 5\n"
        yield from clock.wait(life.about(70))
    yield Phase.AFTER


@form(
    "stan",
    field="statistics",
    source="https://discourse.mc-stan.org (outputs of CmdStan with several chains)",
    chatter=(
        "Chain 3 Informational Message: The current Metropolis proposal is about to be rejected because of the following issue:",
    ),
    chatter_every=70.0,
)
def stan(life: Life) -> Iterator[Event]:
    """Four chains that count 100 by 100 to 2000, interleaved, of which the last lags; messages of rejections between."""
    clock = Clock()
    yield Phase.START
    yield "Running MCMC with 4 parallel chains...\n\n"
    yield Phase.TRAIN
    due = sorted(
        (i * pace * (1 if i <= 10 else 0.6) + (0 if i <= 10 else 4 * pace), chain, i)
        for chain, pace in enumerate((610, 640, 590, 760), 1)
        for i in range(21)
    )
    for at, chain, i in due:
        yield from clock.wait(max(at - clock.passed, 0.1))
        if life.random.random() < 0.2:
            yield f"Chain {chain} Informational Message: The current Metropolis proposal is about to be rejected because of the following issue:\nChain {chain} Exception: lognormal_lpdf: Scale parameter is 0, but must be positive!\n"
        yield f"Chain {chain} Iteration: {max(1, i * 100):4} / 2000 [{i * 5:3}%]  ({'Warmup' if i <= 10 else 'Sampling'})\n"
        if i == 20:
            yield f"Chain {chain} finished in {clock.passed:.1f} seconds.\n"
    yield Phase.AFTER
    yield "\nAll 4 chains finished successfully.\nchecking divergences ...\n"
    yield from clock.wait(life.about(120))


@form(
    "iq-tree",
    field="phylogenetics",
    source="https://github.com/iqtree/iqtree2/issues",
    chatter=("WARNING: {clock} numerical underflow for partition 7 was corrected",),
    chatter_every=200.0,
)
def iq_tree(life: Life) -> Iterator[Event]:
    """Models one by one in a table, tree search by tens of iterations with time left, bootstraps."""
    clock = Clock()
    yield Phase.START
    yield "IQ-TREE multicore version 2.2.6 for Linux 64-bit\nReading alignment file marmots.phy ... Phylip format detected\nAlignment has 412 sequences with 81200 columns, 60112 distinct patterns\n"
    yield from clock.wait(life.about(25))
    yield Phase.PREPARE
    yield "ModelFinder will test up to 60 DNA models (sample size: 81200) ...\n No. Model         -LnL         df  AIC          AICc         BIC\n"
    for model in range(1, 61):
        yield from clock.wait(life.about(48, 0.4))
        yield f"{model:3}  GTR+F+R{model % 10:<3}      {2_111_021 - model * 211:.3f}  {820 + model} {4_223_000 - model * 400:.3f} {4_223_100 - model * 400:.3f} {4_231_000 - model * 400:.3f}\n"
    yield "Akaike Information Criterion:           GTR+F+R8\nWall-clock time for ModelFinder: 2911.022 seconds\nGenerating 98 parsimony trees... "
    yield from clock.wait(life.about(260))
    yield "258.112 second\nDo NNI search on 20 best initial trees\n"
    yield Phase.TRAIN
    score = -2_090_112.0
    for iteration in range(10, 481, 10):
        yield from clock.wait(life.about(190, 0.2))
        if life.random.random() < 0.25:
            score += life.random.uniform(0.2, 9)
            yield f"BETTER TREE FOUND at iteration {iteration - life.random.randint(1, 9)}: {score:.3f}\n"
        hours = f"{int(clock.passed // 3600)}h:{int(clock.passed // 60 % 60)}m:{int(clock.passed % 60)}s"
        yield f"Iteration {iteration} / LogL: {score - life.random.uniform(0, 20):.3f} / Time: {hours} ({(480 - iteration) // 190}h:{(480 - iteration) // 3 % 60}m:11s left)\n"
    yield Phase.AFTER
    yield f"TREE SEARCH COMPLETED AFTER 481 ITERATIONS / Time: 3h:41m:2s\nOptimal log-likelihood: {score:.3f}\n"
    yield from clock.wait(life.about(200))


@form(
    "julia-flux",
    field="learning of science",
    source="https://github.com/timholy/ProgressMeter.jl and https://github.com/FluxML/Flux.jl/issues",
    chatter=("┌ Warning: GC time {n} s in the last minute\n└ @ Main ~/pde/train.jl:88",),
    chatter_every=60.0,
    tells_loss=True,
)
def julia(life: Life) -> Iterator[Event]:
    """A bar of ProgressMeter with values below it that moves the cursor up, after a long silent precompilation."""
    clock = Clock()
    yield Phase.START
    yield "  Activating project at `~/pde`\nPrecompiling project...\n"
    yield from clock.wait(life.about(420))
    yield "  211 dependencies successfully precompiled in 402 seconds. 14 already precompiled.\n"
    yield Phase.PREPARE
    yield "[ Info: CUDA is on, device 0: NVIDIA A100-SXM4-80GB\n[ Info: solving the reference with Tsit5 ...\n"
    yield from clock.wait(life.about(340))
    for stage, (name, steps) in enumerate((("ADAM", 3000), ("ADAM fine", 1500))):
        yield f"[ Info: stage {stage + 1}: {name}\n"
        yield Phase.TRAIN
        for step in range(1, steps + 1):
            yield from clock.wait(life.about(95) if step == 1 else life.about(2.3))
            if step % 4 == 0:
                first, last = ((3.0, 0.02), (0.02, 0.01))[stage]
                loss = life.loss(step / steps, first, last, 0.05)
                yield f"\r\x1b[32mTraining: {step * 100 // steps:3}%|{'█' * (step * 25 // steps):25}|  ETA: {Clock.long((steps - step) * 2.3)}\x1b[39m\n\x1b[34m  loss:  {loss:.6f}\x1b[39m\r\x1b[A"
        yield "\n\n"
        yield Phase.SAVE
        yield f"[ Info: written stage{stage + 1}.jld2\n"
        yield from clock.wait(life.about(10))
    yield Phase.AFTER
    yield "[ Info: L-BFGS polish\n"
    yield from clock.wait(life.about(600))
    yield "[ Info: plots written\n"


@form(
    "orca-opt",
    field="chemistry",
    source="https://www.faccts.de/docs/orca and forum posts",
    chatter=("mpi watch {clock}: 64 ranks alive",),
    chatter_every=240.0,
    death="ORCA finished by error termination in SCF gradient\nCalling Command: mpirun -np 64 orca_scfgrad_mpi job.scfgrad.inp job\n[file orca_tools/qcmsg.cpp, line 458]: \n  .... aborting the run\n",
)
def orca(life: Life) -> Iterator[Event]:
    """Cycles of geometry: tables of SCF rows, a gradient that says nothing for minutes, a convergence table."""
    clock = Clock(lambda now: f"mpi watch {now('%H:%M:%S')}: 64 ranks alive\n", 240.0)
    yield Phase.START
    yield "                                 *****************\n                                 * O   R   C   A *\n                                 *****************\n\n   Program Version 5.0.4 -  RELEASE  -\n"
    yield from clock.wait(life.about(40))
    energy = -2411.31
    for cycle in range(1, 25):
        yield Phase.TRAIN
        yield f"         *************************************************************\n         *                GEOMETRY OPTIMIZATION CYCLE {cycle:3}            *\n         *************************************************************\n\n"
        yield "ITER       Energy         Delta-E        Max-DP      RMS-DP      [F,P]     Damp\n               ***  Starting incremental Fock matrix formation  ***\n"
        for number in range(life.random.randint(9, 15)):
            yield from clock.wait(life.about(27))
            change = -(10.0 ** (-number * 0.8))
            yield f"{number:3}   {energy + change:.10f}  {change:.12f} {10.0 ** (-2 - number / 3):.8f}  {10.0 ** (-3 - number / 3):.8f}  {10.0 ** (-1 - number / 3):.7f} 0.7000\n"
        energy -= 0.03 / cycle
        yield f"               *****************************************************\n               *                     SUCCESS                       *\n               *           SCF CONVERGED AFTER  {number:2} CYCLES          *\n\nFINAL SINGLE POINT ENERGY     {energy:.12f}\n\nORCA SCF GRADIENT CALCULATION\n"
        yield Phase.EVALUATE
        yield "Nuclear repulsion gradient       ... done\nExchange-correlation gradient    ... "
        yield from clock.wait(life.about(230))
        yield f"done\n                          .--------------------.\n          ----------------------|Geometry convergence|-------------------------\n          Energy change      {-0.03 / cycle:.10f}            0.0000050000      NO\n          RMS gradient        {0.01 / cycle:.10f}            0.0001000000      NO\n"
    yield Phase.AFTER
    yield "                    ***        THE OPTIMIZATION HAS CONVERGED     ***\n\nORCA NUMERICAL FREQUENCIES\n"
    for number in range(1, 61):
        yield f"\t << Calculating on displaced geometry {number:3} (of  60) >>\n"
        yield from clock.wait(life.about(70))
