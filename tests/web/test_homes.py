"""Several homes on one page; one that cannot be read takes nothing from the others."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

from watchdogd.cli import main, web
from watchdogd.config.loading import load
from watchdogd.config.models import Config
from watchdogd.errors import WatchdogError
from watchdogd.home.layout import Home


@pytest.fixture
def homes(tmp_path: Path) -> list[str]:
    """Two that are well, one of them named to harm; one that is broken; one that is not there."""
    texts = {"a": 'name = "six <b>"', "b": 'name = "bloom"', "broken": "name = ["}
    for name, text in texts.items():
        home = Home(tmp_path / name)
        home.make()
        home.config.write_text(f"[daemon]\n{text}\n")
    return [word for name in (*texts, "gone") for word in ("--home", str(tmp_path / name))]


def test_a_report_of_several_homes_holds_the_page_of_each(
    homes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "page.html"
    loaded: list[Home] = []

    def counted(home: Home, *, pressing: bool) -> Config:
        loaded.append(home)
        return load(home, pressing=pressing)

    monkeypatch.setattr(web, "load", counted)
    assert main(["report", *homes, "-o", str(file)]) == 0
    assert len(loaded) == 3, "once for each home that is there"
    text = file.read_text()
    assert "<h1>4 homes</h1>" in text
    assert "six &lt;b&gt;" in text
    assert text.count("srcdoc=") == 2
    assert text.count('class="banner"') == 2
    assert "It has not watched yet" in unescape(text)
    assert main(["report", *homes[:2], "-o", str(file)]) == 0
    assert "homes</h1>" not in file.read_text()


def test_the_live_page_leads_to_that_of_each_home_and_to_its_numbers(homes: list[str]) -> None:
    documents = web.documents_of(homes[1::2], 3600.0)
    assert [*documents] == ["/", *(f"/{n}/{what}" for n in range(1, 5) for what in ("", "metrics"))]
    first = documents["/"].make()
    assert '<a href="/2/">bloom</a>' in first
    assert "srcdoc" not in first
    assert "bloom" in documents["/2/"].make()
    assert "watchdogd_alive 0.0" in documents["/1/metrics"].make()
    with pytest.raises(WatchdogError):
        documents["/4/"].make()
