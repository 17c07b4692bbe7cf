"""preflight where the watchdog itself is not well: it says so, and the job goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from watchdogd.cli import main
from watchdogd.cli.job import preflight
from watchdogd.home.layout import Home
from watchdogd.preflight import inspection

Says = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    home.write(home.config, "[runs.run-17]\n")
    return home


def typed(home: Home, *words: str, run: str = "run-17") -> int:
    return main(["preflight", "--run", run, "--home", str(home.path), "--deadline", "5s", *words])


def in_a_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a Slurm that is not there."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    monkeypatch.setenv("SLURM_JOB_ID", "41")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "node[1-2]")


@pytest.mark.parametrize("job", [False, True])
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("[runs.run-17]\n", "there is no run 'run-18'; did you mean 'run-17'?"),
        ("[runs.run-18", "config.toml: "),
        ("[runs.run-18]\nkil_switch = 'x'\n", "unknown key; did you mean 'kill_switch'?"),
        (None, "no watchdogd home at "),
    ],
)
def test_the_watchdogs_own_reasons_cost_no_allocation(
    config: str | None,
    said: str,
    job: bool,
    home: Home,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Says,
) -> None:
    home.config.unlink()
    if config is not None:
        home.write(home.config, config)
    if job:
        in_a_job(monkeypatch, tmp_path)
    assert typed(home, run="run-18") == 0
    out, err = capsys.readouterr()
    assert err.startswith("watchdogd: warning: preflight: ")
    assert said in err
    assert err.count("\n") == 1
    assert out.splitlines()[-1] == "go"
    assert ("no node could be asked" in out) == job
    assert typed(home, "--json", run="run-18") == 0
    assert '"go": true' in capsys.readouterr().out


@pytest.mark.parametrize(
    "error", [RuntimeError("a fault of ours"), MemoryError(), OSError(5, "Input/output error")]
)
def test_a_fault_of_our_own_costs_none_either(
    error: Exception, home: Home, monkeypatch: pytest.MonkeyPatch, capsys: Says
) -> None:
    def fail(*args: object) -> None:
        raise error

    monkeypatch.setattr(preflight, "load", fail)
    assert typed(home) == 0
    assert capsys.readouterr().err.count("\n") == 1


def test_a_home_that_hangs_costs_none(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Says
) -> None:
    import threading

    thawed = threading.Event()
    monkeypatch.setattr(preflight, "load", lambda home: thawed.wait(60))
    monkeypatch.setattr(preflight, "_PATIENCE", 0.1)
    in_a_job(monkeypatch, tmp_path)
    try:
        assert typed(home) == 0
    finally:
        thawed.set()
    out, err = capsys.readouterr()
    assert "has not answered for" in err
    assert "warning  switches     the switches cannot be read: " in out


@pytest.mark.parametrize("config", ["[runs.run-17]\n", "[runs.run-17", "[runs.pike]\n"])
def test_a_stop_counts_whatever_is_configured(
    config: str, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Says
) -> None:
    in_a_job(monkeypatch, tmp_path)
    home.write(home.config, config)
    (home.switches / "run-17.kill").touch()
    assert typed(home) == 2
    assert "broken   switches     the kill switch is set by " in capsys.readouterr().out


def test_a_switch_that_cannot_be_read_is_a_warning(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Says
) -> None:
    in_a_job(monkeypatch, tmp_path)
    home.write(home.config, f'[runs.run-17]\nkill_switch = "{tmp_path}"\n')
    assert typed(home) == 0
    assert f"the switches cannot be read: {tmp_path} is a folder" in capsys.readouterr().out


def test_wrong_words_are_still_refused(home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert typed(home, "--deadlin", "5s") == 64
    in_a_job(monkeypatch, tmp_path)
    assert typed(home, "--deadline", "soon") == 64
    assert typed(home, "--spares", "-1") == 64
    monkeypatch.setenv("NNODES", "four")
    assert typed(home) == 64
    assert inspection.this_job().nodes == os.environ["SLURM_JOB_NODELIST"]
