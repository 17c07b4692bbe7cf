"""Links lead somewhere: in the repository, as people read it there, and on the site that is built of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from scripts.checkpages import TARGET
from scripts.checkpages import pages as check_pages

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).resolve().parents[2]
WRITTEN = sorted(
    path
    for folder in ("", "docs", "docs/checks", "deploy", "deploy/dropins", "examples", "benchmarks")
    for path in (PROJECT / folder).glob("*.md")
)
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
_HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)


def links(page: Path) -> Iterator[str]:
    """Where the links of a page lead, code left out."""
    for inline, reference in _LINK.findall(_CODE.sub("", page.read_text("utf-8"))):
        yield inline or reference


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub and mkdocs make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()).strip() for heading in _HEADING.findall(text))
    return {re.sub(r"\s", "-", heading) for heading in plain}


def dead(page: Path) -> Iterator[str]:
    """Links of a page that lead nowhere in the repository."""
    for link in links(page):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = page.parent / unquote(parts.path) if parts.path else page
        inside = target.resolve().is_relative_to(PROJECT) and target.exists()
        if not inside or (parts.fragment and parts.fragment not in anchors(target)):
            yield link


def test_the_pages_are_found() -> None:
    names = {str(page.relative_to(PROJECT)) for page in WRITTEN}
    assert {"README.md", "docs/index.md", "docs/checks/log_staleness.md", "CONTRIBUTING.md"} <= names
    assert sum(1 for page in WRITTEN for _ in links(page)) > 30


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_link_leads_somewhere_in_the_repository(page: Path) -> None:
    assert list(dead(page)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[a](other.md) [b](other.md#part-two) [c](https://example.org/x)", []),
        ("[a](none.md)", ["none.md"]),
        ("[a](other.md#part-three)", ["other.md#part-three"]),
        ("`[a](none.md)`\n```\n[a](none.md)\n```\n", []),
        ("[a][1]\n\n[1]: none.md", ["none.md"]),
        ("[a](/etc/passwd)", ["/etc/passwd"]),
    ],
)
def test_what_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, found: list[str]) -> None:
    monkeypatch.setattr("tests.docs.test_links.PROJECT", tmp_path.resolve())
    (tmp_path / "other.md").write_text("# One\n\n## Part two\n")
    page = tmp_path / "page.md"
    page.write_text(text)
    assert list(dead(page)) == found


def test_the_pages_of_the_checks_say_what_the_code_says() -> None:
    kept = {path.name: path.read_text("utf-8") for path in TARGET.glob("*.md")}
    assert kept == check_pages(), "a check has changed: run scripts/checkpages.py"


def test_which_log_formats_are_known_can_be_read() -> None:
    text = (TARGET / "log_staleness.md").read_text("utf-8")
    for name in ("Megatron", "NeMo", "Lightning", "tqdm"):
        assert name in text
