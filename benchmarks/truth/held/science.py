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
