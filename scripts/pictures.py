#!/usr/bin/env python3
"""Takes docs/pictures/ anew, in Chromium: when the page looks otherwise on purpose. Look at them then."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.lab import zones
from tests.web.browser import chromium
from tests.web.evening import gathered
from tests.web.pictures import VIEWS, taken
from watchdogd.web.render import render

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, chromium() as browser, zones.local("UTC"):
        file = Path(folder, "page.html")
        file.write_text(render(gathered(Path(folder))))
        for view in VIEWS:
            view.file.parent.mkdir(exist_ok=True)
            view.file.write_bytes(taken(browser, view, file).png)
            print(view.file, view.file.stat().st_size)
