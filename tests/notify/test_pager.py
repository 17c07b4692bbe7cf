"""Pagers through apprise: an incident is one incident there, with the real plugins against a local server."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import apprise
import pytest
import requests

from tests.notify.values import letter
from tests.servers.web import Answer, Request, WebServer
from watchdogd.errors import DeliveryError, PartlyDeliveredError
from watchdogd.notify.channels.apprise import SCHEMAS, Apprise, is_pager, schemas
from watchdogd.notify.notification import Item

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # apprise's own

UUID = "01234567-89ab-cdef-0123-456789abcdef"
LONG = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
KEY = "watchdogd-7f-incident-17"

Told = tuple[str, str]
"""The key of an incident, and what became of it: `open` or `closed`."""


def _field(key: str, action: str, closing: str) -> Callable[[Request], Told]:
    """How most services are told: both stand in the body."""

    def told(request: Request) -> Told:
        said = request.json()
        return said[key], "closed" if said.get(action, "") == closing else "open"

    return told


def _by_alias(request: Request) -> Told:
    """As Opsgenie documents it: an alert is made with its alias, and closed by it."""
    parts = urlsplit(request.path)
    if not parts.path.endswith("/close"):
        return request.json()["alias"], "open"
    assert parse_qs(parts.query) == {"identifierType": ["alias"]}
    return parts.path.split("/")[-2], "closed"


SERVICES = {
    "pagerduty": (f"pagerduty://{LONG}@{LONG}", _field("dedup_key", "event_action", "resolve")),
    "opsgenie": (f"opsgenie://{UUID}", _by_alias),
    "jira": (f"jira://{UUID}", _by_alias),
    "goalert": (f"goalert://localhost/{UUID}", _field("dedup", "action", "close")),
    "firehydrant": (f"firehydrant://{LONG}", _field("idempotency_key", "status", "CLOSED")),
    "splunk": (f"splunk://route@{UUID}", _field("entity_id", "message_type", "RECOVERY")),
    "ilert": (f"ilert://{LONG}", _field("alertKey", "eventType", "RESOLVE")),
    "squadcast": (f"squadcast://{LONG}", _field("event_id", "status", "resolve")),
    "opsimate": (f"opsimate://{LONG}@localhost", _field("id", "status", "resolved")),
    "incidentio": (f"incidentio://{LONG}/{LONG}", _field("deduplication_key", "status", "resolved")),
    "signl4": (f"signl4://{LONG}", _field("X-S4-ExternalID", "X-S4-Status", "resolved")),
    "pagertree": ("pagertree://int_abcdef0123", _field("id", "event_type", "resolve")),
}
ALL = pytest.mark.parametrize("name", SERVICES)


@pytest.fixture(autouse=True)
def _at_home(endpoint: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a plugin calls comes to our server, by real HTTP."""
    request = requests.Session.request

    def redirected(session: requests.Session, method: str, url: str, *args: Any, **more: Any) -> Any:
        parts = urlsplit(url)
        ours = urlsplit(endpoint.base)._replace(path=parts.path, query=parts.query)
        return request(session, method, ours.geturl(), *args, **more)

    monkeypatch.setattr(requests.Session, "request", redirected)
    monkeypatch.setattr(apprise.NotifyBase, "request_rate_per_sec", 0)
    endpoint.behave(Answer(200, json.dumps({"status": "ok", "requestId": "r-1", "id": 7, "eventId": "e-1"})))


def _sender(name: str) -> Apprise:
    return Apprise(SERVICES[name][0], "watchdogd-7f-")


def _told(endpoint: WebServer, name: str) -> list[Told]:
    return [SERVICES[name][1](request) for request in endpoint.requests]


def test_every_service_with_a_life_cycle_is_known_and_tested() -> None:
    found = set()
    for each in apprise.Apprise().details()["schemas"]:
        names = {*(each["protocols"] or ()), *(each["secure_protocols"] or ())}
        described = type("Described", (), {"template_args": each["details"]["args"]})
        if is_pager(described):
            found |= names
    assert found == SCHEMAS
    assert {schema for url, _ in SERVICES.values() for schema in schemas(url)} <= SCHEMAS


@ALL
def test_an_incident_is_opened_updated_and_closed_as_one(endpoint: WebServer, name: str) -> None:
    for status, item in (
        ("WARNING", "WARNING"),
        ("CRITICAL", "CRITICAL"),
        ("REMINDER", "CRITICAL"),
        ("RESOLVED", "RESOLVED"),
    ):
        told = letter(status=status, items=(Item(item, "c", "no new line", incident=17),))
        _sender(name).send(told, ())  # each by a process of its own
    assert _told(endpoint, name) == [(KEY, "open"), (KEY, "open"), (KEY, "open"), (KEY, "closed")]


@ALL
def test_what_the_service_refuses_is_not_sent(endpoint: WebServer, name: str) -> None:
    endpoint.behave(Answer(500))
    for status in ("CRITICAL", "RESOLVED"):
        with pytest.raises(DeliveryError):
            _sender(name).send(letter(status=status), ())


@ALL
def test_a_notice_is_sent_too_under_a_key_of_its_own(endpoint: WebServer, name: str) -> None:
    notice = letter(status="INFO", thread="notice-1", incidents=(), items=(Item("INFO", "c", "finished"),))
    _sender(name).send(notice, ())
    assert _told(endpoint, name) == [("watchdogd-7f-notice-1", "open")]


def test_one_message_of_several_incidents_is_told_one_by_one_and_only_the_rest_again(
    endpoint: WebServer,
) -> None:
    items = (Item("CRITICAL", "c", "full", incident=18), Item("RESOLVED", "c", "free", incident=17))
    both = letter(18, incidents=(17, 18), items=items)
    endpoint.behave([Answer(202), Answer(500)])
    with pytest.raises(PartlyDeliveredError) as caught:
        _sender("pagerduty").send(both, ())
    endpoint.behave(Answer(202))
    receipt = _sender("pagerduty").send(replace(both, receipt=caught.value.receipt), ())
    key = "watchdogd-7f-incident-"
    assert _told(endpoint, "pagerduty") == [
        (f"{key}18", "open"),
        (f"{key}17", "closed"),
        (f"{key}17", "closed"),
    ]
    assert receipt == "0:17 0:18"
    assert endpoint.requests[0].json()["payload"]["summary"].startswith("[CRITICAL] run-18: full")


def test_what_is_quiet_goes_to_pagers_alone(endpoint: WebServer) -> None:
    chat = endpoint.url.replace("http://", "json://") + "/chat"
    sender = Apprise(f"{chat}, {SERVICES['pagerduty'][0]}", "watchdogd-7f-")
    assert sender.send(letter(status="RESOLVED", quiet=True), ()) == "1:17"
    assert _told(endpoint, "pagerduty") == [(KEY, "closed")]


def test_what_the_url_says_of_key_and_action_gives_way(endpoint: WebServer) -> None:
    url = f"{SERVICES['pagerduty'][0]}?action=trigger&dedup=mine&group=six"
    Apprise(url, "watchdogd-7f-").send(letter(status="RESOLVED"), ())
    assert _told(endpoint, "pagerduty") == [(KEY, "closed")]


def test_schemas_of_one_or_several_urls() -> None:
    assert schemas("pagerduty://a@b, json://x SLACK://y") == {"pagerduty", "json", "slack"}
