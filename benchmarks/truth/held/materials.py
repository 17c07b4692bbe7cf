"""Potentials that are learned, electrons and plasmas."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "nequip",
    field="materials",
    source="https://github.com/mir-group/allegro/issues/30 and /issues/64",
    chatter=("power {clock} 612 W",),
    chatter_every=60.0,
    tells_loss=True,
)
def nequip(life: Life) -> Iterator[Event]:
    """A table of batches without a word beside its numbers, its head again for each epoch, the third batch compiled for minutes."""
    yield Phase.START
    yield "Torch device: cuda\nProcessing dataset...\n"
    yield life.about(60)
    yield Phase.PREPARE
    yield "Loaded data: Batch(atomic_numbers=[52369, 1], batch=[52369], cell=[582, 3, 3], edge_index=[2, 4453866])\n    processed data size: ~120.96 MB\n"
    yield life.about(150)
    yield "Successfully built the network...\nNumber of weights: 409912\n! Starting training ...\n"
    for epoch in range(26):
        for part, batches in (("training", 110), ("validation", 25)):
            yield Phase.TRAIN if part == "training" else Phase.EVALUATE
            yield f"\n{part}\n# Epoch batch         loss       loss_f       loss_e        f_mae       f_rmse      e/N_mae\n"
            for batch in range(1, batches + 1):
                yield life.about(310) if epoch == 0 and batch == 3 else life.about(2.1, 0.2)
                loss = life.loss(epoch / 26, 0.95, 0.02, 0.25)
                yield f"  {epoch:5} {batch:5} {loss:12.3g} {loss * 0.98:12.3g} {loss * 0.02:12.3g} {loss / 9:12.3g} {loss / 5:12.3g} {loss / 70:12.3g}\n"
        loss = life.loss(epoch / 26, 0.95, 0.02, 0.02)
        yield (
            "\n\n  Train      #    Epoch      wal       LR       loss_f       loss_e         loss        f_mae\n"
            f"! Train           {epoch:8} {epoch * 290 + 240:8.3f}    0.005 {loss:12.3g} {loss / 50:12.3g} {loss * 1.02:12.3g} {loss / 9:12.3g}\n"
            f"! Validation      {epoch:8} {epoch * 290 + 240:8.3f}    0.005 {loss:12.3g} {loss / 50:12.3g} {loss * 1.03:12.3g} {loss / 9:12.3g}\n"
            f"Wall time: {epoch * 290 + 240.11}\n! Best model {epoch:8} {loss:.3f}\n"
        )


@form(
    "mace",
    field="materials",
    source="https://github.com/ACEsuit/mace/issues/326 and https://github.com/aiida-trieste-developers/aiida-trains-pot/issues/34",
    chatter=("{clock} dcgm: ok",),
    chatter_every=60.0,
    tells_loss=True,
)
def mace(life: Life) -> Iterator[Event]:
    """One line an epoch of three minutes, `loss` is validation's, a second stage in which the loss is another one."""
    clock = Clock()
    yield Phase.START
    yield f"{clock()}.613 INFO: ===========VERIFYING SETTINGS===========\n{clock()}.614 INFO: MACE version: 0.3.14\n"
    yield from clock.wait(life.about(25))
    yield Phase.PREPARE
    yield f"{clock()}.613 INFO: ===========LOADING INPUT DATA===========\n"
    yield from clock.wait(life.about(240))
    yield f"{clock()}.613 INFO: Computing average number of neighbors\n"
    yield from clock.wait(life.about(130))
    yield f"{clock()}.613 INFO: ===========TRAINING===========\n{clock()}.613 INFO: Started training, reporting errors on validation set\n"
    yield f"{clock()}.613 INFO: Initial: head: Default, loss= 18.20441, RMSE_E_per_atom=  811.12 meV, RMSE_F=  401.11 meV / A\n"
    yield Phase.TRAIN
    for epoch in range(90):
        yield from clock.wait(life.about(176, 0.03))
        second = epoch >= 68
        loss = life.loss(epoch / 90, 0.9, 0.05, 0.05) * (1.0 if not second else 0.4)
        if epoch == 68:
            yield f"{clock()}.411 INFO: Changing loss based on Stage Two Weights\n"
        yield f"{clock()}.412 INFO: Epoch {epoch}: head: Default, loss={loss:12.8f}, RMSE_E_per_atom={loss * 90:8.2f} meV, RMSE_F={loss * 200:8.2f} meV / A\n"
    yield Phase.AFTER
    yield f"{clock()}.911 INFO: Training complete\n{clock()}.911 INFO: Computing metrics for training, validation, and test sets\n"
    yield from clock.wait(life.about(700))
    yield f"{clock()}.911 INFO: Error-table on TRAIN and VALID:\n+---------------+---------------------+------------------+\n| train_Default |          2.1        |       21.0       |\n"
    yield from clock.wait(life.about(60))


@form(
    "deepmd",
    field="materials",
    source="https://github.com/deepmodeling/deepmd-kit/issues",
    chatter=("{clock} node n003: fan 5400 rpm",),
    chatter_every=30.0,
    death="terminate called after throwing an instance of 'deepmd::deepmd_exception'\n  what():  DeePMD-kit Error: CUDA Runtime library throws an error: an illegal memory access was encountered\n",
)
def deepmd(life: Life) -> Iterator[Event]:
    """`batch 1000: trn: rmse = ..., lr = ...` each twelve seconds, a save each 1,000 batches at once."""
    clock = Clock()
    yield Phase.START
    yield f"[{clock()},101] DEEPMD INFO    _____               _____   __  __  _____           _     _  _\n"
    yield from clock.wait(life.about(35))
    yield Phase.PREPARE
    yield f"[{clock()},101] DEEPMD INFO    ---Summary of DataSystem: training     -----------------------------------------------\n"
    yield f"[{clock()},102] DEEPMD INFO    training without frame parameter\n[{clock()},102] DEEPMD INFO    data stating... (this step may take long time)\n"
    yield from clock.wait(life.about(400))
    yield f"[{clock()},103] DEEPMD INFO    built training\n[{clock()},103] DEEPMD INFO    start training at lr 1.00e-03 (== 1.00e-03), decay_step 5000\n"
    yield Phase.TRAIN
    for batch in range(100, 100_001, 100):
        yield from clock.wait(life.about(12, 0.03))
        rmse = life.loss(batch / 100_000, 21, 0.9, 0.12)
        yield f"[{clock()},551] DEEPMD INFO    batch {batch:7}: trn: rmse = {rmse:.2e}, rmse_e = {rmse / 900:.2e}, rmse_f = {rmse / 20:.2e}, lr = {1e-3 * 0.95 ** (batch // 5000):.2e}\n"
        yield f"[{clock()},552] DEEPMD INFO    batch {batch:7}: total wall time = {12 + rmse / 90:.2f} s\n"
        if batch % 1000 == 0:
            yield f"[{clock()},561] DEEPMD INFO    saved checkpoint model.ckpt\n"
    yield Phase.AFTER
    yield f"[{clock()},561] DEEPMD INFO    average training time: 0.1211 s/batch (exclude first 100 batches)\n"


@form(
    "nwchem-neb",
    field="chemistry",
    source="https://github.com/nwchemgit/nwchem/issues/134 and /issues/272",
    chatter=(" Resource limits: {n} of 512 file descriptors",),
    chatter_every=60.0,
)
def nwchem(life: Life) -> Iterator[Event]:
    """Beads of a path, each with its own cycle of energies; a summary line `@neb` after each round of beads."""
    yield Phase.START
    yield " argument  1 = fe.nw\n\n              Northwest Computational Chemistry Package (NWChem) 7.2.2\n"
    yield life.about(50)
    yield Phase.PREPARE
    yield "          General Information\n          No. of atoms     :    33\n          No. of electrons :   186\n"
    yield life.about(90)
    yield Phase.TRAIN
    passed = 140.0
    for round_ in range(1, 34):
        for bead in range(1, 9):
            yield f" neb: running bead                    {bead}\n\n   convergence    iter        energy       DeltaE   RMS-Dens  Diis-err    time\n ---------------- ----- ----------------- --------- --------- ---------  ------\n"
            for cycle in range(1, life.random.randrange(9, 16)):
                took = life.about(5.2, 0.2)
                passed += took
                yield took
                yield f" d= 0,ls=0.0,diis {cycle:5}    -156.33{life.random.randrange(10**7):07} {-(10.0**-cycle):.2e}  {3 * 10.0**-cycle:.2e}  {2 * 10.0**-cycle:.2e} {passed:7.1f}\n"
            yield f"\n         Total DFT energy =     -156.33{life.random.randrange(10**9):09}\n"
            grad = life.about(21)
            passed += grad
            yield grad
        yield f"@neb {round_:4}    -156.333429    -156.240256    -156.373243    -156.239511  0.00{646 - round_ * 9:03}  0.00155  0.00016  0.00003 {passed:8.1f}\n"


@form(
    "abacus-scf",
    field="electronic structure",
    source="https://github.com/deepmodeling/abacus-develop/issues/3821 and /issues/4772",
    chatter=(" * MEMORY: {clock} 211 GB",),
    chatter_every=120.0,
)
def abacus(life: Life) -> Iterator[Event]:
    """`GV12  -3.5e+03 ...` of twenty to forty in a relaxation's step, each taking a quarter of a minute; the step's own head."""
    yield Phase.START
    yield "                              ABACUS v3.5.4\n\n RUNNING WITH DEVICE  : CPU / Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz\n"
    yield life.about(25)
    yield Phase.PREPARE
    yield " DONE(0.327417   SEC) : SETUP UNITCELL\n DONE(0.371693   SEC) : SYMMETRY\n"
    yield life.about(130)
    yield " DONE(131.525902   SEC) : INIT PLANEWAVE\n"
    yield Phase.TRAIN
    for step in range(1, 22):
        yield f" -------------------------------------------\n STEP OF RELAXATION : {step}\n -------------------------------------------\n START CHARGE      : {'atomic' if step == 1 else 'file'}\n"
        yield life.about(70)
        yield " ITER       ETOT/eV          EDIFF/eV         DRHO     TIME/s\n"
        for cycle in range(1, life.random.randrange(22, 40)):
            took = life.about(15.5, 0.05)
            yield took
            yield f" GE{cycle:<4} -3.5276{life.random.randrange(99):02}e+03  {-(10.0 ** (-cycle / 3)):.6e}  {10.0 ** (-cycle / 3):.3e}  {took:.3e}  \n"
        yield " ><><><><><><><><><><><><><><><><><><><><><><\n TOTAL-STRESS (KBAR):\n ><><><><><><><><><><><><><><><><><><><><><><\n"
        yield life.about(200)
        yield f" LARGEST GRAD (eV/A) : {2.4 / step:.6f}\n"


@form(
    "warpx",
    field="plasmas",
    source="https://github.com/ECP-WarpX/WarpX/issues",
    chatter=("AMReX: {clock} arena usage 71 %",),
    chatter_every=60.0,
    death="amrex::Abort::5::CUDA error 700 in file AMReX_GpuDevice.cpp line 648: an illegal memory access was encountered !!!\nSIGABRT\n",
)
def warpx(life: Life) -> Iterator[Event]:
    """Three lines a step of four seconds, diagnostics that take two minutes each 500 steps."""
    yield Phase.START
    yield "Initializing AMReX (24.02)...\nMPI initialized with 64 MPI processes\nMPI initialized with thread support level 3\n"
    yield life.about(45)
    yield Phase.PREPARE
    yield "Level 0: dt = 1.2e-16 ; dx = 3.1e-08 ; dz = 3.1e-08\nGrids Summary:\n  Level 0   512 grids  134217728 cells  100 % of domain\n"
    yield life.about(190)
    yield Phase.TRAIN
    begun = 0.0
    for step in range(1, 2601):
        took = life.about(4.1, 0.05)
        begun += took
        yield f"STEP {step} starts ...\n"
        yield took
        yield f"STEP {step} ends. TIME = {step * 1.2e-16:.6e} DT = 1.2e-16\nEvolve time = {begun:.4f} s; This step = {took:.4f} s; Avg. per step = {begun / step:.4f} s\n\n"
        if step % 500 == 0:
            yield Phase.SAVE
            yield f"re-sorting particles\nWriting openPMD file diags/diag{step:06}\n"
            yield life.about(125)
            yield Phase.TRAIN
    yield Phase.AFTER
    yield "Total Time                     : 11211.4\n\nTinyProfiler total time across processes [min...avg...max]: 11211 ... 11211 ... 11211\n"
    yield life.about(20)
