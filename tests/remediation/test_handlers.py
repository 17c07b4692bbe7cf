"""exec: what is told of a program that fails."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from watchdogd.home.layout import Home
from watchdogd.incidents.models import Incident
from watchdogd.plugin import Status
from watchdogd.remediation.executor import do
from watchdogd.remediation.models import Action, ActionRecord, ActionTask

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "echo said; echo no route to the pager >&2; exit 42",
            "ended with exit code 42: no route to the pager",
        ),
        ("echo said; exit 3", "ended with exit code 3: said"),
        ("exit 1", "ended with exit code 1"),
        ("kill -9 $$", "ended by SIGKILL"),
        ("yes word | head -c 200001; exit 3", "ended with exit code 3"),
    ],
)
def test_a_failed_exec_says_how_it_ended_and_what_it_said(script: str, said: str, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make()
    incident = Incident(
        7, "glide/log_staleness", "glide", "glide", "", Status.CRITICAL, time.time(), "silent"
    )
    record = ActionRecord(7, "glide", "on_hang", Action("exec", ("sh", "-c", script)), time.time())
    outcome = do(ActionTask(record, incident, home))
    assert (outcome.text, outcome.ok) == (said, False)
