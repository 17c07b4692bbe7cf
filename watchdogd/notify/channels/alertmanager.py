"""A Prometheus Alertmanager as a channel: POST /api/v2/alerts (its OpenAPI document, v2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from watchdogd.home.layout import Home
from watchdogd.notify.channel import Channel, Item, Message, Notification, Sender, WebSecretField
from watchdogd.units import iso

SEVERITIES = ("critical", "warning", "unknown")

STANDS = 30 * 86_400.0
"""Seconds until an alert expires by itself; Alertmanager's default is minutes."""


class AlertmanagerChannel(Channel):
    """Keys of type alertmanager: the base URL of a Prometheus Alertmanager."""

    example: ClassVar[str] = """
[channels.prometheus]
type = "alertmanager"                   # base URL of an Alertmanager
url  = "env:ALERTMANAGER_URL"
"""

    url: WebSecretField

    @property
    def standing(self) -> bool:
        """Return True: an alert is shown until its end is sent."""
        return True

    def make_sender(self, _home: Home) -> Sender:
        return Alertmanager(self.url.reveal())

    def try_connection(self, _home: Home) -> str:
        from watchdogd.notify.http_client import greet

        return greet(self.url.reveal())


class Alertmanager:
    """Sender to one Alertmanager."""

    def __init__(self, url: str) -> None:
        from watchdogd.notify.http_client import Web

        self._url = f"{url.rstrip('/')}/api/v2/alerts"
        self._web = Web(url, "url of the Alertmanager")

    def send(self, notification: Notification, _roots: Sequence[Notification], /) -> str:
        """Post the alerts of a message."""
        answer = self._web.post(self._url, list(alerts(notification.message)))
        if not 200 <= answer.status < 300:
            raise answer.error(self._web.host)
        return ""

    def close(self) -> None:
        self._web.close()


def alerts(message: Message) -> Iterator[dict[str, Any]]:
    """Yield an alert for each severity of an incident: the present one is firing, the others have ended.

    Labels identify an alert in Alertmanager, and `severity` is one, so a WARNING that turns CRITICAL is
    another alert, and the first must be ended. Ending an unknown alert does nothing there.
    """
    for item in message.items:
        for severity in SEVERITIES if item.incident is not None else ():
            yield _alert(message, item, severity, stands=severity == item.status.lower())
    if all(item.incident is None for item in message.items):
        yield _notice(message)


def _alert(message: Message, item: Item, severity: str, *, stands: bool) -> dict[str, Any]:
    labels = {
        "alertname": "watchdogd",
        "severity": severity,
        "target": message.target,
        "check": item.check,
        "incident": str(item.incident),
    }
    if item.subject:
        labels["subject"] = item.subject
    return {
        "labels": labels,
        "annotations": {"summary": item.summary, "description": message.body},
        "startsAt": iso(message.at if item.since is None else item.since),
        "endsAt": iso(message.at + STANDS if stands else message.at),
    }


def _notice(message: Message) -> dict[str, Any]:
    """Return the alert of a notice: it fires for a minute, so that it is forwarded."""
    return {
        "labels": {
            "alertname": "watchdogd-notice",
            "severity": "info" if message.status in ("INFO", "ACTION", "OK") else message.status.lower(),
            "target": message.target,
            "notice": message.thread,
        },
        "annotations": {"summary": message.headline, "description": message.body},
        "startsAt": iso(message.at),
        "endsAt": iso(message.at + 60.0),
    }
