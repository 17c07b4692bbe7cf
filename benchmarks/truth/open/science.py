"""Solvers of science and engineering."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "openfoam-pimple",
    field="science",
    source="https://www.openfoam.com/documentation (logs of pimpleFoam)",
    chatter=("[{clock}] df: /scratch 61 % used",),
    chatter_every=120.0,
)
def openfoam(life: Life) -> Iterator[Event]:
    """Time steps with inner iterations that count 1, 2 in each of them."""
    yield Phase.START
    yield "Create mesh for time = 0\n\nPIMPLE: Operating solver in PISO mode\n\n"
    yield life.about(45)
    yield "Starting time loop\n\n"
    yield Phase.TRAIN
    for step in range(1, 900):
        yield f"Courant Number mean: 0.0{step % 97} max: 0.91\ndeltaT = 0.0005\nTime = {step * 0.0005:g}\n\n"
        for inner in (1, 2):
            yield life.about(7)
            yield (
                f"PIMPLE: iteration {inner}\nsmoothSolver:  Solving for Ux, Initial residual = {life.random.random():.8f}, "
                f"Final residual = 2.1e-06, No Iterations 3\nGAMG:  Solving for p, Initial residual = "
                f"{life.random.random():.8f}, Final residual = 8.1e-03, No Iterations {life.random.randint(3, 9)}\n"
            )
        yield f"ExecutionTime = {step * 14.1:.2f} s  ClockTime = {step * 14} s\n\n"
    yield "End\n\n"


@form(
    "quantum-espresso",
    field="science",
    source="https://www.quantum-espresso.org (outputs of pw.x relax)",
    chatter=("slurm monitor {clock}: load 128.0",),
    chatter_every=300.0,
)
def espresso(life: Life) -> Iterator[Event]:
    """Self-consistent iterations of a minute or two, 7 to 12 of them in each step of the ions."""
    yield Phase.START
    yield "     Program PWSCF v.7.2 starts on  3Feb2026 at 10: 0: 1\n\n     Parallel version (MPI & OpenMP)\n"
    yield life.about(90)
    yield Phase.TRAIN
    seconds = 0.0
    for ion in range(12):
        yield "     Self-consistent Calculation\n\n"
        for iteration in range(1, life.random.randint(8, 13)):
            took = life.about(110)
            yield f"     iteration #{iteration:3}     ecut=    60.00 Ry     beta= 0.70\n     Davidson diagonalization with overlap\n"
            yield took
            seconds += took
            yield (
                f"     total cpu time spent up to now is {seconds:10.1f} secs\n\n     total energy              = "
                f"   -{1021 + 1 / iteration:.8f} Ry\n     estimated scf accuracy    <       {10.0**-iteration:.8f} Ry\n\n"
            )
        yield f"     convergence has been achieved in {iteration} iterations\n\n     number of bfgs steps    = {ion:3}\n"
    yield Phase.AFTER
    yield "     JOB DONE.\n"


@form(
    "wrf",
    field="weather",
    source="https://github.com/wrf-model/WRF (rsl.error.0000)",
    chatter=("d01 waiting for I/O server {n}",),
)
def wrf(life: Life) -> Iterator[Event]:
    """Each time step tells how long it took; radiation each tenth step and output each hour take longer."""
    yield Phase.START
    yield "taskid: 0 hostname: n001\n module_io_quilt_old.F        2931 F\nQuilting with   1 groups of   4 I/O tasks.\n"
    yield life.about(150)
    yield Phase.TRAIN
    for step in range(1, 1200):
        took = life.about(22 if step % 10 == 0 else 9)
        yield took
        minute = step * 2
        yield (
            f"Timing for main: time 2026-02-{3 + minute // 1440:02}_{minute // 60 % 24:02}:{minute % 60:02}:00 "
            f"on domain   1:   {took:8.5f} elapsed seconds\n"
        )
        if step % 180 == 0:
            yield Phase.SAVE
            took = life.about(160)
            yield took
            yield f"Timing for Writing wrfout_d01_2026-02-03_{minute // 60 % 24:02}:00:00 for domain 1: {took:8.5f} elapsed seconds\n"
            yield Phase.TRAIN
    yield "d01 2026-02-05_00:00:00 wrf: SUCCESS COMPLETE WRF\n"
