"""Genomes, trees of species and pictures of molecules."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "gatk",
    field="genomes",
    source="https://github.com/broadinstitute/gatk/issues/7454 and /issues/9104",
    chatter=("{clock} [GC (Allocation Failure) 2113M->911M(3905M)]",),
    chatter_every=20.0,
)
def gatk(life: Life) -> Iterator[Event]:
    """A place in the genome (which falls back at each chromosome), minutes, regions and regions a minute; sparse regions are slow."""
    clock = Clock()
    yield Phase.START
    yield f"{clock('%H:%M:%S')}.182 INFO  HaplotypeCaller - HTSJDK Defaults.COMPRESSION_LEVEL : 2\n{clock('%H:%M:%S')}.182 INFO  HaplotypeCaller - Initializing engine\n"
    yield from clock.wait(life.about(40))
    yield Phase.PREPARE
    yield f"{clock('%H:%M:%S')}.400 INFO  FeatureManager - Using codec VCFCodec to read file\n"
    yield from clock.wait(life.about(25))
    yield f"{clock('%H:%M:%S')}.469 INFO  ProgressMeter - Starting traversal\n{clock('%H:%M:%S')}.469 INFO  ProgressMeter -        Current Locus  Elapsed Minutes     Regions Processed   Regions/Minute\n"
    yield Phase.TRAIN
    regions, begun = 0, clock.passed
    for chromosome in range(1, 23):
        place = life.random.randrange(10_000, 90_000)
        for _ in range(48):
            yield from clock.wait(
                life.random.choice((10.1, 10.4, 11.2, 12.6, 33.1, 61.0 if chromosome % 5 == 0 else 10.0))
            )
            place += life.random.randrange(200_000, 5_000_000)
            regions += life.random.randrange(20, 1500)
            minutes = (clock.passed - begun) / 60
            yield f"{clock('%H:%M:%S')}.{life.random.randrange(1000):03} INFO  ProgressMeter - {f'chr{chromosome}:{place}':>20} {minutes:16.1f} {regions:21} {regions / minutes:16.1f}\n"
    yield Phase.AFTER
    yield f"{clock('%H:%M:%S')}.101 INFO  HaplotypeCaller - 12112 read(s) filtered by: MappingQualityReadFilter\n{clock('%H:%M:%S')}.102 INFO  ProgressMeter - Traversal complete. Processed {regions} total regions in 311.1 minutes.\n"
    yield from clock.wait(life.about(8))


@form(
    "beast",
    field="phylogenetics",
    source="https://github.com/CompEvol/beast2/issues",
    chatter=("# {clock} beagle: resource 1",),
    chatter_every=60.0,
)
def beast(life: Life) -> Iterator[Event]:
    """A state and its densities in a table, a line each 95 seconds, nothing else for hours."""
    yield Phase.START
    yield "\n                            BEAST v2.7.6, 2002-2023\nRandom number seed: 1700211\n"
    yield life.about(30)
    yield Phase.PREPARE
    yield "Alignment(cyt): [taxa, patterns, sites] = [211, 1821, 1141]\nStart likelihood: -81211.22\n"
    yield life.about(20)
    yield "         Sample      posterior     likelihood          prior\n"
    yield Phase.TRAIN
    for state in range(0, 3_400_001, 20_000):
        yield f"{state:15} {-31000 - 20000 * 2.7 ** (-state / 100_000) + life.random.gauss(0, 12):14.4f} {-30100 + life.random.gauss(0, 12):14.4f} {-900 + life.random.gauss(0, 4):14.4f} 1h19m11s/Msamples\n"
        yield life.about(95, 0.05)
    yield Phase.AFTER
    yield "Operator                                        Tuning    #accept    #reject      Pr(m)  Pr(acc|m)\nTotal calculation time: 16011.221 seconds\nEnd likelihood: -30992.11\n"
    yield life.about(6)


@form(
    "relion-class3d",
    field="electron microscopy",
    source="https://github.com/3dem/relion/issues",
    chatter=("\n{clock} gpu2 61C",),
    chatter_every=45.0,
)
def relion(life: Life) -> Iterator[Event]:
    """A mouse that runs through dots over itself, an expectation of many minutes and a maximization of one, 25 times."""
    yield Phase.START
    yield "RELION version: 5.0.0\nPrecision: BASE=double\n\n === RELION MPI setup ===\n + Number of MPI processes             = 5\n"
    yield life.about(35)
    yield Phase.PREPARE
    yield " Estimating initial noise spectra from 1000 particles\n"
    for dot in range(60):
        yield f"\r 000/??? sec ~~(,_,{chr(34)}>{' ' * 5}[oo]\r {dot * 1.1:.0f}/  66 sec {'.' * dot}~~(,_,{chr(34)}>"
        yield life.about(1.1)
    yield "\n WARNING: There are only 211 particles in group 12\n"
    yield life.about(90)
    for iteration in range(1, 26):
        yield Phase.TRAIN
        yield f" CurrentResolution= {22 - iteration * 0.6:.2f} Angstroms, which requires orientationSampling of at least 8.3 degrees\n Expectation iteration {iteration} of 25\n"
        length = life.about(10.2, 0.2)
        for dot in range(1, 61):
            yield length
            yield f"\r{dot * length / 60:5.2f}/{length:5.2f} min {'.' * dot}~~(,_,{chr(34)}>"
        yield "\n Maximization ...\n"
        for dot in range(1, 61, 4):
            yield life.about(2.8)
            yield f"\r   {dot}/  60 sec {'.' * dot}~~(,_,{chr(34)}>"
        yield "\n"


@form(
    "raxml-ng",
    field="phylogenetics",
    source="https://github.com/amkozlov/raxml-ng/issues",
    chatter=("[pdu {clock}] 3.1 kW",),
    chatter_every=300.0,
)
def raxml(life: Life) -> Iterator[Event]:
    """Elapsed time and likelihood in brackets, rounds of a search that take ten to thirty minutes, tree after tree, then bootstraps."""
    clock = Clock()
    yield Phase.START
    yield "RAxML-NG v. 1.2.0 released on 09.05.2023 by The Exelixis Lab.\n\n[00:00:00] Reading alignment from file: all.phy\n"
    yield from clock.wait(life.about(12))
    yield f"[{clock('%H:%M:%S')}] Loaded alignment with 811 taxa and 31211 sites\n"
    yield Phase.TRAIN
    for tree in range(1, 6):
        likelihood = -2_411_000.0 - life.random.randrange(9000)
        for what in ("Initial branch length optimization", "Model parameter optimization (eps = 10.000000)", "AUTODETECT spr round 1 (radius: 5)", "AUTODETECT spr round 2 (radius: 10)", "SPR radius for FAST iterations: 10 (autodetect)", "FAST spr round 1 (radius: 10)", "FAST spr round 2 (radius: 10)", "Model parameter optimization (eps = 1.000000)", "SLOW spr round 1 (radius: 5)", "SLOW spr round 2 (radius: 10)"):  # fmt: skip
            yield f"[{Clock.long(clock.passed)} {likelihood:.6f}] {what}\n"
            likelihood += life.random.randrange(100, 4000) / 7
            yield from clock.wait(
                life.about(30 if "Initial" in what else 820 if "SLOW" in what else 460, 0.2)
            )
        yield f"\n[{Clock.long(clock.passed)}] ML tree search #{tree}, logLikelihood: {likelihood:.6f}\n\n"
    for tree in range(1, 31):
        yield from clock.wait(life.about(240, 0.1))
        yield f"[{Clock.long(clock.passed)}] Bootstrap tree #{tree}, logLikelihood: {likelihood - life.random.randrange(9000):.6f}\n"


@form(
    "alphafold",
    field="proteins",
    source="https://github.com/google-deepmind/alphafold/issues",
    chatter=("I0203 {clock}.100211 139 rpc.py:21] keepalive",),
    chatter_every=120.0,
)
def alphafold(life: Life) -> Iterator[Event]:
    """Searches of databases that each take what they take, five models of a protein, and the next protein."""
    clock = Clock()

    def say(text: str) -> str:
        return f"I0203 {clock('%H:%M:%S')}.121212 140211 {text}\n"

    yield Phase.START
    yield say("templates.py:857] Using precomputed obsolete pdbs /db/obsolete.dat.")
    yield from clock.wait(life.about(60))
    for protein in range(1, 9):
        long = life.about(1.0, 0.35)
        yield Phase.PREPARE
        yield say(f"run_alphafold.py:190] Predicting T11{protein:02}")
        for name, seconds in (("jackhmmer uniref90", 420), ("jackhmmer mgnify", 600), ("hhblits bfd", 1400)):
            tool, base = name.split()
            yield say(
                f'{tool}.py:133] Launching subprocess "/usr/bin/{tool} -o /dev/null -A /tmp/tmp{protein}x/output.sto {base}.fasta"'
            )
            yield from clock.wait(1)
            yield say(f"utils.py:36] Started {tool} query ({base})")
            yield from clock.wait(seconds * long)
            yield say(f"utils.py:40] Finished {tool} ({base}) query in {seconds * long:.3f} seconds")
        yield Phase.TRAIN
        for model in range(1, 6):
            yield say(f"run_alphafold.py:202] Running model model_{model}_pred_0 on T11{protein:02}")
            yield from clock.wait(life.about(140 if model == 1 else 70) * long)
            yield say(
                f"run_alphafold.py:216] Total JAX model model_{model}_pred_0 on T11{protein:02} predict time: {70 * long:.1f}s"
            )
            yield from clock.wait(life.about(30) * long)
