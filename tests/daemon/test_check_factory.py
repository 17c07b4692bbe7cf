"""From config.toml to checks: parameters reach their plugin typed, and what does not fit names its key."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from watchdogd.config.loading import parse
from watchdogd.daemon.registry.check_factory import Check, build, policy
from watchdogd.daemon.registry.plugin_registry import PluginEntry, discover
from watchdogd.errors import ConfigError
from watchdogd.home.layout import Home

PLUGIN = """
from watchdogd.plugin import check, ok, Duration
@check(every="10m", timeout="20s")
def queue_length(partition: str, warn: int = 50, wait: Duration = "2m"):
    '''Jobs waiting.'''
    return ok("x")
@check
def disk_quota(path: str):
    return ok("not the built-in one")
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


def checks(home: Home, text: str, catalog: dict[str, PluginEntry] | None = None) -> dict[str, Check]:
    config = parse(text, home.config)
    return {check.name: check for check in build(config, catalog or discover(home), home, "slurm")}


def test_a_run_brings_the_checks_whose_keys_are_set(home: Home) -> None:
    assert set(checks(home, "[runs.a]")) == {"a/job_liveness", "a/log_staleness"}
    found = checks(
        home,
        """
        [daemon]
        interval = "30s"
        [runs.a]
        job_name = "tr"
        user = "alice"
        log = "logs/x.log"
        stale_after = "20m"
        quiet = [{ match = "saving", allow = "40m" }]
        [runs.a.checks.log_staleness]
        every = "2m"
        confirm = 3
        """,
    )
    log, job = found["a/log_staleness"], found["a/job_liveness"]
    assert (log.every, log.confirm, log.target, job.every, job.confirm) == (120, 3, "a", 30, 2)
    assert log.parameters["log"] == str(home.path / "logs/x.log")
    assert log.parameters["stale_after"] == 1200.0
    assert log.follows == ("a/job_liveness",)
    assert job.run is not None
    assert (job.run.job_name, job.run.users) == ("tr", frozenset({"alice"}))
    assert job.run.kill_switch == str(home.switches / "a.kill")


def test_what_watchdogd_writes_itself_is_no_runs_log(home: Home) -> None:
    found = checks(
        home,
        """
        [channels.line]
        type = "statuslog"
        path = "/scratch/logs/status.log"
        [runs.a]
        log = "/scratch/logs/*.log"
        pulse = "pulse.log"
        [runs.b]
        log = "/scratch/logs/*.log"
        pulse = "/scratch/logs/b-pulse.log"
        """,
    )
    own = (str(home.path / "pulse.log"), "/scratch/logs/b-pulse.log", "/scratch/logs/status.log")
    plugins = ("a/log_staleness", "b/log_staleness", "a/job_liveness")
    assert [found[name].parameters["written"] for name in plugins] == [own] * 3


def test_without_slurm_a_run_with_a_log_is_judged_by_its_log_alone(home: Home) -> None:
    config = parse('[runs.a]\nlog = "x.log"\n[runs.b]\n[runs.c]\npid_file = "c.pid"', home.config)
    found = {check.name for check in build(config, discover(home), home, "none")}
    assert found == {"a/log_staleness", "b/job_liveness", "c/job_liveness", "c/log_staleness"}


def test_a_run_named_to_escape_stays_in_home(home: Home) -> None:
    found = checks(home, '[runs."../../etc/x"]')
    run = found["../../etc/x/job_liveness"].run
    assert run is not None
    assert Path(run.kill_switch).parent == home.switches


def test_checks_can_be_switched_off_and_routed(home: Home) -> None:
    text = """
    [channels.c]
    type = "console"
    [channels.d]
    type = "console"
    [alerts]
    fallback = ["d"]
    [runs.a]
    channels = ["d"]
    [disks.s]
    path = "/tmp"
    [disks.t]
    path = "/tmp"
    [disks.t.checks.disk_quota]
    enabled = false
    """
    found = checks(home, text)
    assert set(found) == {"a/job_liveness", "a/log_staleness", "s/disk_quota"}
    assert (found["a/job_liveness"].channels, found["s/disk_quota"].channels) == (("d",), ("c",))


def test_a_plugin_of_ones_own_is_found_validated_and_foreign(home: Home) -> None:
    (home.plugins / "mine.py").write_text(PLUGIN)
    catalog = discover(home)
    assert catalog["queue_length"].foreign
    assert not catalog["disk_quota"].foreign
    [taken] = [entry for entry in catalog.values() if "is taken" in entry.skipped]
    assert taken.name == "disk_quota"
    found = checks(home, '[checks.q]\nplugin = "queue_length"\npartition = "gpu"', catalog)["q"]
    assert found.parameters == {"partition": "gpu", "warn": 50, "wait": 120.0}
    assert (found.every, found.timeout, found.target) == (600, 20, "q")
    for text, sentence in [
        ('[checks.q]\nplugin = "queue_lenght"', "did you mean 'queue_length'?"),
        ('[checks.q]\nplugin = "queue_length"', "checks.q.partition: is missing"),
        ('[checks.queue_length]\npartition = "g"\nwarm = 3', "did you mean 'warn'?"),
        ('[checks.queue_length]\npartition = "g"\nwarn = "many"', "checks.queue_length.warn: "),
        ('[checks.queue_length]\npartition = "g"\nwait = "soon"', "is no duration"),
        ('[checks.queue_length]\npartition = "g"\nrun = "x"', "there is no run 'x'"),
        ('[runs.a.checks.log_stalenes]\nevery = "1m"', "did you mean 'log_staleness'?"),
        ('[runs.a.checks.job_liveness]\nevery = "often"', "runs.a.checks.job_liveness.every"),
        ('[runs.a.checks.job_liveness]\nabsent = "3m"', "did you mean 'absent_after'?"),
    ]:
        with pytest.raises(ConfigError) as caught:
            checks(home, text, catalog)
        assert sentence in str(caught.value)


def test_a_plugin_that_others_could_have_written_is_refused(home: Home) -> None:
    path = home.plugins / "mine.py"
    path.write_text(PLUGIN)
    path.chmod(0o666)
    catalog = discover(home)
    assert "queue_length" not in catalog
    assert "chmod o-w" in catalog["mine"].skipped


def test_what_is_no_file_is_not_waited_for_as_a_plugin(home: Home) -> None:
    home.plugins.mkdir(exist_ok=True)
    os.mkfifo(home.plugins / "mine.py")
    begin = time.monotonic()
    assert discover(home)["mine"].skipped == f"{home.plugins}/mine.py is no plain file"
    assert time.monotonic() - begin < 15  # a process that loads plugins has twenty seconds


def test_the_example_loads_and_its_checks_can_be_built(home: Home) -> None:
    text = (Path(__file__).parents[2] / "config.example.toml").read_text()
    assert {"run-17/job_liveness", "run-17/log_staleness", "scratch/disk_quota"} <= set(checks(home, text))


def test_what_makes_a_check_more_patient_is_named_with_its_table(home: Home) -> None:
    text = '[runs.a]\nlog = "x.log"\n[disks.fast]\npath = "/tmp"\n[checks.spare]\nplugin = "node_health"\n'
    config = parse(text, home.config)
    found = {name: policy(check, config) for name, check in checks(home, text).items()}
    assert {name: each.patient for name, each in found.items()} == {
        "a/job_liveness": "confirm under [runs.a.checks.job_liveness]",
        "a/log_staleness": "confirm under [runs.a.checks.log_staleness]",
        "fast/disk_quota": "confirm under [disks.fast.checks.disk_quota]",
        "spare": "confirm under [checks.spare]",
    }
    limits = {name: each.limit for name, each in found.items() if each.limit}
    assert limits == {"a/log_staleness": "stale_after under [runs.a]"}
    for each in found.values():  # what is named can be written
        key, table = each.patient.split(" under ")
        assert checks(
            home, f"{text}{table}\n{key} = 4\n" if table != "[checks.spare]" else f"{text}{key} = 4\n"
        )
