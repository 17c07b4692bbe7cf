"""A check from outside of the tree has all that a built-in one has, by its declaration alone."""

from __future__ import annotations

import ast
import io
import itertools
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from pathlib import Path

import pytest
from rich.console import Console

from tests.waiting import wait_until
from watchdogd.cli.lookup import existing_store as store_of
from watchdogd.cli.status_screen import overview
from watchdogd.config.loading import parse
from watchdogd.daemon.registry.check_factory import build
from watchdogd.daemon.registry.plugin_registry import PluginEntry, built_in, discover
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.status_file import observation_json
from watchdogd.daemon.wiring import assembled
from watchdogd.daemon.workers.worker_main import bounded
from watchdogd.errors import ConfigError, PluginError
from watchdogd.home.layout import Home
from watchdogd.incidents.models import Observation
from watchdogd.plugin import Column, Result, check, ok
from watchdogd.web.charts import in_groups
from watchdogd.web.content import gather

PLUGIN = '''
from dataclasses import dataclass

from watchdogd.plugin import Chart, Column, Metric, Result, Run, check, critical, ok


@dataclass(frozen=True)
class Seen:
    times: int = 0


@check(
    watches="run",
    needs="checkpoints",
    triggers=("on_memory",),
    columns=(Column("tokens", right=True), Column("asked", time="since")),
    charts=(Chart("tokens", "tokens left", group="Tokens"),),
)
def tokenizer(run: Run, checkpoints: str, state: Seen, low: int = 5):
    """Tokens that are left to a run.

    checkpoints: pattern of its checkpoints
    low: CRITICAL below so many
    """
    few = critical("few are left", tokens=Metric(3 + state.times)).triggers("on_memory")
    yield Seen(state.times + 1)
    yield few.showing(tokens=f"3 of 5, seen {state.times}", asked=1.0)


@check(watches="disk")
def spindle(path: str) -> Result:
    """Whether a disk turns."""
    return ok("it turns")
'''


ROUNDS = """
[daemon]
interval = "1s"
confirm = 1
[runs.a]
pid_file = "a.pid"
checkpoints = "x/*"
on_memory = [{ exec = ["touch", "acted"] }]
[runs.a.checks.job_liveness]
enabled = false
[runs.a.checks.log_staleness]
enabled = false
[runs.a.checks.checkpoint_age]
enabled = false
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    (home.plugins / "outside.py").write_text(PLUGIN)
    return home


@pytest.fixture
def catalog(home: Home) -> dict[str, PluginEntry]:
    return discover(home)


def test_runs_and_disks_bring_a_check_of_homes_own(home: Home, catalog: dict[str, PluginEntry]) -> None:
    text = (
        '[runs.a]\ncheckpoints = "x/*"\n[runs.a.checks.tokenizer]\nlow = 7\n[runs.b]\n[disks.d]\npath = "/"'
    )
    found = {each.name: each for each in build(parse(text, home.config), catalog, home, "slurm")}
    assert {name for name in found if "tokenizer" in name or "spindle" in name} == {
        "a/tokenizer",
        "d/spindle",
    }
    assert found["a/tokenizer"].parameters == {"checkpoints": str(home.path / "x/*"), "low": 7}
    assert (found["a/tokenizer"].run_name, found["d/spindle"].target) == ("a", "d")
    with pytest.raises(ConfigError, match=r"\[disks\.d\] brings no such check: write \[runs\.NAME\.checks"):
        build(parse('[disks.d]\npath = "/"\n[disks.d.checks.tokenizer]', home.config), catalog, home, "slurm")


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"watches": "disc"}, "watches='disc' is neither 'run' nor 'disk'"),
        ({"triggers": ("on_fire",)}, "on_fire"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(declared: dict[str, object], said: str) -> None:
    with pytest.raises(PluginError, match=said):

        @check(**declared)  # type: ignore[call-overload, untyped-decorator] # what somebody may write all the same
        def odd() -> Result:
            return ok("odd")


def _dropped(home: Home, _folder: Path, _monkeypatch: pytest.MonkeyPatch) -> None:
    assert (home.plugins / "outside.py").exists()


def _installed(home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home.plugins / "outside.py").rename(folder / "outside.py")
    about = folder / "outside-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[watchdogd.plugins]\noutside = outside\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("place", [_dropped, _installed])
def test_it_has_a_column_a_chart_and_an_action_without_a_line_in_the_core(
    home: Home,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: Callable[[Home, Path, pytest.MonkeyPatch], None],
) -> None:
    place(home, tmp_path, monkeypatch)
    home.config.write_text(ROUNDS)
    with assembled(home, Setup.load(home)) as parts:
        engine = parts.engine

        def acted() -> bool:
            engine.round(patience=60.0)
            return (home.path / "acted").exists() or (home.evidence / "1" / "acted").exists()

        def remembered() -> bool:
            engine.round(patience=60.0)
            return re.search(r"seen [1-9]", home.status.read_text()) is not None

        wait_until(acted, 60, "the action of the run is done", every=0.2)
        wait_until(remembered, 60, "what it remembered came back", every=0.2)
        status = json.loads(home.status.read_text())
        shown = io.StringIO()
        Console(file=shown, width=100).print(
            overview(Home(Path("/h")), {**status, "holder": "x"}, time.time())
        )
        heads, row = next(
            pair for pair in itertools.pairwise(shown.getvalue().splitlines()) if pair[0].startswith("run")
        )
        assert ("tokens" in heads, "3 of 5" in row, "asked" in heads) == (True, True, True)
        assert re.search(r"seen [1-9]", row), "what it remembered came back"
    with store_of(home) as store:
        picture = gather(home, store, status, "w", since=0.0, now=time.time())
    assert [run.cells["tokens"][:6] for run in picture.runs] == ["3 of 5"]
    own = [chart for run in picture.runs for chart in run.charts]
    assert [(each.group, each.title) for each in own] == [("Tokens", "tokens left")]
    assert list(in_groups(own)) == ["Tokens"]


def test_the_core_knows_no_check_by_its_name() -> None:
    root = Path(__file__).parents[2] / "watchdogd"
    own = {entry.name for entry in built_in()}
    keys = {
        "config/target_models.py",
        "training.py",
        "daemon/config_changes.py",
    }  # node_disks is a key of a run, too
    texts = {path: path.read_text("utf-8") for path in root.rglob("*.py")}
    known = [
        f"{path.relative_to(root)}:{node.lineno} {node.value}"
        for path, text in texts.items()
        if str(path.relative_to(root)) not in keys and any(name in text for name in own)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.rpartition("/")[2] in own
    ]
    assert known == []


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (ok("x").showing(queue="3"), r"declare it, @check\(columns=\(Column\('queue'\),\)\)"),
        (replace(ok("x"), run_state="running"), r"declare it, @check\(jobs=True\)"),
        (ok("x").showing(jobs=3), "fills the column 'jobs' with 3: it takes text"),
        (ok("x").showing(asked="now"), "fills the column 'asked' with 'now': it takes a time in seconds"),
    ],
)
def test_what_is_not_declared_is_an_error_that_says_how(result: Result, said: str) -> None:
    @check(columns=(Column("jobs"), Column("asked", time="since")))
    def own() -> Result:
        return result

    with pytest.raises(PluginError, match=said):
        own.results({}, {})


@pytest.mark.parametrize(
    ("cell", "kept"),
    [
        ("x" * 500, "x" * 59 + "…"),
        ("a\nb", "a b"),
        (5, 5.0),
        *((odd, "?") for odd in (nan, inf, -1e11, 1e12, 10**400)),
    ],
)
def test_a_cell_is_short_and_a_time_one_that_there_is(cell: str | float, kept: str | float) -> None:
    result = bounded(ok("x").showing(queue=cell))
    assert result.cells["queue"] == kept
    assert json.dumps(observation_json(Observation("c", "r", "c", result, 0.0)), allow_nan=False)
