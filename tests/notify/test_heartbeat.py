"""The heartbeat: what it says, how often, and that it holds nobody up."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.web import Answer, Fault, WebServer
from tests.waiting import AT_ONCE, wait_until
from watchdogd.config.loading import parse
from watchdogd.config.models import Config
from watchdogd.errors import ConfigError
from watchdogd.notify.dead_mans_switch import Heartbeat, heartbeat_of


@pytest.fixture
def beat(endpoint: WebServer) -> Iterator[Heartbeat]:
    """A heartbeat whose repeats are far apart."""
    heartbeat = Heartbeat(f"{endpoint.url}/ping/secret", every=3600, timeout=0.6)
    yield heartbeat
    heartbeat.stop(5)


def _arrived(endpoint: WebServer, count: int) -> list[tuple[str, str]]:
    """Path and body of the first `count` pings."""
    wait_until(lambda: len(endpoint.requests) >= count, 10, f"{count} pings have arrived")
    return [(request.path, request.body.decode()) for request in endpoint.requests]


def test_a_good_round_pings_and_a_bad_one_says_why(endpoint: WebServer, beat: Heartbeat) -> None:
    beat.good()
    assert _arrived(endpoint, 1) == [("/ping/secret", "")]
    beat.bad("the history cannot be written: no space left on device")
    pings = _arrived(endpoint, 2)
    assert pings[1] == ("/ping/secret/fail", "the history cannot be written: no space left on device")
    assert [request.method for request in endpoint.requests] == ["POST", "POST"]


def test_the_same_is_said_once_in_every(endpoint: WebServer, beat: Heartbeat) -> None:
    for _ in range(5):
        beat.good()
        _arrived(endpoint, 1)
    beat.bad("x")
    _arrived(endpoint, 2)
    beat.bad("y")
    beat.good()
    assert [path for path, _ in _arrived(endpoint, 3)] == [
        "/ping/secret",
        "/ping/secret/fail",
        "/ping/secret",
    ]


def test_it_is_said_again_after_every(endpoint: WebServer) -> None:
    beat = Heartbeat(endpoint.url, every=0.2)
    beat.good()
    _arrived(endpoint, 1)
    time.sleep(0.25)
    beat.good()
    _arrived(endpoint, 2)
    beat.stop(5)


def test_a_query_stays_at_the_end(endpoint: WebServer) -> None:
    beat = Heartbeat(f"{endpoint.url}/ping/?rid=1", every=60)
    beat.bad("x")
    assert _arrived(endpoint, 1)[0][0] == "/ping/fail?rid=1"
    beat.stop(5)


def test_a_monitor_that_hangs_holds_no_round_up(endpoint: WebServer) -> None:
    beat = Heartbeat(f"{endpoint.url}/ping/secret", every=3600, timeout=2 * AT_ONCE)
    endpoint.behave([Fault.HANG])
    beat.good()
    _arrived(endpoint, 1)
    began = time.monotonic()
    beat.bad("meanwhile")
    beat.good()
    assert time.monotonic() - began < AT_ONCE
    endpoint.release()
    assert [path for path, _ in _arrived(endpoint, 2)] == ["/ping/secret", "/ping/secret"]
    beat.stop(5)


def test_a_ping_that_failed_is_said_by_the_next_round(endpoint: WebServer, beat: Heartbeat) -> None:
    endpoint.behave([Answer(404, "not found")])
    beat.good()
    wait_until(lambda: beat.trouble, 10, "the failure is seen")
    assert beat.trouble == "heartbeat: 127.0.0.1 answered 404: not found"
    beat.good()
    wait_until(lambda: not beat.trouble, 10, "the next ping has gone")


def test_stop_waits_for_the_ping_that_is_on_its_way(endpoint: WebServer) -> None:
    beat = Heartbeat(endpoint.url, every=60)
    beat.good()
    beat.stop(10)
    assert len(endpoint.requests) == 1
    beat.good()
    assert len(endpoint.requests) == 1


def test_without_a_configuration_it_does_nothing() -> None:
    beat = heartbeat_of(Config())
    beat.good()
    beat.bad("x")
    beat.stop(1)


def test_a_missing_secret_and_a_wrong_address_are_configuration_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HEARTBEAT_URL", raising=False)
    config = parse('[heartbeat]\nurl = "env:HEARTBEAT_URL"\n', Path("config.toml"))
    with pytest.raises(ConfigError, match=r"heartbeat\.url: environment variable HEARTBEAT_URL"):
        heartbeat_of(config)
    monkeypatch.setenv("HEARTBEAT_URL", "hc-ping.com/secret")
    with pytest.raises(ConfigError) as caught:
        heartbeat_of(config)
    assert "secret" not in str(caught.value)
