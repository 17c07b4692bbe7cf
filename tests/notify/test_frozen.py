"""A sender that is frozen for longer than a server may take: what the server answered meanwhile counts."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.processes import started
from tests.servers.smtp import Mail, Mailbox
from tests.servers.web import Answer, Request, WebServer
from tests.waiting import wait_until

TIMEOUT = 6.0
BY_WEB = """
import os, sys
from watchdogd.notify.http_client import Web
url, timeout = sys.argv[1], float(sys.argv[2])
print(Web(url, "url", timeout).post(url, {"process": os.getpid()}).status)
"""
BY_MAIL = """
import os, sys
from tests.notify.values import letter
from watchdogd.notify.channels.email import Account, Mail
account = Account((sys.argv[1],), "watchdog@example.org", ("al@example.org",))
print(Mail(account, float(sys.argv[2])).send(letter(headline=str(os.getpid())), []))
"""


@contextmanager
def _sending(program: str, url: str) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", program, url, str(TIMEOUT)]
    with started(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        yield process


def _thawed_late(process: subprocess.Popen[str], since: float) -> str:
    """Return what it says in the end."""
    wait_until(lambda: time.time() - since > TIMEOUT + 2, TIMEOUT + 2, "it is frozen for too long")
    process.send_signal(signal.SIGCONT)
    said, _ = process.communicate(timeout=240)
    return said


def test_an_answer_by_http_that_came_while_the_sender_was_frozen_counts(endpoint: WebServer) -> None:
    def freeze(request: Request) -> Answer:
        os.kill(request.json()["process"], signal.SIGSTOP)
        return Answer()

    endpoint.behave(freeze)
    with _sending(BY_WEB, endpoint.url) as process:
        wait_until(lambda: endpoint.requests, 60, "it is sent")
        assert _thawed_late(process, endpoint.requests[0].arrived) == "200\n"


class _Freezing(Mailbox):
    """A server that freezes whoever sends, once it has the whole message, and answers then."""

    def take(self, mail: Mail) -> None:
        os.kill(int(mail.message["Subject"]), signal.SIGSTOP)
        super().take(mail)


def test_an_answer_by_smtp_that_came_while_the_sender_was_frozen_counts(tmp_path: Path) -> None:
    with _Freezing(tmp_path) as mailbox, _sending(BY_MAIL, mailbox.url) as process:
        wait_until(lambda: mailbox.messages, 60, "it is sent")
        assert _thawed_late(process, mailbox.messages[0].arrived) == "al@example.org\n"
