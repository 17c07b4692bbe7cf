"""/metrics and the textfile: what Prometheus's own tool thinks of them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.web.stage import EVIL, status_of
from watchdogd.web.metrics import metrics_text

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
ABSENT = '{alertname="WatchdogdAbsent"}'
AT = "2026-11-20T12:00:00+00:00"


def measured(name: str, value: float, unit: str, check: str = "scratch/disk_quota") -> dict[str, object]:
    return {
        "check": check,
        "run": None,
        "subject": "bytes",
        "status": "WARNING",
        "summary": "little room",
        "metrics": {name: {"value": value, "unit": unit, "warn": None, "crit": None}},
        "details": "",
        "at": AT,
        "target": "scratch",
    }


def text_of(*results: dict[str, object]) -> str:
    status = status_of(AT)
    return metrics_text({**status, "checks": [*status["checks"], *results]})


def test_names_bear_base_units() -> None:
    text = text_of(
        measured("used", 5e12, "B"),
        measured("age", 12, "s", "run-17/log_staleness"),
        measured("vram", 95, "%", "run-17/gpu_health"),
        measured("errors", 3, "c", "own"),
        measured("jobs total", 3, "", "cron.hourly/Queue-Length.sh"),
    )
    labels = 'check="{}",run="",subject="bytes"'
    assert f"watchdogd_disk_quota_used_bytes{{{labels.format('scratch/disk_quota')}}} 5e+012" in text.replace(
        "5e+12", "5e+012"
    )
    assert f"watchdogd_log_staleness_age_seconds{{{labels.format('run-17/log_staleness')}}} 12.0" in text
    assert f"watchdogd_gpu_health_vram_ratio{{{labels.format('run-17/gpu_health')}}} 0.95" in text
    assert f"watchdogd_own_errors_total{{{labels.format('own')}}} 3.0" in text
    assert "watchdogd_queue_length_jobs_total_value{" in text
    assert "watchdogd_alive 1.0" in text
    assert 'watchdogd_incidents{state="open",status="CRITICAL"} 0.0' in text


def test_what_is_no_number_is_left_out() -> None:
    assert "nan" not in text_of(measured("used", float("nan"), "B")).lower()


def test_names_that_a_line_shows_alike_are_one_series_with_the_worst_status() -> None:
    odd = [measured("used", 1, "B", check) for check in ("new\nline", "new line", "new\u2028line")]
    text = text_of({**odd[0], "status": "CRITICAL"}, *odd[1:])
    samples = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(samples) == len(set(samples))
    assert 'watchdogd_check_status{check="new line",run="",subject="bytes"} 2.0' in text


def promtool(*words: str | Path, stdin: str = "") -> str:
    """What it prints, which is nothing of a fault."""
    tool = shutil.which("promtool")
    assert tool, "promtool comes with Debian's prometheus: run scripts/packages"
    done = subprocess.run(
        [tool, *words], input=stdin, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.debian
def test_promtool_finds_no_fault() -> None:
    text = text_of(
        measured("used", 5e12, "B"),
        measured("power", 300, "W", "run-17/gpu_health"),
        measured("errors", 3, "c", "own"),
        measured("request count", 3, "", 'odd "name"\n\\'),
        measured("größe", 3, "", '日本 {x="y"} \udc80\x00\x1b[31m'),
    )
    assert EVIL in text
    assert promtool("check", "metrics", stdin=text) == ""


TROUBLED = {
    "incidents": [
        {"check": check, "run": run, "subject": None, "status": "CRITICAL", "state": "open", "opened_at": AT}
        for check, run in (("watchdogd/delivery", None), ("run-17/log_staleness", "run-17"))
    ]
}


def troubled() -> str:
    """The numbers of a dead watchdog whose run is stalled, and whose channel delivers nothing."""
    progress = {"stalled": True, "done": 25.0, "total": 100.0, "pace": 4.0}
    kinds = (("loss", ""), ("age", "s"))
    gpus = (("utilisation", "%"), ("power", "W"), ("temperature", "C"))
    disk = (("used", "B"), ("total", "B"), ("full_in", "s"))
    results = [measured(name, 3, unit, "run-17/log_staleness") for name, unit in kinds]
    results += [measured(name, 3, unit, "run-17/gpu_health") for name, unit in gpus]
    run = [{**each, "run": "run-17", "progress": progress, "run_state": "hung"} for each in results]
    status = status_of(AT)
    checks = [*status["checks"], *run, *(measured(name, 3, unit) for name, unit in disk)]
    return metrics_text({**status, **TROUBLED, "alive": False, "checks": checks})


def test_a_run_says_how_far_it_is_and_each_open_incident_when_it_began() -> None:
    text = troubled()
    assert 'watchdogd_run_stalled{run="run-17"} 1.0' in text
    assert 'watchdogd_run_progress_ratio{run="run-17"} 0.25' in text
    assert 'watchdogd_run_remaining_seconds{run="run-17"} 300.0' in text
    began = 'watchdogd_incident_opened_timestamp_seconds{check="watchdogd/delivery",run="",state="open"'
    assert began in text


@pytest.mark.debian
def test_the_rules_fire_and_the_dashboard_shows_something_in_each_panel(tmp_path: Path) -> None:
    """By Prometheus's own engine, on our own numbers."""
    rules = DEPLOY / "prometheus-rules.yml"
    assert "5 rules found" in promtool("check", "rules", rules)
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(shown) == len(dashboard["panels"]) > 10
    series = [
        {"series": name.replace("{", '{instance="watch",') if "{" in name else name + '{instance="watch"}',
         "values": f"{float(value):.0f}+0x60"}
        for name, _, value in (line.rpartition(" ") for line in troubled().splitlines() if line[0] != "#")
    ]  # fmt: skip
    empty = [f"absent({expr})" for expr in (each.replace("$run", ".*") for each in shown)]
    fired = "group by (alertname) (ALERTS{alertstate='firing'})"
    names = ("Dead", "MessagesUndelivered", "CriticalOpen", "RunStalled")
    alerts = [{"labels": f'{{alertname="Watchdogd{name}"}}', "value": 1} for name in names]
    absent = {"expr": fired, "eval_time": "30m", "exp_samples": [{**alerts[0], "labels": ABSENT}]}
    tests = [
        {"interval": "1m", "input_series": series, "promql_expr_test": [
            *({"expr": expr, "eval_time": "30m", "exp_samples": []} for expr in empty),
            {"expr": fired, "eval_time": "30m", "exp_samples": alerts},
        ]},
        {"interval": "1m", "input_series": [], "promql_expr_test": [absent]},
    ]  # fmt: skip
    cases = tmp_path / "cases.yml"  # JSON is YAML
    cases.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", cases)
