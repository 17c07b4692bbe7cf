"""What people print by themselves."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "deap-table",
    field="evolution",
    source="https://github.com/DEAP/deap (the logbook's stream)",
    chatter=("scoop: {clock} worker 7 is idle",),
    chatter_every=90.0,
)
def deap(life: Life) -> Iterator[Event]:
    """A table without words: generation, evaluations, average, spread, extremes, each two to four minutes."""
    clock = Clock()
    yield Phase.START
    yield "gen\tnevals\tavg    \tstd    \tmin    \tmax    \n"
    yield Phase.TRAIN
    for generation in range(90):
        yield from clock.wait(life.about(300 if generation == 0 else 170, 0.2))
        best = 412 * 0.98**generation
        yield f"{generation}\t{300 if generation == 0 else life.random.randint(150, 200)}   \t{best * 1.4:<7.5g}\t{best / 5:<7.5g}\t{best:<7.5g}\t{best * 3:<7.5g}\n"
    yield Phase.AFTER
    yield "front of 41 individuals\n"
    yield from clock.wait(life.about(300))


@form(
    "gadget",
    field="cosmology",
    source="https://wwwmpa.mpa-garching.mpg.de/gadget4 (stdout of runs)",
    chatter=("MEMORY: largest deviation of allocated memory on task 117",),
    chatter_every=100.0,
    death="Code termination on task=211, function domain_exchange(), file src/domain/domain_exchange.cc, line 411: No domain decomposition that stays within memory bounds is possible.\n",
)
def gadget(life: Life) -> Iterator[Event]:
    """Steps of wildly unequal length: most take seconds, each sixteenth two minutes, each 64th five; restart files."""
    clock = Clock()
    yield Phase.START
    yield "This is Gadget, version 4.\nGit commit 8ee7f358c, Thu\nRunning on 512 MPI tasks.\n\nBEGRUN: Starting with reading of parameter file 'param.txt'\n"
    yield from clock.wait(life.about(20))
    yield Phase.PREPARE
    yield "READIC: Reading file `ics_z49.hdf5` on task=0 and distribute it to 0 to 511.\n"
    yield from clock.wait(life.about(240))
    yield "NGENIC: computing displacement fields...\n"
    yield from clock.wait(life.about(180))
    yield Phase.TRAIN
    scale = 0.0812
    for step in range(2200):
        took = life.about(300 if step % 64 == 0 else 120 if step % 16 == 0 else 3.2, 0.25)
        scale *= 1.0004
        yield (
            f"\nSync-Point {step}, Time: {scale:.6g}, Redshift: {1 / scale - 1:.6g}, Systemstep: {scale * 4e-4:.6g}, Dloga: 0.0004, Nsync-grv:  {life.random.randint(2_000, 900_000):>10}, "
            "Nsync-hyd:          0\nACCEL: Start tree gravity force computation... \n"
        )
        if took > 60:
            yield "DOMAIN: Begin domain decomposition (sync-point).\nPM-PERIODIC: Starting periodic PM calculation. (Rcut=0.61)\n"
        yield from clock.wait(took)
        yield f"TREE: took {took:.3f} sec\n"
        if step % 500 == 499:
            yield Phase.SAVE
            yield "RESTART: Writing restart files.\n"
            yield from clock.wait(life.about(90))
            yield "RESTART: done.\n"
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "\nSNAPSHOT: writing snapshot file #12 @ time 0.1961 ...\n"
    yield from clock.wait(life.about(80))
