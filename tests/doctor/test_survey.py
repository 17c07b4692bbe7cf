"""What init finds on a machine, and the config.toml that it makes of it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from watchdogd.batch import commands
from watchdogd.batch.sinfo import Partition, read_partitions
from watchdogd.cli import main
from watchdogd.cli.setup import init
from watchdogd.cli.setup.init import render
from watchdogd.config.loading import parse
from watchdogd.daemon.setup import Setup
from watchdogd.doctor.diagnosis import Installation
from watchdogd.doctor.setup_wizard import Survey, survey
from watchdogd.home.layout import Home

Says = pytest.CaptureFixture[str]

SINFO = """\
debug|30:00|2|(null)|NO
batch*|1-00:00:00|100|(null)|EXCLUSIVE
shared|2-00:00:00|1|(null)|YES:4
accel|2-00:00:00|8|gpu:mi250:8(S:0-3)|EXCLUSIVE
accel|2-00:00:00|4|(null)|EXCLUSIVE
"""


def test_partitions_with_what_they_cost() -> None:
    debug, batch, shared, accel = read_partitions(SINFO)
    assert debug == Partition("debug", "30:00", 2, gpus=False, default=False)
    assert str(batch) == "batch (100 nodes, whole nodes only, up to 1-00:00:00)"
    assert str(shared) == "shared (1 node, up to 2-00:00:00)"
    assert (accel.nodes, accel.gpus, accel.exclusive) == (12, True, True)
    assert read_partitions("nonsense\n") == ()


def test_the_chain_lives_where_it_costs_least() -> None:
    found = read_partitions(SINFO)
    assert Survey(partitions=found).cpu_partition == found[2]
    assert Survey(partitions=found[1:2] + found[3:]).cpu_partition == found[1]
    assert Survey(partitions=found[3:]).cpu_partition is None


@pytest.mark.parametrize(
    "found",
    [
        Survey(),
        Survey(pbs=True),
        Survey(slurm=True, slurm_trouble='it said "no"\n[daemon]'),
        Survey(
            partitions=read_partitions(SINFO),
            slurm=True,
            quota_tools=("lfs",),
            gpu_tools=("rocm-smi",),
            mail_relay=True,
            accounts=("project_7",),
            places={"scratch": '/s/a "b"', "work": "/w"},
        ),
        Survey(partitions=read_partitions(SINFO)[1:2], slurm=True, accounts=("a", "b")),
    ],
)
def test_what_it_writes_is_sound(found: Survey, tmp_path: Path) -> None:
    text = render(found, None)
    config = parse(text, tmp_path / "config.toml")
    assert {name: disk.path for name, disk in config.disks.items()} == dict(found.places)
    assert config.slurm.partition == (found.cpu_partition.name if found.cpu_partition else None)
    assert config.slurm.account == (found.accounts[0] if len(found.accounts) == 1 else None)


def test_every_commented_table_is_sound_once_it_is_taken_in(tmp_path: Path) -> None:
    """Taking out the `# ` of whole tables, as its own words say, leaves a file that loads."""
    lines = render(Survey(slurm=True), None).splitlines()
    settings = [line.removeprefix("# ") if re.match(r"# (\[|\w+ = )", line) else line for line in lines]
    tables = tomllib.loads("\n".join(settings))
    assert {"slack", "mail", "console"} <= set(tables["channels"])
    assert set(tables["runs"]) == {"run-17"}
    assert set(tables["disks"]) == {"home"}


@pytest.mark.parametrize(
    ("tools", "backend"),
    [(("squeue", "qstat"), "slurm"), (("qstat",), "pbs"), (("qstat", "qconf"), "none"), ((), "none")],
)
def test_which_batch_system_is_here_and_what_init_makes_of_it(
    tools: tuple[str, ...], backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Says
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in tools:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert main(["--home", str(tmp_path / "home"), "init"]) == 0
    assert commands.here() == backend
    assert ("Slurm: not found, but PBS" in capsys.readouterr().out) is (backend == "pbs")
    written = (tmp_path / "home/config.toml").read_text()
    assert ("its jobs are asked for by qstat" in written) is (backend == "pbs")
    (tmp_path / "home/config.toml").write_text(written + '\n[runs.tr4]\nlog = "/tmp/x"\n')
    home = Home.existing(str(tmp_path / "home"))
    (run,) = Installation.of(home, Setup.load(home)).runs()
    assert run.backend == backend


def test_places_that_the_site_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    monkeypatch.setenv("WORK", str(tmp_path / "none"))
    monkeypatch.setenv("PROJECT", "relative")
    assert survey().places == {"scratch": str(tmp_path)}


def test_of_two_that_make_one_home_at_once_the_later_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "home" / "config.toml"

    def meanwhile() -> Survey:
        config.write_text("# the other's\n")
        return survey()

    monkeypatch.setattr(init, "survey", meanwhile)
    assert main(["--home", str(config.parent), "init"]) == 0
    assert capsys.readouterr().out == f"{config} is there already and stays as it is\n"
    assert config.read_text() == "# the other's\n"
    assert sorted(path.name for path in config.parent.glob(".*.new")) == []
