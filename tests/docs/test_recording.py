"""The demo's recorded terminal and page: near the top of README and docs, small, without a machine's names.

tests/test_demo.py holds the terminal against a run of today.
"""

from __future__ import annotations

import re
import struct
from xml.etree import ElementTree as ET

import pytest

from tests.docs.test_links import PROJECT, links

TERMINAL, PAGE = (PROJECT / "docs" / "demo" / name for name in ("terminal.svg", "page.png"))
SVG = "{http://www.w3.org/2000/svg}"


def shown() -> str:
    """What the recorded terminal shows, line by line."""
    rows: dict[float, dict[float, str]] = {}
    matrix = ET.fromstring(TERMINAL.read_text()).find(f".//{SVG}g[@class='demo-matrix']")
    assert matrix is not None
    for piece in matrix.iter(f"{SVG}text"):
        rows.setdefault(float(piece.attrib["y"]), {})[float(piece.attrib["x"])] = piece.text or ""
    lines = ("".join(text for _, text in sorted(row.items())) for _, row in sorted(rows.items()))
    return "\n".join(line.replace("\xa0", " ").rstrip() for line in lines)


def masked(said: str) -> str:
    """What the demo says without what is another each time: numbers, its folder's name, and breaks."""
    named = re.sub(r"watchdogd-demo-\w{8}", "watchdogd-demo", "".join(said.split()))
    return re.sub(r"\d[\d.,:hms]*(?:E[+-]\d+)?", "#", named)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_both_are_shown_near_the_top(page: str) -> None:
    first = list(links(PROJECT / page))[:4]
    assert {(PROJECT / page).parent / link for link in first} == {TERMINAL, PAGE}
    assert (PROJECT / page).read_text().index("terminal.svg") < 3000


def test_the_page_is_a_small_picture_and_nothing_else() -> None:
    data = PAGE.read_bytes()
    assert len(data) < 150_000
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    kinds, at = [], 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kinds.append(data[at + 4 : at + 8])
        at += length + 12
    assert kinds == [b"IHDR", b"PLTE", b"IDAT", b"IEND"], "no words, times or names of who made it"


def test_the_terminal_is_small_and_fetches_nothing() -> None:
    text = TERMINAL.read_text()
    assert len(text) < 60_000
    assert not re.search(r"@import|@font-face|href|<script|url\((?!#)", text)


def test_the_terminal_names_no_machine_and_nobody() -> None:
    said = shown()
    assert "All 8 steps were seen" in said
    paths = re.findall(r"(?<!\S)~?/\S+", said)
    assert [path for path in paths if not re.match(r"/tmp/watchdogd-demo-\w{8}|~/\.watchdogd/", path)] == []
    assert set(re.findall(r"\bby (\w+)", said)) == {"alice"}
    assert set(re.findall(r"\bon (\w+)", said)) <= {"request", "it"}


def test_what_is_masked() -> None:
    was = "seen after 14.3 s\nloss: 3.9E-02 in /tmp/watchdogd-demo-pk_x2xhd, 6 of 200 inodes after 1m9s"
    now = "seen after 9.1 s loss: 1.2E+01 in\n/tmp/watchdogd-demo-abcdefgh, 12 of 200 inodes after 19s"
    assert masked(was) == masked(now) == "seenafter#loss:#in/tmp/watchdogd-demo,#of#inodesafter#"
    assert masked(was.replace("loss", "cost")) != masked(now)
