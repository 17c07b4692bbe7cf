#!/usr/bin/env python3
"""Records the demo for README and docs: its terminal, and the page of its home while an incident is open.

It runs as `alice` on `login1`, in namespaces of its own: no name of this machine is in what is published.
"""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.text import Text

from tests.lab import zones
from tests.web.browser import chromium
from tests.web.pictures import View, taken
from watchdogd.cli.web import page
from watchdogd.home.layout import Home

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "demo"
TERMINAL, PAGE = FOLDER / "terminal.svg", FOLDER / "page.png"
WIDTH = 100
_STEP = 6
"""After it the little disk is full, and the hang before it is over."""
_STAGE = """
hostname login1
sed "s/^[^:]*:[^:]*:0:/alice:x:0:/" /etc/passwd > "$1"
mount --bind "$1" /etc/passwd
shift
PATH=$(dirname "$1") exec "$@"
"""


def recorded(folder: Path) -> tuple[str, str]:
    """Return what a run of the demo prints on a terminal with colours, and the page of its home."""
    stage = ["unshare", "--map-root-user", "--uts", "--mount", "sh", "-euc", _STAGE, "sh"]
    command = [*stage, str(folder / "passwd"), sys.executable, "-m", "watchdogd", "demo"]
    environment = {"PATH": os.environ["PATH"], "TZ": "UTC", "LANG": "C.UTF-8"}
    environment |= {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(WIDTH)}
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    said, html = "", ""
    for line in demo.stdout or ():
        said += line
        if said.count("seen after") == _STEP and not html:
            [home] = re.findall(r"\S+/watchdogd-demo-\w+", said)
            demo.send_signal(signal.SIGSTOP)  # or its next step might come first
            try:
                html = page(Home(Path(home)), 3600.0)
            finally:
                demo.send_signal(signal.SIGCONT)
    if demo.wait(timeout=60) or not html or "by alice" not in said:  # a useradd meanwhile undoes the mount
        sys.exit(f"the demo cannot be recorded: it ended with {demo.returncode}, after: {said}")
    return said, html


def terminal(said: str) -> str:
    """Return an SVG of a terminal that shows this; it fetches no font from elsewhere."""
    console = Console(file=io.StringIO(), record=True, width=WIDTH, force_terminal=True)
    console.print(Text.from_ansi(said.rstrip()))
    image = console.export_svg(title="watchdogd demo", unique_id="demo")
    return re.sub(r"@font-face \{.*?\}\s*", "", image, flags=re.DOTALL)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, chromium() as browser, zones.local("UTC"):
        said, html = recorded(Path(folder))
        file = Path(folder, "page.html")
        file.write_text(html)
        TERMINAL.write_text(terminal(said))
        PAGE.write_bytes(taken(browser, View("demo", 1000, dark=False), file).png)
