"""The files that the daemon puts where others look."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.web.stage import home_with_past, status_of
from watchdogd.daemon.publishing import Publisher
from watchdogd.daemon.setup import Setup

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from watchdogd.home.layout import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = home_with_past(tmp_path, time.time(), hours=2)
    home.write(home.status, json.dumps(status_of("2026-11-20T12:00:00+00:00")))
    return home


@pytest.fixture
def publisher(home: Home) -> Iterator[Publisher]:
    publisher = Publisher(home)
    yield publisher
    publisher.close()


def configured(home: Home, text: str) -> Setup:
    home.write(home.config, text)
    return Setup.load(home)


def test_nothing_is_written_unless_asked_for(home: Home, publisher: Publisher) -> None:
    before = set(home.path.rglob("*"))
    assert publisher.publish(configured(home, ""), time.time()) == ""
    assert set(home.path.rglob("*")) == before


def test_the_page_is_written_when_it_is_due(home: Home, publisher: Publisher, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    setup = configured(home, f'[report]\npath = "{file}"\nevery = "1h"\n')
    now = time.time()
    assert publisher.publish(setup, now) == ""
    assert file.read_text().endswith("</html>\n")
    file.write_text("not yet")
    assert publisher.publish(setup, now + 3000) == ""
    assert file.read_text() == "not yet"
    assert publisher.publish(setup, now + 3700) == ""
    assert file.read_text() != "not yet"


def test_the_textfile_is_there_for_another_user(home: Home, publisher: Publisher, tmp_path: Path) -> None:
    file = tmp_path / "watchdogd.prom"
    assert publisher.publish(configured(home, f'[prometheus]\ntextfile = "{file}"\n'), time.time()) == ""
    assert "watchdogd_alive 1.0\n" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o644


def test_a_place_that_is_not_there_is_told(home: Home, publisher: Publisher) -> None:
    text = '[report]\npath = "/proc/none/page.html"\n[prometheus]\ntextfile = "/proc/none/x.prom"\n'
    told = publisher.publish(configured(home, text), time.time())
    assert "/proc/none/page.html cannot be written" in told
    assert "/proc/none/x.prom cannot be written" in told
    assert "\n" not in told


def test_a_status_that_no_round_writes_is_told(home: Home, publisher: Publisher, tmp_path: Path) -> None:
    home.status.write_text('{"last_round": 7, "checks": [{"metrics": 3}], "incidents": null}')
    setup = configured(home, f'[prometheus]\ntextfile = "{tmp_path / "w.prom"}"\n')
    told = publisher.publish(setup, time.time())
    assert told == f"{tmp_path / 'w.prom'} cannot be written: {home.status} holds what no round writes"


def test_publishing_again_and_again_leaves_no_threads(
    home: Home, publisher: Publisher, tmp_path: Path
) -> None:
    setup = configured(home, f'[prometheus]\ntextfile = "{tmp_path / "w.prom"}"\n')
    publisher.publish(setup, time.time())
    before = threading.active_count()
    for _ in range(5):
        publisher.publish(setup, time.time())
    assert threading.active_count() <= before  # one of the test before may have ended meanwhile
