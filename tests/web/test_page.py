"""The page in a real browser: it loads, filters, opens incidents, asks nobody, and runs nothing foreign."""

from __future__ import annotations

import itertools
import math
import re
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from tests.lab import zones
from tests.waiting import wait_until
from tests.web.browser import chromium, tab
from tests.web.stage import EVIL, home_with_past, status_of
from watchdogd.history.models import Gap
from watchdogd.history.store import Store
from watchdogd.units import iso
from watchdogd.web.charts import ChartLine, DrawnChart
from watchdogd.web.content import gather
from watchdogd.web.render import as_script, plotted, render
from watchdogd.web.server import Document, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Dialog


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as begun:
        yield begun


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    now = time.time()
    return made(tmp_path_factory.mktemp("page"), now)


def made(folder: Path, now: float, *, live: bool = False) -> str:
    home = home_with_past(folder, now)
    store = Store.open("sqlite:///history.db", home, owner=False)
    picture = gather(home, store, status_of(iso(now)), "bloom-watch", since=now - 7 * 86400, now=now)
    store.close()
    return render(picture, live=live)


def test_it_loads_filters_and_opens_an_incident_without_a_complaint(
    browser: Browser, page: str, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(page)
    with tab(browser) as seen:
        seen.page.goto(file.as_uri())
        assert seen.page.title() == "bloom-watch: 0 open"
        assert seen.page.locator(".plot canvas").count() == seen.page.locator(".plot").count() > 4
        assert seen.page.locator(".timeline rect.hung").count() == 1
        assert seen.page.locator("#incident-1").get_attribute("open") is not None
        assert "2 ranks next_batch <b>loader</b>" in seen.page.locator("#incident-1").inner_text()
        seen.page.locator("#incident-2 summary").focus()
        seen.page.keyboard.press("Enter")
        assert seen.page.locator("#incident-2").get_attribute("open") is not None
        seen.page.fill("#filter", "scratch")
        assert not seen.page.locator("#incident-1").is_visible()
        assert seen.page.locator("#incident-2").is_visible()
        assert re.fullmatch(r"2 of \d+ shown", seen.page.locator("#found").inner_text())
        assert seen.complaints == []
        assert seen.requests == [file.as_uri()]


def test_a_run_named_as_a_script_is_text(browser: Browser, page: str, tmp_path: Path) -> None:
    assert EVIL not in page
    file = tmp_path / "page.html"
    file.write_text(page)
    with tab(browser) as seen:
        dialogs: list[str] = []

        def answered(dialog: Dialog) -> None:
            dialogs.append(dialog.message)
            dialog.dismiss()

        seen.page.on("dialog", answered)
        seen.page.goto(file.as_uri())
        assert seen.page.get_by_role("heading", name=EVIL).count() == 1
        assert dialogs == []
        assert "\x1b" not in seen.page.content()


def test_it_fits_a_phone_and_the_dark(browser: Browser, page: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page)
    with tab(browser, width=390, dark=True) as seen:
        seen.page.goto(file.as_uri())
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
        colour = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert colour == "rgb(20, 23, 27)"
        assert seen.complaints == []


STATES = ("running", "waiting", "hung", "gone", "absent", "unwatched")


@pytest.mark.parametrize("dark", [True, False])
def test_on_a_desktop_states_differ_and_what_is_written_can_be_read(
    browser: Browser, page: str, tmp_path: Path, dark: bool
) -> None:
    file = tmp_path / "page.html"
    file.write_text(page)
    with tab(browser, width=1440, dark=dark) as seen:
        seen.page.goto(file.as_uri())
        look = "(element, [pseudo, name]) => getComputedStyle(element, pseudo)[name]"

        def colour(selector: str, name: str, pseudo: str | None = None) -> tuple[float, ...]:
            said = seen.page.locator(selector).first.evaluate(look, [pseudo, name])
            return tuple(float(number) for number in re.findall(r"[\d.]+", said)[:3])

        states = [colour(f".legend i.{state}", "backgroundColor") for state in STATES]
        assert min(math.dist(one, other) for one, other in itertools.combinations(states, 2)) > 60
        field = colour("#filter", "backgroundColor")
        assert contrast(colour("#filter", "color", "::placeholder"), field) >= 4.5
        assert contrast(colour("small", "color"), colour("details", "backgroundColor")) >= 4.5
        assert seen.page.locator(".u-legend td").first.evaluate(look, [None, "borderBottomWidth"]) == "0px"
        bars = seen.page.evaluate("getComputedStyle(document.documentElement).colorScheme")
        assert bars == "light dark", "scrollbars and fields of the browser's own are dark too"


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """How well one colour is read on another: WCAG 2.1, 1.4.3 asks for 4.5."""

    def light(colour: tuple[float, ...]) -> float:
        parts = [part / 255 for part in colour]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dim, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dim + 0.05)


def test_a_link_of_which_only_the_job_is_known_is_shown(tmp_path: Path) -> None:
    status = status_of(iso(time.time())) | {"link": {"job_id": "30"}}
    home = home_with_past(tmp_path, time.time())
    store = Store.open("sqlite:///history.db", home, owner=False)
    picture = gather(home, store, status, "bloom-watch", since=time.time() - 3600, now=time.time())
    store.close()
    assert re.search(r"Link: job 30\.\s+No successor is known\.", render(picture, live=False))


def test_every_picture_has_words_and_every_control_a_name(
    browser: Browser, page: str, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(page)
    with tab(browser) as seen:
        seen.page.goto(file.as_uri())
        for picture in seen.page.locator("svg[role=img]").all():
            assert "running" in (picture.get_attribute("aria-label") or "")
        for figure in seen.page.locator("figure").all():
            assert figure.locator("tbody tr").count() > 0
        assert seen.page.get_by_label("Show only").count() == 1
        levels = [int(each.evaluate("e => e.tagName[1]")) for each in seen.page.locator("h1,h2,h3").all()]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_lines_break_off_where_nobody_looked() -> None:
    def line(*times: float, dashed: bool = False) -> ChartLine:
        return ChartLine("used", tuple((at, 1.0) for at in times), dashed=dashed)

    def columns(shown: ChartLine, *gaps: Gap) -> list[list[float | bool | None]]:
        [chart] = plotted((DrawnChart("c", "Disks", "scratch", "bytes", "B", (shown,)),), gaps)
        found: list[list[float | bool | None]] = chart["columns"]
        return found

    assert columns(line(0, 60, 120)) == [[0, 60, 120], [1.0, 1.0, 1.0]]
    assert columns(line(0, 60, 9060)) == [[0, 60, 4560, 9060], [1.0, 1.0, False, 1.0]]
    assert columns(line(0, 600, 1200), Gap(700, 1100, "down")) == [
        [0, 600, 900, 1200],
        [1.0, 1.0, False, 1.0],
    ]
    assert columns(line(0, 60, 120), Gap(10, 20, "away")) == [[0, 30, 60, 120], [1.0, False, 1.0, 1.0]]
    assert columns(line(0, 60, 120), Gap(130, 200, "now")) == [[0, 60, 120], [1.0, 1.0, 1.0]]
    assert columns(line(0, 90_000, dashed=True)) == [[0, 90_000], [1.0, 1.0]]


def test_charts_have_the_times_of_the_text_before_and_after_clocks_are_set(
    browser: Browser, tmp_path: Path
) -> None:
    """In a browser elsewhere; the clocks of the machine that made the page were set half a day ago."""
    now = datetime(2027, 3, 28, 13, tzinfo=UTC).timestamp()
    file = tmp_path / "page.html"
    with zones.local(zones.RULE):
        file.write_text(made(tmp_path, now))
    begin = now - 72 * 3600
    with tab(browser) as seen:
        seen.page.goto(file.as_uri())
        chart, legend = seen.page.locator(".u-over").first, seen.page.locator(".u-legend").first
        chart.hover(position={"x": 1, "y": 20})
        assert shown_time(begin) in legend.inner_text()
        chart.hover(position={"x": chart.evaluate("box => box.clientWidth") - 1, "y": 20})
        last = chart.evaluate(
            "() => JSON.parse(document.getElementById('data').textContent)[0].columns[0].at(-1)"
        )
        assert shown_time(last) in legend.inner_text()
        assert seen.complaints == []


def shown_time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, ZoneInfo('Europe/Berlin')):%d Mar %H:%M}"


def test_the_keyboard_reaches_everything(browser: Browser, page: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page)
    with tab(browser) as seen:
        seen.page.goto(file.as_uri())
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate("document.activeElement.textContent") == "to the incidents"
        seen.page.keyboard.press("Enter")
        assert seen.page.evaluate("document.activeElement.id") == "main"
        summary = seen.page.locator("#times-1 summary")
        summary.focus()
        seen.page.keyboard.press("Enter")
        assert re.search(r"hung for 4h.* from ", seen.page.locator("#times-1 ol").inner_text())
        assert seen.page.get_by_role("navigation").get_by_role("link", name="GPUs").count() == 1
        assert seen.page.get_by_role("table").count() == seen.page.locator(".wide table:visible").count() > 5
        assert seen.page.locator("#well-1").inner_text().startswith("4 more are OK")
        assert "on small1, until" in seen.page.locator("#h-chain + p").inner_text()
        assert "is PENDING (Priority), expected on small2." in seen.page.locator("#h-chain + p").inner_text()
        seen.page.locator("#chain summary").click()
        assert re.search(r"job 30 watched .*\n?.*job 29 watched", seen.page.locator("#chain ol").inner_text())
        assert "is lost" in seen.page.locator("article").first.inner_text()
        nameless = "e => !(e.getAttribute('aria-label') || e.textContent.trim() || (e.labels || []).length)"
        places = seen.page.locator("a,summary,input,[tabindex='0']").all()
        assert [each for each in places if each.evaluate(nameless)] == []


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "<!--", "a & b", "\u2028"])
def test_numbers_for_the_script_cannot_end_it(text: str) -> None:
    written = str(as_script({"id": text}))
    assert "<" not in written
    assert "&" not in written
    assert written.isascii()


# ---------------------------------------------------------------------- live


@contextmanager
def served(make: Callable[[], str]) -> Iterator[Server]:
    server = Server({"/": Document("text/html; charset=utf-8", make)}, "secret-token")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(240)
        server.server_close()


def test_the_live_page_renews_itself_and_keeps_what_is_open(browser: Browser, tmp_path: Path) -> None:
    first = made(tmp_path, time.time(), live=True).replace('data-live="30"', 'data-live="1"')
    pages = [first]
    with served(lambda: pages[-1]) as server, tab(browser) as seen:
        seen.page.goto(server.address)
        assert "token" not in seen.page.url
        seen.page.locator("#incident-2 summary").click()
        pages.append(first.replace("full in about 2d", "full in about 1d"))
        wait_until(
            lambda: "full in about 1d" in seen.page.locator("#incident-2").inner_text(),
            30,
            "the page has renewed itself",
            every=0.1,
        )
        assert seen.page.locator("#incident-2").get_attribute("open") is not None
        assert seen.page.locator(".plot canvas").count() == seen.page.locator(".plot").count()
        assert seen.complaints == []
        assert all(url.startswith(f"http://127.0.0.1:{server.server_port}/") for url in seen.requests)
