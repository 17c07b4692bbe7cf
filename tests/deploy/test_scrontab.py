"""deploy/scrontab. Debian has no scrontab: its lines are read by its rules here, `#SCRON` lines being options
of sbatch for the one entry that follows (scrontab(1)). Then a real cron reads the times, a real sbatch takes
the options, and the commands run as real jobs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.deploy.crond import Cron
from tests.deploy.pages import adapted
from tests.waiting import wait_until
from watchdogd.home.layout import Home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster import Cluster

SLOW = 120.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: options of sbatch, the five fields of its times, its command."""

    options: tuple[str, ...]
    times: str
    command: str


def entries(text: str) -> Iterator[Entry]:
    """The entries of a scrontab; AssertionError for a line that is none of what may stand there."""
    options: list[str] = []
    for line in text.splitlines():
        if line.startswith("#SCRON"):
            options += shlex.split(line.removeprefix("#SCRON"))
        elif line.strip() and not line.startswith("#"):
            *times, command = line.split(maxsplit=5)
            assert len(times) == 5, line
            yield Entry(tuple(options), " ".join(times), command)
            options = []
    assert not options, "options with no entry after them"


class Site:
    """alice's home, and the file as she would install it."""

    def __init__(self, slurm: Cluster) -> None:
        self.slurm = slurm
        self.home = Home(slurm.home("alice") / "watch")
        slurm.run_as("alice", [slurm.typed, "--home", self.home.path, "init"])
        channel = '[channels.console]\ntype = "console"\n'
        self.home.config.write_text(f'[slurm]\npartition = "small"\n{channel}[disks.root]\npath = "/"\n')
        text = adapted("scrontab", slurm.watchdogd.parent.parent, self.home.path)
        self.ensure, self.tick = entries(text)

    def submit(self, entry: Entry) -> str:
        """What Slurm does when an entry is due: a batch job of its command, with its options. It has PATH
        from its line alone; returns how it ended."""
        named = "--export=SLURM_CONF,HOME"
        job_id = self.slurm.sbatch("alice", f"#!/bin/sh\n{entry.command}\n", named, *entry.options)
        return self.slurm.wait_for_state(job_id, "COMPLETED", "FAILED", timeout=SLOW)

    def log(self) -> str:
        path = self.home.logs / "cron.log"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def site(slurm: Cluster) -> Site:
    return Site(slurm)


def test_cron_can_read_the_times(site: Site) -> None:
    lines = [f"{entry.times} {entry.command}" for entry in (site.ensure, site.tick)]
    assert [line.split()[0] for line in lines] == ["*/30", "*/5"]
    with Cron("alice", "".join(f"{line}\n" for line in lines)) as cron:
        assert cron.listed().splitlines()[-2:] == lines


def test_ensure_starts_one_chain(site: Site) -> None:
    def links() -> list[str]:
        return site.slurm.squeue("alice")

    assert site.submit(site.ensure) == "COMPLETED", site.log()
    wait_until(lambda: len(links()) == 2, SLOW, "one link runs and one waits", every=0.5)
    assert site.submit(site.ensure) == "COMPLETED", site.log()
    assert len(links()) == 2
    assert site.log() == ""
    site.slurm.run_as("alice", [site.slurm.typed, "--home", site.home.path, "stop"], timeout=300)


def test_tick_makes_a_round(site: Site) -> None:
    assert site.submit(site.tick) == "COMPLETED", site.log()
    words = ["--home", str(site.home.path), "history", "root"]
    assert "root/disk_quota" in site.slurm.run_as("alice", [str(site.slurm.typed), *words]).stdout
    assert site.log() == ""


def test_what_goes_wrong_is_in_the_log(site: Site) -> None:
    site.home.config.write_text("[slrm]\n")
    assert site.submit(site.ensure) == "FAILED"
    assert "did you mean 'slurm'?" in site.log()
