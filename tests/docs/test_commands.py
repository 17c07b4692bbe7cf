"""Every command of the documentation, typed on a real cluster in the order of its page."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import Step, pages, readme, steps
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster import Cluster
    from tests.servers.slack import SlackServer

pytestmark = [pytest.mark.slurm, pytest.mark.root]

ELSEWHERE = {
    "python3 -m venv ~/watchdogd-venv": "the cluster of the tests has such an environment,",
    "~/watchdogd-venv/bin/pip install .": "into which this checkout was installed,",
    "export PATH=~/watchdogd-venv/bin:$PATH": "and it is first in PATH",
    "pip install .": "likewise,",
    "$EDITOR ~/.watchdogd/config.toml": "and a page that goes on to use a channel adds it",
}
"""Commands that were typed before, in another form."""
LASTING = ("watchdogd relay --follow", "watchdogd status --watch", "watchdogd web")
"""Commands that go on until somebody ends them: here after some seconds."""
ENDED = 124
ANSWERS = {0, 1, 2, 3}
"""Exit codes that say how things are; 64 and above say that the command itself was wrong."""
JUDGING = ("status", "doctor", "check", "notify", "preflight")
"""Verbs whose exit code is their answer."""


class Reader:
    """alice, who does what a page says."""

    def __init__(self, slurm: Cluster, slack: SlackServer) -> None:
        self.slurm = slurm
        self.place = slurm.new_folder()
        self.home = slurm.home("alice") / ".watchdogd"
        self.env = {
            "SLACK_WEBHOOK_URL": slack.url,
            "PATH": f"{slurm.python.parent}:{os.environ['PATH']}",
        }

    def type(self, line: str) -> subprocess.CompletedProcess[str]:
        """A line in a shell."""
        words: list[str | Path] = ["bash", "-c", line]
        return self.slurm.run_as("alice", words, cwd=self.place, env=self.env, check=False, timeout=300)

    def do(self, step: Step) -> None:
        """A step; AssertionError where it fails."""
        if step.file:
            self.write(step.file, step.text)
        elif step.text not in ELSEWHERE:
            lasting = step.text in LASTING
            done = self.type(f"timeout 8 {step.text}" if lasting else step.text)
            verb = ([*shlex.split(step.text), ""])[1]
            good = {ENDED} if lasting else ANSWERS if verb in JUDGING else {0}
            said = f"{step.text}\n{done.stdout}\n{done.stderr}"
            assert done.returncode in good, f"exit {done.returncode}: {said}"
            assert "Traceback" not in said

    def watched(self) -> bool:
        """Whether a round was made."""
        return bool(json.loads(self.type("watchdogd status --json").stdout)["last_round"])

    def write(self, name: str, text: str) -> None:
        """A file as the page names it; configuration is added to what is there."""
        more = ">>" if name.endswith("config.toml") else ">"
        target = name.replace("~", str(self.slurm.home("alice")))
        words: list[str | Path] = ["bash", "-c", f'mkdir -p "$(dirname "$1")" && cat {more}"$1"', "-", target]
        self.slurm.run_as("alice", words, cwd=self.place, stdin="\n" + text if more == ">>" else text)


@pytest.fixture
def reader(slurm: Cluster, slack: SlackServer) -> Iterator[Reader]:
    reader = Reader(slurm, slack)
    yield reader
    reader.type("watchdogd stop; watchdogd --home ~/shared-watch stop")


def prepared(reader: Reader) -> None:
    """What every page but the tutorial takes for granted: a home with a run that was watched for a while."""
    reader.type("watchdogd init")
    reader.write(
        "~/.watchdogd/config.toml",
        '[channels.slack]\ntype = "slack"\nwebhook_url = "env:SLACK_WEBHOOK_URL"\nrate = "none"\n'
        f'[runs.run-17]\nlog = "{reader.place}/run-17.log"\n',
    )
    done = reader.type("watchdogd tick")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "page",
    [page for page in pages() if any(not step.file for step in steps(page))],
    ids=lambda page: page.stem,
)
def test_the_page_can_be_followed(page: Path, reader: Reader) -> None:
    if page.stem != "tutorial":
        prepared(reader)
    for step in steps(page):
        reader.do(step)
        if step.text.startswith("sbatch"):
            wait_until(lambda: reader.type("squeue -h -t R").stdout.strip(), 60, "the job runs", every=0.5)
        if step.text.startswith("watchdogd start"):
            wait_until(reader.watched, 120, "the first round is over", every=0.5)


def test_the_readme_can_be_followed(reader: Reader) -> None:
    loop = "while :; do echo iteration $((i += 1)); sleep 1; done"
    words = ("--job-name=my-training", "--output=%x-%j.log", "--partition=gpu")
    job = reader.slurm.sbatch("alice", loop, *words, cwd=reader.place)
    reader.slurm.wait_for_state(job, "RUNNING")
    lines = readme()
    assert {line.split()[1] for line in lines if line.startswith("watchdogd ")} >= {
        "init",
        "watch",
        "start",
        "report",
    }
    for line in lines:
        reader.do(Step(line))
        if line.startswith("watchdogd watch"):
            reader.write("~/.watchdogd/config.toml", f'[disks.scratch]\npath = "{reader.place}"\n')
        if line == "watchdogd start":
            wait_until(reader.watched, 120, "the first round is over", every=0.5)
