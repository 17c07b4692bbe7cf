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
    "lammps",
    field="molecular dynamics",
    source="https://docs.lammps.org (screen output of thermo)",
    chatter=("WARNING: Communication cutoff is 0.0 on {clock}; hugepages low on n021",),
    chatter_every=90.0,
)
def lammps(life: Life) -> Iterator[Event]:
    """Tables of thermo without any words, three runs whose steps go on, a breakdown of timings after each."""
    clock = Clock()
    yield Phase.START
    yield "LAMMPS (2 Aug 2023 - Update 3)\n  using 1 OpenMP thread(s) per MPI task\nReading data file ...\n  orthogonal box = (0 0 0) to (180.5 180.5 361)\n"
    yield from clock.wait(life.about(45))
    step = 0
    for count, temperature in ((300, 300.0), (500, 1200.0), (700, 300.0)):
        yield Phase.PREPARE
        yield "Neighbor list info ...\n  update: every = 1 steps, delay = 0 steps, check = yes\nPer MPI rank memory allocation (min/avg/max) = 61.2 | 62.8 | 64.1 Mbytes\n"
        yield "   Step          Temp          E_pair         TotEng         Press          Volume\n"
        yield from clock.wait(life.about(12))
        yield Phase.TRAIN
        for _ in range(count):
            step += 1000
            yield from clock.wait(life.about(8.1))
            yield (
                f"{step:10} {life.about(temperature, 0.01):14.8g} {life.random.gauss(-3_421_887, 90):14.10g} {life.random.gauss(-3_301_210, 90):14.10g} "
                f"{life.random.gauss(1, 140):14.7g} {life.random.gauss(11_760_211, 900):14.10g}\n"
            )
        yield (
            f"Loop time of {count * 8.1:.2f} on 128 procs for {count * 1000} steps with 864000 atoms\n\nPerformance: 10.611 ns/day, 2.262 hours/ns\n"
            "MPI task timing breakdown:\nSection |  min time  |  avg time  |  max time  |%varavg| %total\nPair    | 1811.2     | 1855.9     | 1921.0     |  31.0 | 76.31\n"
        )
        yield Phase.SAVE
        yield "System init for write_data ...\n"
        yield from clock.wait(life.about(25))
    yield Phase.AFTER
    yield "Total wall time: 3:23:18\n"


@form(
    "cp2k",
    field="materials",
    source="https://www.cp2k.org (outputs of GEOMETRY OPTIMIZATION)",
    chatter=("[n14:30112] MCW rank 3 is not bound (or bound to all available processors), {n}",),
    chatter_every=120.0,
)
def cp2k(life: Life) -> Iterator[Event]:
    """Tables of SCF steps that begin anew, outer loops, a block of the optimiser each quarter of an hour."""
    clock = Clock()
    yield Phase.START
    yield f" DBCSR| CPU Multiplication driver                                           XSMM\n  **** **** ******  **  PROGRAM STARTED AT               {clock()}.301\n"
    yield from clock.wait(life.about(30))
    yield Phase.PREPARE
    yield " TOTAL NUMBERS AND MAXIMUM NUMBERS\n\n  Total number of            - Atomic kinds:                                   3\n                             - Atoms:                                        384\n"
    yield from clock.wait(life.about(120))
    yield Phase.TRAIN
    energy = -6631.2
    for step in range(1, 22):
        yield (
            "\n SCF WAVEFUNCTION OPTIMIZATION\n\n  Step     Update method      Time    Convergence         Total energy    Change\n  "
            + "-" * 78
            + "\n"
        )
        scf = life.random.randint(9, 16)
        for number in range(1, scf + 1):
            took = life.about(52, 0.08)
            yield from clock.wait(took)
            energy -= 3.0 / number**4 / step
            yield f"{number:6} OT DIIS     0.80E-01 {took:6.1f}     {10 ** (-1 - number / 2.5):.8f}     {energy:.10f} {-3.0 / number**4 / step:.2E}\n"
        yield (
            f"\n  *** SCF run converged in {scf:5} steps ***\n\n ENERGY| Total FORCE_EVAL ( QS ) energy [a.u.]:         {energy:.15f}\n\n"
            f" --------  Informations at step = {step:5} ------------\n  Optimization Method        =                 BFGS\n  Total Energy               = {energy:20.10f}\n"
            f"  Real energy change         = {-0.1 / step:20.10f}\n  Max. step size             = {0.2 / step:20.10f}\n  Used time                  = {clock.passed / step:20.3f}\n"
            " ---------------------------------------------------\n"
        )
    yield Phase.AFTER
    yield "\n *******************************************************************************\n ***                    GEOMETRY OPTIMIZATION COMPLETED                      ***\n"
    yield from clock.wait(life.about(200))
    yield f"  **** **** ******  **  PROGRAM ENDED AT                 {clock()}.112\n"


@form(
    "vasp",
    field="materials",
    source="https://www.vasp.at/wiki (stdout and OSZICAR)",
    chatter=("slurm_monitor: n[11-14] cpu 100 % mem 61 % {clock}",),
    chatter_every=300.0,
)
def vasp(life: Life) -> Iterator[Event]:
    """Lines `DAV:  3  -0.41E+03 ...` each minute, `7 F= ...` each ten; a monitor of the job script beside it."""
    clock = Clock(
        lambda now: (
            f"slurm_monitor: n[11-14] cpu {life.random.randint(97, 100)} % mem 6{life.random.randint(0, 3)} % {now('%H:%M:%S')}\n"
        ),
        300.0,
    )
    yield Phase.START
    yield " running  256 mpi-ranks, with    1 threads/rank, on    4 nodes\n distrk:  each k-point on   64 cores,    4 groups\n vasp.6.4.2 20Jul23 (build Aug  1 2023) complex\n"
    yield from clock.wait(life.about(80))
    yield Phase.PREPARE
    yield " POSCAR found type information on POSCAR Ti O\n POSCAR found :  2 types and     216 ions\n scaLAPACK will be used\n FFT: planning ... GRIDC\n WAVECAR not read\n entering main loop\n"
    yield "       N       E                     dE             d eps       ncg     rms          rms(c)\n"
    yield Phase.TRAIN
    for ion in range(1, 33):
        inner = life.random.randint(6, 13) + (14 if ion == 1 else 0)
        for number in range(1, inner + 1):
            yield from clock.wait(life.about(61, 0.12))
            yield (
                f"{'DAV' if ion > 1 or number < 8 else 'RMM'}: {number:3}    {-0.19012e4 - ion * 0.01:.12E}   {-(10 ** (2 - number)):.5E}   {-(10 ** (1 - number)):.5E}"
                f" {life.random.randint(31000, 52000)}   {10 ** (1 - number / 2):.3E}    {10 ** (-number / 4):.3E}\n"
            )
        yield f"{ion:4} F= -.{19012100 + ion * 7}E+04 E0= -.{19012090 + ion * 7}E+04  d E =-.{life.random.randint(100000, 999999)}E-01\n"
        yield f" curvature:  -0.{ion} expect dE=-0.121E-02 dE for cont linesearch -0.1{ion}E-03\n bond charge predicted\n"
    yield Phase.AFTER
    yield " reached required accuracy - stopping structural energy minimisation\n writing wavefunctions\n"
    yield from clock.wait(life.about(150))


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
