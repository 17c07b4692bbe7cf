"""README.md: its picture is what `status` prints, its configuration loads, its verbs exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.cli.test_overview import NOW, picture, seen, shown, stalled
from watchdogd import cli
from watchdogd.config.loading import parse
from watchdogd.units import iso

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [text for name, text in fences if name == language]


def evening() -> dict[str, Any]:
    """One run that hangs, one that is well, a disk that fills."""
    hang = "stalled, no output for 41m (limit 20m), at iteration 81,240/95,000"
    return picture(
        seen("moe-3b/job_liveness", running=1, waiting=2, time_left=9.3 * 3600),
        seen("moe-3b/log_staleness", age=4, progress=41200, total=90000, iteration_time=2.41),
        seen("moe-3b/gpu_health", gpus=64, utilisation=97, power=412),
        seen("moe-3b/memory_leak", subject="n1", left=211e9),
        seen("xl-30b/job_liveness", running=1, waiting=0, time_left=3.5 * 3600),
        stalled(
            seen(
                "xl-30b/log_staleness",
                "CRITICAL",
                age=2460,
                progress=81240,
                total=95000,
                iteration_time=104,
            )
        ),
        seen("xl-30b/gpu_health", gpus=96, utilisation=99, power=126),
        seen("xl-30b/memory_leak", subject="n1", left=97e9),
        seen("scratch/disk_quota", subject="bytes", free=212e12, total=1000e12, full_in=3.1 * 86400),
        seen("scratch/disk_quota", subject="inodes", free=61e6, total=100e6),
        holder="process 4711 on cpu7 (job 88412)",
        link={"job_id": "88412", "node": "cpu7", "successor": {"job_id": "88413", "state": "PENDING"}},
        incidents=[
            {
                "id": 7,
                "check": "xl-30b/log_staleness",
                "subject": "",
                "status": "CRITICAL",
                "state": "open",
                "opened_at": iso(NOW - 1260),
                "since": iso(NOW - 2460),
                "summary": hang,
            }
        ],
    )


def test_the_picture_is_what_status_prints() -> None:
    assert "$ watchdogd status\n" + "\n".join(shown(evening(), place="~/.watchdogd")) + "\n" in blocks(
        "console"
    )


def test_its_configuration_loads(tmp_path: Path) -> None:
    for text in blocks("toml"):
        assert parse(text, tmp_path / "config.toml")


def test_its_verbs_exist() -> None:
    text = "".join([*blocks(""), *blocks("console")])
    named = set(re.findall(r"^(?:\$ )?watchdogd ([a-z-]+)", text, re.MULTILINE))
    assert named >= {"init", "watch", "doctor", "notify", "start", "status"}
    assert named <= set(cli.VERBS)
