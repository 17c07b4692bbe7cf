"""`incidents` folds like `status` and says why no message comes of one; `status` right after `start`."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from watchdogd.cli import main, status
from watchdogd.daemon.status_file import snapshot
from watchdogd.history.models import Record
from watchdogd.history.store import Store
from watchdogd.home import markers
from watchdogd.home.inbox import Request
from watchdogd.home.layout import Home
from watchdogd.home.lease import Lease
from watchdogd.incidents.evaluate import evaluate
from watchdogd.incidents.models import AlertPolicy, AlertState, Observation
from watchdogd.plugin import Result, critical, ok
from watchdogd.units import iso

LINK, LOG = "fabric", "glide/log_staleness"
LONG = "stalled, no output for 12m (limit 3m), at iteration 40,512/250,000 of the second phase"


def lived(home: Home) -> None:
    """A link that came and went four times and is up now, and a silenced run that is stalled."""
    policies = dict.fromkeys((LINK, LOG), AlertPolicy(confirm=1, every=60.0))
    alerts, now = AlertState(), time.time() - 900
    latest: dict[str, tuple[Observation, ...]] = {}
    with closing(Store.at("sqlite:///history.db", home)) as store:
        for at in range(8):
            now += 60.0
            link: Result = ok("ib0 is up") if at % 2 else critical("ib0 is down")
            seen = (
                Observation(LINK, "", LINK, link, now),
                Observation(LOG, "glide", "glide", critical(LONG), now),
            )
            asked = [Request("silence", "bo", now, target="glide", until=now + 7200)] if at == 2 else []
            alerts, events = evaluate(alerts, seen, policies, now, requests=asked)
            store.record(Record(now, seen, alerts=alerts, events=events))
            latest = {each.check: (each,) for each in seen}
    shown = snapshot(alerts, latest, now=now, link=None, gaps=(), every=60.0, troubles=(), policies=policies)
    home.status.write_text(json.dumps(shown))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    home.config.write_text("")
    return home


def test_incidents_fold_at_the_width_and_say_why_no_message_comes(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lived(home)
    monkeypatch.setenv("COLUMNS", "80")
    for words in (["incidents"], ["incidents", "--all"]):
        assert main(["--home", str(home.path), *words]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80
        said = " ".join(" ".join(lines).split())
        assert (
            f", silenced by bo until {time.strftime('%H:%M', time.localtime(time.time() + 6780))[:2]}" in said
        )
        assert LONG in said
        assert ", comes and goes, good just now: fabric: ib0 is down" in said
        assert lines[1].startswith("      "), "the rest of an incident stands below its text"
    monkeypatch.delenv("COLUMNS")
    assert main(["--home", str(home.path), "incidents"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2, "grep finds one line for each in a pipe"


def test_right_after_start_status_shows_no_link_of_the_chain_before(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    old = {
        "job_id": "13",
        "state": "RUNNING",
        "node": "node1",
        "successor": {"job_id": "14", "state": "PENDING"},
    }
    left = {
        "last_round": iso(time.time() - 5),
        "round_every": 60.0,
        "incidents": [],
        "gaps": [],
        "checks": [],
    }
    home.status.write_text(json.dumps({**left, "link": old}))
    lease = Lease(home, "31")
    assert lease.acquire() is None
    try:
        assert main(["--home", str(home.path), "status"]) == 0
        said = capsys.readouterr().out
        assert "starting: its first round is not done yet" in said
        assert "job 13" not in said
        assert status.read(home)["link"] is None
        home.status.write_text(json.dumps({**left, "link": {**old, "job_id": "31"}}))
        assert "starting" not in status.read(home)
        markers.mark_stopped(home, "new disks")
        markers.lift_stop(home)
        assert status.read(home)["starting"], "no round since it was started again"
        os.utime(home.path / ".stopped", (0, 0))
        assert "starting" not in status.read(home)
    finally:
        lease.release()
