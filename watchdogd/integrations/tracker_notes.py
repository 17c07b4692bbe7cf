"""Notes on an incident in experiment trackers: W&B, MLflow and TensorBoard.

A program of its own, run by the Python that has the run's libraries (3.8 or later); imports nothing of
ours. It takes a JSON object from standard input: `title`, `text`, `level` (INFO, WARN or ERROR), `incident`
(its id) and `trackers`: a list of `name`, `place` and `url`. It prints one JSON object a tracker: `name`,
`said` and `ok`.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def wandb(note: dict[str, Any], place: Path, url: str) -> str:
    """Send an alert of the run; where that is offline, keep it for `wandb sync`."""
    name = place.name.rpartition("-")[2]
    offline = place.name.startswith("offline-")
    if not (offline or url):
        raise ValueError("the log does not have its page's address, which names its account and project")
    import wandb

    # The training goes on as the run's first writer: its run does not end here.
    chosen = {} if offline else {"x_primary": False, "x_update_finish_state": False, "x_label": "watchdogd"}
    quiet = wandb.Settings(silent=True, console="off", **chosen)
    with tempfile.TemporaryDirectory() as scratch:
        if offline:
            mode, folder = "offline", place.parent / "watchdogd"
            folder.mkdir(exist_ok=True)
            account, project = _project(place / f"run-{name}.wandb")
        else:
            mode, folder = "shared", Path(scratch)
            account, project, _, _ = url.split("/")[-4:]
            os.environ["WANDB_BASE_URL"] = _server(url)
        with wandb.init(
            id=name, entity=account or None, project=project, mode=mode, dir=str(folder), settings=quiet
        ) as run:
            run.alert(note["title"], note["text"], level=note["level"])
            kept = Path(run.dir).parent
    return f"alert kept for wandb sync {kept}" if offline else "alert sent"


def _server(url: str) -> str:
    """Return the API's address for a run's page."""
    server = url.rsplit("/", 4)[0]
    return "https://api.wandb.ai" if server.endswith("//wandb.ai") else server


def _project(file: Path) -> tuple[str, str]:
    """Return account and project of an offline run, from the first records of its file (LevelDB's form)."""
    from wandb.proto.wandb_internal_pb2 import Record

    with file.open("rb") as stream:
        block = stream.read(32768)
    at = 7  # behind the file's mark; a record has a checksum, its length and its kind, 1 where it is whole
    while at + 7 <= len(block):
        length, kind = struct.unpack_from("<HB", block, at + 4)
        record = Record.FromString(block[at + 7 : at + 7 + length]) if kind == 1 else None
        if record and record.HasField("run"):
            return record.run.entity, record.run.project
        at += 7 + length
    raise ValueError(f"{file} does not say which project it belongs to")


def mlflow(note: dict[str, Any], place: Path, _url: str) -> str:
    """Set a tag of the run, in the store that its files lie in."""
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # newer ones ask for it
    from mlflow.tracking import MlflowClient

    tag = f"watchdogd.incident.{note['incident']}"
    MlflowClient(str(place.parent.parent)).set_tag(place.name, tag, f"{note['title']}\n{note['text']}"[:5000])
    return f"tag {tag} set"


def tensorboard(note: dict[str, Any], place: Path, _url: str) -> str:
    """Write a text beside the run's, in a folder of its own.

    Of one folder TensorBoard follows the newest file only: there it would lose sight of the training.
    """
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.plugins.text.summary_v2 import text_pb
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(place / "watchdogd"))
    text = text_pb(f"incident {note['incident']}", f"{note['title']}\n\n{note['text']}")
    writer.add_event(Event(wall_time=time.time(), step=note["incident"], summary=text))
    writer.close()
    return f"text written to {place / 'watchdogd'}"


NOTES = {"W&B": wandb, "MLflow": mlflow, "TensorBoard": tensorboard}


def main() -> None:
    """Note it in each tracker, whatever the others say."""
    note = json.load(sys.stdin)
    answers, sys.stdout = sys.stdout, sys.stderr
    for tracker in note["trackers"]:
        try:
            said, ok = NOTES[tracker["name"]](note, Path(tracker["place"]), tracker["url"]), True
        except (Exception, SystemExit) as error:  # noqa: BLE001  # each library has its own
            said, ok = f"{type(error).__name__}: {error}", False
        print(json.dumps({"name": tracker["name"], "said": said, "ok": ok}), file=answers, flush=True)


if __name__ == "__main__":
    main()
