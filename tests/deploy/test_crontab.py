"""deploy/crontab, run by a real cron: what it starts has nothing but the environment that cron gives."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

import pytest

from tests.deploy.crond import MINUTE, Cron
from tests.deploy.pages import adapted
from tests.waiting import wait_until
from watchdogd.home.layout import Home
from watchdogd.home.lease import alive

if TYPE_CHECKING:
    from tests.cluster import Cluster

CHAIN = 60.0


@pytest.fixture
def home(slurm: Cluster) -> Home:
    """alice's, with one disk and Slurm's CPU partition."""
    home = Home(slurm.home("alice") / "watch")
    slurm.run_as("alice", [slurm.typed, "--home", home.path, "init"])
    home.config.write_text(
        '[daemon]\ninterval = "2s"\n[slurm]\npartition = "small"\n[disks.root]\npath = "/"\n'
        '[channels.log]\ntype = "statuslog"\npath = "alerts.log"\n'
    )
    return home


def installed(slurm: Cluster, home: Home) -> str:
    """The file as a site would install it; its locks are this cluster's, since several may run here."""
    text = adapted("crontab", slurm.watchdogd.parent.parent, home.path)
    assert text.count('"/tmp/watchdogd-') == 2
    return text.replace('"/tmp/', f'"{slurm.home("alice")}/')


def crontab(slurm: Cluster, home: Home, *verbs: str) -> str:
    """The file with the lines of these verbs alone, due every minute.

    What they print goes to `said` in HOME, so that the tests see that they ran.
    """
    text = installed(slurm, home)
    lines = [line for line in text.splitlines() if not line.startswith("*") or _verb(line) in verbs]
    # HOME and SLURM_CONF are this cluster's; a site's are in the password file and below /etc
    own = [f"HOME={slurm.home('alice')}", f"SLURM_CONF={slurm.conf}"]
    changed = [re.sub(r"^\*/\d+", "*", line).replace(">/dev/null", ">>said") for line in lines]
    return "\n".join([*own, *changed, ""])


def _verb(line: str) -> str:
    found = re.search(r"'watchdogd (\w+) ", line)
    assert found, line
    return found[1]


def rounds(slurm: Cluster, home: Home) -> set[str]:
    """The times at which the disk was looked at, as history tells them."""
    words = ["--home", str(home.path), "history", "root", "--since", "1h", "--csv"]
    said = slurm.run_as("alice", [str(slurm.typed), *words], check=False).stdout  # 1 where there is none
    return {row["time"] for row in csv.DictReader(said.splitlines()) if row["metric"] == "free"}


def log_of(home: Home) -> str:
    path = home.logs / "cron.log"
    return path.read_text() if path.exists() else ""


def test_the_lines_are_due_as_the_page_says(slurm: Cluster, home: Home) -> None:
    text = installed(slurm, home)
    lines = [line for line in text.splitlines() if line.startswith("*")]
    assert {_verb(line): line.split()[0] for line in lines} == {"ensure": "*/10", "tick": "*/5"}
    with Cron("alice", text) as cron:  # cron itself reads it, and refuses what it does not understand
        assert [line for line in cron.listed().splitlines() if line.startswith("*")] == lines


def test_ticks_from_cron_leave_rounds_in_history(slurm: Cluster, home: Home) -> None:
    with Cron("alice", crontab(slurm, home, "tick")):
        wait_until(lambda: rounds(slurm, home), MINUTE, "the first tick is in history", every=1)
        wait_until(lambda: len(rounds(slurm, home)) > 1, MINUTE, "so is the second", every=1)
    assert log_of(home) == ""
    assert home.status.exists()


def test_ensure_from_cron_starts_one_chain_and_brings_it_back(slurm: Cluster, home: Home) -> None:
    """The tick beside it stands back while the chain acts."""

    def links() -> list[str]:
        return sorted((line.split("|")[0] for line in slurm.squeue("alice")), key=int)

    def acts() -> list[str]:
        """The link that acts and the one that waits, where it is so."""
        holder = alive(home)
        found = links()
        return found if holder and len(found) == 2 and holder.job_id == found[0] else []

    said = slurm.home("alice") / "said"
    with Cron("alice", crontab(slurm, home, "ensure", "tick")):
        pair = wait_until(
            acts, MINUTE + CHAIN, "cron has started a chain: one acts, one waits", every=0.5
        ).value
        found = f"it runs already: job {pair[0]} RUNNING on node"
        wait_until(lambda: found in said.read_text(), MINUTE, f"ensure says '{found}'", every=1)
        stands_back = rf"nothing done: process .* \(job {pair[0]}\) watches for {home.path} already"
        wait_until(lambda: re.search(stands_back, said.read_text()), MINUTE, "so does tick", every=1)
        assert links() == pair
        assert log_of(home) == ""
        slurm.cancel_all()
        back = wait_until(acts, MINUTE + CHAIN, "cron has brought the chain back", every=0.5).value
        assert not set(back) & set(pair)
    # what cron had just submitted may have been cancelled with the others
    told = re.sub(r"watchdogd: Slurm took link \d+, but it ended at once: .*\n", "", log_of(home))
    assert told == ""
    slurm.run_as("alice", [str(slurm.typed), "--home", str(home.path), "stop"], timeout=300)


def test_what_goes_wrong_under_cron_is_in_its_log(slurm: Cluster, home: Home) -> None:
    """Above all a secret that only the user's shell knows: cron reads no profile."""
    home.config.write_text(
        home.config.read_text() + '[channels.hook]\ntype = "webhook"\nurl = "env:WEBHOOK_URL"\n'
    )
    with Cron("alice", crontab(slurm, home, "ensure")):
        said = wait_until(lambda: log_of(home), MINUTE, "cron's log tells", every=1).value
    assert said.splitlines()[0].startswith("watchdogd: channels.hook.url: ")
    assert "WEBHOOK_URL" in said
    assert slurm.squeue("alice") == []
