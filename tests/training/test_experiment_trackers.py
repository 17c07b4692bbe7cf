"""Links from a run's page to W&B, MLflow and TensorBoard, where their files lie beside its log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from watchdogd.integrations.experiment_trackers import ExperimentTracker, trackers

WANDB = "https://wandb.example.org/bloom/moe-3b/runs/7k2x9qwe"
MLFLOW = "http://mlflow.example.org:5000/#/experiments/412/runs/0f3c9b1e"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder of logs; the newest one says where W&B and MLflow show the run."""
    folder = tmp_path / "run 17" / "logs"
    folder.mkdir(parents=True)
    (folder / "main-1.txt").write_text(
        "wandb: View run at https://wandb.example.org/bloom/moe-3b/runs/0ld0ld00\n"
    )
    os.utime(folder / "main-1.txt", (1e9, 1e9))
    (folder / "main-2.txt").write_text(
        f"wandb: View run at {WANDB}\n" + "step\n" * 100_000 + f"View run calm-owl at: {MLFLOW}.\n"
    )
    return folder


def _wandb(beside: Path, name: str) -> Path:
    place = beside / "wandb" / name
    place.mkdir(parents=True)
    (beside / "wandb" / "latest-run").symlink_to(name)
    return place


def _found(logs: Path) -> dict[str, ExperimentTracker]:
    return {each.name: each for each in trackers(f"{logs}/main-*.txt")}


@pytest.mark.parametrize("up", [False, True])
def test_the_page_of_the_run_whose_files_lie_there(logs: Path, up: bool) -> None:
    beside = logs.parent if up else logs
    place = _wandb(beside, "run-20261129_031200-7k2x9qwe")
    run = beside / "mlruns" / "412" / "0f3c9b1e"
    run.mkdir(parents=True)
    (run / "meta.yaml").write_text("status: 1\n")
    found = _found(logs)
    assert found["W&B"] == ExperimentTracker("W&B", str(place), WANDB)
    assert (found["MLflow"].url, found["MLflow"].place) == (MLFLOW, str(run))


def test_an_address_of_another_run_is_no_link(logs: Path) -> None:
    place = _wandb(logs, "run-20261129_031200-an0ther1")
    assert _found(logs)["W&B"] == ExperimentTracker("W&B", str(place))
    assert _found(logs)["W&B"].url == ""


def test_what_is_offline_says_how_it_gets_there(logs: Path) -> None:
    place = _wandb(logs, "offline-run-20261129_031200-7k2x9qwf")
    assert _found(logs)["W&B"].command == f"wandb sync '{place}'"


@pytest.mark.parametrize("below", [".", "tensorboard", "lightning_logs/version_3", "runs/Nov29_node1"])
def test_the_folder_for_tensorboard(logs: Path, below: str) -> None:
    place = logs / below
    place.mkdir(parents=True, exist_ok=True)
    (place / "events.out.tfevents.1796000040.node1.4711.0").write_bytes(b"")
    assert _found(logs)["TensorBoard"].command == f"tensorboard --logdir '{place.resolve()}'"


@pytest.mark.parametrize("pattern", ["", "/nowhere/*.txt", "["])
def test_where_there_is_nothing_nothing_is_shown(pattern: str) -> None:
    assert trackers(pattern) == ()


def test_files_that_are_none_are_passed_over(logs: Path) -> None:
    (logs / "wandb").mkdir()
    (logs / "wandb" / "latest-run").symlink_to("gone")
    (logs / "mlruns").write_text("no folder")
    (logs / "main-2.txt").write_bytes(b"\xff\x00https://\n")
    assert _found(logs) == {}
