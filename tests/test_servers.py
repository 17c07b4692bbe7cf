"""The servers that stand in for mail, Slack and webhooks must misbehave as the real ones do."""

import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from email.message import EmailMessage
from http.client import HTTPConnection
from pathlib import Path

import pytest
import requests

from tests.servers.slack import (
    ACTION_PROHIBITED,
    CHANNEL_IS_ARCHIVED,
    INVALID_AUTH,
    INVALID_PAYLOAD,
    NO_SERVICE,
    SERVER_ERROR,
    Refusal,
    SlackServer,
    rate_limited,
)
from tests.servers.smtp import ACCEPT, Drop, Hang, Mailbox, Refuse, Security, Stage, refuse_recipient
from tests.servers.web import NORMAL, Answer, Fault, WebServer
from tests.waiting import AT_ONCE, wait_until


def letter(subject: str = "[CRITICAL] run-9: no step for 25 min") -> EmailMessage:
    message = EmailMessage()
    message["From"] = "watch@example.org"
    message["To"] = "one@example.org, two@example.org"
    message["Subject"] = subject
    message.set_content("Schluß: ✗\n.\nafter a dot")
    return message


def post_letter(mailbox: Mailbox, timeout: float = AT_ONCE) -> dict[str, tuple[int, bytes]]:
    with smtplib.SMTP("127.0.0.1", mailbox.port, timeout=timeout) as client:
        return client.send_message(letter())


@contextmanager
def releasing(server: Mailbox | WebServer) -> Iterator[None]:
    """Ends every hanging of the server meanwhile, soon after it has begun."""
    over = threading.Event()

    def release() -> None:
        while not over.wait(0.3):
            server.release()

    thread = threading.Thread(target=release)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(AT_ONCE)


class TestMailbox:
    def test_a_letter_arrives_with_its_envelope(self, mailbox: Mailbox) -> None:
        before = time.time()
        post_letter(mailbox)
        (mail,) = mailbox.messages
        assert mail.message["Subject"] == "[CRITICAL] run-9: no step for 25 min"
        assert mail.message.get_content().splitlines() == ["Schluß: ✗", ".", "after a dot"]
        assert (mail.sender, mail.recipients) == ("watch@example.org", ("one@example.org", "two@example.org"))
        assert before <= mail.arrived <= time.time()
        assert not mail.encrypted
        assert mail.user is None
        assert mailbox.url == f"smtp://127.0.0.1:{mailbox.port}"

    @pytest.mark.parametrize(
        ("stage", "error"), [("MAIL", smtplib.SMTPSenderRefused), ("DATA", smtplib.SMTPDataError)]
    )
    def test_a_refusal_at_each_stage_and_then_normal_again(
        self, mailbox: Mailbox, stage: Stage, error: type[smtplib.SMTPResponseException]
    ) -> None:
        mailbox.behave([Refuse(451, stage), Refuse(552, stage)])
        codes = []
        for _ in range(2):
            with pytest.raises(error) as caught:
                post_letter(mailbox)
            codes.append(caught.value.smtp_code)
        assert post_letter(mailbox) == {}
        assert codes == [451, 552]
        assert (len(mailbox.messages), len(mailbox.attempts)) == (1, 3)

    def test_a_standing_refusal_lasts_until_it_is_lifted(self, mailbox: Mailbox) -> None:
        mailbox.behave(Refuse(421, "RCPT"))
        for _ in range(3):
            with pytest.raises((smtplib.SMTPRecipientsRefused, smtplib.SMTPServerDisconnected)):
                post_letter(mailbox)
        mailbox.behave(ACCEPT)
        assert post_letter(mailbox) == {}

    def test_one_recipient_is_refused_and_the_other_gets_the_letter(self, mailbox: Mailbox) -> None:
        mailbox.behave(refuse_recipient("two@example.org"))
        refused = post_letter(mailbox)
        assert {address: code for address, (code, _) in refused.items()} == {"two@example.org": 550}
        assert mailbox.messages[0].recipients == ("one@example.org",)

    @pytest.mark.parametrize("stage", ["MAIL", "RCPT", "DATA"])
    def test_it_hangs_until_it_is_released(self, mailbox: Mailbox, stage: Stage) -> None:
        mailbox.behave([Hang(stage)])
        with pytest.raises(smtplib.SMTPServerDisconnected, match="timed out"):
            post_letter(mailbox, timeout=0.3)
        assert mailbox.messages == []
        mailbox.behave([Hang("DATA")])
        with releasing(mailbox), pytest.raises(smtplib.SMTPDataError):
            post_letter(mailbox)
        assert post_letter(mailbox) == {}

    @pytest.mark.parametrize("stage", ["MAIL", "RCPT", "DATA"])
    def test_it_breaks_the_connection(self, mailbox: Mailbox, stage: Stage) -> None:
        mailbox.behave([Drop(stage)])
        with pytest.raises((smtplib.SMTPServerDisconnected, ConnectionResetError)):
            post_letter(mailbox)
        assert mailbox.messages == []

    def test_down_and_up_on_the_same_port(self, mailbox: Mailbox) -> None:
        port = mailbox.port
        for _ in range(3):
            mailbox.down()
            with pytest.raises(ConnectionRefusedError):
                post_letter(mailbox)
            mailbox.up()
            post_letter(mailbox)
        assert mailbox.port == port
        assert len(mailbox.messages) == 3

    def test_going_down_ends_a_hanging_client(self, mailbox: Mailbox) -> None:
        mailbox.behave(Hang())
        failures: list[Exception] = []

        def post() -> None:
            try:
                post_letter(mailbox, timeout=60.0)
            except (smtplib.SMTPException, OSError) as error:
                failures.append(error)

        client = threading.Thread(target=post)
        client.start()
        wait_until(lambda: mailbox.attempts, 10.0, "the client is there")
        mailbox.down()
        client.join(240)
        assert len(failures) == 1

    def test_starttls_and_login_are_required(self, mailbox: Mailbox) -> None:
        mailbox.require(Security(starttls="required", login=("watch", "geheim")))
        with pytest.raises(smtplib.SMTPSenderRefused) as refused:
            post_letter(mailbox)
        assert refused.value.smtp_code == 530
        with smtplib.SMTP("127.0.0.1", mailbox.port, timeout=10.0) as client:
            client.starttls(context=trusting(mailbox.certificate))
            with pytest.raises(smtplib.SMTPAuthenticationError):
                client.login("watch", "falsch")
            with pytest.raises(smtplib.SMTPSenderRefused):
                client.send_message(letter())
            client.login("watch", "geheim")
            client.send_message(letter())
        (mail,) = mailbox.messages
        assert (mail.encrypted, mail.user) == (True, "watch")

    def test_starttls_is_offered_only(self, mailbox: Mailbox) -> None:
        mailbox.require(Security(starttls="offered"))
        post_letter(mailbox)
        with smtplib.SMTP("127.0.0.1", mailbox.port, timeout=10.0) as client:
            client.ehlo()
            assert client.has_extn("starttls")
            assert not client.has_extn("auth")
            with pytest.raises(ssl.SSLCertVerificationError):
                client.starttls(context=ssl.create_default_context())
        assert [mail.encrypted for mail in mailbox.messages] == [False]

    def test_login_without_tls(self, mailbox: Mailbox) -> None:
        mailbox.require(Security(login=("watch", "geheim")))
        with smtplib.SMTP("127.0.0.1", mailbox.port, timeout=10.0) as client:
            client.login("watch", "geheim")
            client.send_message(letter())
        assert [(mail.encrypted, mail.user) for mail in mailbox.messages] == [(False, "watch")]

    def test_tls_from_the_first_byte(self, mailbox: Mailbox) -> None:
        mailbox.require(Security(implicit=True))
        assert mailbox.url == f"smtps://127.0.0.1:{mailbox.port}"
        context = trusting(mailbox.certificate)
        with smtplib.SMTP_SSL("127.0.0.1", mailbox.port, timeout=10.0, context=context) as client:
            client.send_message(letter())
        assert [mail.encrypted for mail in mailbox.messages] == [True]


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))


class TestWebhookOfSlack:
    def test_a_message_arrives(self, slack: SlackServer) -> None:
        before = time.time()
        answer = requests.post(slack.url, json={"text": "[OK] run-9: ✓", "blocks": [1]}, timeout=AT_ONCE)
        assert (answer.status_code, answer.text) == (200, "ok")
        (message,) = slack.messages
        assert (message.via, message.text, message.payload["blocks"]) == ("webhook", "[OK] run-9: ✓", [1])
        assert before <= message.arrived <= time.time()

    @pytest.mark.parametrize(
        "body", [b"{text: no}", b"[1]", b"{}", b'{"text": ""}', b'{"channel": "x"}', b"\xff"]
    )
    def test_what_is_no_message_is_refused(self, slack: SlackServer, body: bytes) -> None:
        answer = requests.post(slack.url, data=body, timeout=AT_ONCE)
        assert (answer.status_code, answer.text) == (400, "invalid_payload")
        assert slack.messages == []
        assert len(slack.requests) == 1

    @pytest.mark.parametrize("payload", [{"blocks": [{"type": "divider"}]}, {"attachments": [{"text": "x"}]}])
    def test_a_message_needs_no_text(self, slack: SlackServer, payload: dict[str, object]) -> None:
        assert requests.post(slack.url, json=payload, timeout=AT_ONCE).ok

    def test_another_path_is_no_service(self, slack: SlackServer) -> None:
        answer = requests.post(f"{slack.base}/services/T1/B1/x", json={"text": "x"}, timeout=AT_ONCE)
        assert (answer.status_code, answer.text) == (404, "no_service")

    @pytest.mark.parametrize(
        ("refusal", "status", "text"),
        [
            (INVALID_PAYLOAD, 400, "invalid_payload"),
            (ACTION_PROHIBITED, 403, "action_prohibited"),
            (NO_SERVICE, 404, "no_service"),
            (CHANNEL_IS_ARCHIVED, 410, "channel_is_archived"),
            (SERVER_ERROR, 500, "internal_error"),
            (rate_limited(7), 429, "ratelimited"),
        ],
    )
    def test_refusals_in_turn_then_normal(
        self, slack: SlackServer, refusal: Refusal, status: int, text: str
    ) -> None:
        slack.behave([refusal, NORMAL])
        answers = [requests.post(slack.url, json={"text": "x"}, timeout=AT_ONCE) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [status, 200, 200]
        assert answers[0].text == text
        assert answers[0].headers.get("Retry-After") == ("7" if status == 429 else None)
        assert len(slack.messages) == 2

    def test_a_lost_answer_leaves_the_message_posted(self, slack: SlackServer) -> None:
        slack.behave([Fault.CUT])
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            requests.post(slack.url, json={"text": "x"}, timeout=AT_ONCE)
        assert len(slack.messages) == 1


class TestApiOfSlack:
    def call(self, slack: SlackServer, method: str, token: str = "", **fields: object) -> requests.Response:
        headers = {"Authorization": f"Bearer {token or slack.token}"}
        return requests.post(slack.api + method, json=fields, headers=headers, timeout=AT_ONCE)

    def test_a_thread_is_posted_and_its_first_message_updated(self, slack: SlackServer) -> None:
        first = self.call(slack, "chat.postMessage", channel="C1", text="opens").json()
        reply = self.call(slack, "chat.postMessage", channel="C1", text="more", thread_ts=first["ts"]).json()
        update = self.call(slack, "chat.update", channel="C1", text="over", ts=first["ts"]).json()
        assert first["ok"]
        assert reply["ok"]
        assert reply["ts"] != first["ts"]
        assert (update["ok"], update["ts"]) == (True, first["ts"])
        assert [message.via for message in slack.messages] == ["chat.postMessage"] * 2 + ["chat.update"]
        assert slack.messages[1].payload["thread_ts"] == first["ts"]

    def test_a_form_is_taken_as_well(self, slack: SlackServer) -> None:
        form = {"channel": "C1", "text": "Größe & mehr"}
        headers = {"Authorization": f"Bearer {slack.token}"}
        assert requests.post(
            f"{slack.api}chat.postMessage", data=form, headers=headers, timeout=AT_ONCE
        ).json()["ok"]
        assert slack.messages[0].text == "Größe & mehr"

    @pytest.mark.parametrize(
        ("method", "fields", "error"),
        [
            ("chat.postMessage", {"channel": "C1"}, "no_text"),
            ("chat.postMessage", {"text": "x"}, "channel_not_found"),
            ("chat.update", {"channel": "C1", "text": "x", "ts": "1.0"}, "message_not_found"),
            ("chat.shout", {"channel": "C1", "text": "x"}, "unknown_method"),
            ("chat.postMessage", {"channel": "C1", "text": "x", "token": "xoxb-wrong"}, "invalid_auth"),
        ],
    )
    def test_mistakes_are_told_with_status_200(
        self, slack: SlackServer, method: str, fields: dict[str, str], error: str
    ) -> None:
        answer = self.call(slack, method, **fields)
        assert (answer.status_code, answer.json()) == (200, {"ok": False, "error": error})
        assert slack.messages == []

    def test_nobody_is_let_in_without_a_token(self, slack: SlackServer) -> None:
        answer = requests.post(
            f"{slack.api}chat.postMessage", json={"channel": "C1", "text": "x"}, timeout=10
        )
        assert answer.json()["error"] == "not_authed"

    def test_refusals_are_worded_as_the_api_does(self, slack: SlackServer) -> None:
        slack.behave([INVALID_AUTH, rate_limited(3), SERVER_ERROR])
        answers = [self.call(slack, "chat.postMessage", channel="C1", text="x") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 429, 500, 200]
        assert [answer.json().get("error") for answer in answers[:2]] == ["invalid_auth", "ratelimited"]
        assert answers[1].headers["Retry-After"] == "3"
        assert answers[3].json()["ok"]


class TestEndpoint:
    def test_the_log_holds_all_of_a_request(self, endpoint: WebServer) -> None:
        requests.post(
            f"{endpoint.url}/ping/fail?rid=1", data=b"\x00why", headers={"X-Run": "run-9"}, timeout=10
        )
        requests.get(endpoint.url, timeout=AT_ONCE)
        first, second = endpoint.requests
        assert (first.method, first.path, first.body) == ("POST", "/ping/fail?rid=1", b"\x00why")
        assert first.headers["x-run"] == "run-9"
        assert (second.method, second.path, second.body) == ("GET", "/", b"")

    def test_any_answer_can_be_had(self, endpoint: WebServer) -> None:
        endpoint.behave(Answer(503, "later", (("Retry-After", "2"),)))
        answers = [requests.get(endpoint.url, timeout=AT_ONCE) for _ in range(2)]
        assert [(each.status_code, each.text, each.headers["Retry-After"]) for each in answers] == [
            (503, "later", "2")
        ] * 2

    def test_it_hangs_until_it_is_released(self, endpoint: WebServer) -> None:
        endpoint.behave([Fault.HANG, Fault.HANG])
        with pytest.raises(requests.exceptions.ReadTimeout):
            requests.get(endpoint.url, timeout=0.3)
        with releasing(endpoint), pytest.raises(requests.exceptions.ConnectionError):
            requests.get(endpoint.url, timeout=AT_ONCE)
        assert requests.get(endpoint.url, timeout=AT_ONCE).ok

    def test_it_drops_a_connection(self, endpoint: WebServer) -> None:
        endpoint.behave([Fault.DROP])
        with pytest.raises(requests.exceptions.ConnectionError):
            requests.get(endpoint.url, timeout=AT_ONCE)

    def test_one_who_hangs_holds_up_no_other(self, endpoint: WebServer) -> None:
        endpoint.behave([Fault.HANG])
        with socket.create_connection(("127.0.0.1", int(endpoint.url.rsplit(":", 1)[1]))) as hanging:
            hanging.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_until(lambda: endpoint.requests, 10.0, "the first client is there")
            assert requests.get(f"{endpoint.url}/fast", timeout=AT_ONCE).ok

    def test_down_and_up_on_the_same_port(self, endpoint: WebServer) -> None:
        url = endpoint.url
        with requests.Session() as kept:
            assert kept.get(url, timeout=AT_ONCE).ok
            endpoint.down()
            with pytest.raises(requests.exceptions.ConnectionError):
                kept.get(url, timeout=AT_ONCE)
            endpoint.up()
            assert kept.get(url, timeout=AT_ONCE).ok

    def test_connections_are_kept_open(self, endpoint: WebServer) -> None:
        with closing(HTTPConnection(endpoint.url.removeprefix("http://"), timeout=AT_ONCE)) as client:
            sockets = []
            for _ in range(2):
                client.request("GET", "/")
                client.getresponse().read()
                sockets.append(client.sock)
        assert sockets[0] is sockets[1]
        assert sockets[0] is not None

    def test_no_thread_outlives_the_server(self) -> None:
        before = set(threading.enumerate())
        with WebServer() as server, requests.Session() as kept:
            server.behave([NORMAL, Fault.HANG])
            kept.get(server.url, timeout=AT_ONCE)
            with pytest.raises(requests.exceptions.ReadTimeout):
                requests.get(server.url, timeout=0.2)
            server.close()
            assert set(threading.enumerate()) <= before


class TestWaiting:
    def test_the_value_and_the_seconds_are_returned(self) -> None:
        due = time.monotonic() + 0.2
        waited = wait_until(
            lambda: "here" if time.monotonic() >= due else None, 10.0, "it is here", every=0.01
        )
        assert waited.value == "here"
        assert 0.15 < waited.seconds < AT_ONCE

    def test_in_vain_it_says_so_in_a_sentence(self) -> None:
        with pytest.raises(
            AssertionError, match=r"waited 0\.\d s in vain until the moon is blue; last answer: \[\]"
        ):
            wait_until(list, 0.05, "the moon is blue")
