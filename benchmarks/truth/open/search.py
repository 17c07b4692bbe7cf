"""Searches over many short trainings, and boosted trees."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "optuna",
    field="search of parameters",
    source="https://github.com/optuna/optuna/issues",
    chatter=("[W 2026-02-03 {clock}] Study storage is locked, retrying ({n})",),
)
def optuna(life: Life) -> Iterator[Event]:
    """Trials of some minutes; one of seven dies of memory and the next begins."""
    yield Phase.START
    yield "[I 2026-02-03 10:00:00,123] A new study created in RDB with name: tune-7\n"
    best = 9.0
    yield Phase.TRAIN
    for trial in range(40):
        for epoch in range(8):
            yield life.about(35)
            yield f"epoch {epoch} loss {life.loss(epoch / 8, 3, 1):.4f}\n"
            if trial % 7 == 3 and epoch == 2:
                yield 'Traceback (most recent call last):\n  File "tune.py", line 88, in objective\n'
                yield "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.10 GiB.\n"
                yield f"[W 2026-02-03 10:10:00,121] Trial {trial} failed with parameters: {{'lr': 0.0{trial}}}\n"
                break
        else:
            value = life.random.uniform(1, 2)
            best = min(best, value)
            yield (
                f"[I 2026-02-03 10:10:00,121] Trial {trial} finished with value: {value:.6f} and parameters: "
                f"{{'lr': 0.0{trial}, 'layers': {trial % 5}}}. Best is trial 0 with value: {best:.6f}.\n"
            )
    yield Phase.AFTER
    yield life.about(60)


@form(
    "xgboost",
    field="boosting",
    source="https://xgboost.readthedocs.io (verbose_eval)",
    chatter=("watch: cpu 100.0 mem 41.{n}",),
)
def xgboost(life: Life) -> Iterator[Event]:
    """Rounds of half a minute, then nothing until the model is written and explained."""
    yield Phase.START
    yield "[10:00:01] Loading train.dmatrix\n"
    yield life.about(600)
    yield Phase.TRAIN
    for number in range(400):
        yield life.about(28)
        fit = life.loss(number / 400, 0.69, 0.2)
        yield f"[{number}]\ttrain-logloss:{fit:.5f}\tvalid-logloss:{fit + 0.02:.5f}\n"
    yield Phase.AFTER
    yield "computing SHAP values\n"
    yield life.about(1500)


@form(
    "sb3-table",
    field="reinforcement learning",
    source="https://github.com/DLR-RM/stable-baselines3/issues",
    chatter=("env worker {n} restarted",),
)
def sb3(life: Life) -> Iterator[Event]:
    """A table each rollout."""
    yield Phase.START
    yield "Using cuda device\n"
    yield life.about(20)
    yield Phase.TRAIN
    for rollout in range(1, 400):
        yield life.about(24)
        yield (
            "---------------------------------\n| rollout/           |          |\n"
            f"|    ep_len_mean     | {life.random.uniform(180, 220):.0f}      |\n"
            f"|    ep_rew_mean     | {life.random.gauss(-200 + rollout / 3, 15):.0f}     |\n"
            f"| time/              |          |\n|    fps             | {life.random.randint(800, 900)}      |\n"
            f"|    iterations      | {rollout}        |\n|    time_elapsed    | {rollout * 24}       |\n"
            f"|    total_timesteps | {rollout * 20480}    |\n---------------------------------\n"
        )
