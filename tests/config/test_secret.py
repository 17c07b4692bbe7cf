"""Secrets do not show: not by what a server repeats, nor by what libraries log, nor in printed addresses."""

from __future__ import annotations

import base64
import logging
import smtplib
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.notify.values import letter
from tests.servers.web import Answer, WebServer
from watchdogd.config.secret import Secret, masked, secret_parts, withhold, without_passwords
from watchdogd.doctor.delivery import judge_exported
from watchdogd.errors import ConfigError, DeliveryError, HistoryError
from watchdogd.history.database import Database
from watchdogd.home.layout import Home
from watchdogd.notify.channels.apprise import Apprise
from watchdogd.notify.channels.email import Account, Mail
from watchdogd.notify.channels.slack import Bot
from watchdogd.notify.channels.webhook import JsonWebhook
from watchdogd.notify.dead_mans_switch import Heartbeat
from watchdogd.system import command

CANARY = "canary-7f3a91"
PATH = f"/services/T0/{CANARY}"


def repeated(request: object) -> Answer:
    """What many servers say of an address that they do not know, beyond a long preamble."""
    said = f"{getattr(request, 'path')} {dict(getattr(request, 'headers'))}"  # noqa: B009 - of any request
    return Answer(404, "x" * 150 + said)


def test_an_address_that_the_server_repeats_is_masked_before_it_is_cut(endpoint: WebServer) -> None:
    endpoint.behave(repeated)
    with pytest.raises(DeliveryError, match="answered 404") as caught:
        JsonWebhook(f"{endpoint.url}{PATH}?key={CANARY}").send(letter(), ())
    assert CANARY[:6] not in str(caught.value)
    assert "****" in str(caught.value)


def test_a_token_that_the_server_repeats_is_masked(endpoint: WebServer) -> None:
    endpoint.behave(Answer(200, f'{{"ok": false, "error": "no such token: {CANARY}"}}'))
    with pytest.raises(DeliveryError, match=r"refused: no such token: \*\*\*\*"):
        Bot(CANARY, "#training", endpoint.url).send(letter(), ())


@pytest.mark.parametrize("sent", ["canary/7f 3ä", "x"])
def test_a_login_in_an_address_is_masked_in_all_its_forms(endpoint: WebServer, sent: str) -> None:
    endpoint.behave(lambda request: Answer(404, str(request.headers)))
    url = endpoint.url.replace("//", f"//watch:{quote(sent, safe='')}@")
    with pytest.raises(DeliveryError, match="answered 404") as caught:
        JsonWebhook(f"{url}/hook").send(letter(), ())
    basic = base64.b64encode(f"watch:{sent}".encode("latin-1")).decode()
    assert basic in str(endpoint.requests[-1].headers)
    assert basic[:8] not in str(caught.value)
    assert "****" in str(caught.value)


def test_a_login_that_cannot_be_sent_is_told_when_it_is_configured() -> None:
    with pytest.raises(ConfigError, match="login has characters that HTTP cannot send"):
        JsonWebhook("https://u:p%E2%82%AC@host.test/x")
    with pytest.raises(ConfigError, match="letters of ASCII alone"):
        Mail(Account(("smtp://localhost",), "w@x.test", ("a@x.test",), "w", "pä"))


SENT = [CANARY, base64.b64encode(CANARY.encode()), base64.b64encode(f"\0w\0{CANARY}".encode())]


@pytest.mark.parametrize("said", SENT)
def test_a_password_that_the_server_repeats_is_masked(
    monkeypatch: pytest.MonkeyPatch, said: str | bytes
) -> None:
    def refuse(*_: object) -> None:
        word = said if isinstance(said, bytes) else said.encode()
        raise smtplib.SMTPAuthenticationError(535, b"5.7.8 authentication failed: " + word)

    monkeypatch.setattr("watchdogd.notify.channels.email._connected", refuse)
    account = Account(("smtp://localhost",), "w@x.test", ("a@x.test",), "w", CANARY)
    with pytest.raises(DeliveryError, match=r"535 5.7.8 authentication failed: \*\*\*\*=*$"):
        Mail(account).send(letter(), ())


def test_strange_headers_make_no_library_log_the_address(
    endpoint: WebServer, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.behave(
        Answer(404, "no", (("Connection", "close"), ("X-Odd", "1\r\nno colon here\r\nX-More: 2")))
    )
    with caplog.at_level(logging.DEBUG, logger="root"), pytest.raises(DeliveryError):
        JsonWebhook(f"{endpoint.url}{PATH}").send(letter(), ())
    assert CANARY not in caplog.text


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # apprise's own
def test_apprise_logs_no_address(endpoint: WebServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="root"):
        with pytest.raises(ConfigError):
            Apprise(f"nonsense://{CANARY}")
        endpoint.behave(repeated)
        sender = Apprise(endpoint.url.replace("http://", f"json://user:{CANARY}@") + PATH)
        with pytest.raises(DeliveryError):
            sender.send(letter(), ())
    assert CANARY not in caplog.text


def test_a_heartbeat_that_is_refused_tells_no_address(endpoint: WebServer) -> None:
    endpoint.behave(repeated)
    heartbeat = Heartbeat(f"{endpoint.url}{PATH}", 60.0)
    heartbeat.good()
    heartbeat.stop(60)
    assert "answered 404" in heartbeat.trouble
    assert CANARY not in heartbeat.trouble


def test_short_words_and_the_host_are_no_secrets() -> None:
    assert masked("no api here, says hooks.example", secret_parts("https://hooks.example/api/x")) == (
        "no api here, says hooks.example"
    )


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://w:{CANARY}@db/x",
        f"postgresql://w:a/{CANARY}@db/x",
        f"postgresql://w@db/x?password={CANARY}",
        f"postgresql://w@db/x?sslmode=require&sslpassword={CANARY}",
    ],
)
def test_passwords_of_the_history_show_nowhere(tmp_path: Path, url: str) -> None:
    assert CANARY not in without_passwords(url)
    assert CANARY not in Database(url, Home(tmp_path)).place


def test_an_address_that_is_none_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(HistoryError) as caught:
        Database(f"postgresql://w@db:{CANARY}/x", Home(tmp_path))
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("value", [f"{CANARY}\r\nX: y", f"{CANARY}\x1b[31m"])
def test_a_variable_with_more_than_the_secret_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("OUR_HOOK", value)
    with pytest.raises(ConfigError, match="OUR_HOOK has line breaks") as caught:
        Secret("env:OUR_HOOK").reveal()
    assert CANARY not in str(caught.value)


def test_a_line_end_behind_the_secret_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_HOOK", f"{CANARY}\r\n")
    assert Secret("env:OUR_HOOK").reveal() == CANARY


def test_a_broken_configuration_names_its_secrets_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_HOOK", CANARY)
    (tmp_path / "config.toml").write_text("[channels.slack\nwebhook_url = 'env:OUR_HOOK'\n")
    withhold(Home(tmp_path))
    assert "OUR_HOOK" not in command.environment()
    withhold(Home(tmp_path / "none"))


def test_no_command_gets_what_is_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_HOOK", CANARY)
    assert CANARY in command.ask(["env"], deadline=60).output
    command.withhold(["OUR_HOOK"])
    assert CANARY not in command.ask(["env"], deadline=60).output
    assert command.environment({"OUR_HOOK": CANARY})["OUR_HOOK"] == CANARY


@pytest.mark.parametrize(
    ("flags", "reference", "told"),
    [
        ("job_comment,JOB_ENV", "env:OUR_HOOK", 1),
        ("job_comment", "env:OUR_HOOK", 0),
        ("job_env", "file:/keys/hook", 0),
    ],
)
def test_a_site_that_keeps_environments_is_told_of(flags: str, reference: str, told: int) -> None:
    found = list(judge_exported((("channels.s.url", Secret(reference)),), {"AccountingStoreFlags": flags}))
    assert len(found) == told
    assert all("keeps the environment of jobs" in each.text for each in found)
