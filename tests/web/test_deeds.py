"""What watchdogd did about an incident stands on its card, and a run that is over loses nothing in red."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import TYPE_CHECKING

from tests.notify.values import letter
from tests.web.evening import gathered
from watchdogd.home.layout import Home
from watchdogd.notify.notification import Notification
from watchdogd.web.content import PageContent, _incident_rows, message_rows
from watchdogd.web.render import render

if TYPE_CHECKING:
    from pathlib import Path


def text_of(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def done(key: str, at: float, headline: str, *incidents: int) -> Notification:
    sent = letter()
    message = replace(
        sent.message, headline=headline, status=headline[1:].partition("]")[0], incidents=incidents
    )
    return replace(sent, key=key, message=message, created_at=at)


def test_the_card_of_an_incident_says_what_watchdogd_did_about_it(tmp_path: Path) -> None:
    content: PageContent = gathered(tmp_path)
    row = next(row for row in content.open if row.incident.run)
    number, target = row.incident.id, row.incident.target
    rows = message_rows(
        [
            done("b@mail", content.at - 60, f"[ACTION] {target}: its job requeued (on_hang)", number),
            done("a@mail", content.at - 120, f"[ACTION] {target}: stacks taken (on_hang)", number),
            done("c@mail", content.at - 30, f"[REMINDER] {target}: still CRITICAL", number),
            done("d@mail", content.at - 30, "[ACTION] elsewhere: job 7 held", number + 1000),
        ]
    )
    home = Home(tmp_path / "none")
    (told,) = _incident_rows(home, [row.incident], frozenset(), rows)
    assert [each.message.headline.partition(": ")[2] for each in told.deeds] == [
        "stacks taken (on_hang)",
        "its job requeued (on_hang)",
    ]
    page = render(replace(content, open=(told,), runs=(), over=()), live=False)
    card = page[page.index(f'id="incident-{number}"') :]
    said = text_of(card.partition("</article>")[0])
    assert said.index("stacks taken (on_hang), 2m ago") < said.index("its job requeued (on_hang), 1m ago")
    assert "held" not in said


def test_a_run_that_is_over_shows_its_lost_hours_without_alarm(tmp_path: Path) -> None:
    content = gathered(tmp_path)
    run = next(run for run in content.runs if run.moves)
    ended = replace(run, lost=300.0, spans=(run.spans[-1]._replace(state="absent"),), results=())
    page = render(replace(content, runs=(ended, replace(run, name="other", lost=300.0))), live=False)
    assert re.findall(r'class="lost([^"]*)"', page)[:2] == [" soft", " CRITICAL"]
