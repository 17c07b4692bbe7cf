"""Optimisers, pictures, and what reads whole data sets."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "gurobi",
    field="optimisation",
    source="https://github.com/PyPSA/pypsa-eur/issues and https://docs.gurobi.com (MIP logging)",
    chatter=("[{clock}] license: token renewed",),
    chatter_every=300.0,
)
def gurobi(life: Life) -> Iterator[Event]:
    """Presolve, a barrier whose rows count iterations, a crossover, then nodes of a tree with a gap that closes."""
    yield Phase.START
    yield "INFO:pypsa.io:Imported network base_s_128.nc has buses, carriers, generators\n"
    yield life.about(80)
    yield Phase.PREPARE
    yield "INFO:linopy.model: Solve problem using Gurobi solver\n"
    for name in ("constraints", "continuous variables"):
        for part in range(0, 101, 4):
            yield f"\rWriting {name}.: {part:3}%|{'█' * (part // 10):10}| {part * 42 // 100}/42 [00:{part // 2:02}<00:30,  1.21it/s]"
            yield life.about(3)
        yield "\n"
    yield "Set parameter Threads to value 8\nGurobi Optimizer version 11.0.1 build v11.0.1rc0\nOptimize a model with 8211211 rows, 3911211 columns and 17121211 nonzeros\n"
    passed = 60.0
    for second in (12, 31, 55, 81):
        yield life.about(24)
        yield f"Presolve removed {second * 41211} rows and {second * 11211} columns (presolve time = {second}s) ...\n"
    yield life.about(90)
    yield "\nBarrier statistics:\n Factor NZ  : 1.211e+08 (roughly 3.9 GB of memory)\n\n                  Objective                Residual\nIter       Primal          Dual         Primal    Dual     Compl     Time\n"
    yield Phase.TRAIN
    for iteration in range(181):
        took = life.about(21, 0.05)
        passed += took
        yield took
        yield f"{iteration:4}   {3.1e11 * 0.97**iteration:.8e} {-2.1e10 * 0.97**iteration:.8e}  {1e4 * 0.93**iteration:.2e} {1e2 * 0.94**iteration:.2e}  {1e5 * 0.92**iteration:.2e}  {passed:.0f}s\n"
    yield f"\nBarrier solved model in 180 iterations and {passed:.2f} seconds (1121.11 work units)\n"
    yield "\n    Nodes    |    Current Node    |     Objective Bounds      |     Work\n Expl Unexpl |  Obj  Depth IntInf | Incumbent    BestBd   Gap | It/Node Time\n\n"
    for node in range(0, 26_000, 130):
        took = life.about(11, 0.3)
        passed += took
        yield took
        yield f"{node:6} {node // 2:5} 4.12{node % 977:03}e+10   {node % 31:2}  {node % 91:3} 4.1{9 - node // 3000}211e+10 4.11011e+10  {2.2 - node / 13000:.2f}%   {110 - node // 999}  {passed:5.0f}s\n"
    yield Phase.AFTER
    yield "\nOptimal solution found (tolerance 1.00e-04)\n"
    yield life.about(260)
    yield "INFO:linopy.constants: Optimization successful:\n"


@form(
    "blender-frames",
    field="pictures",
    source="https://projects.blender.org/blender/blender (output of blender -b -a) and https://github.com/blender/blender",
    chatter=("mon {clock} 71 C",),
    chatter_every=30.0,
)
def blender(life: Life) -> Iterator[Event]:
    """Samples within a frame, frame after frame; each frame is synchronised, built and saved."""
    yield Phase.START
    yield "Blender 4.1.0 (hash 40a5e739e270 built 2024-03-26 01:41:46)\nRead blend: /proj/scene.blend\n"
    yield life.about(55)
    yield Phase.TRAIN
    for frame in range(1, 48):
        for what in (
            "Synchronizing object | Terrain",
            "Updating Geometry BVH Tree 412/412 | Building BVH",
            "Updating Device | Writing constant memory",
        ):
            yield f"Fra:{frame} Mem:9112.21M (Peak 11211.20M) | Time:00:0{frame % 9}.11 | Mem:7211.00M, Peak:7311.11M | Scene, View Layer | {what}\n"
            yield life.about(7)
        for sample in range(0, 1025, 32):
            yield f"Fra:{frame} Mem:9112.21M (Peak 11211.20M) | Time:0{sample * 4 // 1000}:{sample % 60:02}.81 | Remaining:03:{sample % 60:02}.31 | Mem:7211.00M, Peak:7311.11M | Scene, View Layer | Sample {sample}/1024\n"
            yield life.about(6.5, 0.08)
        yield f"Saved: '/proj/out/{frame:04}.exr'\n Time: 04:0{frame % 9}.31 (Saving: 00:02.11)\n\n"
        yield life.about(4)


@form(
    "dedup-percent",
    field="data preparation",
    source="https://github.com/dask/dask/issues (ProgressBar of dask.diagnostics) and https://github.com/huggingface/datatrove",
    chatter=("\ndistributed.core - INFO - Event loop was unresponsive in Worker for {n}.1s",),
    chatter_every=40.0,
)
def dedup(life: Life) -> Iterator[Event]:
    """Five graphs of tasks, each with `[####   ] | 12% Completed | 31m 2s` over itself, of which percent move each half minute."""
    yield Phase.START
    yield "2026-02-03 10:00:01,201 - distributed.scheduler - INFO - State start\n"
    yield life.about(40)
    for name, minutes in (("minhash", 46), ("buckets", 21), ("cluster", 12), ("filter", 55), ("write", 30)):
        yield Phase.TRAIN
        yield f"stage {name}: submitting graph of 41211 tasks\n"
        yield life.about(75)
        for tick in range(minutes * 12):
            share = tick * 100 // (minutes * 12)
            yield f"\r[{'#' * (share * 2 // 5):40}] | {share}% Completed | {tick // 12}m {tick * 5 % 60}s"
            yield life.about(5)
        yield f"\r[{'#' * 40}] | 100% Completed | {minutes}m 3s\n"
        yield life.about(20)


@form(
    "star-aligner",
    field="genomes",
    source="https://github.com/alexdobin/STAR/issues",
    chatter=("{clock} quota: 71 % of 20 TB",),
    chatter_every=120.0,
)
def star(life: Life) -> Iterator[Event]:
    """A table of minutes for each of ten samples; the genome is loaded anew each time, sorting takes a while."""
    clock = Clock()
    yield Phase.START
    yield "STAR version: 2.7.11a   compiled: 2023-09-15\n"
    for sample in range(1, 11):
        yield Phase.PREPARE
        yield f"{clock('%b %d %H:%M:%S')} ..... started STAR run\n{clock('%b %d %H:%M:%S')} ..... loading genome\n"
        yield from clock.wait(life.about(150))
        yield f"{clock('%b %d %H:%M:%S')} ..... started mapping\n           Time    Speed        Read     Read   Mapped   Mapped   Mapped   Mapped Unmapped Unmapped\n                    M/hr      number   length   unique   length   MMrate    multi   multi+       MM\n"
        yield Phase.TRAIN
        reads = 0
        for minute in range(1, life.random.randrange(14, 26)):
            yield from clock.wait(life.about(61, 0.02))
            reads += life.random.randrange(2_000_000, 3_400_000)
            yield f"{clock('%b %d %H:%M:%S')}    {reads / minute * 60 / 1e6:.1f} {reads:11}      202    91.{minute % 10}%    200.1     0.3%     4.1%     0.1%     0.0%\n"
        yield f"{clock('%b %d %H:%M:%S')} ..... finished mapping\n{clock('%b %d %H:%M:%S')} ..... started sorting BAM\n"
        yield from clock.wait(life.about(190))
        yield f"{clock('%b %d %H:%M:%S')} ..... finished successfully\nsample {sample} done\n"
