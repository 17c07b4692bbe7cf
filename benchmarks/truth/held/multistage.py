"""Job scripts and workflows of several stages."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "snakemake",
    field="workflows",
    source="https://github.com/snakemake/snakemake/issues/806",
    chatter=("Waiting for more resources.",),
    chatter_every=120.0,
    death="Error in rule call_variants:\n    jobid: 88\n    output: calls/s88.vcf.gz\nRemoving output files of failed job call_variants since they might be corrupted.\n",
)
def snakemake(life: Life) -> Iterator[Event]:
    """Blocks of a rule and `Finished job 7.` with `12 of 96 steps (13%) done`, one rule long, one retried."""
    clock = Clock()
    yield Phase.START
    yield "Building DAG of jobs...\nUsing shell: /usr/bin/bash\nProvided cores: 64\n"
    yield from clock.wait(life.about(40))
    yield "Job stats:\njob              count\n-------------  -------\nall                  1\nalign               60\ncall_variants       35\ntotal               96\n\nSelect jobs to execute...\n"
    yield Phase.TRAIN
    for job in range(1, 97):
        rule, seconds = ("align", 170) if job <= 60 else ("call_variants", 260)
        yield f"\n[{clock('%a %b %e %H:%M:%S %Y')}]\nrule {rule}:\n    input: reads/s{job}.fq.gz\n    output: {rule}/s{job}.out\n    jobid: {job + 7}\n    wildcards: sample=s{job}\n    threads: 64\n    resources: mem_mb=64000, tmpdir=/tmp\n\n"
        yield from clock.wait(life.about(seconds, 0.3))
        if job in (17, 71):
            yield f"[{clock('%a %b %e %H:%M:%S %Y')}]\nError in rule {rule}:\n    jobid: {job + 7}\n    (one of the commands exited with non-zero exit code)\n\nTrying to restart job {job + 7}.\nSelect jobs to execute...\n"
            yield from clock.wait(life.about(seconds, 0.3))
        yield f"[{clock('%a %b %e %H:%M:%S %Y')}]\nFinished job {job + 7}.\n{job} of 97 steps ({job * 100 // 97}%) done\nSelect jobs to execute...\nWaiting for more resources.\n"
    yield Phase.AFTER
    yield "\nlocalrule all:\n    input: report.html\n    jobid: 0\n"
    yield from clock.wait(life.about(60))
    yield "97 of 97 steps (100%) done\nComplete log: .snakemake/log/2026-02-03T100001.snakemake.log\n"


@form(
    "nextflow",
    field="workflows",
    source="https://github.com/nextflow-io/nextflow/issues/250 and https://github.com/nf-core/configs/issues/1113",
    chatter=("WARN: [SLURM] queue (normal) status cannot be fetched -- Error status: 1 -- retry {n}",),
    chatter_every=300.0,
)
def nextflow(life: Life) -> Iterator[Event]:
    """Only `[24/24c564] Submitted process > ...`, in bursts of up to eight, with up to fifteen minutes between."""
    clock = Clock()
    yield Phase.START
    yield "N E X T F L O W  ~  version 23.10.1\nLaunching `main.nf` [grave_otter] DSL2 - revision: 5caf7640a9\n"
    yield from clock.wait(life.about(45))
    yield Phase.TRAIN
    for batch in range(26):
        for task in range(life.random.randint(3, 8)):
            yield f"[{life.random.randrange(256):02x}/{life.random.randrange(16**6):06x}] Submitted process > {('FASTQC', 'TRIM', 'STAR_ALIGN', 'SALMON')[batch // 7]} (sample_{batch * 8 + task})\n"
            yield from clock.wait(life.about(4, 0.5))
        if batch == 11:
            yield "[3f/aa10c2] NOTE: Process `TRIM (sample_81)` terminated with an error exit status (137) -- Execution is retried (1)\n"
        yield from clock.wait(life.about(560, 0.25))
    yield Phase.AFTER
    yield "[7c/1181aa] Submitted process > MULTIQC\n"
    yield from clock.wait(life.about(240))
    yield "-[nf-core/rnaseq] Pipeline completed successfully-\n"


@form(
    "spark-then-train",
    field="job scripts of stages",
    source="https://spark.apache.org/docs/latest/configuration.html (spark.ui.showConsoleProgress) and job scripts",
    chatter=("job watch {clock}: rss 311 GB of 500 GB",),
    chatter_every=130.0,
    tells_loss=True,
)
def spark_then_train(life: Life) -> Iterator[Event]:
    """`=== 1/3 features`: bars of Spark `[Stage 3:==>  (120 + 64) / 2000]`; `=== 2/3 train`; `=== 3/3 score` by parts."""
    clock = Clock()
    yield Phase.START
    yield "=== 1/3 features\n26/02/03 10:00:04 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform\n"
    yield from clock.wait(life.about(40))
    yield Phase.PREPARE
    for stage, tasks in ((1, 400), (3, 2000), (4, 800)):
        done = 0
        while done < tasks:
            yield f"\r[Stage {stage}:{'=' * (done * 40 // tasks)}>{' ' * (40 - done * 40 // tasks)}({done} + 64) / {tasks}]"
            yield from clock.wait(life.about(10, 0.3))
            done += life.random.randint(5, 14)
        yield "\r" + " " * 80 + "\r"
    yield "features: 88,120,311 rows, 214 columns\n=== 2/3 train\n"
    yield from clock.wait(life.about(90))
    for epoch in range(1, 7):
        yield Phase.TRAIN
        for part in range(1, 21):
            yield from clock.wait(life.about(31))
            loss = life.loss((epoch - 1 + part / 20) / 6, 0.69, 0.31, 0.01)
            yield f"epoch {epoch}/6 part {part:02}/20 rows={part * 4_406_015:,} bce={loss:.5f} auc={1 - loss / 2:.4f}\n"
        yield Phase.EVALUATE
        yield "holdout ...\n"
        yield from clock.wait(life.about(120))
        yield f"holdout bce={loss + 0.01:.5f}\n"
        yield Phase.SAVE
        yield f"wrote dcn_e{epoch}.pt\n"
        yield from clock.wait(life.about(4))
    yield Phase.AFTER
    yield "=== 3/3 score\n"
    for part in range(1, 65):
        yield from clock.wait(life.about(33))
        yield f"scored part-{part:05}.parquet of 64\n"
