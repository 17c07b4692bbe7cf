"""Alertmanager as a channel, against the real one where Debian's package is installed."""

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.notify.conftest import Keep
from tests.notify.values import NOON, letter, message
from tests.ports import port_of, reserve_port
from tests.servers.web import WebServer
from tests.waiting import wait_until
from watchdogd.notify.channels.alertmanager import Alertmanager, alerts
from watchdogd.notify.notification import Item
from watchdogd.units import iso

SERVER = shutil.which("prometheus-alertmanager")


def _stands(alert: dict[str, Any], now: float) -> bool:
    return bool(alert["endsAt"] > iso(now))


def test_an_incident_stands_with_its_severity_alone() -> None:
    found = {alert["labels"]["severity"]: alert for alert in alerts(message())}
    assert found.keys() == {"critical", "warning", "unknown"}
    assert [severity for severity, alert in found.items() if _stands(alert, NOON)] == ["critical"]
    assert found["critical"]["startsAt"] == iso(NOON - 1500)
    assert found["critical"]["labels"]["incident"] == "17"


def test_labels_are_the_same_through_an_incidents_life() -> None:
    def labels(status: str) -> list[dict[str, str]]:
        item = Item(status, "run/log_staleness", f"now {status}", incident=17, since=NOON - 1500)
        return [alert["labels"] for alert in alerts(message(items=(item,)))]

    assert labels("WARNING") == labels("CRITICAL") == labels("RESOLVED")


def test_what_is_resolved_stands_no_more() -> None:
    item = Item("RESOLVED", "run/log_staleness", "well", incident=17, since=NOON - 1500)
    assert not any(_stands(alert, NOON) for alert in alerts(message(items=(item,))))


def test_a_message_without_incidents_is_an_alert_too() -> None:
    (alert,) = alerts(message(status="WARNING", incidents=(), items=()))
    assert alert["labels"]["severity"] == "warning"
    for status in ("INFO", "ACTION", "OK"):
        (alert,) = alerts(message(status=status, incidents=(), items=(Item(status, "x", "restarted"),)))
        assert alert["labels"]["severity"] == "info"


def test_it_posts_to_the_version_2_api(endpoint: WebServer, keep: Keep) -> None:
    keep(Alertmanager(f"{endpoint.url}/prefix/")).send(letter(), ())
    assert endpoint.requests[0].path == "/prefix/api/v2/alerts"
    assert len(endpoint.requests[0].json()) == 3


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[str]:
    """The base URL of a real Alertmanager."""
    if SERVER is None:
        pytest.fail("prometheus-alertmanager is not installed: scripts/packages installs it")
    config = tmp_path / "alertmanager.yml"
    config.write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    with reserve_port() as holder:
        address = f"127.0.0.1:{port_of(holder)}"
        options = [f"--config.file={config}", f"--storage.path={tmp_path}", f"--web.listen-address={address}"]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                [SERVER, *options, "--cluster.listen-address="], stdout=log, stderr=log
            )
        try:
            wait_until(
                lambda: _ready(address), 30, f"Alertmanager answers (see {tmp_path / 'log'})", every=0.2
            )
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(240)


def _ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _active(url: str) -> list[str]:
    """Severities of the alerts that stand there."""
    with urllib.request.urlopen(f"{url}/api/v2/alerts?active=true", timeout=5) as answer:
        return [alert["labels"]["severity"] for alert in json.load(answer)]


@pytest.mark.debian
def test_a_real_alertmanager_takes_an_incident_through_its_life(alertmanager: str, keep: Keep) -> None:
    sender = keep(Alertmanager(alertmanager))
    for status, standing in [("WARNING", ["warning"]), ("CRITICAL", ["critical"]), ("RESOLVED", [])]:
        now = time.time() - 1
        item = Item(status, "run/log_staleness", "no new line", "node5/gpu3", 17, now - 1500)
        sender.send(letter(name=status, status=status, items=(item,), at=now), ())
        _wait_for(alertmanager, standing)


def _wait_for(url: str, standing: list[str]) -> None:
    wait_until(lambda: _active(url) == standing, 10, f"{standing} stand there")
