"""What status prints, from pictures alone: it fits 80 columns, says what is open first, and hides nothing."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from watchdogd.batch.run_models import state_of
from watchdogd.cli.output import terminal
from watchdogd.cli.status_screen import bar, overview, results_of, run_table
from watchdogd.daemon.registry.plugin_registry import PluginEntry, built_in
from watchdogd.daemon.status_file import declared_json
from watchdogd.home.layout import Home
from watchdogd.plugin import Metric
from watchdogd.plugins.gpu_health.standstill import gpus_cell
from watchdogd.plugins.log_staleness import log_wording
from watchdogd.units import format_size, iso
from watchdogd.web.columns import columns_of


def _declared(entry: PluginEntry) -> dict[str, Any]:
    check: Any = SimpleNamespace(name=f"a/{entry.name}", entry=entry)
    told: dict[str, Any] = declared_json([check])[entry.name]
    return told


DECLARED = {entry.name: _declared(entry) for entry in built_in()}
NOW = 1_796_000_000.0


def seen(
    check: str, status: str = "OK", subject: str = "", summary: str = "", **metrics: float
) -> dict[str, Any]:
    """A result as status.json has it, with what its own check would put into its columns."""
    run = check.partition("/")[0] if check.startswith(("moe", "x")) else None
    units = {"free": "B" if subject == "bytes" else "", "left": "B"}
    numbers = {name: Metric(value, units.get(name, "")) for name, value in metrics.items()}
    return {
        "check": check,
        "run": run,
        "subject": subject or None,
        "status": status,
        "summary": summary or f"{check} says so",
        "metrics": {name: {"value": each.value, "unit": each.unit} for name, each in numbers.items()},
        "progress": None,
        "target": check.partition("/")[0],
        "at": iso(NOW - 20),
        **_shown_by(check.rpartition("/")[2], status, numbers),
    }


def _shown_by(plugin: str, status: str, numbers: dict[str, Metric]) -> dict[str, Any]:
    values = {name: metric.value for name, metric in numbers.items()}
    told: dict[str, str | float] = {}
    if plugin == "log_staleness":
        told = log_wording.columns(numbers, numbers, NOW - 20, stalled=status != "OK")
    elif plugin == "gpu_health" and "gpus" in numbers:
        told = {"GPUs": gpus_cell(numbers)}
    elif plugin == "memory_leak" and "left" in numbers:
        told = {"mem left": format_size(values["left"])}
    elif "time_left" in values:
        told = {"job ends": NOW - 20 + values["time_left"]}
    texts = {title: cell if isinstance(cell, str) else iso(cell) for title, cell in told.items()}
    if plugin != "job_liveness":
        return {"cells": texts}
    state = "?" if status == "UNKNOWN" else state_of(values, stalled=False, wrong=status == "CRITICAL")
    return {"cells": texts, "run_state": state}


def stalled(seen: dict[str, Any], *, said: float = 20.0) -> dict[str, Any]:
    """The same, with the word that the run does not get on, said so many seconds ago."""
    progress = {"stalled": True, "at": None, "within": None, "pause": ""}
    return {**seen, "progress": progress, "at": iso(NOW - said)}


def stepped(seen: dict[str, Any], ago: float) -> dict[str, Any]:
    """The same, with a step so many seconds ago."""
    return {**seen, "progress": {"stalled": False, "at": iso(NOW - ago), "within": 60.0, "pause": ""}}


def picture(*checks: dict[str, Any], **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "alive": True,
        "holder": "process 7 on node1 (job 15)",
        "link": None,
        "last_round": iso(NOW - 20),
        "incidents": [],
        "gaps": [],
        "checks": list(checks),
        "declared": {plugin: {**told, "checks": []} for plugin, told in DECLARED.items()},
    }
    found["declared"]["disk_quota"]["checks"] = [
        each["check"] for each in checks if each["check"].endswith("/disk_quota")
    ]
    return found | more


def shown(values: dict[str, Any], width: int = 80, place: str = "/h/watch") -> list[str]:
    output = io.StringIO()
    Console(file=output, width=width, highlight=False).print(overview(Home(Path(place)), values, NOW))
    lines = output.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    return [line.rstrip() for line in lines]


FULL = (
    seen("moe/job_liveness", running=1, waiting=2, time_left=3 * 86400.0),
    seen("moe/log_staleness", age=4, progress=4500, total=90000, iteration_time=2.5),
    seen("moe/log_staleness", subject="loss"),
    seen("moe/gpu_health", gpus=128, utilisation=97.4, power=412, temperature=61),
    seen("moe/memory_leak", left=12e9),
    seen("moe/memory_leak", subject="n1", left=90e9),
    seen("scratch/disk_quota"),
    seen("scratch/disk_quota", subject="bytes", free=250e12, total=1000e12, full_in=3 * 86400.0),
    seen("scratch/disk_quota", "WARNING", subject="inodes", free=40e6, total=1000e6),
    seen("spare", summary="14 nodes idle"),
)


def test_one_run_with_all_that_can_be_known_of_it() -> None:
    text = "\n".join(shown(picture(*FULL)))
    run = next(line for line in text.splitlines() if line.startswith("moe"))
    for part in ("running", "4,500/90,000 5%", "2.5 s/it", "2d23h", "24s", "128: 97 % 412 W", "12 GB"):
        assert part in run, run
    assert "scratch bytes ████████████──── 75 % 250 TB full in 2d23h" in " ".join(text.split())
    assert "scratch inodes" in " ".join(text.split())
    assert "WARNING scratch/disk_quota [inodes]: " in text
    assert "OK spare: 14 nodes idle" in text
    assert "last round: 20s ago" in text


def test_the_worst_run_stands_first() -> None:
    checks = [
        seen("x-calm/job_liveness", running=1),
        seen("x-odd/job_liveness", "WARNING", running=1),
        seen("moe/job_liveness", running=1),
        stalled(seen("moe/log_staleness", "CRITICAL", age=2400)),
    ]
    lines = shown(picture(*checks))
    begin = next(at for at, line in enumerate(lines) if line.startswith("run "))
    assert [line.split()[0] for line in lines[begin + 1 : begin + 4]] == ["moe", "x-odd", "x-calm"]


def test_of_incidents_as_bad_what_a_run_stands_still_for_comes_first_and_stands_once() -> None:
    def opened(number: int, check: str, status: str = "CRITICAL", **more: object) -> dict[str, Any]:
        told = {"id": number, "check": check, "subject": "", "status": status, "summary": "s"}
        return {**told, "opened_at": iso(NOW - 900 + number), **more}

    told = [
        opened(1, "a/checkpoint_age"),
        opened(2, "moe/log_staleness"),
        opened(3, "gone/job_liveness"),
        opened(4, "watchdogd", "WARNING", target="night-watch"),
        opened(5, "cron.hourly/tidy", "UNKNOWN"),
    ]
    checks = [
        stalled(seen("moe/log_staleness", "CRITICAL")),
        {**seen("gone/job_liveness", "CRITICAL"), "run_state": "gone"},
        seen("cron.hourly/tidy", "UNKNOWN"),
        seen("cron.hourly/well"),
    ]
    lines = shown(picture(*checks, incidents=told))
    assert [line[1] for line in lines if line.startswith("#")] == ["2", "3", "1", "4", "5"]
    assert any("night-watch: s" in line for line in lines)
    assert sum("cron.hourly/tidy" in line for line in lines) == 1
    assert any(line.startswith("OK cron.hourly/well") for line in lines)


def test_a_switch_that_watchdogd_pressed_is_said_to_be() -> None:
    pressed = {
        "run": "moe",
        "switch": "kill",
        "by": "root",
        "at": iso(NOW - 60),
        "reason": "on_hang, incident 4",
    }
    lines = shown(picture(switches=[{**pressed, "automatic": True}, {**pressed, "reason": "bad data"}]), 120)
    assert "kill switch of moe pressed by watchdogd 1m ago (on_hang, incident 4)" in lines
    assert "kill switch of moe set by root 1m ago: bad data" in lines


def test_open_incidents_stand_before_the_runs_and_are_told_once() -> None:
    incident = {
        "id": 7,
        "check": "moe/log_staleness",
        "subject": "",
        "status": "CRITICAL",
        "state": "acknowledged",
        "opened_at": iso(NOW - 2100),
        "acknowledged_by": "otto",
        "acknowledged_at": iso(NOW - 62),
        "summary": "no output for 40m\x1b[31m\nnow",
    }
    hung = stalled(seen("moe/log_staleness", "CRITICAL", age=2400))
    lines = shown(picture(seen("moe/job_liveness", running=1), hung, incidents=[incident]))
    first = next(
        index
        for index, line in enumerate(lines)
        if "CRITICAL open for 35m, acknowledged by otto 62s ago" in line
    )
    run = next(index for index, line in enumerate(lines) if line.startswith("moe"))
    assert first < run
    assert "stalled" in lines[run]
    assert sum("CRITICAL" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("alive", "log", "state"),
    [
        (seen("x/job_liveness", running=1), seen("x/log_staleness"), "running"),
        (seen("x/job_liveness", running=1), stalled(seen("x/log_staleness", "CRITICAL")), "stalled"),
        (
            seen("x/job_liveness", running=1),
            stalled(seen("x/gpu_health", "CRITICAL", "collective")),
            "stalled",
        ),
        (seen("x/job_liveness", running=1), stalled(seen("x/own", "CRITICAL")), "stalled"),
        (seen("x/job_liveness", running=1), seen("x/gpu_health", "CRITICAL", "n1/gpu0"), "running"),
        (seen("x/job_liveness", running=1), seen("x/log_staleness", "CRITICAL", "loss"), "running"),
        (
            seen("x/job_liveness", running=0, waiting=1),
            stalled(seen("x/log_staleness", "CRITICAL")),
            "waiting",
        ),
        (seen("x/job_liveness", running=0, waiting=3), None, "waiting"),
        (seen("x/job_liveness", running=1, ending=1, waiting=3), None, "ending"),
        (seen("x/job_liveness", running=2, ending=1), None, "running"),
        (seen("x/job_liveness", "WARNING", running=1, suspended=1), None, "suspended"),
        (seen("x/job_liveness", running=2, starting=1, ending=1), None, "starting"),
        (seen("x/job_liveness", "UNKNOWN", running=0, waiting=1), None, "unknown"),
        (seen("x/job_liveness", running=0, waiting=0), None, "not running"),
        (seen("x/job_liveness", "WARNING", running=0, waiting=0), None, "not running"),
        (seen("x/job_liveness", "CRITICAL", running=0, waiting=0), None, "gone"),
        (seen("x/job_liveness", "UNKNOWN"), None, "unknown"),
    ],
)
def test_the_state_of_a_run(alive: dict[str, Any], log: dict[str, Any] | None, state: str) -> None:
    lines = shown(picture(alive, *([log] if log else [])))
    row = next(line for line in lines if line.startswith("x "))
    assert row.split(maxsplit=1)[1].startswith(state)


@pytest.mark.parametrize(("said", "stepped_ago", "state"), [(90, 20, "running"), (20, 90, "stalled")])
def test_a_step_after_a_hang_was_reported_ends_it(said: float, stepped_ago: float, state: str) -> None:
    hung = stalled(seen("x/gpu_health", "CRITICAL", "collective"), said=said)
    log = stepped(seen("x/log_staleness"), stepped_ago)
    lines = shown(picture(seen("x/job_liveness", running=1), log, hung))
    row = next(line for line in lines if line.startswith("x "))
    assert row.split(maxsplit=1)[1].startswith(state)


@pytest.mark.parametrize(("status", "green"), [("OK", True), ("UNKNOWN", False), ("WARNING", False)])
def test_a_run_whose_log_is_doubted_is_not_green(status: str, *, green: bool) -> None:
    values = picture(seen("x/job_liveness", running=1), seen("x/log_staleness", status))
    [cell] = run_table(results_of("run", values, NOW), columns_of(values), values).columns[1].cells
    assert isinstance(cell, Text)
    assert (str(cell), cell.style) == (("running", "green") if green else ("running?", "yellow"))


@pytest.mark.parametrize(
    ("check", "subject", "state"),
    [
        ("x/checkpoint_age", "", "running"),
        ("x/gpu_health", "", "running"),
        ("x/log_staleness", "loss", "running?"),
    ],
)
def test_what_says_nothing_of_its_progress_makes_no_run_doubtful(
    check: str, subject: str, state: str
) -> None:
    alive = {**seen("x/job_liveness", running=1), "run_state": "running"}
    values = picture(alive, seen(check, "CRITICAL", subject))
    [cell] = run_table(results_of("run", values, NOW), columns_of(values), values).columns[1].cells
    assert str(cell) == state


@pytest.mark.parametrize(
    ("kind", "status", "state"),
    [("", "CRITICAL", "failing"), ("diverged", "CRITICAL", "diverged"), ("diverged", "WARNING", "running?")],
)
def test_a_run_with_a_critical_incident_is_red(kind: str, status: str, state: str) -> None:
    alive = {**seen("x/job_liveness", running=1), "run_state": "running"}
    values = picture(alive, {**seen("x/log_staleness", "CRITICAL", "loss"), "kind": kind})
    values["incidents"] = [{"check": "x/log_staleness", "subject": "loss", "status": status}]
    [cell] = run_table(results_of("run", values, NOW), columns_of(values), values).columns[1].cells
    assert isinstance(cell, Text)
    assert (str(cell), cell.style) == (state, "yellow" if state == "running?" else "bold red")


def test_figures_older_than_two_rounds_carry_their_age() -> None:
    gpus = seen("moe/gpu_health", gpus=2, utilisation=99, power=650)
    memory = seen("moe/memory_leak", left=90e9)
    disk = seen("scratch/disk_quota", subject="bytes", free=250e12, total=1000e12)
    for ago, every, age in (
        (110, 60.0, ""),
        (130, 60.0, " (2m ago)"),
        (130, 300.0, ""),
        (700, 300.0, " (11m ago)"),
    ):
        old = [{**each, "at": iso(NOW - ago)} for each in (FULL[1], gpus, memory, disk)]
        text = "\n".join(shown(picture(FULL[0], *old, round_every=every), 120))
        for figures in ("4,500/90,000 5%", "2: 99 % 650 W", "90 GB", "250 TB"):
            assert (f"{figures}{age}" in text, f"{figures} (" in text) == (True, bool(age)), text


def test_long_names_and_many_digits_stay_within_the_terminal() -> None:
    name = "moe-" + "x" * 60
    values = picture(
        seen(f"{name}/job_liveness", running=1, time_left=9e6),
        seen(f"{name}/log_staleness", age=9e5, progress=1e9, total=2e9, iteration_time=123.4),
        seen(f"{name}/gpu_health", gpus=1024, utilisation=100, power=700, temperature=80),
        seen(f"{name}/memory_leak", subject="n", left=1e12),
    )
    assert shown(values, 80)
    assert shown(values, 60)


def test_what_watchdogd_is_about_to_do_stands_below_what_it_is_done_for() -> None:
    asked = {"incident": 7, "run": "moe", "trigger": "on_hang"}
    actions = [
        {**asked, "action": "stacks", "will": "take stacks", "began": iso(NOW - 12)},
        {**asked, "action": "requeue", "will": "requeue its job", "began": None},
    ]
    lines = shown(picture(seen("moe/job_liveness", running=1), actions=actions))
    at = lines.index("ACTION pending: moe: take stacks, begun 12s ago (on_hang, incident 7)")
    assert lines[at + 1] == "ACTION pending: moe: watchdogd will requeue its job (on_hang, incident 7)"


@pytest.mark.parametrize("jobs", [{"waiting": 1}, {"held": 1}])
def test_a_run_that_was_requeued_waits_whether_it_is_held_or_not(jobs: dict[str, Any]) -> None:
    lines = shown(picture(seen("moe/job_liveness", "WARNING", running=0, **jobs)))
    assert any(line.split()[:2] == ["moe", "waiting"] for line in lines)


def test_nobody_watches_yet() -> None:
    lines = shown(picture(alive=False, holder=None, last_round=None))
    assert lines[:2] == [
        "/h/watch  not alive, to start it: watchdogd --home /h/watch start",
        "last round: never",
    ]
    assert "watchdogd --home /h/watch watch JOB" in shown(picture())[-1]
    assert shown(picture(last_round=None))[-1] == "last round: never"  # what it watches is told by its first
    stopped = shown(picture(alive=False, holder=None, link={"job_id": "15"}))
    assert stopped[1:] == ["last round: 20s ago; what follows is as it was then"]
    waits = shown(picture(alive=False, holder="job 15 PENDING (Resources)"))
    assert waits[0] == "/h/watch  not alive: job 15 PENDING (Resources) is to watch"
    starts = shown(picture(alive=False, holder="job 15 RUNNING on n1", last_round=None))
    assert starts[0] == "/h/watch  not alive yet: job 15 RUNNING on n1 is to watch"


def test_the_link_gaps_silences_and_troubles() -> None:
    link = {
        "job_id": "15",
        "node": "n1",
        "ends_at": iso(NOW),
        "successor": {"job_id": "16", "state": "PENDING", "reason": "Priority", "expected_node": "n2"},
    }
    text = " ".join(
        shown(
            picture(
                link=link,
                gaps=[{"begin": iso(NOW - 900), "end": iso(NOW - 300), "reason": "no link ran"}],
                silences=[{"target": "moe", "until": iso(NOW), "by": "otto", "reason": "test"}],
                troubles=["home cannot be written"],
            )
        )
    )
    for part in (
        "link: job 15 on n1, until",
        "job 16, is PENDING (Priority), expected on n2",
        "moe silenced until",
        "no link ran",
        " by otto: test",
        "trouble: home",
    ):
        assert part in text


def test_a_trouble_that_is_an_open_incident_is_told_once() -> None:
    opened = {
        "id": 3,
        "run": None,
        "check": "watchdogd/delivery",
        "subject": "delivery",
        "status": "CRITICAL",
        "state": "open",
        "opened_at": iso(NOW - 90),
        "summary": "channel mail delivers nothing",
    }
    text = " ".join(shown(picture(incidents=[opened], troubles=["channel mail delivers nothing", "no room"])))
    assert " ".join(text.split()).count("channel mail delivers nothing") == 1
    assert "trouble: no room" in text


@pytest.mark.parametrize(
    ("share", "drawn"), [(0.0, "────"), (0.5, "██──"), (0.53125, "██▏─"), (0.999, "████"), (1.0, "████")]
)
def test_bars(share: float, drawn: str) -> None:
    assert bar(share, 4) == drawn


def test_what_was_said_longer_ago_is_as_old_as_it_is() -> None:
    told = FULL[1]["cells"] | {"log": iso(NOW - 604)}
    old = {**FULL[1], "at": iso(NOW - 600), "cells": told}
    [run] = [line for line in shown(picture(FULL[0], old)) if line.startswith("moe")]
    assert " 10m" in run


def test_epoch_and_batch_of_a_bar_without_a_total() -> None:
    lines = shown(
        picture(seen("moe/job_liveness", running=1), seen("moe/log_staleness", age=4, epoch=3, batch=20)), 100
    )
    assert any("epoch 3, batch 20" in line for line in lines)


OPEN = ("check", "subject", "status", "state", "summary", "acknowledged_by")


def test_nothing_of_outside_text_is_obeyed_by_the_terminal_or_by_rich(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The lease and status.json are files that a whole group may write."""
    evil = "a\x1b[2Jb\x9b31m[/red] :key:\nforged"
    values = picture(
        seen(f"moe{evil}/job_liveness", running=1),
        seen(f"disk{evil}/disk_quota", subject="bytes", free=1e12, total=2e12),
        seen(f"other{evil}", f"ODD{evil}"),
        holder=evil,
        link={"job_id": evil, "node": evil},
        incidents=[{**dict.fromkeys(OPEN, evil), "id": 7, "opened_at": iso(NOW - 60)}],
    )
    terminal(200).print(overview(Home(Path("/h/watch")), values, NOW))
    printed = capsys.readouterr().out
    assert not {"\x1b", "\x9b"} & set(printed)
    assert printed.count("[/red] :key:") >= 8
    assert "alive: ab31m[/red] :key: forged" in printed
    assert not [line for line in printed.splitlines() if line.startswith("forged")]
