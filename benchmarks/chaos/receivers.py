"""The servers to which watchdogd sends in a campaign, and the messages that they took."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.chaos.journal import Fault, Message
from benchmarks.chaos.names import DOMAIN
from tests.servers.smtp import ACCEPT, Drop, Hang, Mail, Mailbox, Refuse
from tests.servers.web import NORMAL, Answer, Request, WebServer
from tests.servers.web import Fault as WebFault

SECRET = "s3cret-of-the-campaign"
STANDS = 86_400.0
"""Seconds by which an alert of Alertmanager's that has not ended lies in the future."""
EDGE = 1.0
"""Seconds around the beginning and end of a fault in which nobody knows which answer a request got."""
HEADLINE = re.compile(r"\[(\w+)\] ([^:]+):")


def _late(_request: Request) -> Answer:
    time.sleep(4.0)
    return Answer()


WEB = {
    "refuses": None,
    "hangs": WebFault.HANG,
    "drops": WebFault.DROP,
    "half-answers": WebFault.CUT,
    "says 503": Answer(503, "busy"),
    "says 429": Answer(429, "slow down", (("Retry-After", "3"),)),
    "answers late": _late,
}
MAIL = {
    "refuses": None,
    "hangs": Hang(),
    "drops": Drop(),
    "says 503": Refuse(451),
    "says 429": Refuse(452, "MAIL"),
    "hangs early": Hang("MAIL"),
}
UNTAKEN = ("hangs", "drops", "says 503", "says 429")


class Receivers:
    """Three HTTP servers and a mailbox, by the names of their channels; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.web = {name: WebServer() for name in ("hook", "alerts", "far", "beat")}
        self.mail = Mailbox(folder)
        self.shown: Callable[[float], float] = lambda at: at
        self._stack = ExitStack()

    def __enter__(self) -> Receivers:
        for server in self.web.values():
            self._stack.enter_context(server)
        self._stack.enter_context(self.mail)
        return self

    def __exit__(self, *_: object) -> None:
        self.mail.release()
        for server in self.web.values():
            server.release()
        self._stack.close()

    def url(self, channel: str) -> str:
        return f"{self.web[channel].url}/{SECRET}".replace("127.0.0.1", f"{channel}.{DOMAIN}")

    def misbehave(self, channel: str, how: str) -> None:
        if channel == "mail":
            self.mail.down() if how == "refuses" else self.mail.behave(MAIL[how] or ACCEPT)
        elif how == "refuses":
            self.web[channel].down()
        else:
            self.web[channel].behave(WEB[how])

    def behave(self, channel: str, how: str) -> None:
        server = self.mail if channel == "mail" else self.web[channel]
        if how == "refuses":
            server.up()
        elif isinstance(server, Mailbox):
            server.behave(ACCEPT)
        else:
            server.behave(NORMAL)
        server.release()

    def messages(self, faults: Sequence[Fault]) -> Iterator[Message]:
        """All that was taken, by what was wrong with each channel meanwhile."""
        for channel in ("hook", "far", "alerts"):
            wrong = [fault for fault in faults if fault.name.startswith(f"{channel} ")]
            for request in self.web[channel].requests:
                how, edge = _how(wrong, request.arrived)
                if request.method == "POST" and (edge or how not in UNTAKEN):
                    yield from self._web_messages(channel, request, confirmed=not how and not edge)
        wrong = [fault for fault in faults if fault.name.startswith("mail ")]
        for mail in self.mail.messages:
            how, edge = _how(wrong, mail.arrived)
            yield _mail_message(mail, confirmed=not how and not edge)

    def _web_messages(self, channel: str, request: Request, *, confirmed: bool) -> Iterator[Message]:
        try:
            body: Any = request.json()
        except ValueError:
            return  # cut off by a kill
        if channel == "alerts":
            yield from _alerts(body, request.arrived, self.shown(request.arrived))
            return
        numbers = tuple(item["incident"] for item in body["items"] if item["incident"] is not None)
        yield Message(
            channel,
            body["key"],
            body["status"],
            body["target"],
            body["headline"],
            request.arrived,
            confirmed,
            numbers,
        )


def _how(wrong: Sequence[Fault], at: float) -> tuple[str, bool]:
    """What was wrong at a time, and whether that is not sure."""
    for fault in wrong:
        if fault.begin - EDGE <= at <= fault.end + EDGE:
            sure = fault.begin + EDGE <= at <= fault.end - EDGE
            return fault.name.partition(" ")[2], not sure
    return "", False


def _alerts(body: Any, at: float, shown: float) -> Iterator[Message]:
    """Of each incident what stands, or that it is over, by the clock that showed `shown`.

    Alertmanager itself takes equal ones as one.
    """
    stands: dict[str, tuple[str, Any]] = {}
    for alert in body:
        labels = alert["labels"]
        number = labels.get("incident", labels.get("notice", ""))
        ends = datetime.fromisoformat(alert["endsAt"]).timestamp()
        if ends > shown + STANDS / 2 or "notice" in labels:
            stands[number] = (labels["severity"].upper(), alert)
        else:
            stands.setdefault(number, ("RESOLVED", alert))
    for number, (status, alert) in stands.items():
        target, summary = alert["labels"]["target"], alert["annotations"]["summary"]
        headline = summary if summary.startswith("[") else f"[{status}] {target}: {summary}"
        numbers = (int(number),) if number.isdigit() else ()
        yield Message("alerts", f"{at} {number}", status, target, headline, at, True, numbers)


def _mail_message(mail: Mail, *, confirmed: bool) -> Message:
    headline = str(mail.message["Subject"]).strip()
    found = HEADLINE.match(headline)
    status, target = found.groups() if found else ("", "")
    return Message("mail", str(mail.message["Message-ID"]), status, target, headline, mail.arrived, confirmed)
