"""HTTP under every misbehaviour: a deadline that holds, errors that show no secret, bounded answers."""

import email.utils
import hmac
import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.notify.conftest import Keep
from tests.notify.drip import dripping
from tests.notify.values import NOON, letter
from tests.servers.web import Answer, Fault, WebServer
from tests.waiting import AT_ONCE
from watchdogd.config.loading import parse
from watchdogd.errors import ConfigError, DeliveryError
from watchdogd.home.layout import Home
from watchdogd.notify.channel import Sender
from watchdogd.notify.channels.webhook import JsonWebhook
from watchdogd.notify.http_client import ANSWER_LIMIT, Web
from watchdogd.notify.senders import channel_of
from watchdogd.units import iso


def _refused(web: Web, url: str) -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        web.post(url, {})
    return caught.value


@pytest.mark.parametrize(
    "beginning",
    [
        b"HTTP/1.1 200 OK\r\nX-Drip: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nFFFF\r\n",
        b"",
    ],
)
def test_a_server_that_drips_is_cut_off_in_time(keep: Keep, beginning: bytes) -> None:
    with dripping(beginning, b"x") as port:
        url = f"http://127.0.0.1:{port}/secret"
        web = keep(Web(url, "url", timeout=0.6))
        began = time.monotonic()
        error = _refused(web, url)
        assert time.monotonic() - began < AT_ONCE
    assert str(error) == "127.0.0.1: no whole answer within 0.6 s"
    assert not error.permanent


def test_a_server_that_hangs_is_left_in_time_and_the_next_message_goes(
    endpoint: WebServer, keep: Keep
) -> None:
    endpoint.behave([Fault.HANG])
    web = keep(Web(endpoint.url, "url", timeout=0.6))
    began = time.monotonic()
    assert not _refused(web, endpoint.url).permanent
    assert time.monotonic() - began < AT_ONCE
    endpoint.release()
    assert web.post(endpoint.url, {}).status == 200


def test_an_endless_answer_fills_no_memory(keep: Keep) -> None:
    with dripping(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 3 * ANSWER_LIMIT, b"x") as port:
        url = f"http://127.0.0.1:{port}"
        assert len(keep(Web(url, "url")).post(url, {}).text) == ANSWER_LIMIT


def test_an_answer_that_is_no_http_is_a_failure(keep: Keep) -> None:
    with dripping(b"220 mail.example.org ESMTP\r\n", b"") as port:
        url = f"http://127.0.0.1:{port}/secret"
        error = _refused(keep(Web(url, "url", timeout=0.6)), url)
    assert "secret" not in str(error)


def test_a_name_that_nobody_knows_shows_no_path(keep: Keep) -> None:
    url = "http://nowhere.invalid/services/secret"
    error = _refused(keep(Web(url, "url")), url)
    assert str(error).startswith("nowhere.invalid: cannot be reached: ")
    assert "secret" not in str(error)
    assert not error.permanent


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 403, 404, 410, 413])
def test_a_no_is_permanent_and_redirects_are_not_followed(
    endpoint: WebServer, keep: Keep, status: int
) -> None:
    endpoint.behave(Answer(status, "no", (("Location", f"{endpoint.url}/elsewhere"),)))
    hook = keep(JsonWebhook(f"{endpoint.url}/hook"))
    with pytest.raises(DeliveryError) as caught:
        hook.send(letter(), ())
    assert caught.value.permanent
    assert str(caught.value) == f"127.0.0.1 answered {status}: no"
    assert [request.path for request in endpoint.requests] == ["/hook"]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_not_now_is_tried_again(endpoint: WebServer, keep: Keep, status: int) -> None:
    endpoint.behave(Answer(status, "later", (("Retry-After", "17"),)))
    with pytest.raises(DeliveryError) as caught:
        keep(JsonWebhook(endpoint.url)).send(letter(), ())
    assert not caught.value.permanent
    assert caught.value.retry_after == 17


@pytest.mark.parametrize(
    ("header", "low", "high"),
    [
        ("", 60, 3601),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("0", 0, 0),
    ],
    ids=["in an hour", "long ago", "now"],
)
def test_retry_after_may_be_a_date(
    endpoint: WebServer, keep: Keep, header: str, low: float, high: float
) -> None:
    header = header or email.utils.formatdate(time.time() + 3600, usegmt=True)
    endpoint.behave(Answer(503, "", (("Retry-After", header),)))
    after = keep(Web(endpoint.url, "url")).post(endpoint.url, {}).retry_after
    assert low <= after <= high


@pytest.mark.parametrize("header", ["soon", "-5", "inf", "nan", "", "Wed, 99 Foo 2015"])
def test_a_retry_after_that_makes_no_sense_is_none(endpoint: WebServer, keep: Keep, header: str) -> None:
    endpoint.behave(Answer(503, "", (("Retry-After", header),)))
    assert keep(Web(endpoint.url, "url")).post(endpoint.url, {}).retry_after is None


def test_an_error_page_becomes_one_short_line(endpoint: WebServer, keep: Keep) -> None:
    endpoint.behave(Answer(500, "<html>\n\x1b[31m" + "x" * 5000))
    error = keep(Web(endpoint.url, "url")).post(endpoint.url, {}).error("host")
    assert "\n" not in str(error)
    assert "\x1b" not in str(error)
    assert len(str(error)) < 250


def test_the_proxy_of_the_environment_is_used(
    endpoint: WebServer, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", endpoint.url)
    url = "http://hooks.example.org/services/x"
    assert keep(Web(url, "url")).post(url, {}).status == 200
    assert endpoint.requests[0].path == url


def test_a_proxy_that_is_down_is_named_as_such(
    endpoint: WebServer, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", endpoint.url)
    endpoint.down()
    url = "http://hooks.example.org/services/secret"
    error = _refused(keep(Web(url, "url")), url)
    assert "proxy" in str(error)
    assert "secret" not in str(error)


def test_one_connection_is_kept_for_many_messages(endpoint: WebServer, keep: Keep) -> None:
    web = keep(Web(endpoint.url, "url"))
    took = []
    for _ in range(50):
        began = time.monotonic()
        web.post(endpoint.url, {})
        took.append(time.monotonic() - began)
    # A connection that waits for acknowledgements takes 40 ms a message.
    assert sum(each < 0.03 for each in took[-30:]) > 5


def test_a_kept_connection_that_the_server_closed_is_no_failure_for_ever(
    endpoint: WebServer, keep: Keep
) -> None:
    web = keep(Web(endpoint.url, "url"))
    web.post(endpoint.url, {})
    endpoint.down()
    endpoint.up()
    assert web.post(endpoint.url, {}).status == 200


def test_the_json_body_is_as_documented(endpoint: WebServer, keep: Keep) -> None:
    keep(JsonWebhook(endpoint.url)).send(letter(), ())
    request = endpoint.requests[0]
    assert request.headers["content-type"] == "application/json; charset=utf-8"
    assert request.headers["idempotency-key"] == "incident-17-opened@slack"
    assert request.json() == {
        "version": 1,
        "key": "incident-17-opened@slack",
        "status": "CRITICAL",
        "target": "run-17",
        "headline": "[CRITICAL] run-17: no new line for 25m",
        "body": "Since noon.\n\n    iteration 812\n\nAnswer with:\n    watchdogd ack 17",
        "at": iso(NOON),
        "thread": "incident-17",
        "quiet": False,
        "items": [
            {
                "incident": 17,
                "status": "CRITICAL",
                "check": "run-17/log_staleness",
                "subject": "",
                "summary": "no new line",
                "since": iso(NOON - 1500),
            }
        ],
    }


@pytest.mark.parametrize("host", ["ho st", "[::1", "*x", "%zz", ".x", "example.org:99999", ""])
def test_an_address_that_is_none_is_found_before_the_first_message_and_not_repeated(host: str) -> None:
    with pytest.raises(ConfigError) as caught:
        JsonWebhook(f"https://{host}/T0KEN")
    assert str(caught.value) == "url of the webhook is no address: write it as https://host/path"


HOOK = '[channels.hook]\ntype = "webhook"\nurl = "{url}/hook"\n'


def _hook(endpoint: WebServer, keys: str, tmp_path: Path) -> Sender:
    """The sender of a webhook with these further keys."""
    config = parse(HOOK.format(url=endpoint.url) + keys, tmp_path / "config.toml")
    return channel_of(config, "hook").make_sender(Home(tmp_path))


def test_headers_and_the_signature_go_with_the_body(
    endpoint: WebServer, keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_AUTH", "Bearer t0p-s3cret-token")
    (tmp_path / "signing").write_text("s3cr3t-of-the-hook\n")
    keys = 'headers = { Authorization = "env:HOOK_AUTH", X-Priority = "5" }\nsecret = "file:signing"\n'
    keep(_hook(endpoint, keys, tmp_path)).send(letter(), ())
    [request] = endpoint.requests
    assert request.headers["authorization"] == "Bearer t0p-s3cret-token"
    assert request.headers["x-priority"] == "5"
    openssl = ["openssl", "dgst", "-sha256", "-hmac", "s3cr3t-of-the-hook", "-r"]
    said = subprocess.run(openssl, input=request.body, capture_output=True, check=True, timeout=60).stdout
    assert request.headers["x-hub-signature-256"] == f"sha256={said.decode().split()[0]}"
    assert request.json()["headline"] == letter().message.headline


def test_a_server_that_repeats_the_headers_shows_no_secret(
    endpoint: WebServer, keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_AUTH", "Bearer t0p-s3cret-token")
    endpoint.behave(Answer(401, "no: t0p-s3cret-token, s3cr3t-of-the-hook"))
    keys = 'headers = { Authorization = "env:HOOK_AUTH" }\nsecret = "s3cr3t-of-the-hook"\n'
    with pytest.raises(DeliveryError) as caught:
        keep(_hook(endpoint, keys, tmp_path)).send(letter(), ())
    assert str(caught.value).endswith("no: ****, ****")


@pytest.mark.parametrize(
    ("body", "sent", "kind"),
    [
        ('{"text": {{ headline | tojson }}}', b'{"text": "[CRITICAL] run-17: no new line for 25m"}', "json"),
        ("{{ status }} {{ target }}: {{ items | length }}", b"CRITICAL run-17: 1", "plain"),
        ("{% for each in items %}{{ each.incident }}={{ each.check }}{% endfor %}", None, "plain"),
    ],
)
def test_a_template_makes_the_body(
    endpoint: WebServer, keep: Keep, tmp_path: Path, body: str, sent: bytes | None, kind: str
) -> None:
    keep(_hook(endpoint, f"body = {json.dumps(body)}\nsecret = 'x'\n", tmp_path)).send(letter(), ())
    [request] = endpoint.requests
    assert request.body == (sent or b"17=run-17/log_staleness")
    assert kind in request.headers["content-type"]
    assert (
        request.headers["x-hub-signature-256"] == "sha256=" + hmac.digest(b"x", request.body, "sha256").hex()
    )


def test_a_header_of_ones_own_wins(endpoint: WebServer, keep: Keep, tmp_path: Path) -> None:
    keys = """body = "x"\nheaders = { Content-Type = "application/x-thing" }\n"""
    keep(_hook(endpoint, keys, tmp_path)).send(letter(), ())
    assert endpoint.requests[0].headers["content-type"] == "application/x-thing"


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ('body = "{{ statis }}"', "did you mean 'status'?"),
        ('body = "a\\n{{ status"', "line 2 is no Jinja2"),
        ('body = "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}"', "RecursionError"),
        ('body = "{{ items[0].incident }}"', "in a message without items"),
        ('body = "{{ 1 / 0 }}"', "ZeroDivisionError"),
        ('body = "{{ headline.__class__.__mro__ }}"', "unsafe"),
        ("body = \"{% include '/etc/passwd' %}\"", "TypeError"),
        ('headers = { "X Y" = "5" }', "is no name of a header"),
        ('headers = { Authorization = "Bearer env:TOKEN" }', "the whole value is the secret"),
        ("headers = 5", "headers"),
        ('secret = ""', "secret"),
    ],
)
def test_a_webhook_that_cannot_be_is_an_error_of_the_configuration(
    endpoint: WebServer, keys: str, wrong: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        _hook(endpoint, keys, tmp_path)
    assert wrong in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_secrets_of_headers_are_secrets(tmp_path: Path, endpoint: WebServer) -> None:
    keys = 'headers = { Authorization = "env:HOOK_AUTH", Plain = "shown-to-nobody" }\n'
    config = parse(HOOK.format(url=endpoint.url) + keys, tmp_path / "config.toml")
    assert "HOOK_AUTH" in {secret.variable for _, secret in config.secrets()}
    assert "shown-to-nobody" not in config.model_dump_json()
