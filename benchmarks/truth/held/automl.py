"""Searches over models and parameters."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "grid-search",
    field="search of parameters",
    source="https://scikit-learn.org (GridSearchCV(verbose=3)) and issues",
    chatter=(
        "joblib/externals/loky/process_executor.py:752: UserWarning: A worker stopped while some jobs were given to the executor.",
    ),
    chatter_every=120.0,
)
def grid_search(life: Life) -> Iterator[Event]:
    """`[CV 3/5] END ...` from eight workers out of order, of fits that take from one to twenty minutes."""
    clock = Clock()
    yield Phase.START
    yield "Fitting 5 folds for each of 36 candidates, totalling 180 fits\n"
    yield Phase.TRAIN
    for gamma in ("0.001", "0.01", "0.1", "scale"):
        for cost in (0.1, 1, 10, 100, 300, 1000, 3000, 10000, 30000):
            hard = 1 + cost**0.25
            for fold in sorted(range(1, 6), key=lambda _: life.random.random()):
                yield from clock.wait(life.about(11 * hard, 0.5))
                took = life.about(80 * hard, 0.3) / 60
                yield f"[CV {fold}/5] END ..........C={cost}, gamma={gamma}, kernel=rbf;, score={life.random.uniform(0.7, 0.9):.3f} total time= {took:5.1f}min\n"
    yield Phase.AFTER
    yield "best {'C': 300, 'gamma': '0.01', 'kernel': 'rbf'} 0.8811\nrefit on all rows\n"
    yield from clock.wait(life.about(700))
    yield "written svc.joblib\n"


@form(
    "hyperopt",
    field="search of parameters",
    source="https://github.com/hyperopt/hyperopt/issues",
    chatter=("hyperopt.mongoexp: {clock} no job found, sleeping for 8.1s",),
    chatter_every=60.0,
)
def hyperopt(life: Life) -> Iterator[Event]:
    """A bar of trials of five minutes each, amid which each trial prints its epochs by itself."""
    clock = Clock()
    yield Phase.START
    yield "\r  0%|          | 0/45 [00:00<?, ?trial/s, best loss=?]"
    yield Phase.TRAIN
    best = 1.2
    for trial in range(1, 46):
        yield f"\n{{'depth': {life.random.randint(2, 9)}, 'lr': {life.random.uniform(1e-4, 1e-2):.5f}}}\n"
        for epoch in range(1, 11):
            yield from clock.wait(life.about(14 + trial % 5 * 9))
            yield f"   epoch {epoch:2} of 10: rmse {life.loss(epoch / 10, 2.0, 0.9):.4f}\n"
        best = min(best, life.random.uniform(0.7, 1.3))
        yield f"\r{trial * 100 // 45:3}%|{'█' * (trial // 5):10}| {trial}/45 [{clock.elapsed}<2:31:11, 320.11s/trial, best loss: {best:.6f}]"
    yield Phase.AFTER
    yield "\nretraining with the best parameters\n"
    yield from clock.wait(life.about(420))


@form(
    "keras-tuner",
    field="search of parameters",
    source="https://github.com/keras-team/keras-tuner/issues",
    chatter=(
        "WARNING:tensorflow:Callback method `on_train_batch_end` is slow compared to the batch time (batch time: 0.0101s).",
    ),
    chatter_every=45.0,
)
def keras_tuner(life: Life) -> Iterator[Event]:
    """Hyperband: a table of each trial, its epochs of Keras without bars (verbose=2), its score; brackets grow longer."""
    clock = Clock()
    yield Phase.START
    yield "2026-02-03 10:00:03.118: I tensorflow/core/common_runtime/gpu/gpu_device.cc:2021] Created device /device:GPU:0 with 78911 MB memory\n"
    yield from clock.wait(life.about(45))
    best = 0.5
    yield Phase.TRAIN
    for trial in range(1, 31):
        epochs = (2, 2, 4, 7)[trial % 4]
        yield f"\nSearch: Running Trial #{trial}\n\nValue             |Best Value So Far |Hyperparameter\n{life.random.randint(32, 512):<18}|{256:<18}|units\n{trial % 5:<18}|{2:<18}|layers\n\n"
        yield from clock.wait(life.about(9))
        for epoch in range(1, epochs + 1):
            yield f"Epoch {epoch}/{epochs}\n"
            took = life.about(75 + 8 * (trial % 5))
            yield from clock.wait(took)
            yield f"1563/1563 - {took:.0f}s - {took / 1.563:.0f}ms/step - accuracy: 0.{50 + epoch * 3}12 - loss: {2.3 - epoch / 5:.4f} - val_accuracy: 0.{48 + epoch * 3}22 - val_loss: {2.4 - epoch / 5:.4f}\n"
        best = max(best, life.random.uniform(0.4, 0.8))
        yield f"\nTrial {trial} Complete [00h {int(epochs * 90 // 60):02}m {epochs * 90 % 60:02}s]\nval_accuracy: {life.random.uniform(0.4, best):.4f}\n\nBest val_accuracy So Far: {best:.4f}\nTotal elapsed time: {clock.elapsed[:1]}h {clock.elapsed[2:4]}m {clock.elapsed[5:]}s\n"
    yield Phase.AFTER
    yield "Results summary\nResults in tuner/otters\nShowing 10 best trials\n"
