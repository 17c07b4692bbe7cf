"""Which results ask for which of a run's actions, as the plugins' own judgements give them."""

from __future__ import annotations

import pytest

from watchdogd.checks import free_space
from watchdogd.checks.free_space import FreeSpaceLimits
from watchdogd.checks.working_job import Working
from watchdogd.errors import PluginError
from watchdogd.parsers.probe_sample import Disk, NodeMemory, Usage
from watchdogd.parsers.quota.lfs_quota import StorageTarget
from watchdogd.parsers.quota.models import BYTES, INODES, StorageLimit
from watchdogd.plugin import Result, Status, check, critical
from watchdogd.plugins.disk_quota import storage_targets
from watchdogd.plugins.log_staleness.log_verdicts import judge
from watchdogd.plugins.log_staleness.new_lines import Wanted
from watchdogd.plugins.log_staleness.run_log import JobTold, Loss, RunLog
from watchdogd.plugins.log_staleness.stall_verdict import Limits, Look
from watchdogd.plugins.memory_leak import check as memory_leak
from watchdogd.plugins.node_disks import check as node_disks
from watchdogd.remediation import policy
from watchdogd.units import parse_amount

GB = 1 << 30


def test_memory_has_to_be_short_and_not_only_to_become_so() -> None:
    limits = memory_leak.MemoryLimits(parse_amount("5%"), used_up_within=6 * 3600.0, warm_up=60.0)
    short = memory_leak.judge(
        "node5", NodeMemory("node", 4.0 * GB, 100.0 * GB, 90.0 * GB), limits, [(0.0, 90.0 * GB)]
    )
    points = [(60.0 * step, (10.0 + step) * GB) for step in range(30)]
    filling = memory_leak.judge("node5", NodeMemory("node", 40.0 * GB, 100.0 * GB, 40.0 * GB), limits, points)
    assert (short.status, filling.status) == (Status.CRITICAL, Status.WARNING)
    assert (short.trigger, filling.trigger) == ("on_memory", "")


@pytest.mark.parametrize(
    ("used", "grace", "left", "short"),
    [(50.0, "", None, False), (97.0, "", None, True), (92.0, "", None, True), (100.0, "", None, True),
     (50.0, "6d", None, False), (50.0, "", 3600.0, False)],
)  # fmt: skip
def test_room_has_to_be_short_by_a_threshold_and_not_by_a_forecast_or_in_a_grace(
    used: float, grace: str, left: float | None, short: bool
) -> None:
    judged = free_space.judge(
        StorageLimit(BYTES, "quota", used=used, hard=100.0, grace=grace), FreeSpaceLimits()
    )
    assert judged.short is short


def test_a_full_disk_of_a_node_asks_for_actions_and_one_that_is_missing_for_none() -> None:
    full = Disk(total=100.0, free=2.0, inodes=100.0, free_inodes=90.0)
    nodes = {
        "node5": Usage(
            "glide",
            "7",
            "node5",
            disks={"/tmp": full, "/dev/shm": Disk(trouble="No such file or directory", errno=2)},
        )
    }
    told = {
        each.subject: each.trigger
        for each in node_disks.judge(
            nodes, ("/tmp", "/dev/shm"), {"bytes": FreeSpaceLimits(), "inodes": FreeSpaceLimits()}
        )
    }
    assert (told["node5:/tmp"], told["node5:/dev/shm"], told[""]) == ("on_disk", "", "")


@pytest.mark.parametrize(("free", "key"), [(0.5, "on_disk"), (3.0, ""), (50.0, "")])
def test_a_storage_target_asks_for_actions_once_it_is_full(free: float, key: str) -> None:
    [told] = storage_targets.judge(
        "/scratch",
        [StorageTarget("OST0001", 100.0, 100.0 - free, free)],
        {BYTES: (None, None), INODES: (None, None)},
    )
    assert told.trigger == key


@pytest.mark.parametrize(("loss", "key"), [(Loss(2.1, bad=3, word="nan"), "on_spike"), (Loss(2.1), "")])
def test_a_loss_that_is_no_number_asks_for_what_is_done_on_a_spike(loss: Loss, key: str) -> None:
    look = Look("", Working(), RunLog(told=JobTold(loss=loss), beats=True), 0.0)
    said = list(judge(look, Limits("auto", None), Wanted()))
    assert [told.trigger for told in said if told.subject == "loss"] == [key]


def test_what_is_not_declared_is_an_error_that_says_how() -> None:
    @check
    def idle() -> Result:
        return critical("nothing is done").triggers("on_hang")

    with pytest.raises(PluginError, match=r"declare it, @check\(triggers=\('on_hang',\)\)"):
        idle.results({}, {})
    with pytest.raises(PluginError, match="no key 'on_fire': write one of on_hang, on_spike"):

        @check(triggers=("on_fire",))
        def burning() -> Result:
            return critical("it burns")


@pytest.mark.parametrize(
    ("place", "lies"),
    [
        ("/scratch/p1/logs/main*.txt", True),
        ("/scratch/p1/*/global_step*", True),
        ("/scratch/p1", True),
        ("/scratch/p12/logs/main.txt", False),
        ("/scratch/p1/../p2/main.txt", False),
        ("/scratch/p*/main.txt", False),
        ("", False),
    ],
)
def test_whose_files_lie_on_a_disk(place: str, lies: bool) -> None:
    assert policy.uses("/scratch/p1/", [place]) is lies
    assert policy.uses("/", [place]) is bool(place)
