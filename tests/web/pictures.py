"""Pictures of the page: taken, written small, and held against those that people looked at."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.web.browser import tab

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
FONTS = 'body,input{font-family:"DejaVu Sans"!important}code,pre{font-family:"DejaVu Sans Mono"!important}'
"""Fonts of Debian's fonts-dejavu-core: those of a machine are its own."""
REGIONS = "header,.runs>li,.note,.incident,figure,.rows>li,h2:not(.quiet),dl,.timeline"
"""Elements that are compared one by one."""
_SCRIPT = Path(__file__).with_name("pictures.js").read_text()


@dataclass(frozen=True)
class View:
    """What is pictured: the page, or the view of one run, at a width."""

    name: str
    width: int
    dark: bool
    fragment: str = ""

    @property
    def file(self) -> Path:
        """Where its committed picture lies."""
        return FOLDER / f"{self.name}-{self.width}-{'dark' if self.dark else 'light'}.png"


VIEWS = (
    *(View("page", width, dark) for width in (390, 1280) for dark in (False, True)),
    View("run", 390, dark=True, fragment="#run/glide-xl"),
    View("run", 1280, dark=False, fragment="#run/glide-xl"),
)


@dataclass(frozen=True)
class Picture:
    """A picture as PNG, and where on it the parts of the page are: name, left, top, width, height."""

    png: bytes
    regions: list[list[Any]]

    def differences(self, browser: Browser, before: bytes) -> list[tuple[str, float]]:
        """Share of each part's dots that are another colour than in an earlier picture, the whole first."""
        width, height = struct.unpack(">II", self.png[16:24])
        with tab(browser) as seen:
            seen.page.evaluate(_SCRIPT)
            regions = [["all of it", 0, 0, width, height], *self.regions]
            told = [_address(before), _address(self.png), regions]
            return [
                (name, share) for name, share in seen.page.evaluate("(told) => pictures.compare(told)", told)
            ]


def taken(browser: Browser, view: View, file: Path) -> Picture:
    """Take a picture of the page in `file`."""
    with tab(browser, width=view.width, dark=view.dark) as seen:
        seen.page.goto(file.as_uri() + view.fragment)
        seen.page.add_style_tag(content=FONTS)
        seen.page.evaluate("document.fonts.ready")
        seen.page.evaluate("dispatchEvent(new HashChangeEvent('hashchange'))")
        seen.page.evaluate(_SCRIPT)
        regions = seen.page.evaluate("(wanted) => pictures.boxes(wanted)", REGIONS)
        shot = seen.page.screenshot(full_page=True)
        assert seen.complaints == []
        return Picture(
            _small(*seen.page.evaluate("(shot) => pictures.indexed(shot)", _address(shot))), regions
        )


def _small(width: int, height: int, colours: list[int], dots: str) -> bytes:
    """PNG of a few colours: a tenth of what a browser writes."""
    rows = base64.b64decode(dots)
    raw = b"".join(b"\0" + rows[at : at + width] for at in range(0, len(rows), width))
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    palette = b"".join(struct.pack(">I", colour)[1:] for colour in colours)
    parts = ((b"IHDR", head), (b"PLTE", palette), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _address(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
