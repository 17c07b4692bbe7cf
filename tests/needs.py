"""What tests need beside Python and some milliseconds, by their folder or file; `make quick` runs the others.

A mark of pytest's for each need. Single tests of a file that needs nothing are marked where they stand.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

NEEDS: Mapping[str, str] = {
    "tests/attacks": "root slow",
    "tests/batch/test_separators.py": "slow",
    "tests/cli/test_completion.py": "debian",
    "tests/cli/test_explain.py": "slow",
    "tests/cli/test_gpus.py": "slow",
    "tests/cli/test_guard.py": "slow",
    "tests/cli/test_refusals.py": "slow",
    "tests/cli/test_relay.py": "slow",
    "tests/cli/test_status_watch.py": "slow",
    "tests/cli/test_tick.py": "slow",
    "tests/cli/test_verbs.py": "slow",
    "tests/deploy": "root slow",
    "tests/deploy/test_crontab.py": "slurm",
    "tests/deploy/test_scrontab.py": "slurm",
    "tests/deploy/test_systemd.py": "slurm",
    "tests/docs/test_build.py": "site slow",
    "tests/docs/test_commands.py": "slurm root slow",
    "tests/daemon/test_remediation.py": "slow",
    "tests/daemon/test_blind_look.py": "slow",
    "tests/daemon/test_daemon.py": "slow",
    "tests/daemon/test_dropins.py": "slow",
    "tests/daemon/test_ending.py": "slow",
    "tests/daemon/test_inquiry.py": "slow",
    "tests/daemon/test_killed_look.py": "slow",
    "tests/daemon/test_phase.py": "slow",
    "tests/daemon/test_status_lines.py": "slow",
    "tests/daemon/test_unkillable_processes.py": "root",
    "tests/daemon/test_worker_pool.py": "slow",
    "tests/faults": "root slow",
    "tests/history/test_faults.py": "slow",
    "tests/history/test_power.py": "slow",
    "tests/history/test_retention.py": "slow",
    "tests/home/test_lease.py": "slow",
    "tests/home/test_press.py": "slow",
    "tests/home/test_file_trust.py": "root",
    "tests/incidents/test_incidents_machine.py": "slow",
    "tests/notify/test_foreign_channel.py": "slow",
    "tests/notify/test_kill9.py": "slow",
    "tests/notify/test_outbox_machine.py": "slow",
    "tests/notify/test_sharing_machine.py": "slow",
    "tests/plugins/test_disk_faults.py": "root",
    "tests/plugins/test_log_evidence.py": "slow",
    "tests/plugins/test_log_forms.py": "slow",
    "tests/plugins/test_takeovers.py": "slow",
    "tests/probe": "slow",
    "tests/parsers/test_foreign.py": "slow",
    "tests/slurm": "slurm root slow",
    "tests/slurm/test_lightning.py": "torch",
    "tests/system/test_acl.py": "root",
    "tests/system/test_mounts_here.py": "root",
    "tests/test_demo.py": "slow",
    "tests/test_examples.py": "torch slow",
    "tests/test_fuzz.py": "slow",
    "tests/test_light.py": "slow",
    "tests/test_limits.py": "slow",
    "tests/test_lowest.py": "lowest",
    "tests/test_package.py": "slow",
    "tests/test_stackprobe.py": "slow",
    "tests/test_truth.py": "slow",
    "tests/web/test_page.py": "browser slow",
    "tests/web/test_publisher.py": "slow",
}
QUICK = os.environ.get("HYPOTHESIS_PROFILE") == "quick"
"""Whether some of a search's examples will do, as Hypothesis' fewer do: in `make quick`."""
TOGETHER = ("browser", "server", "site", "torch")
"""Needs that are dear to begin: all that have one run in one process."""
SLURMS = 4
"""How many processes start a Slurm of their own."""


@cache
def needs(path: str) -> tuple[str, ...]:
    """The needs of the file at `path` below the project."""
    places = (words for place, words in NEEDS.items() if path == place or path.startswith(f"{place}/"))
    return tuple(" ".join(places).split())


def order(marks: set[str]) -> float:
    """Longer ones first, so that in the end no process works alone; later what waits for an environment."""
    ranks = [rank for rank, need in enumerate(("slurm", "torch", "slow", "lowest")) if need in marks]
    return min(ranks, default=9) + 0.5 * ("torch" in marks)
