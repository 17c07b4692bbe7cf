"""annotate: an incident noted where the run is tracked, by the real W&B, MLflow and TensorBoard.

W&B's server is ours, since its own is a container: it knows of the API what the real client asks for.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.lab.environments import python_of
from watchdogd.config.loading import parse
from watchdogd.daemon import remediation_context
from watchdogd.home.layout import Home
from watchdogd.incidents.models import Incident
from watchdogd.integrations import experiment_trackers, tracker_notes
from watchdogd.plugin import Run, Status
from watchdogd.remediation.executor import do
from watchdogd.remediation.models import Action, ActionOutcome, ActionRecord, ActionTask

TRACKED = """
import os
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
import mlflow, wandb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

with wandb.init(project="bloom", mode="offline", settings=wandb.Settings(silent=True)) as run:
    run.log({"loss": 2.5})
mlflow.set_tracking_uri("file:./mlruns")
with mlflow.start_run():
    pass
EventFileWriter("tb").close()
"""


def annotate(folder: Path, python: str, log: str = "iteration 7 loss 2.5\n") -> ActionOutcome:
    home = Home(folder / "home")
    home.make()
    (folder / "train.log").write_text(log)
    incident = Incident(
        7, "glide/log_staleness", "glide", "glide", "", Status.CRITICAL, time.time(), "stalled for 22m"
    )
    record = ActionRecord(7, "glide", "on_hang", Action("annotate", (python,)), time.time())
    return do(ActionTask(record, incident, home, Run("glide", "glide"), log=str(folder / "train.log")))


class Server(ThreadingHTTPServer):
    """W&B's API, as far as an alert needs it; `asked` are the requests: the path, and what was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str]] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        text = (gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body).decode(
            errors="replace"
        )
        self.server.asked.append((self.path, text))
        bucket = {"id": "1", "name": "7k2x9qwe", "project": {"name": "moe", "entity": {"name": "bloom"}}}
        data = {"notifyScriptableRunAlert": {"success": True}, "upsertBucket": {"bucket": bucket}}
        answer = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@pytest.fixture
def wandb_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    monkeypatch.setenv("WANDB_API_KEY", "5" * 40)
    monkeypatch.setenv("HOME", str(tmp_path))
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.torch
@pytest.mark.slow
def test_a_live_run_gets_an_alert_and_goes_on(tmp_path: Path, wandb_server: Server) -> None:
    place = tmp_path / "wandb" / "run-20261129_031200-7k2x9qwe"
    place.mkdir(parents=True)
    (tmp_path / "wandb" / "latest-run").symlink_to(place.name)
    page = f"http://127.0.0.1:{wandb_server.server_address[1]}/bloom/moe/runs/7k2x9qwe"
    outcome = annotate(tmp_path, str(python_of("examples", "examples")), log=f"wandb: View run at {page}\n")
    assert (outcome.text, outcome.ok) == ("W&B: alert sent", True)
    asked = [json.loads(text)["variables"] for _, text in wandb_server.asked if "notifyScriptable" in text]
    assert [(each["runName"], each["severity"], each["title"]) for each in asked] == [
        ("7k2x9qwe", "ERROR", "[CRITICAL] glide: stalled for 22m")
    ]
    streams = [json.loads(text) for path, text in wandb_server.asked if path.endswith("/file_stream")]
    assert not any(each.get("complete") for each in streams), "the training's run would end"


@pytest.mark.torch
@pytest.mark.slow
def test_an_incident_stands_in_each_tracker_beside_the_log(tmp_path: Path) -> None:
    python = str(python_of("examples", "examples"))
    subprocess.run([python, "-c", TRACKED], cwd=tmp_path, check=True, capture_output=True, timeout=300)
    outcome = annotate(tmp_path, python)
    assert outcome.ok, outcome.text
    assert outcome.short == "noted in W&B, MLflow, TensorBoard"
    [tag] = tmp_path.glob("mlruns/0/*/tags/watchdogd.incident.7")
    assert tag.read_text() == "[CRITICAL] glide: stalled for 22m\nstalled for 22m"
    [latest] = (tmp_path / "wandb").glob("latest-run")
    [kept] = (tmp_path / "wandb" / "watchdogd").glob("wandb/offline-run-*/*.wandb")
    assert kept.name == f"run-{latest.resolve().name.rpartition('-')[2]}.wandb", "the same run's"
    assert all(each in kept.read_bytes() for each in (b"bloom", b"[CRITICAL] glide: stalled for 22m"))
    [text] = (tmp_path / "tb" / "watchdogd").iterdir()
    assert b"[CRITICAL] glide: stalled for 22m" in text.read_bytes()
    [board] = [each for each in experiment_trackers.trackers(f"{tmp_path}/train.log") if "Board" in each.name]
    assert board.place == str(tmp_path / "tb"), "its page still shows the training"


def test_its_python_comes_from_the_configuration() -> None:
    config = parse('[runs.glide]\non_hang = [{ annotate = "~/env/bin/python" }]', Path("config.toml"))
    [action] = map(remediation_context._action, config.runs["glide"].on_hang)
    assert action == Action("annotate", (str(Path("~/env/bin/python").expanduser()),))


def test_what_cannot_be_noted_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert annotate(tmp_path, sys.executable).text == (
        "no files of W&B, MLflow or TensorBoard lie beside the run's log"
    )
    (tmp_path / "events.out.tfevents.1").touch()
    outcome = annotate(tmp_path, sys.executable)
    assert not outcome.ok
    assert outcome.text == "TensorBoard: ModuleNotFoundError: No module named 'tensorboard'"
    (tmp_path / "wandb" / "latest-run").mkdir(parents=True)
    assert annotate(tmp_path, sys.executable).text.startswith(
        "W&B: ValueError: the log does not have its page's address"
    )
    outcome = annotate(tmp_path, str(tmp_path / "python"))
    assert (outcome.ok, outcome.text) == (
        False,
        f"{tmp_path}/python cannot be run: No such file or directory",
    )


@pytest.mark.parametrize(
    ("page", "server"),
    [
        ("https://wandb.ai/bloom/moe/runs/7k2x9qwe", "https://api.wandb.ai"),
        ("https://wandb.example.org/bloom/moe/runs/7k2x9qwe", "https://wandb.example.org"),
        ("http://10.0.0.7:8080/wandb/bloom/moe/runs/7k2x9qwe", "http://10.0.0.7:8080/wandb"),
    ],
)
def test_a_live_run_is_found_by_the_address_of_its_page(page: str, server: str) -> None:
    assert tracker_notes._server(page) == server
