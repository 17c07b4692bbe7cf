"""Molecular dynamics and electronic structure."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "gromacs-md-log",
    field="molecular dynamics",
    source="https://gitlab.com/gromacs/gromacs",
    chatter=("{clock} node n001 scratch 61 % used",),
    chatter_every=300.0,
)
def gromacs(life: Life) -> Iterator[Event]:
    """A table of step and time, then one of energies, each minute and a half; load balancing is told once."""
    yield Phase.START
    yield "                      :-) GROMACS - gmx mdrun, 2024.3 (-:\n\nReading file prod.tpr, VERSION 2024.3 (single precision)\n"
    yield life.about(20)
    yield "Using 8 MPI processes\nUsing 12 OpenMP threads per MPI process\n\nStarted mdrun on rank 0 Wed Mar 11 08:00:41 2026\n\n"
    yield life.about(40)
    yield Phase.TRAIN
    for step in range(0, 2_000_001, 10_000):
        yield (
            f"           Step           Time\n{step:15}{step * 0.002:15.5f}\n\n   Energies (kJ/mol)\n          Angle    Proper Dih.  Improper Dih.          LJ-14     Coulomb-14\n"
            f"    {life.random.gauss(2.4e4, 90):.5e}    {life.random.gauss(1.2e4, 60):.5e}    1.2{step % 91}e+03    9.98111e+03    1.12011e+05\n"
            f"      Potential    Kinetic En.   Total Energy  Conserved En.    Temperature\n   {life.random.gauss(-1.2e6, 900):.5e}    {life.random.gauss(2.2e5, 300):.5e}   -1.01211e+06   -1.01{step % 97}e+06    {life.random.gauss(300, 0.7):.5e}\n\n"
        )
        if step == 20_000:
            yield "step 20000 Turning on dynamic load balancing, because the performance loss due to load imbalance is 4.1 %.\n\n"
        yield life.about(88, 0.05)
    yield Phase.AFTER
    yield "\t<======  ###############  ==>\n\t<====  A V E R A G E S  ====>\n"
    yield life.about(60)
    yield "Finished mdrun on rank 0 Wed Mar 11 13:00:41 2026\n"


@form(
    "lammps-thermo",
    field="molecular dynamics",
    source="https://github.com/lammps/lammps",
    chatter=("WARNING: Proc {n} still waiting for file lock (src/fix_ave.cpp:112)",),
    chatter_every=60.0,
)
def lammps(life: Life) -> Iterator[Event]:
    """Columns of numbers under a header; minimisation, heating and production each begin a run of its own."""
    yield Phase.START
    yield "LAMMPS (2 Aug 2023 - Update 3)\nReading data file ...\n  orthogonal box = (0 0 0) to (81.2 81.2 81.2)\n  8 by 4 by 4 MPI processor grid\n"
    yield life.about(55)
    yield "  reading atoms ...\n  1048576 atoms\n"
    yield Phase.TRAIN
    step = 0
    for title, rows, pace in (("minimize", 60, 6.0), ("heating", 240, 21.0), ("production", 500, 21.0)):
        yield f"Setting up Verlet run ...\n  Unit style    : metal\n  Current step  : {step}\nPer MPI rank memory allocation (min/avg/max) = 31.2 | 31.9 | 33.1 Mbytes\n"
        yield life.about(40)
        yield "   Step          Temp          E_pair         TotEng         Press     \n"
        for _ in range(rows):
            yield f"{step:9}   {life.random.gauss(300, 3):.6f}     {life.random.gauss(-4.1e6, 90):.4f}   {life.random.gauss(-4.0e6, 50):.4f}   {life.random.gauss(0, 200):.5f}\n"
            step += 500
            yield life.about(pace, 0.05)
        yield f"Loop time of {rows * pace:.2f} on 128 procs for {rows * 500} steps with 1048576 atoms\n\nPerformance: 4.1 ns/day, 5.8 hours/ns, {title}\n"
        yield Phase.SAVE
        yield "System init for write_restart ...\n"
        yield life.about(30)
        yield Phase.TRAIN
    yield Phase.AFTER
    yield "Total wall time: 4:51:12\n"


@form(
    "amber-mdout",
    field="molecular dynamics",
    source="https://ambermd.org (mdout of pmemd.cuda)",
    chatter=("# scratch watcher {clock}: ok",),
    chatter_every=600.0,
)
def amber(life: Life) -> Iterator[Event]:
    """A block of ` NSTEP = … TIME(PS) = …` each four minutes, always the same length."""
    yield Phase.START
    yield "          -------------------------------------------------------\n          Amber 22 PMEMD                              2022\n"
    yield life.about(90)
    yield "   4.  RESULTS\n--------------------------------------------------------------------------------\n\n"
    yield Phase.TRAIN
    for step in range(25_000, 2_500_001, 25_000):
        yield life.about(240, 0.03)
        yield (
            f" NSTEP = {step:8}   TIME(PS) = {1000 + step * 0.002:11.3f}  TEMP(K) = {life.random.gauss(300, 1):.2f}  PRESS = {life.random.gauss(0, 60):8.1f}\n"
            f" Etot   = {life.random.gauss(-1.2e5, 90):.4f}  EKtot   = {life.random.gauss(3e4, 60):.4f}  EPtot      = {life.random.gauss(-1.5e5, 80):.4f}\n"
            f" BOND   = {life.random.gauss(2e3, 30):.4f}  ANGLE   = {life.random.gauss(5e3, 40):.4f}  DIHED      = {life.random.gauss(4e3, 20):.4f}\n ------------------------------------------------------------------------------\n\n"
        )
    yield Phase.AFTER
    yield "      A V E R A G E S   O V E R     100 S T E P S\n"


@form(
    "namd-energy",
    field="molecular dynamics",
    source="https://www.ks.uiuc.edu/Research/namd/",
    chatter=("[{n}] MPI progress thread awake",),
    death="[Partition 0][Node 3] End of program\n------------- Processor 3 Exiting: Called CmiAbort ------------\nReason: FATAL ERROR: Atoms moving too fast; simulation has become unstable (2 atoms on patch 41 pe 3).\n",
)
def namd(life: Life) -> Iterator[Event]:
    """`ENERGY:` rows, `TIMING:` with hours remaining that fall, restart files each 20,000 steps."""
    yield Phase.START
    yield "Charm++> Running in SMP mode: 8 processes, 15 worker threads\nInfo: NAMD 3.0 for Linux-x86_64-verbs-smp-CUDA\n"
    yield life.about(40)
    yield Phase.PREPARE
    for part in range(13):
        yield f"Info: Startup phase {part} took {life.random.random():.6f} s, 1211.1 MB of memory in use\n"
        yield life.about(6)
    yield "ETITLE:      TS           BOND          ANGLE          DIHED          TOTAL           TEMP\n"
    yield Phase.TRAIN
    for step in range(0, 500_001, 1000):
        yield f"ENERGY: {step:7} {life.random.gauss(2e4, 90):14.4f} {life.random.gauss(5e4, 90):14.4f} {life.random.gauss(4e4, 80):14.4f} {life.random.gauss(-9e5, 300):14.4f} {life.random.gauss(310, 0.8):14.4f}\n"
        if step % 5000 == 0:
            yield f"TIMING: {step}  CPU: {step * 0.03:.3f}, 0.0301/step  Wall: {step * 0.031:.3f}, 0.0311/step, {(500_000 - step) * 0.031 / 3600:.5f} hours remaining, 1211.1 MB of memory in use.\n"
        if step and step % 20_000 == 0:
            yield Phase.SAVE
            yield f"WRITING COORDINATES TO RESTART FILE AT STEP {step}\nFINISHED WRITING RESTART COORDINATES\nWRITING VELOCITIES TO RESTART FILE AT STEP {step}\n"
            yield life.about(9)
            yield Phase.TRAIN
        yield life.about(31, 0.04)
    yield Phase.AFTER
    yield "WRITING COORDINATES TO OUTPUT FILE AT STEP 500000\nThe last position output (seq=-2) takes 0.011 seconds\n"


@form(
    "cp2k-md",
    field="electronic structure",
    source="https://github.com/cp2k/cp2k",
    chatter=("{clock} power capping active",),
    chatter_every=240.0,
)
def cp2k(life: Life) -> Iterator[Event]:
    """Rows of SCF from 1 to a dozen or two, under a step of dynamics with its own block."""
    yield Phase.START
    yield "  **** **** ******  **  PROGRAM STARTED AT               2026-03-11 08:00:01.001\n"
    yield life.about(120)
    yield Phase.TRAIN
    for md in range(1, 90):
        yield "  Step     Update method      Time    Convergence         Total energy    Change\n  ------------------------------------------------------------------------------\n"
        energy = life.random.gauss(-17_000, 0.4)
        last = life.random.randint(9, 21)
        for inner in range(1, last + 1):
            took = life.about(12, 0.05)
            yield took
            yield f"{inner:6} OT {'DIIS' if inner > 1 else 'CG  '}     0.15E+00 {took:6.1f}     {10 ** (-inner / 3):.8f}    {energy + 10 ** (-inner / 2):17.10f} -{10 ** (-inner / 2):.2E}\n"
        yield (
            f"\n  *** SCF run converged in    {last} steps ***\n\n MD| Step number {md:50}\n MD| Time [fs] {md * 0.5:58.6f}\n MD| Conserved quantity [hartree] {energy:30.10f}\n"
            f" MD| CPU time per MD step [s] {last * 12.1:40.6f} {last * 12.0:20.6f}\n"
        )
    yield Phase.AFTER
    yield " -                                DBCSR STATISTICS                             -\n  **** **** ******  **  PROGRAM ENDED AT                 2026-03-11 13:11:01.911\n"


@form(
    "vasp-scf",
    field="electronic structure",
    source="https://www.vasp.at/wiki",
    chatter=("slurm-energy {clock} 4112 J",),
    chatter_every=300.0,
    death="forrtl: severe (174): SIGSEGV, segmentation fault occurred\nImage              PC                Routine            Line        Source\n",
)
def vasp(life: Life) -> Iterator[Event]:
    """`DAV:  7  -0.1E+03 …` rows of two minutes; ionic steps `  3 F= -.1E+03` between them, and nothing else."""
    yield Phase.START
    yield " running  128 mpi-ranks, on    2 nodes\n distrk:  each k-point on   32 cores,    4 groups\n POSCAR found type information on POSCAR: NbTe\n"
    yield life.about(70)
    yield " entering main loop\n       N       E                     dE             d eps       ncg     rms          rms(c)\n"
    yield Phase.TRAIN
    for ion in range(1, 16):
        energy = -812.4 - 1 / ion
        for inner in range(1, life.random.randint(8, 15)):
            yield life.about(190 if inner <= 2 else 115, 0.06)
            yield f"DAV: {inner:3}    {energy + 2.0**-inner:.12E}   -{2.0**-inner:.5E}   -{2.1**-inner:.5E}{life.random.randint(7000, 9000):6}   {2.5**-inner:.3E}    {2.2**-inner:.3E}\n"
        yield f"{ion:4} F= {energy:.8E} E0= {energy - 0.01:.8E}  d E ={-1 / ion:.6E}\n curvature:   0.00 expect dE= 0.000E+00 dE for cont linesearch  0.000E+00\n"
    yield Phase.AFTER
    yield " reached required accuracy - stopping structural energy minimisation\n writing wavefunctions\n"
    yield life.about(200)
