"""What `watchdogd config` prints: the configuration as people write it, and as TOML reads it."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import pytest

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
