"""/metrics and the textfile: what Prometheus's own tool thinks of them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.web.stage import EVIL, status_of
from watchdogd.web.metrics import metrics_text

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


@pytest.mark.debian
def test_promtool_finds_no_fault() -> None:
    tool = shutil.which("promtool")
    assert tool, "promtool comes with Debian's prometheus: run scripts/packages"
    text = text_of(
        measured("used", 5e12, "B"),
        measured("power", 300, "W", "run-17/gpu_health"),
        measured("errors", 3, "c", "own"),
        measured("request count", 3, "", 'odd "name"\n\\'),
        measured("größe", 3, "", '日本 {x="y"} \udc80\x00\x1b[31m'),
    )
    assert EVIL in text
    done = subprocess.run(
        [tool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
