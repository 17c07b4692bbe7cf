"""Light enough for a login node: counts that do not depend on how busy the machine is."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy.event import listen

from watchdogd.batch.models import Ending, Job, Snapshot
from watchdogd.batch.run_models import Progress
from watchdogd.config import last_good_config
from watchdogd.daemon import config_changes
from watchdogd.daemon.registry.check_factory import Check
from watchdogd.daemon.registry.plugin_registry import Source
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.snapshots import Snapshots
from watchdogd.daemon.workers.worker_protocol import Call, Reply
from watchdogd.history.measurements import Course
from watchdogd.history.models import Record
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.incidents.models import Observation
from watchdogd.plugin import History, Metric, Recovery, Result, Run, Status
from watchdogd.plugins.log_staleness.check import log_staleness
from watchdogd.units import Amount

BARE = [sys.executable, "-I", "-c", "pass"]
WAITING = ("poll", "ppoll", "wait4", "waitid", "clock_nanosleep", "futex")
"""Calls of which there are the more the longer a program takes."""
LINE = b"iteration 100 | lm loss: 2.5 | elapsed time per iteration (ms): 9000\n"


def file_calls(words: list[str], trace: Path) -> int:
    """Calls that name a file, those that fail included, children's too."""
    subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=%file", "-o", trace, *words], check=False, timeout=300
    )
    return sum(1 for line in trace.read_text(errors="replace").splitlines() if re.match(r"\d+\s+\w+\(", line))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.make(None)
    made.write(made.config, "".join(f'[runs.run-{n}]\nlog = "{n}.log"\n' for n in range(50)))
    return made


def test_verbs_for_an_emergency_open_few_files(home: Home, tmp_path: Path) -> None:
    setup = Setup.load(home)
    config_changes.lay_out(home, setup.config, setup.checks)  # as a daemon does at its start
    program = [str(Path(sys.executable).with_name("watchdogd"))]
    bare = file_calls(BARE, tmp_path / "bare")
    assert bare > 20
    where = ["--home", str(home.path)]
    assert file_calls([*program, "kill-switch", "run-17", *where], tmp_path / "switch") <= 4 * bare
    assert (home.switches / "run-17.kill").exists()
    assert file_calls([*program, "status", *where], tmp_path / "status") <= 1600


def test_where_no_link_was_submitted_status_imports_nothing_for_the_queue(home: Home) -> None:
    program = "import sys; from watchdogd.cli import main; main(sys.argv[1:]); print({*sys.modules})"
    words = [sys.executable, "-c", program, "status", "--home", str(home.path)]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout
    assert "'watchdogd.cli.status'" in said
    assert "'watchdogd.chain" not in said


def test_a_look_at_the_history_imports_what_it_needs_alone(home: Home) -> None:
    home.write(home.config, '[history]\nurl = "sqlite:///elsewhere.db"\n')
    Store.open("sqlite:///elsewhere.db", home).close()
    last_good_config.keep(home)  # as a daemon does in its first round
    program = (
        "import sys; from watchdogd.cli import main; code = main(sys.argv[1:]);"
        "heavy = {'pydantic', 'sqlalchemy.dialects.postgresql'}; print(sorted(heavy & {*sys.modules}), code)"
    )
    words = [sys.executable, "-c", program, "history", "--home", str(home.path)]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout
    assert said.splitlines() == ["nothing is recorded of that time", "[] 0"]
    home.write(home.config, "[histori]\n")  # a broken edit: the last good one tells where the history is
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout
    assert said.splitlines()[0] == "nothing is recorded of that time"


def test_what_starts_and_ends_the_watchdog_does_without_the_historys_library() -> None:
    """`watchdogd ensure` is run every few minutes and at each login."""
    program = "import sys, watchdogd.cli.start, watchdogd.daemon.setup; print('sqlalchemy' in sys.modules)"
    words = [sys.executable, "-c", program]
    assert subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout == "False\n"


def test_one_look_serves_all_runs_of_a_round(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")  # as where Slurm is
    setup = Setup.load(home)
    checks: tuple[Check, ...] = setup.checks
    assert sum("snapshot" in check.entry.wants for check in checks) >= 100
    looks = Snapshots()
    [call] = looks.calls(checks, checks, setup.config, 1_790_000_000.0)
    assert len(call.parameters["wanted"]) == 50
    assert looks.calls(checks, checks, setup.config, 1_790_000_001.0) == []


def test_of_a_log_that_grows_the_new_bytes_alone_are_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(LINE * 100_000)
    memory: dict[str, Any] = {}
    parameters = {key: each.default for key, each in log_staleness.parameters.items()} | {"log": str(log)}
    given = {"run": Run("r", "r"), "snapshot": None, "memory": memory, "history": None}
    log_staleness.results(parameters, given | {"now": log.stat().st_mtime + 1})
    with log.open("ab") as file:
        file.write(LINE * 100)
    before = psutil.Process().io_counters().read_chars
    log_staleness.results(parameters, given | {"now": log.stat().st_mtime + 1})
    assert 100 * len(LINE) <= psutil.Process().io_counters().read_chars - before < 150 * len(LINE) + 4096


def test_what_a_check_is_sent_each_round_is_small(home: Home) -> None:
    """Two weeks of a disk's past are sixteen bytes a reading."""
    home.write(home.config, f'[disks.scratch]\npath = "{home.path}"\nchecks.disk_quota = {{}}\n')
    (check,) = Setup.load(home).checks
    call = Call(check.name, check.entry.source, check.parameters)
    first = pickle.dumps(call)
    readings = 14 * 24 + 60
    past = History({("bytes", "used"): Course((60.0 * n, float(n)) for n in range(readings))})
    sent = pickle.dumps(replace(call, injected={"history": past}))
    assert len(sent) < len(first) + 16 * readings + 300
    assert pickle.loads(sent).injected["history"].series("used", "bytes")[-1] == (
        60.0 * (readings - 1),
        readings - 1,
    )


@pytest.mark.parametrize(
    "kind",
    [Amount, Call, Ending, History, Job, Metric, Progress, Recovery, Reply, Result, Run, Snapshot, Source],
)
def test_what_travels_between_daemon_and_workers_is_pickled_by_pickle_alone(kind: type) -> None:
    assert {"__getstate__", "__setstate__"} & vars(kind).keys() == set()


def test_a_round_that_wants_the_past_of_many_checks_asks_the_history_once(home: Home) -> None:
    store = Store.open("sqlite:///history.db", home)
    checks = [f"d{n}/disk_quota" for n in range(50)]
    seen = [
        Observation(name, "", name, Result(Status.OK, "", {"used": Metric(1.0)}, "", "bytes"), 1e9)
        for name in checks
    ]
    store.record(Record(1e9, tuple(seen)))
    assert len(store.series_of(checks, 0.0)["d7/disk_quota"]["bytes", "used"]) == 1
    asked: list[str] = []
    engine = store._database._opened()
    listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    store.record(Record(1e9 + 60, tuple(replace(each, at=1e9 + 60) for each in seen)))
    written = len(asked)
    assert written < 15
    assert len(store.series_of(checks, 0.0)["d7/disk_quota"]["bytes", "used"]) == 2
    assert len(asked) - written <= 2
    store.close()


def test_a_program_in_a_drop_in_folder_takes_few_calls_to_start_and_to_hear(tmp_path: Path) -> None:
    program = tmp_path / "check"
    program.write_text("#!/bin/sh\necho fine\n")
    program.chmod(0o700)
    text = (
        "import sys; from watchdogd.daemon.dropins.dropins import executable;"
        "path, home, times = sys.argv[1:];"
        "given = {'path': path, 'home': home, 'deadline': 600.0};"
        "seen = [executable.results(given, {})[0].summary for _ in range(int(times))]; print({*seen})"
    )
    counts = []
    for times in ("10", "30"):
        words = [sys.executable, "-c", text, str(program), str(tmp_path), times]
        traced = ["strace", "-qq", "-e", f"trace=!{','.join(WAITING)}", "-o", str(tmp_path / "trace"), *words]
        said = subprocess.run(traced, capture_output=True, text=True, check=True, timeout=300).stdout
        assert said == "{'fine'}\n"
        counts.append(len(re.findall(r"^\w+\(", (tmp_path / "trace").read_text(errors="replace"), re.M)))
    assert 20 * 10 < counts[1] - counts[0] < 20 * 55
