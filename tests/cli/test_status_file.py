"""A status.json that somebody else wrote: whatever its types, `status` says so and goes on by the history."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from watchdogd.cli import main
from watchdogd.system.account import user_name

INCIDENT = {"id": 7, "run": "tr4", "check": "tr4/log_staleness", "subject": None, "status": "CRITICAL",
            "state": "open", "opened_at": "2026-11-28T10:00:00+01:00", "resolved_at": None,
            "summary": "stale"}  # fmt: skip
SEEN = {"check": "scratch/disk_quota", "subject": "bytes", "run": None, "status": "OK", "summary": "room",
        "at": "2026-11-28T10:00:00+01:00", "metrics": {"free": {"value": 1.0, "unit": "B"}}}  # fmt: skip
PICTURE: dict[str, Any] = {"last_round": "2026-11-28T10:00:00+01:00", "round_every": 60.0, "link": None,
                           "incidents": [INCIDENT], "gaps": [], "checks": [SEEN], "silences": []}  # fmt: skip
WRONG: tuple[object, ...] = (None, 7, "²", [[]], [{}], {"a": 1}, 1e999)


def _with(key: str, value: object) -> dict[str, Any]:
    """The picture with one value replaced; a dot leads into the first entry of a list."""
    first, _, inner = key.partition(".")
    if not inner:
        return {**PICTURE, first: value}
    return {**PICTURE, first: [{**PICTURE[first][0], inner: value}]}


KEYS = (*PICTURE, "troubles", *(f"incidents.{key}" for key in INCIDENT), *(f"checks.{key}" for key in SEEN))


@pytest.mark.parametrize("key", KEYS)
def test_no_type_of_any_value_is_an_internal_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    (tmp_path / "config.toml").write_text("")
    tmp_path.chmod(0o700)
    for value in WRONG:
        (tmp_path / "status.json").write_text(json.dumps(_with(key, value)))
        form = ("--nagios",) if isinstance(value, list | float) else ()
        assert main(["--home", str(tmp_path), "status", *form]) in (0, 1, 2, 3)
        said = capsys.readouterr()
        assert "internal error" not in said.err
        assert said.out


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "7", '"x"', "9" * 5000, '{"incidents": [7]}', "null"])
def test_what_is_no_picture_is_said_to_be_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "config.toml").write_text("")
    tmp_path.chmod(0o700)
    (tmp_path / "status.json").write_text(text)
    for verb in (["status"], ["silence", "tr4", "--for", "1h"], ["ack", "7"]):
        assert main(["--home", str(tmp_path), *verb]) in (0, 1, 2, 3)
        assert "internal error" not in capsys.readouterr().err
    main(["--home", str(tmp_path), "status"])
    assert "trouble: " in capsys.readouterr().out


def test_a_pressed_switch_is_shown_before_any_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").write_text('[runs.tr4]\nlog = "x"\n')
    tmp_path.chmod(0o700)
    assert main(["--home", str(tmp_path), "init"]) == 0
    assert main(["--home", str(tmp_path), "kill-switch", "tr4", "--reason", "wrong\x1b[31m rate"]) == 0
    capsys.readouterr()
    main(["--home", str(tmp_path), "status"])
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(rf"kill switch of tr4 set by {user_name(os.geteuid())} \d+s ago: wrong .*rate", said)
    main(["--home", str(tmp_path), "status", "--json"])
    [switch] = json.loads(capsys.readouterr().out)["switches"]
    assert (switch["run"], switch["switch"]) == ("tr4", "kill")
    main(["--home", str(tmp_path), "kill-switch", "tr4", "--clear"])
    capsys.readouterr()
    main(["--home", str(tmp_path), "status"])
    assert "kill switch" not in capsys.readouterr().out
