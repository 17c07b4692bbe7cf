"""`watchdogd web`: on loopback alone, for whoever knows the token."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from tests.lab.processes import started
from tests.waiting import wait_until
from watchdogd.cli import main
from watchdogd.errors import HistoryError
from watchdogd.web.server import Document, Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _broken() -> str:
    raise HistoryError("the history is gone")


@pytest.fixture
def server() -> Iterator[Server]:
    documents = {
        "/": Document("text/html; charset=utf-8", lambda: "<p>page</p>"),
        "/metrics": Document("text/plain", lambda: "up 1\n"),
        "/broken": Document("text/plain", _broken),
    }
    server = Server(documents, "secret-token")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join(240)
    server.server_close()


def ask(server: Server, path: str, *, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.getheaders()), text


def test_only_loopback_hears(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("path", ["/", "/metrics", "/nothing", "/?token=wrong", "/?token=", "/?token=%C3%BC"])
def test_without_the_token_there_is_nothing(server: Server, path: str) -> None:
    status, _, text = ask(server, path)
    assert status == 401
    assert "page" not in text


def test_the_token_in_the_address_becomes_a_cookie(server: Server) -> None:
    status, headers, _ = ask(server, "/?token=secret-token")
    assert (status, headers["Location"]) == (303, "/")
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite=Strict" in headers["Set-Cookie"]
    status, headers, text = ask(server, "/", Cookie="watchdogd=secret-token")
    assert (status, text) == (200, "<p>page</p>")
    assert headers["Cache-Control"] == "no-store"


def test_metrics_take_a_bearer_or_the_token(server: Server) -> None:
    assert ask(server, "/metrics", Authorization="Bearer secret-token")[2] == "up 1\n"
    assert ask(server, "/metrics?token=secret-token")[2] == "up 1\n"


def test_another_name_for_this_address_is_refused(server: Server) -> None:
    assert ask(server, "/?token=secret-token", Host="evil.example")[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_another_page_can_ask_it_for_nothing_but_reading(server: Server, method: str) -> None:
    assert ask(server, "/?token=secret-token", method=method, Origin="https://evil.example")[0] == 501


def test_what_cannot_be_made_is_one_line(server: Server) -> None:
    status, _, text = ask(server, "/broken?token=secret-token")
    assert (status, text) == (503, "the history is gone\n")
    assert ask(server, "/nothing?token=secret-token")[0] == 404


@pytest.mark.slow
def test_the_verb_prints_an_address_that_works_and_keeps_its_token(tmp_path: Path) -> None:
    assert main(["--home", str(tmp_path / "home"), "init"]) == 0
    command = [sys.executable, "-m", "watchdogd", "web", "--home", str(tmp_path / "home"), "--port", "0"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    tokens = set()
    for _ in range(2):
        with started(command, stdout=subprocess.PIPE, text=True, env=env) as process:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            host, _, path = address.removeprefix("http://").partition("/")
            tokens.add(path)
            connection = http.client.HTTPConnection(host, timeout=20)
            connection.request("GET", f"/metrics{path}")
            assert b"watchdogd_alive 0.0" in connection.getresponse().read()
            connection.close()
            process.send_signal(signal.SIGINT)
            wait_until(lambda process=process: process.poll() is not None, 30, "it ends")  # type: ignore[misc]
    assert len(tokens) == 1
    assert (tmp_path / "home" / ".web-token").stat().st_mode & 0o077 == 0


def test_a_port_that_is_taken_is_one_line(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--home", str(tmp_path / "home"), "init"])
    capsys.readouterr()
    assert main(["--home", str(tmp_path / "home"), "web", "--port", str(server.server_port)]) == 1
    assert "choose another with --port" in capsys.readouterr().err
    assert main(["--home", str(tmp_path / "home"), "web", "--port", "99999"]) == 1
    assert "port 99999" in capsys.readouterr().err
