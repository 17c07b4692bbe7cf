"""Every command of the documentation, typed on a real cluster in the order of its page."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.docs.elsewhere import ELSEWHERE
from tests.docs.pages import Step, pages, readme, steps
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster import Cluster
    from tests.servers.slack import SlackServer

LASTING = ("watchdogd relay --follow", "watchdogd status --watch")
"""Commands that go on until somebody ends them: here after some seconds."""
WEB = """
timeout 200 watchdogd web > web.out 2>&1 & server=$!
until address=$(grep -o -m 1 'http://[^ ]*' web.out); do
    kill -0 $server || { cat web.out; exit 70; }
    sleep 0.2
done
curl --silent --show-error --fail --location --cookie '' --max-time 90 --noproxy '*' "$address" > web.html
asked=$?
kill $server
wait $server
[ $asked = 0 ] && grep '<title>' web.html
"""
"""`watchdogd web`, the page asked for at the address that it prints, and ended."""
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
            "PATH": f"{slurm.typed.parent}:{slurm.python.parent}:{os.environ['PATH']}",
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
            line = WEB if step.text == "watchdogd web" else step.text
            done = self.type(f"timeout 8 {line}" if lasting else line)
            verb = ([*shlex.split(step.text), ""])[1]
            good = {ENDED} if lasting else ANSWERS if verb in JUDGING else {0}
            said = f"{step.text}\n{done.stdout}\n{done.stderr}"
            assert done.returncode in good, f"exit {done.returncode}: {said}"
            assert "Traceback" not in said

    def acknowledged(self) -> bool:
        """Whether the first incident is, once a round took it in."""
        assert self.type("watchdogd tick").returncode == 0
        listed = json.loads(self.type("watchdogd incidents --json").stdout)
        return any(each["id"] == 1 and each["state"] == "acknowledged" for each in listed)

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
    """What every page but the tutorial takes for granted: a home, a run watched for a while, an incident."""
    reader.type("watchdogd init")
    reader.write(
        "~/.watchdogd/config.toml",
        '[channels.slack]\ntype = "slack"\nwebhook_url = "env:SLACK_WEBHOOK_URL"\nrate = "none"\n'
        f'[runs.run-17]\nlog = "{reader.place}/run-17.log"\n'
        f'[disks.full]\npath = "{reader.place}"\nquota = "statvfs"\ncrit_free = "100%"\n'
        "[disks.full.checks.disk_quota]\nconfirm = 1\n",
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
        if step.text.startswith("watchdogd ack"):
            wait_until(reader.acknowledged, 120, "a round takes it in", every=0.5)
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
