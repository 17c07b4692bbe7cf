"""Solvers of flows, weather and oceans."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "su2",
    field="fluid dynamics",
    source="https://github.com/su2code/SU2/issues/1542",
    chatter=("slurmstepd: info: n04 jobacct poll {n}: vsize 1811 GB",),
    chatter_every=120.0,
    death='Error in "void CSolver::SetResidual_RMS(const CGeometry*, const CConfig*)": \n-------------------------------------------------------------------------\nSU2 has diverged. (NaN detected)\n------------------------------ Error Exit -------------------------------\n',
)
def su2(life: Life) -> Iterator[Event]:
    """Tables of inner iterations that begin anew each time step, rules and headings, solution files each tenth."""
    clock = Clock()
    yield Phase.START
    yield '-------------------------------------------------------------------------\n|    ___ _   _ ___                                                      |\n|   / __| | | |_  )   Release 8.0.1 "Harrier"                           |\n'
    yield from clock.wait(life.about(25))
    yield Phase.PREPARE
    yield "\n------------------- Geometry Preprocessing ( Zone  0 ) -------------------\nThree dimensional problem.\n11211043 interior elements before parallel partitioning.\n"
    yield from clock.wait(life.about(170))
    yield "Calling the partitioning functions.\nComputing wall distances.\n"
    yield from clock.wait(life.about(90))
    yield Phase.TRAIN
    for step in range(70):
        rule = "+" + "-" * 90 + "+\n"
        yield (
            rule
            + "|   Time_Iter|  Inner_Iter|   Time(sec)|    rms[Rho]|   rms[RhoU]|     rms[nu]|          CD|\n"
            + rule
        )
        for inner in range(life.random.randint(16, 26)):
            yield from clock.wait(life.about(8.7))
            residual = -3.1 - inner / 7 + life.random.gauss(0, 0.02)
            yield (
                f"|{step:12}|{inner:12}|{life.about(8.7):12.4e}|{residual:12.6f}|{residual - 0.6:12.6f}|{residual - 2.1:12.6f}|{life.about(0.31, 0.01):12.6f}|\n"
            )
        if step % 10 == 9:
            yield Phase.SAVE
            yield (
                "+"
                + "-" * 71
                + "+\n|        File Writing Summary       |              Filename              |\n"
            )
            yield from clock.wait(life.about(35))
            yield f"|SU2 binary restart                 |restart_flow_{step:05}.dat              |\n|Paraview                           |flow_{step:05}.vtu                      |\n"
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "Maximum number of time iterations reached (TIME_ITER = 70).\n------------------------- Exit Success (SU2_CFD) ------------------------\n"


@form(
    "mitgcm",
    field="oceans",
    source="https://github.com/MITgcm/MITgcm (STDOUT.0000)",
    chatter=("(PID.TID 0000.0001) *** WARNING *** S/R EXF_INTERP: retry {n} of read",),
    chatter_every=100.0,
)
def mitgcm(life: Life) -> Iterator[Event]:
    """Lines of the solver each step of 4 s, a block of sixty monitored values each twentieth, all under one label."""
    clock = Clock()
    tag = "(PID.TID 0000.0001)"
    yield Phase.START
    yield f"{tag} // ======================================================\n{tag} //                      MITgcm UV\n{tag} // MITgcmUV version:  checkpoint68o\n"
    yield from clock.wait(life.about(20))
    yield Phase.PREPARE
    yield f"{tag} S/R INI_GRID: grid files are read\n"
    yield from clock.wait(life.about(120))
    yield f"{tag} // Model current state\n"
    yield Phase.TRAIN
    for step in range(1, 2601):
        yield from clock.wait(life.about(4.4, 0.2))
        yield (
            f" cg2d: Sum(rhs),rhsMax =  {life.random.gauss(0, 1e-13):.14E}  {life.about(1.2):.14E}\n"
            f"{tag}      cg2d_init_res =   {life.about(0.4, 0.2):.14E}\n{tag}      cg2d_iters(min,last) =      -1     {life.random.randint(60, 90)}\n"
            f"{tag}      cg2d_last_res =   {life.about(8e-13, 0.2):.14E}\n"
        )
        if step % 20 == 0:
            yield f"{tag} // =======================================================\n{tag} // Begin MONITOR dynamic field statistics\n"
            yield f"{tag} %MON time_tsnumber                =            {2160000 + step:10}\n{tag} %MON time_secondsf                =   {(2160000 + step) * 1200:.13E}\n"
            for name in ("eta", "uvel", "vvel", "wvel", "theta", "salt"):
                for what in ("max", "min", "mean", "sd", "del2"):
                    yield f"{tag} %MON dynstat_{f'{name}_{what}':22}=   {life.random.gauss(1, 0.3):.13E}\n"
            yield f"{tag} // End MONITOR dynamic field statistics\n"
        if step % 720 == 0:
            yield Phase.SAVE
            yield f"{tag} %CHECKPOINT   {2160000 + step} {2160000 + step:010}\n"
            yield from clock.wait(life.about(75))
            yield Phase.TRAIN
    yield Phase.AFTER
    yield f'{tag}   Seconds in section "ALL                    [THE_MODEL_MAIN]":\n{tag}           User time:   11211.119839\nPROGRAM MAIN: Execution ended Normally\n'


@form(
    "icon-atmosphere",
    field="weather",
    source="https://gitlab.dkrz.de/icon/icon-model (logs of atmosphere runs)",
    chatter=("  0: cpl: waiting for ocean fields, {seconds} s", "[n0211] slurm: heartbeat ok"),
    chatter_every=60.0,
    death="112: [n0214:11821:0:11821] ib_mlx5_log.c:171  Transport retry count exceeded on mlx5_0:1/IB\nsrun: error: n0214: task 112: Aborted (core dumped)\n",
)
def icon(life: Life) -> Iterator[Event]:
    """Time steps under labels of srun, radiation each sixth, output in bursts; a heartbeat beside each ten minutes."""
    clock = Clock(lambda _: "[n0211] slurm: heartbeat ok\n", 600.0)
    yield Phase.START
    yield "  0: mo_mpi::start_mpi: ICON MPI interface runtime information:\n  0:  number of processes: 512\n"
    yield from clock.wait(life.about(30))
    yield Phase.PREPARE
    yield "  0: mo_ext_data_init: Reading external parameters\n"
    yield from clock.wait(life.about(95))
    yield "  0: mo_initicon: read 90 levels of initial data\n"
    yield from clock.wait(life.about(160))
    yield Phase.TRAIN
    for step in range(1, 1501):
        yield from clock.wait(life.about(14 if step % 6 == 0 else 7.5))
        minute = step * 2
        yield (
            f"  0:  mo_nh_stepping:perform_nh_timeloop: Time step: {step:9} , model time: 2026-01-{14 + minute // 1440:02}T{minute // 60 % 24:02}:{minute % 60:02}:00.000\n"
            f"  0:   MAX |U|, W in domain  1:     {life.about(71, 0.02):.6f}      {life.about(4, 0.2):.6f}\n"
        )
        if step % 180 == 0:
            yield Phase.SAVE
            yield f"508:  mo_name_list_output: Output to atm_{step:04}.nc, at simulation time 2026-01-{14 + minute // 1440:02}T{minute // 60 % 24:02}:00:00\n"
            yield from clock.wait(life.about(50))
            yield f"508:  mo_name_list_output: Close output file: atm_{step:04}.nc\n"
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "  0: mo_timer: Timer report, ranks 0-511\n  0:  name                      # calls      t_min       t_avg       t_max\n  0:  total                     512      12911s      12912s      12914s\n"
    yield from clock.wait(life.about(60))
    yield "cdo    merge: Processed 11 variables over 25 timesteps [61.11s 9014MB]\n"


@form(
    "nekrs",
    field="fluid dynamics",
    source="https://github.com/Nek5000/nekRS/issues/216 and https://github.com/enrico-dev/enrico/pull/126",
    chatter=("[{clock}] gpu-watch: 4x A100, mean power 341 W",),
    chatter_every=30.0,
)
def nekrs(life: Life) -> Iterator[Event]:
    """One line a step with several counts of iterations; a monitor of the GPUs beside each half minute."""
    clock = Clock(
        lambda now: f"[{now('%H:%M:%S')}] gpu-watch: 4x A100, mean power {life.random.randint(310, 370)} W\n",
        30.0,
    )
    yield Phase.START
    yield "                 __    ____  _____\n   ____   ___   / /__ / __ \\/ ___/\n  / __ \\ / _ \\ / //_// /_/ /\\__ \\ \nv23.0.1\n"
    yield from clock.wait(life.about(20))
    yield Phase.PREPARE
    yield "MPI tasks: 64\n\nbuilding udf ... \nloading kernels (this may take awhile) ...\n"
    yield from clock.wait(life.about(520))
    yield "done (518.2s)\ngenerating mesh ... \n"
    yield from clock.wait(life.about(60))
    yield "timestepping to step 6000 ...\n"
    yield Phase.TRAIN
    for step in range(1, 6001):
        took = life.about(1.9, 0.08)
        yield from clock.wait(took)
        yield (
            f"step= {step}  t= {step * 2e-3:.8e}  dt=2.0e-03  C= {life.about(1.8, 0.03):.2f}  UVW: {life.random.randint(3, 5)}  P: {life.random.randint(6, 12)}  "
            f"S: 2  eTimeStep= {took:.2e}s  eTime= {clock.passed:.5e}s\n"
        )
        if step % 1000 == 0:
            yield Phase.SAVE
            yield f"checkpoint: writing pebble0.f{step // 1000:05}\n"
            yield from clock.wait(life.about(40))
            yield Phase.TRAIN
            for line in (
                "  setup                 5.80389e+02s",
                "    makef               2.19445e+03s",
                "    velocitySolve       1.08192e+03s",
                "    pressureSolve       5.10852e+03s",
            ):
                yield line + "\n"
    yield Phase.AFTER
    yield "end\n"
