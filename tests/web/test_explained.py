"""The page says what a verdict rests on, as `check --explain` does."""

from __future__ import annotations

import json
from pathlib import Path

from tests.web.stage import status_of
from watchdogd.history.models import Record
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.plugins.log_staleness.learned_rhythm import LogState
from watchdogd.plugins.log_staleness.run_log import RunLog
from watchdogd.system.codec import codec_of
from watchdogd.units import iso
from watchdogd.web.content import gather
from watchdogd.web.render import render

NOW = 1_800_000_000.0
EVIL = "<b>step"
CHECK = "llama-7b/log_staleness"


def shown(folder: Path, memory: str, check: str = CHECK, log: str = "") -> str:
    """The page of a home whose check remembers that, and whose run has this log."""
    home = Home(folder / "home")
    home.make()
    store = Store.open("sqlite:///history.db", home)
    store.record(Record(NOW, memories={check: memory}))
    logs = {check.partition("/")[0]: log}
    picture = gather(home, store, status_of(iso(NOW)), "w", since=NOW - 60, now=NOW, logs=logs)
    store.close()
    return render(picture)


def learned() -> str:
    clocks = LogState()
    for n in range(1, 40):
        clocks.advance([(f"{EVIL} {n}/90 loss 2.{n % 7}", False)], NOW - 2400 + n * 60.0)
    return json.dumps({"state": codec_of(RunLog).dump(RunLog(clocks))})


def test_what_was_found_in_a_log_stands_folded_below_its_run(tmp_path: Path) -> None:
    page = shown(tmp_path, learned())
    assert f"<summary>what {CHECK} goes by</summary>" in page
    assert "counts as progress: &#39;&lt;b&gt;step 39/# loss " in page
    assert EVIL not in page
    assert "last progress: 1m ago" in page
    assert "lines without progress are " in page


def test_where_nothing_is_explained_nothing_is_shown(tmp_path: Path) -> None:
    for number, (memory, check) in enumerate(
        [("no JSON", CHECK), (learned(), "llama-7b/disk_quota"), (learned(), "llama-7b/of_a_user")]
    ):
        (tmp_path / f"{number}").mkdir()
        assert "goes by" not in shown(tmp_path / f"{number}", memory, check)


def test_before_anything_was_read_that_is_said(tmp_path: Path) -> None:
    assert "nothing was read yet" in shown(tmp_path, '{"of an earlier version": 3}')


def test_a_run_leads_to_its_experiment_trackers(tmp_path: Path) -> None:
    address = "https://wandb.example.org/bloom/llama-7b/runs/7k2x9qwe"
    (tmp_path / "wandb/run-20261129_031200-7k2x9qwe").mkdir(parents=True)
    (tmp_path / "wandb/latest-run").symlink_to("run-20261129_031200-7k2x9qwe")
    (tmp_path / "events.out.tfevents.1796000040.node1.4711.0").touch()
    (tmp_path / "main.log").write_text(f"wandb: View run at {address}\n")
    page = shown(tmp_path, "", log=f"{tmp_path}/main.log")
    assert f'<dt>W&amp;B</dt><dd><a href="{address}" rel="noreferrer">{address}</a></dd>' in page
    assert "<dt>TensorBoard</dt>" in page
    assert "<code>tensorboard --logdir " in page
