"""Boosted trees and automatic machine learning."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "lightgbm-folds",
    field="boosting",
    source="https://github.com/microsoft/LightGBM",
    chatter=("[{clock}] rss: 61.2 GB",),
    tells_loss=False,
)
def lightgbm(life: Life) -> Iterator[Event]:
    """Five folds whose rounds count from 100 anew; between them binning of some minutes."""
    yield Phase.START
    yield "reading features.parquet\n"
    yield life.about(240)
    for fold in range(5):
        yield Phase.PREPARE
        yield f"===== fold {fold} =====\n[LightGBM] [Info] Number of positive: 81231, number of negative: 4123112\n"
        yield life.about(150)
        yield "[LightGBM] [Info] Total Bins 61234\n[LightGBM] [Info] Start training from score -3.927\nTraining until validation scores don't improve for 300 rounds\n"
        yield Phase.TRAIN
        for rounds in range(100, life.random.randint(2800, 4200), 100):
            yield life.about(52, 0.06)
            yield f"[{rounds}]\ttrain's auc: {0.9 + rounds / 60000:.6f}\tvalid's auc: {0.89 + rounds / 90000:.6f}\n"
        yield f"Early stopping, best iteration is:\n[{rounds - 300}]\ttrain's auc: 0.941\tvalid's auc: 0.921\n"
    yield Phase.AFTER
    yield "writing oof.parquet\n"
    yield life.about(300)


@form(
    "catboost",
    field="boosting",
    source="https://github.com/catboost/catboost",
    chatter=("metric_period writer {clock} idle",),
    chatter_every=60.0,
)
def catboost(life: Life) -> Iterator[Event]:
    """`120:	learn: … test: … best: … (118)	total: 20m 1s	remaining: 2h 11m`, each tenth tree."""
    yield Phase.START
    yield "Learning rate set to 0.061\n"
    yield life.about(420)
    yield Phase.TRAIN
    for tree in range(0, 6000, 10):
        yield life.about(19, 0.07)
        fit = life.loss(tree / 6000, 0.69, 0.31)
        yield f"{tree}:\tlearn: {fit:.7f}\ttest: {fit + 0.01:.7f}\tbest: {fit + 0.01:.7f} ({tree})\ttotal: {tree * 19 // 600}m {tree % 60}s\tremaining: {(6000 - tree) * 19 // 36000}h {tree % 60}m\n"
    yield Phase.AFTER
    yield "\nbestTest = 0.3211\nbestIteration = 5871\n\nShrink model to first 5872 iterations.\n"
    yield life.about(90)


@form(
    "autogluon",
    field="search of models",
    source="https://github.com/autogluon/autogluon",
    chatter=("disk check {n}: ok",),
    chatter_every=120.0,
)
def autogluon(life: Life) -> Iterator[Event]:
    """Models that take from two to thirty minutes each and say three lines at their end."""
    yield Phase.START
    yield "Beginning AutoGluon training ... Time limit = 28800s\nAutoGluon will save models to '/scratch/ag'\n"
    yield life.about(30)
    yield Phase.PREPARE
    yield "Using Feature Generators to preprocess the data ...\n\tStage 1 Generators:\n\t\tFitting AsTypeFeatureGenerator...\n"
    yield life.about(200)
    yield Phase.TRAIN
    left = 28500.0
    names = (
        "KNeighborsUnif",
        "LightGBMXT",
        "LightGBM",
        "RandomForestGini",
        "CatBoost",
        "ExtraTreesGini",
        "NeuralNetFastAI",
        "XGBoost",
        "NeuralNetTorch",
        "LightGBMLarge",
    )
    for level in (1, 2):
        for number, name in enumerate(names):
            yield f"Fitting model: {name}_BAG_L{level} ... Training model for up to {left * 0.66:.2f}s of the {left:.2f}s of remaining time.\n\tFitting 8 child models (S1F1 - S1F8) | Fitting with ParallelLocalFoldFittingStrategy (8 workers)\n"
            took = life.about((150, 700, 900, 400, 1700, 420, 1300, 800, 1500, 1800)[number], 0.1)
            yield took
            left -= took
            yield f"\t0.8{number}{level}1\t = Validation score   (accuracy)\n\t{took:.2f}s\t = Training   runtime\n\t{took / 100:.2f}s\t = Validation runtime\n"
    yield Phase.AFTER
    yield "AutoGluon training complete, total runtime = 20121.1s ... Best model: WeightedEnsemble_L3\n"
    yield life.about(60)


@form(
    "ray-tune-trials",
    field="search of parameters",
    source="https://docs.ray.io/en/latest/tune",
    chatter=("(raylet) [{clock}] worker pool: {n} idle workers",),
    chatter_every=60.0,
)
def tune(life: Life) -> Iterator[Event]:
    """A table of all trials each minute; PENDING become RUNNING become TERMINATED, one ERROR that is passed over."""
    yield Phase.START
    yield "╭──────────────────────────────────────────────────────────────────╮\n│ Configuration for experiment     tune_resnet                     │\n"
    yield life.about(50)
    yield Phase.TRAIN
    total, lengths = 16, [life.random.randint(25, 60) for _ in range(16)]
    began: dict[int, int] = {}
    for minute in range(1, 240):
        yield life.about(60, 0.02)
        running = [trial for trial, at in began.items() if minute - at < lengths[trial]]
        for trial in range(total):
            if trial not in began and len(running) < 4:
                began[trial] = minute
                running.append(trial)
        done = len(began) - len(running)
        table = "".join(
            f"│ train_{trial:05}   {'RUNNING   ' if trial in running else 'TERMINATED' if trial != 5 else 'ERROR     '}   {trial * 7 % 5 / 1000:.3f}   {min(minute - at, lengths[trial]):4}   {min(minute - at, lengths[trial]) * 58.1:10.1f}   {2 / (1 + minute - at):.4f} │\n"
            for trial, at in began.items()
        )
        yield f"Trial status: {len(running)} RUNNING | {done} TERMINATED | {total - len(began)} PENDING\nCurrent time: 2026-03-11 {8 + minute // 60:02}:{minute % 60:02}:11. Total running time: {minute // 60}hr {minute % 60}min 1s\nLogical resource usage: {len(running) * 8}.0/64 CPUs, {len(running)}.0/4 GPUs\n{table}"
        if 5 in began and minute - began[5] == lengths[5]:
            yield '2026-03-11 09:01:11,001\tERROR tune_controller.py:1331 -- Trial task failed for trial train_00005\nTraceback (most recent call last):\n  File "tune.py", line 31, in train\nValueError: Expected more than 1 value per channel when training\n'
        if not running:
            break
    yield Phase.AFTER
    yield "2026-03-11 12:00:00,001\tINFO tune.py:1041 -- Total run time: 13811.11 seconds.\n"
