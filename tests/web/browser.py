"""A real headless Chromium, and what it complained of."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, ViewportSize

_OPTIONS = (
    "--no-sandbox",  # it runs as root in CI
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass
class Tab:
    """A page, with every line of its console, every error, and every address that it asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; it takes seconds to begin, so tests share one, in which each has a profile of its own."""
    program = shutil.which("chromium")
    assert program, "the page is tested in Debian's chromium: run scripts/packages"
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=program, args=list(_OPTIONS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tab(browser: Browser, *, width: int = 1100, dark: bool = False) -> Iterator[Tab]:
    """A tab of a fresh profile."""
    size: ViewportSize = {"width": width, "height": 800}
    profile = browser.new_context(viewport=size, color_scheme="dark" if dark else "light")
    try:
        page = profile.new_page()
        found = Tab(page)
        page.on("console", lambda message: found.complaints.append(message.text))
        page.on("pageerror", lambda error: found.complaints.append(str(error)))
        page.on("request", lambda request: found.requests.append(request.url))
        yield found
    finally:
        profile.close()
