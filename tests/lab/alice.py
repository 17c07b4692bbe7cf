"""Alice's watchdogd on the cluster: a home that bob's group shares, and what a check of hers says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.cluster import Cluster

CONFIG = """
[slurm]
users = ["alice", "bob"]
[channels.screen]
type = "console"
[runs.run-17]
job_name = "tr11"
"""
"""For a run that bob may have submitted; it ends within the run's table."""


def shared_home(slurm: Cluster, folder: Path, more: str) -> Path:
    """A home in `folder` whose inbox and switches bob may use; `more` stands behind CONFIG."""
    home = folder / "home"
    slurm.run_as("alice", [slurm.typed, "--home", home, "init"])
    (home / "config.toml").write_text(CONFIG + more)
    for each in (home, home / "inbox", home / "switches"):
        shutil.chown(each, group="six")
        each.chmod(0o2770)
    return home


def check(slurm: Cluster, home: Path, name: str) -> dict[str, dict[str, Any]]:
    """The results of `watchdogd check NAME`, by subject."""
    words: list[str | Path] = [slurm.typed, "--home", home, "check", name, "--json"]
    told = json.loads(slurm.run_as("alice", words, check=False).stdout)
    return {each["subject"] or "": each for each in told}
