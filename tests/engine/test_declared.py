"""A check from outside of the tree has all that a built-in one has, by its declaration alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchdogd.config.reading import parse
from watchdogd.engine.catalog import Entry, discover
from watchdogd.engine.checks import build
from watchdogd.errors import ConfigError, PluginError
from watchdogd.home.layout import Home
from watchdogd.plugin import Result, check, ok

PLUGIN = '''
from watchdogd.plugin import Metric, Result, Run, check, critical, ok


@check(watches="run", needs="checkpoints", triggers=("on_memory",), trend="tokens")
def tokenizer(run: Run, checkpoints: str, low: int = 5) -> Result:
    """Tokens that are left to a run.

    checkpoints: pattern of its checkpoints
    low: CRITICAL below so many
    """
    return critical("none left", tokens=Metric(3)).triggers("on_memory")


@check(watches="disk")
def spindle(path: str) -> Result:
    """Whether a disk turns."""
    return ok("it turns")
'''


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    (home.plugins / "outside.py").write_text(PLUGIN)
    return home


@pytest.fixture
def catalog(home: Home) -> dict[str, Entry]:
    return discover(home)


def test_runs_and_disks_bring_a_check_of_homes_own(home: Home, catalog: dict[str, Entry]) -> None:
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
