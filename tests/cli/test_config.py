"""What `watchdogd config` prints: the configuration as people write it, and as TOML reads it."""

from __future__ import annotations

import json
import time
import tomllib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab import zones
from watchdogd.cli import main

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
[daemon]
timeout = "45s"
[history]
url = "postgresql://lab:secret-word@db.test/lab"
keep = "90d"
[alerts]
repeat_every = "4h"
maintenance = [{ cron = "0 2 * * 0", for = "2h", targets = ["scratch"] }]
[channels.mail]
type = "email"
smtp = "smtp://localhost:25"
user = "lab"
password = "secret-word"
from = "watchdog@example.org"
to = ["team@example.org"]
[runs."mo e.ü"]
log = "/lab/it's \\"quoted\\".log"
stale_after = "1h30m20s"
checkpoint_every = "3h"
quiet = [{ match = 'saving \\d+', allow = '40m' }]
[runs.plain]
stale_after = "auto"
log = "x.log"
[disks.scratch]
path = "."
warn_free = "10TB"
full_within = "3d"
"""


@pytest.fixture
def printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    tmp_path.chmod(0o700)
    (tmp_path / "config.toml").write_text(CONFIG)
    assert main(["--home", str(tmp_path), "config"]) == 0
    return capsys.readouterr().out


def test_durations_are_told_as_they_are_written(printed: str) -> None:
    for line in (
        'daemon.timeout = "45s"',
        'daemon.interval = "1m"',
        'history.keep = "90d"',
        'alerts.repeat_every = "4h"',
        'runs."mo e.ü".stale_after = "5420s"',
        'runs."mo e.ü".checkpoint_every = "3h"',
        'runs.plain.stale_after = "auto"',
        'disks.scratch.full_within = "3d"',
    ):
        assert line in printed.splitlines()
    assert '"allow": "40m"' in printed
    assert '"for": "2h"' in printed
    assert "secret-word" not in printed


def test_lines_of_one_value_are_toml(printed: str) -> None:
    lines = [line for line in printed.partition("\n\n")[0].splitlines() if "= [{" not in line]
    found: dict[str, Any] = tomllib.loads("\n".join(lines))
    assert found["runs"]["mo e.ü"]["log"].endswith("""it's "quoted".log""")
    assert found["channels"]["mail"]["to"] == ["team@example.org"]
    assert found["actions"]["dry_run"] is False


def config_of(home: Path, alerts: str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    home.chmod(0o700)
    (home / "config.toml").write_text(f"[alerts]\n{alerts}\n")
    code = main(["--home", str(home), "config", *words])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_the_next_three_windows_of_each_maintenance_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime(2027, 3, 27, 12, tzinfo=UTC).timestamp()
    monkeypatch.setattr(time, "time", lambda: now)
    entries = """maintenance = [
        { cron = "0 2 * * 7", for = "2h", targets = ["scratch", "home"] },
        { cron = "0 9 * * mon", for = "30m", timezone = "Asia/Tokyo" },
    ]"""
    with zones.local(zones.RULE):
        code, said = config_of(tmp_path, entries, capsys)
        assert (code, said.splitlines()[-2:]) == (
            0,
            [
                "maintenance 0 2 * * 7 for 2h, scratch, home: "
                "Sun 2027-03-28 03:00 CEST to Sun 2027-03-28 05:00 CEST; "
                "Sun 2027-04-04 02:00 CEST to Sun 2027-04-04 04:00 CEST; "
                "Sun 2027-04-11 02:00 CEST to Sun 2027-04-11 04:00 CEST",
                "maintenance 0 9 * * mon (Asia/Tokyo) for 30m, all targets: "
                "Mon 2027-03-29 02:00 CEST to Mon 2027-03-29 02:30 CEST; "
                "Mon 2027-04-05 02:00 CEST to Mon 2027-04-05 02:30 CEST; "
                "Mon 2027-04-12 02:00 CEST to Mon 2027-04-12 02:30 CEST",
            ],
        )
        code, said = config_of(tmp_path, entries, capsys, "--json")
    first, second = json.loads(said)["maintenance"]
    assert (code, first["cron"], first["timezone"], first["targets"]) == (
        0,
        "0 2 * * 7",
        None,
        ["scratch", "home"],
    )
    assert first["next"][0] == {"begin": "2027-03-28T03:00:00+02:00", "end": "2027-03-28T05:00:00+02:00"}
    assert (second["timezone"], len(second["next"])) == ("Asia/Tokyo", 3)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ('cron = "0 2 * * 8"', "alerts.maintenance.0.cron: '0 2 * * 8' is no crontab time (bad day-of-week)"),
        ('cron = "0 2 * * 0\\n0 3 * * 1"', "alerts.maintenance.0.cron: "),
        ("cron = 7", "alerts.maintenance.0.cron: "),
        (
            'cron = "@weekly", timezone = "Europe/Berln"',
            "maintenance.0.timezone: there is no time zone 'Europe/Berln'; did you mean 'Europe/Berlin'?",
        ),
        ('cron = "@weekly", timezone = ["UTC"]', "alerts.maintenance.0.timezone: "),
        ('cron = "@weekly", time_zone = "UTC"', "alerts.maintenance.0.time_zone: unknown key"),
    ],
)
def test_a_maintenance_that_makes_no_sense_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], entry: str, why: str
) -> None:
    code, said = config_of(tmp_path, f'maintenance = [{{ {entry}, for = "2h" }}]', capsys)
    assert code == 78
    assert said.count("\n") == 1
    assert why in said


@pytest.mark.parametrize(
    ("name", "verbs"),
    [(name, ("config", "config --json", "incidents")) for name in zones.ODD]
    + [
        (zones.RULE, ("tick", "check", "status", "history", "report -o PAGE", "stop")),
        ("ABC24", ("tick", "stop")),
    ],
    ids=lambda each: each.encode(errors="replace").decode()[:20] if isinstance(each, str) else each[0],
)
def test_no_time_zone_ends_a_verb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, verbs: tuple[str, ...]
) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "config.toml").write_text(
        '[alerts]\nmaintenance = [{ cron = "0 2 * * 0", for = "2h" }]\n[disks.scratch]\npath = "."\n'
    )
    with zones.local(name):
        for verb in verbs:
            code = main(["--home", str(tmp_path), *verb.replace("PAGE", f"{tmp_path}/page.html").split()])
            assert "error" not in capsys.readouterr().err, verb
            assert code in (0, 3 if verb == "status" else 0), verb
