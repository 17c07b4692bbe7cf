"""The documentation builds, its links lead somewhere, and the generated pages say what the code says."""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import FOLDER, loose, pages
from watchdogd.cli import VERBS
from watchdogd.daemon.registry.plugin_registry import discover
from watchdogd.home.layout import Home


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=FOLDER.parent,
        env={"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def text_of(page: Path) -> str:
    return re.sub(r"<[^>]+>", "", page.read_text())


def test_every_built_in_check_has_its_page_with_its_reasoning_and_parameters(site: Path) -> None:
    entries = [entry for entry in discover(Home(Path("/nonexistent"))).values() if not entry.foreign]
    assert len(entries) >= 7
    for entry in entries:
        text = text_of(site / "checks" / entry.name / "index.html")
        for name in entry.parameters:
            assert name in text
        reasoning = inspect.getdoc(importlib.import_module(entry.source.module)) or ""
        assert len(reasoning.split()) > 80, f"{entry.name}: its module says too little of how it judges"
        assert reasoning.split()[-3] in text


def test_every_verb_has_its_help(site: Path) -> None:
    text = text_of(site / "verbs" / "index.html")
    for verb in VERBS:
        assert f"usage: watchdogd {verb}" in text


def test_every_page_is_in_the_menu(site: Path) -> None:
    menu = (site / "index.html").read_text()
    for page in pages():
        if page.stem != "index":
            assert f'href="{page.stem}/"' in menu
    for check in (site / "checks").glob("*/index.html"):
        assert f'href="checks/{check.parent.name}/"' in menu


def test_every_link_leads_somewhere_on_the_site(site: Path) -> None:
    dead = []
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # served anywhere, so its links are absolute
            continue
        for link in re.findall(r'<a[^>]+href="([^"]+)"', page.read_text()):
            path, _, anchor = link.partition("#")
            if ":" in path or not (path or anchor):
                continue
            target = page.parent / path if path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (anchor and f'id="{anchor}"' not in target.read_text()):
                dead.append((str(page.relative_to(site)), link))
    assert dead == []


def test_what_the_tutorial_says_of_config_toml_leads_to_its_page(site: Path) -> None:
    assert 'href="../configuration/"' in (site / "tutorial" / "index.html").read_text()


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        found = re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(https?:[^"]+)', page.read_text())
        assert found == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_every_command_is_one_that_a_test_runs(page: Path) -> None:
    assert loose(page) == []


def test_the_tool_is_there() -> None:
    assert shutil.which("mkdocs", path=str(Path(sys.executable).parent))
