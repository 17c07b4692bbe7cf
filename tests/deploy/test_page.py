"""docs/where-to-run.md: what it points to is there, it knows all of deploy/, and README leads to it."""

import re
from pathlib import Path

import pytest

from tests.deploy.pages import FOLDER

PROJECT = FOLDER.parent
PAGE = PROJECT / "docs" / "where-to-run.md"


def targets(page: Path) -> set[Path]:
    """The files to which a page links."""
    found = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    return {(page.parent / each).resolve() for each in found if "://" not in each}


@pytest.mark.parametrize("page", [PROJECT / "README.md", PAGE], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert [target for target in targets(page) if not target.exists()] == []


def test_the_page_is_found_and_leads_to_all_of_deploy() -> None:
    assert PAGE in targets(PROJECT / "README.md")
    assert {file for file in FOLDER.iterdir() if file.is_file()} <= targets(PAGE)
