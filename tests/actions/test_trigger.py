"""Which incident pulls which key: with the results of the plugins themselves."""

from __future__ import annotations

import pytest
from watchdogd.plugins.memory_leak import Limits, judge

from watchdogd.actions import trigger
from watchdogd.incident import Incident
from watchdogd.plugin import Metric, Result, Status, critical, unknown, warning
from watchdogd.readers.usage import Memory
from watchdogd.units import parse_amount

GB = 1 << 30


def pulled(plugin: str, result: Result) -> str:
    incident = Incident(
        1, f"glide/{plugin}", "glide", "glide", result.subject, result.status, 0.0, result.summary
    )
    return trigger.pulled(plugin, incident, result)


@pytest.mark.parametrize(
    ("plugin", "result", "key"),
    [
        ("log_staleness", critical("silent: nothing was written to a.log since"), "on_hang"),
        ("log_staleness", critical("stuck: a.log grows, but iteration 7 does not since"), "on_hang"),
        ("log_staleness", critical("no log: no file matches a*.log since"), ""),
        ("log_staleness", unknown("silent: nothing was written to a.log since"), ""),
        ("log_staleness", warning("no line of a.log matches progress"), ""),
        ("log_staleness", critical("loss is nan since", subject="loss"), "on_spike"),
        ("log_staleness", warning("loss has risen and stays up", subject="loss"), "on_spike"),
        ("log_staleness", warning("slow", subject="throughput"), ""),
        ("gpu_health", critical("hung in a collective?", subject="collective"), "on_hang"),
        ("gpu_health", warning("hung in a collective?", subject="collective"), ""),
        ("gpu_health", critical("it fell off the bus", subject="node5/gpu3"), ""),
        ("disk_quota", critical("full", subject="bytes"), "on_disk"),
        ("disk_quota", critical("no inodes free", subject="inodes"), "on_disk"),
        ("disk_quota", warning("9 % free", subject="bytes", free=Metric(9, "B", 10, 5)), "on_disk"),
        ("disk_quota", warning("full in 2d", subject="bytes", free=Metric(90, "B", 10, 5)), ""),
        ("disk_quota", critical("is not mounted"), ""),
        ("disk_quota", unknown("quotas not known", subject="quota"), ""),
        ("node_disks", warning("9 %", subject="node5:/tmp", free=Metric(9, "B", 10, 5)), "on_disk"),
        ("node_disks", critical("is missing", subject="node5:/tmp"), ""),
        ("job_liveness", critical("gone", running=Metric(0), waiting=Metric(0)), "on_gone"),
        ("job_liveness", critical("crash loop", running=Metric(0), waiting=Metric(4)), ""),
        ("job_liveness", critical("still runs", running=Metric(1), waiting=Metric(0)), ""),
        ("job_liveness", warning("stopped on request", running=Metric(0), waiting=Metric(0)), ""),
        ("job_liveness", critical("nothing behind it", subject="queue"), ""),
        (
            "job_liveness",
            critical("job 7: CANCELLED by ann", running=Metric(0), waiting=Metric(0)),
            "",
        ),
        ("job_liveness", critical("gone"), ""),
        ("queue_length", critical("long"), ""),
    ],
)
def test_what_is_pulled(plugin: str, result: Result, key: str) -> None:
    assert pulled(plugin, result) == key


def test_memory_has_to_be_short_and_not_only_to_become_so() -> None:
    limits = Limits(parse_amount("5%"), used_up_within=6 * 3600.0, warm_up=60.0)
    short = judge("node5", Memory("node", 4.0 * GB, 100.0 * GB, 90.0 * GB), limits, [(0.0, 90.0 * GB)])
    points = [(60.0 * step, (10.0 + step) * GB) for step in range(30)]
    filling = judge("node5", Memory("node", 40.0 * GB, 100.0 * GB, 40.0 * GB), limits, points)
    assert (short.status, filling.status) == (Status.CRITICAL, Status.WARNING)
    assert (pulled("memory_leak", short), pulled("memory_leak", filling)) == ("on_memory", "")


def test_without_figures_nothing_is_pulled() -> None:
    incident = Incident(1, "glide/memory_leak", "glide", "glide", "node5", Status.WARNING, 0.0, "short")
    assert trigger.pulled("memory_leak", incident, None) == ""


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
    assert trigger.uses("/scratch/p1/", [place]) is lies
    assert trigger.uses("/", [place]) is bool(place)
