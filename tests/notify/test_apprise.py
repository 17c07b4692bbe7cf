"""apprise as a channel: the real library, over its JSON service to a real server."""

import sys
from dataclasses import replace

import pytest

from tests.notify.values import letter
from tests.servers.web import Answer, WebServer
from watchdogd.errors import ConfigError, DeliveryError, PartlyDeliveredError
from watchdogd.notify.channels.apprise import Apprise

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # apprise's own


@pytest.fixture
def first(endpoint: WebServer) -> str:
    """A URL of apprise's that ends at our server."""
    return endpoint.url.replace("http://", "json://") + "/first"


def test_it_sends_headline_and_body(endpoint: WebServer, first: str) -> None:
    Apprise(first).send(letter(), ())
    sent = endpoint.requests[0].json()
    assert sent["title"] == "[CRITICAL] run-17: no new line for 25m"
    assert "    iteration 812" in sent["message"]
    assert sent["type"] == "failure"


def test_each_service_gets_it_once(endpoint: WebServer, first: str) -> None:
    sender = Apprise(f"{first}, {first.replace('first', 'second')}")
    endpoint.behave([Answer(200), Answer(500)])
    with pytest.raises(PartlyDeliveredError) as caught:
        sender.send(letter(), ())
    assert not caught.value.permanent
    sender.send(replace(letter(), receipt=caught.value.receipt), ())
    assert [request.path for request in endpoint.requests] == ["/first", "/second", "/second"]


def test_what_nobody_takes_is_a_failure_that_shows_no_secret(endpoint: WebServer) -> None:
    endpoint.behave(Answer(403))
    sender = Apprise(endpoint.url.replace("http://", "json://user:secret@"))
    with pytest.raises(DeliveryError) as caught:
        sender.send(letter(), ())
    assert not isinstance(caught.value, PartlyDeliveredError)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "nonsense://secret", "secret"])
def test_what_apprise_does_not_know_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Apprise(url)
    assert "secret" not in str(caught.value)


def test_where_apprise_is_missing_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(ConfigError, match=r"pip install 'watchdogd\[apprise\]'"):
        Apprise("json://localhost")
