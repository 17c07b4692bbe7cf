"""The page of services: each table is sent by the real library, to a server in the place of the service."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus, urlsplit

import pytest
import requests

from tests.docs.pages import FOLDER, tables
from tests.notify.conftest import Keep
from tests.notify.values import letter
from tests.servers.web import Answer, Request, WebServer
from watchdogd.config.loading import parse
from watchdogd.home.layout import Home
from watchdogd.notify.senders import sender_of

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # apprise's own

SERVICES = {re.findall(r"\[channels\.(\w+)\]", text)[0]: text for text in tables(FOLDER / "services.md")}
ARRIVES = {
    "mattermost": "chat.example.org/hooks/3ccdd113474722377935511fc85d3dd4",
    "ntfy": "ntfy.example.org/",
    "gotify": "gotify.example.org/message",
    "grafana": "oncall-prod-eu-west-0.grafana.net/oncall/integrations/v1/formatted_webhook/AbCdEfGhIjKlMnO/",
    "teams": "prod-01.westeurope.logic.azure.com/workflows/643e69f83c8944438d68119179a10a64/triggers/",
    "telegram": "api.telegram.org/bot123456789:AAEhBOweik9ad9r_QXMENQjcrGbqCr4K-bc/sendMessage",
    "discord": "discord.com/api/webhooks/123456789012345678/abcDEF-tokenOfTheWebhook",
    "matrix": "matrix.example.org/_matrix/client/",
    "zulip": "example.zulipchat.com/api/v1/messages",
    "signal": "signal.example.org/v2/send",
    "sms": "api.twilio.com/2010-04-01/Accounts/",
    "modem": "sms.example.org/send",
}
"""Host and path at which each service's own documentation has messages posted; the last request counts."""


def _answer(request: Request) -> Answer:
    """What all of them are content with: each reads its own word of it."""
    if "/.well-known/" in request.path:  # it delegates to no other server
        return Answer(404)
    if "/hooks/" in request.path:
        return Answer(200, "ok")
    said = (
        '{"ok": true, "result": "success", "room_id": "!a:example.org", "event_id": "$e", "user_id": "@w:x"}'
    )
    created = "twilio" in request.path or "signal" in request.path
    return Answer(201 if created else 200, said, (("Content-Type", "application/json"),))


@pytest.fixture
def world(endpoint: WebServer, monkeypatch: pytest.MonkeyPatch) -> WebServer:
    """Every host is our server, which sees it as the first part of the path."""
    send = requests.adapters.HTTPAdapter.send

    def redirected(self: Any, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        there = urlsplit(str(request.url))
        request.url = f"{endpoint.base}/{there.netloc}{there.path}"
        return send(self, request, **options)

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", redirected)
    endpoint.behave(_answer)
    return endpoint


@pytest.mark.parametrize("name", SERVICES)
def test_the_line_of_the_page_reaches_its_service(
    world: WebServer, keep: Keep, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMS_AUTHORIZATION", "Basic dXNlcjpzZWNyZXQ=")
    config = parse(SERVICES[name], tmp_path / "config.toml")
    keep(sender_of(config, name, Home(tmp_path))).send(letter(), ())
    request = world.requests[-1]
    assert request.path.removeprefix("/").startswith(ARRIVES[name])
    assert "run-17: no new line for 25m" in unquote_plus(request.body.decode())


def test_every_service_of_the_page_is_tried() -> None:
    assert SERVICES.keys() == ARRIVES.keys()


def test_grafana_hears_the_end_under_the_same_name(world: WebServer, keep: Keep, tmp_path: Path) -> None:
    config = parse(SERVICES["grafana"], tmp_path / "config.toml")
    sender = keep(sender_of(config, "grafana", Home(tmp_path)))
    for status in ("CRITICAL", "RESOLVED"):
        sender.send(letter(status=status), ())
    began, ended = (request.json() for request in world.requests)
    assert (began["state"], ended["state"]) == ("alerting", "ok")
    assert began["alert_uid"] == ended["alert_uid"] == "incident-17"
