"""From series to charts: names, units, the forecast, and no spike lost."""

from __future__ import annotations

from math import nan

from watchdogd.daemon.registry.plugin_registry import built_in
from watchdogd.web.charts import FEW, SLOTS, ChartLine, charts_of, gridded, slots_for

DECLARED = {entry.name: entry.declared.charts for entry in built_in()}


def test_a_disk_has_its_capacity_and_its_forecast_drawn_on() -> None:
    series = {
        ("bytes", "used"): ((0.0, 10.0), (60.0, 20.0)),
        ("bytes", "total"): ((0.0, 100.0), (60.0, 100.0)),
        ("bytes", "free"): ((0.0, 90.0), (60.0, 80.0)),
        ("bytes", "full_in"): ((60.0, 480.0),),
        ("inodes", "used"): ((0.0, 5.0), (60.0, 6.0)),
    }
    of_bytes, of_inodes = charts_of("scratch/disk_quota", DECLARED["disk_quota"], "scratch", series)
    assert (of_bytes.group, of_bytes.title, of_bytes.unit) == ("Disks", "space used", "B")
    assert of_bytes.lines == (
        ChartLine("used", ((0.0, 10.0), (60.0, 20.0))),
        ChartLine("capacity", ((0.0, 100.0), (60.0, 100.0)), dashed=True),
        ChartLine("forecast", ((60.0, 20.0), (540.0, 100.0)), dashed=True),
    )
    assert of_bytes.figures == (("used", 20.0, 10.0, 20.0, 60.0, 60.0),)
    assert (of_inodes.title, of_inodes.unit, len(of_inodes.lines)) == ("inodes used", "", 1)


def test_an_old_forecast_is_not_drawn() -> None:
    series = {
        ("bytes", "used"): ((0.0, 10.0), (600.0, 2.0)),
        ("bytes", "total"): ((0.0, 100.0),),
        ("bytes", "full_in"): ((0.0, 480.0),),
    }
    (chart,) = charts_of("scratch/disk_quota", DECLARED["disk_quota"], "scratch", series)
    assert [line.label for line in chart.lines] == ["used", "capacity"]


def test_the_rate_of_iterations_and_what_is_no_number() -> None:
    series = {("", "iteration_time"): ((0.0, 2.0), (60.0, nan), (120.0, 0.0), (180.0, 4.0))}
    (chart,) = charts_of("run-17/log_staleness", DECLARED["log_staleness"], "run-17", series)
    assert chart.title == "progress a minute"
    assert chart.lines == (ChartLine("run-17", ((0.0, 30.0), (180.0, 15.0))),)


def test_nodes_share_a_chart_and_a_plugin_of_ones_own_has_its_own() -> None:
    series = {("node2", "left"): ((0.0, 1.0),), ("node1", "left"): ((0.0, 2.0), (60.0, 1.0))}
    (chart,) = charts_of("run-17/memory_leak", DECLARED["memory_leak"], "run-17", series)
    assert [line.label for line in chart.lines] == ["node1", "node2"]
    (own,) = charts_of("queue", None, "queue", {("", "jobs_here"): ((0.0, 3.0), (60.0, 4.0))})
    assert (own.group, own.title) == ("More", "jobs here")


def test_gpus_are_drawn_node_by_node_below_the_line_of_all() -> None:
    series = {
        ("", "temperature"): ((0.0, 71.0),),
        ("node1", "temperature"): ((0.0, 60.0), (60.0, 61.0)),
        ("node2", "temperature"): ((0.0, 71.0),),
        ("", "gpus"): ((0.0, 16.0), (60.0, 15.0)),
    }
    heat, count = charts_of("run-17/gpu_health", DECLARED["gpu_health"], "run-17", series)
    assert heat.title == "temperature of each node's hottest GPU"
    assert [line.label for line in heat.lines] == ["all", "node1", "node2"]
    assert [line.label for line in count.lines] == ["run-17"]
    del series["node2", "temperature"]
    heat, _ = charts_of("run-17/gpu_health", DECLARED["gpu_health"], "run-17", series)
    assert [line.label for line in heat.lines] == ["node1"]


def test_what_the_timeline_shows_has_no_chart() -> None:
    assert not list(
        charts_of(
            "r/job_liveness", DECLARED["job_liveness"], "r", {("", "running"): ((0.0, 1.0), (60.0, 2.0))}
        )
    )


def test_of_many_parts_the_lowest_and_the_highest_are_drawn_and_named() -> None:
    nodes = {
        (f"node{number}", "left"): tuple((60.0 * at + number, float(at % 50 + number)) for at in range(5_000))
        for number in range(FEW + 1)
    }
    spiked = [(at, 9_999.0 if at == 60.0 * 3_333 + 2 else value) for at, value in nodes["node2", "left"]]
    (chart,) = charts_of(
        "run-17/memory_leak", DECLARED["memory_leak"], "run-17", nodes | {("node2", "left"): tuple(spiked)}
    )
    low, high = chart.lines
    assert (low.label, high.label) == ("lowest of 7, now node0", "highest of 7, now node6")
    assert len(low.points) == len(high.points) == SLOTS + 1
    assert max(value for _, value in high.points) == 9_999.0
    assert (low.points[-1][1], high.points[-1][1]) == (49.0, 55.0)
    assert list(low.points) == sorted(low.points)


def test_a_constant_has_no_chart() -> None:
    still = {
        ("", "gpus"): ((0.0, 16.0), (60.0, 16.0)),
        ("", "power"): ((0.0, 600.0), (60.0, 601.0)),
        ("", "vram"): ((0.0, 80.0), (60.0, 84.0)),  # less than five points of a share are not seen
    }
    assert [each.title for each in charts_of("r/gpu_health", DECLARED["gpu_health"], "r", still)] == [
        "GPU power of each node"
    ]
    full = {("bytes", "used"): ((0.0, 5.0), (60.0, 5.0)), ("bytes", "total"): ((0.0, 9.0), (60.0, 10.0))}
    assert not list(charts_of("scratch/disk_quota", DECLARED["disk_quota"], "scratch", full))
    for total, drawn in ((100.0, 1), (2000.0, 0)):  # one file more is none beside so much room
        few = {
            ("inodes", "used"): ((0.0, 1.0), (60.0, 2.0)),
            ("inodes", "total"): ((0.0, total), (60.0, total)),
        }
        found = list(charts_of("scratch/disk_quota", DECLARED["disk_quota"], "scratch", few))
        assert len(found) == drawn


def test_a_page_of_many_lines_keeps_fewer_points_of_each() -> None:
    assert slots_for(0) == slots_for(40) == SLOTS
    assert slots_for(1_000_000) < slots_for(400) < SLOTS
    points = tuple((float(at), 1000.0 if at == 4321 else at % 7 / 10) for at in range(10_000))
    kept = gridded(points, 0.0, 10_000 / SLOTS, SLOTS)
    assert len(kept) <= 2 * SLOTS
    assert max(value for _, value in kept) == 1000.0
    assert list(kept) == sorted(kept)


def test_the_grid_keeps_both_ends_of_a_stretch_in_their_order() -> None:
    points = ((0.0, 5.0), (1.0, 9.0), (2.0, 1.0), (3.0, 5.0), (10.0, 7.0))
    assert gridded(points, 0.0, 10.0, 2) == ((0.0, 9.0), (5.0, 1.0), (10.0, 7.0), (15.0, 7.0))
