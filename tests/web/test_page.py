"""The page in a real browser: what comes first, each run's view, the keyboard, and nothing foreign is run."""

from __future__ import annotations

import itertools
import json
import math
import re
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from tests.lab import zones
from tests.waiting import wait_until
from tests.web.browser import chromium, tab
from tests.web.evening import gathered
from tests.web.pictures import VIEWS, View, taken
from tests.web.stage import EVIL, home_with_past, status_of
from watchdogd.history.models import Gap
from watchdogd.history.store import Store
from watchdogd.units import iso
from watchdogd.web.charts import ChartLine
from watchdogd.web.content import PageContent, gather
from watchdogd.web.render import as_script, drawn_columns, figure, render
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


@pytest.fixture(scope="module")
def evening(tmp_path_factory: pytest.TempPathFactory) -> PageContent:
    with zones.local("UTC"):
        return gathered(tmp_path_factory.mktemp("evening"))


@pytest.fixture(scope="module")
def file(evening: PageContent, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of that evening."""
    place = tmp_path_factory.mktemp("page") / "page.html"
    with zones.local("UTC"):
        place.write_text(render(evening))
    return place


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.file.stem)
def test_it_looks_as_people_have_seen_it(browser: Browser, file: Path, view: View, tmp_path: Path) -> None:
    """Where it should look otherwise: `python scripts/pictures.py`, and look at docs/pictures/."""
    now = taken(browser, view, file)
    (tmp_path / "seen.png").write_bytes(now.png)
    differ = [
        (name, share) for name, share in now.differences(browser, view.file.read_bytes()) if share > 0.005
    ]
    assert not differ, f"look at {tmp_path}/seen.png beside {view.file}"


def test_a_picture_shows_what_would_be_wrong(browser: Browser, file: Path, tmp_path: Path) -> None:
    """A badge in another colour, a bar of another length and a line that is gone are each seen."""
    text = file.read_text()
    for right, wrong in (
        (".state-hung,.state-gone,", ".state-hung,.state-gone{color:var(--OK)}"),
        ('value="60.9"', 'value="97.4"'),
        ("switch of moe-3b set by alice", "switch of moe-3b set by nobody"),
    ):
        assert right in text
        text = text.replace(right, wrong)
    (tmp_path / "wrong.html").write_text(text)
    found = taken(browser, VIEWS[0], tmp_path / "wrong.html").differences(browser, VIEWS[0].file.read_bytes())
    assert [name for name, share in found if share > 0.005] == [
        "li 'stalled glide-xl 77 %'",
        "li 'gone llama-7b 45 %'",
        "li 'running moe-3b 60 %'",
        "p 'save switch of moe-3b'",
    ], found


def test_pictures_are_few_and_small() -> None:
    folder = VIEWS[0].file.parent
    assert {each.name for each in folder.iterdir()} == {view.file.name for view in VIEWS}
    assert sum(each.stat().st_size for each in folder.iterdir()) < 700_000


def test_a_page_of_many_runs_is_no_larger_than_a_picture(evening: PageContent) -> None:
    many = [replace(run, name=f"{run.name}-{copy}") for copy in range(13) for run in evening.runs]
    assert len(render(replace(evening, runs=tuple(many)))) < 500_000


def test_first_comes_how_many_runs_train_then_each_in_a_line(browser: Browser, file: Path) -> None:
    with tab(browser) as seen:
        seen.page.goto(file.as_uri())
        runs = "1 of 4 runs trains, 1 uncertain, 1 stalled, 1 gone"
        assert seen.page.title() == f"bloom-watch: {runs}; 1 UNKNOWN, 1 WARNING open"
        rows = [
            " ".join(each.split())
            for each in seen.page.locator(".runs >> nth=0").locator("li").all_inner_texts()
        ]
        assert rows == [
            "stalled glide-xl 77 % before: 3.0 s/iteration 40m lost this week "
            "iteration 81240/105000 | lm loss: 2.030 | 3.00 s",
            "gone llama-7b 45 % before: 2.6 s/step 5h lost this week "
            "torch.OutOfMemoryError: CUDA out of memory",
            "running? plain-1b 1 % done in about 4h56m 1.1 steps/s step 249: loss 3.1, 0.9 s "
            "not confirmed yet: stalled, no output for 3m9s (limit 90s), at step 249",
            "running moe-3b 60 % done in about 10d 2.4 s/iteration 21m lost this week "
            "iteration 548500/900000 | lm loss: 1.873 | 2.41 s | grad norm 0.72",
        ]
        heads = seen.page.locator("h1:visible,h2:visible").all_inner_texts()
        assert heads[1:] == [
            "Runs", "4 incidents open", "Disks and other checks", "Messages", "The watchdog itself",
        ]  # fmt: skip
        incidents = [
            each.split(":")[0] for each in seen.page.locator(".incident:visible h3").all_inner_texts()
        ]
        assert [" ".join(each.split()) for each in incidents] == [
            "CRITICAL glide-xl", "CRITICAL llama-7b", "WARNING scratch inodes",
            "UNKNOWN cron.hourly/old-logs",
        ]  # fmt: skip
        assert seen.complaints == []
        assert seen.requests == [file.as_uri()]


def test_of_an_incident_the_end_of_the_log_is_seen_and_the_rest_unfolds(browser: Browser, file: Path) -> None:
    with tab(browser) as seen:
        seen.page.goto(file.as_uri())
        first = seen.page.locator("#incident-9")
        assert "watchdogd does this now, for 20s: requeue its job (on_hang)" in first.inner_text()
        assert (
            first.locator("pre")
            .first.inner_text()
            .endswith("iteration 81240/105000 | lm loss: 2.030 | 3.00 s")
        )
        advice = ["watchdogd stacks glide-xl", "scontrol requeue 331"]
        assert first.locator(".advice code").all_inner_texts() == advice
        assert "2 ranks (n002) stand in next_batch" not in first.inner_text()
        seen.page.locator("#incident-9 summary").focus()
        seen.page.keyboard.press("Enter")
        assert "2 ranks (n002) stand in next_batch" in first.inner_text()
        assert "incident.json" not in first.locator("h4").all_inner_texts()
        with seen.page.expect_download() as loaded:
            first.get_by_role("link", name="download incident.json").click()
        assert loaded.value.suggested_filename == "incident-9-incident.json"
        assert json.loads(loaded.value.path().read_text()) == {"id": 9, "run": "glide-xl"}
        assert seen.complaints == []


def test_how_many_messages_are_folded_away(evening: PageContent) -> None:
    for count, said in ((5, "earlier one"), (6, ">1 earlier one<"), (7, ">2 earlier ones<")):
        page = render(replace(evening, messages=evening.messages[:count]))
        assert (said in page) is (count > 5)


def test_a_message_has_one_line_with_its_channels(browser: Browser, file: Path) -> None:
    with tab(browser) as seen:
        seen.page.goto(file.as_uri() + "#%E0%A4%A")
        assert seen.page.locator(".plot:visible canvas").count() == 2
        assert seen.complaints == []
        rows = seen.page.locator("section:has(#h-messages) li").all_inner_texts()
        assert len(rows) == 7
        assert rows[0].endswith("at iteration 81,240/105,000 slack sent, mail waiting (mail.test: refused)")


def test_a_run_has_a_view_by_its_name_and_the_way_back(browser: Browser, file: Path) -> None:
    with tab(browser, width=390) as seen:
        seen.page.goto(file.as_uri())
        assert not seen.page.locator(".view").first.is_visible()
        seen.page.get_by_role("link", name="moe-3b", exact=True).focus()
        seen.page.keyboard.press("Enter")
        assert seen.page.url.endswith("#run/moe-3b")
        view = seen.page.get_by_role("article", name="moe-3b running")
        text = view.inner_text()
        assert "548,500 of 900,000 iterations, 60.9 %" in text
        assert re.search(r"in about 10d, Thu 10 Dec \d\d:\d\d UTC; by its paces of late .*", text)
        assert not seen.page.locator("#h-incidents").is_visible()
        assert view.locator(".plot canvas").count() == view.locator(".plot").count() == 4
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
        view.get_by_role("link", name="all runs").click()
        assert seen.page.locator("#h-incidents").is_visible()
        assert not view.is_visible()
        seen.page.go_back()
        assert view.is_visible()
        assert seen.complaints == []


def test_no_constant_is_drawn_and_charts_fill_their_row(browser: Browser, file: Path) -> None:
    with tab(browser) as seen:
        seen.page.goto(file.as_uri() + "#run/glide-xl")
        view = seen.page.locator(".view.shown")
        titles = view.locator("figcaption").all_inner_texts()
        assert titles == [
            "progress", "loss", "age of the log", "GPU utilisation of each node", "GPU power of each node",
        ]  # fmt: skip
        edges = {
            round(each["x"] + each["width"])
            for each in (box.bounding_box() for box in view.locator("figure").all())
            if each
        }
        assert max(edges) - min(edges) > 100, "two a row"
        last = view.locator(".charts").first.locator("figure").last.bounding_box()
        row = view.locator(".charts").first.bounding_box()
        assert last
        assert row
        assert last["width"] == row["width"]


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (548_500, "", "548,500"),
        (1_600_000, "", "1.6 M"),
        (0.01234, "", "0.0123"),
        (2.034, "", "2.03"),
        (0, "", "0"),
        (-12.5, "W", "-12.5 W"),
        (672.25, "W", "672 W"),
        (80.9e9, "B", "80.9 GB"),
        (44 * 60, "s", "44m"),
        (2.41, "s", "2.41 s"),
        (1e-7, "", "0.0000001"),
        (9.87e15, "", "9.87e+03 T"),
        (math.nan, "", "?"),
        (math.inf, "s", "?"),
    ],
)
def test_figures_read_as_people_write_them(value: float, unit: str, shown: str) -> None:
    assert figure(value, unit) == shown


def test_many_runs_are_filtered(browser: Browser, evening: PageContent, tmp_path: Path) -> None:
    runs = tuple(replace(evening.runs[3], name=f"run-{n}") for n in range(12))
    many = replace(evening, runs=runs, open=())
    place = tmp_path / "page.html"
    place.write_text(render(many))
    with tab(browser) as seen:
        seen.page.goto(place.as_uri())
        assert seen.page.title() == "bloom-watch: All 12 runs train"
        seen.page.get_by_label("Show only").fill("run-1")
        assert seen.page.locator(".runs a:visible").all_inner_texts() == ["run-1", "run-10", "run-11"]
        assert not seen.page.locator("#incident-9").is_visible()
        assert re.fullmatch(r"3 of \d+ shown", seen.page.locator("#found").inner_text())


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
        seen.page.get_by_role("link", name=EVIL).click()
        assert seen.page.get_by_role("heading", name=EVIL).count() == 1
        assert seen.page.locator(".view.shown").get_attribute("id") == f"run/{EVIL}"
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

        made = "".join(f'<i class="{state}">.</i>' for state in STATES)
        seen.page.evaluate("made => document.body.insertAdjacentHTML('beforeend', made)", made)
        states = [colour(f"body > i.{state}", "backgroundColor") for state in STATES]
        assert min(math.dist(one, other) for one, other in itertools.combinations(states, 2)) > 60
        card = colour(".incident", "backgroundColor")
        assert contrast(colour(".incident .soft", "color"), card) >= 4.5
        for badge in ("OK", "WARNING", "CRITICAL", "UNKNOWN"):
            seen.page.evaluate(
                "word => { document.querySelector('.incident h3 span').className = word }", badge
            )
            assert contrast(colour(".incident h3 span", "color"), card) >= 4.5
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
    assert re.search(r"The watchdog's job 30 runs\.\s+No successor is known\.", render(picture, live=False))


def test_every_picture_has_words_and_every_control_a_name(
    browser: Browser, page: str, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(page)
    with tab(browser) as seen:
        seen.page.goto(file.as_uri())
        assert seen.page.locator("svg[role=img]").count() == 2
        for picture in seen.page.locator("svg[role=img]").all():
            assert "running" in (picture.get_attribute("aria-label") or "")
        for shown in seen.page.locator("figure").all():
            assert shown.locator(".figures li").count() > 0
        for bar in seen.page.locator("progress").all():
            assert bar.get_attribute("aria-label")
        assert seen.page.locator("thead:not(:has(~ tbody tr))").count() == 0
        levels = [int(each.evaluate("e => e.tagName[1]")) for each in seen.page.locator("h1,h2,h3,h4").all()]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_lines_break_off_where_nobody_looked() -> None:
    def line(*times: float, dashed: bool = False) -> ChartLine:
        return ChartLine("used", tuple((at, 1.0) for at in times), dashed=dashed)

    def columns(shown: ChartLine, *gaps: Gap) -> tuple[list[int], str]:
        times, (values,) = drawn_columns([shown], gaps)
        return list(itertools.accumulate(times)), values

    assert columns(line(0, 60, 120)) == ([0, 60, 120], "1,1,1")
    assert columns(line(0, 60, 9060)) == ([0, 60, 4560, 9060], "1,1,!,1")
    assert columns(line(0, 600, 1200), Gap(700, 1100, "down")) == ([0, 600, 900, 1200], "1,1,!,1")
    assert columns(line(0, 60, 120), Gap(10, 20, "away")) == ([0, 30, 60, 120], "1,!,1,1")
    assert columns(line(0, 60, 120), Gap(130, 200, "now")) == ([0, 60, 120], "1,1,1")
    assert columns(line(0, 90_000, dashed=True)) == ([0, 90_000], "1,1")
    assert drawn_columns([line(0, 60), line(30)], ()) == ((0, 30, 30), ["1,,1", ",1,"])


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
        last = seen.page.locator(".plot:visible").first.evaluate(
            """plot => {
            const data = JSON.parse(document.getElementById("data").textContent);
            const chart = data.charts.find((each) => each.id === plot.dataset.chart);
            return data.times[chart.times].reduce((sum, step) => sum + step, 0); }"""
        )
        assert shown_time(last) in legend.inner_text()
        assert seen.complaints == []


def test_a_time_with_seconds_has_room_at_the_edge_of_a_chart(
    browser: Browser, evening: PageContent, tmp_path: Path
) -> None:
    begin = evening.at - 120
    few = ChartLine("used", ((begin, 1.0), (evening.at, 2.0)))
    young = replace(evening, since=begin, runs=(), charts=(replace(evening.charts[0], lines=(few,)),))
    file = tmp_path / "page.html"
    file.write_text(render(young))
    with tab(browser) as seen:
        seen.page.goto(file.as_uri())
        plot, over = (seen.page.locator(each).first.bounding_box() for each in (".plot", ".u-over"))
        assert plot
        assert over
        assert plot["x"] + plot["width"] - over["x"] - over["width"] >= 30


def shown_time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, ZoneInfo('Europe/Berlin')):%d Mar %H:%M}"


def test_the_keyboard_reaches_everything(browser: Browser, page: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page)
    with tab(browser) as seen:
        seen.page.goto(file.as_uri())
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate("document.activeElement.textContent") == "to the runs"
        seen.page.keyboard.press("Enter")
        assert seen.page.evaluate("document.activeElement.id") == "main"
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate("document.activeElement.textContent") == "llama-7b"
        assert "on small1 runs until" in seen.page.locator("#h-chain + p").inner_text()
        assert "is PENDING (Priority), expected on small2." in seen.page.locator("#h-chain + p").inner_text()
        seen.page.locator("#chain summary").click()
        assert re.search(r"job 30 watched .*\n?.*job 29 watched", seen.page.locator("#chain ol").inner_text())
        seen.page.get_by_role("link", name="llama-7b", exact=True).focus()
        seen.page.keyboard.press("Enter")
        view = seen.page.locator(".view.shown")
        assert seen.page.evaluate("document.activeElement.id") == "run/llama-7b"
        view.get_by_text("state history").focus()
        seen.page.keyboard.press("Enter")
        assert re.search(r"stalled for 4h.* from ", view.locator("ol").inner_text())
        assert view.get_by_text("4 more are OK").count() == 1
        assert "is lost" in view.inner_text()
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
        seen.page.locator("#over > summary").click()
        seen.page.get_by_role("link", name="llama-7b", exact=True).click()
        seen.page.get_by_role("link", name="all runs").click()
        pages.append(first.replace("50 TB free", "40 TB free"))
        wait_until(
            lambda: "40 TB free" in seen.page.locator("#incident-2").inner_text(),
            30,
            "the page has renewed itself",
            every=0.1,
        )
        assert seen.page.locator("#over").get_attribute("open") is not None
        assert (
            seen.page.locator(".plot:visible canvas").count()
            == seen.page.locator(".plot:visible").count()
            > 0
        )
        assert seen.complaints == []
        assert all(url.startswith(f"http://127.0.0.1:{server.server_port}/") for url in seen.requests)


def test_advice_is_a_sentence_with_its_command_below_and_waits_for_what_watchdogd_does(
    evening: PageContent,
) -> None:
    again = {"sentence": "To have it start again:", "command": "scontrol requeue 331", "action": "requeue"}
    look = {"sentence": "To see where it stands:", "command": "watchdogd stacks glide-xl", "action": "stacks"}
    told = [
        each | {"advice": [look, again]} if each["check"] == "glide-xl/log_staleness" else each
        for each in evening.status["checks"]
    ]
    command = "watchdogd --home /work/bloom"
    page = render(replace(evening, status={**evening.status, "checks": told}, command=command))
    shown = page.partition('<div class="advice">')[2].partition("</div>")[0]
    assert re.findall(r"<p[^>]*>(?:<code>)?([^<]+)", shown) == [
        "To see where it stands:", "watchdogd --home /work/bloom stacks glide-xl",
        "Only if watchdogd could not requeue its job:", "scontrol requeue 331",
    ]  # fmt: skip
