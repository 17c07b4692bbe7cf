"""status --watch in a real terminal: what it draws, with colours or without, until Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("colour", "escapes"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],  # a dumb one is written to line by line
)
def test_it_draws_until_it_is_ended(tmp_path: Path, colour: dict[str, str], escapes: bool) -> None:
    (tmp_path / "config.toml").write_text("")
    tmp_path.chmod(0o700)
    master, slave = pty.openpty()
    env = {"PATH": "/nowhere", "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", **colour}
    words = [sys.executable, "-m", "watchdogd", "--home", str(tmp_path), "status", "--watch", "--every", "1s"]
    process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, env=env)
    os.close(slave)
    seen = b""

    def drawn() -> bool:
        nonlocal seen
        seen += os.read(master, 65536)
        return b"last round: never" in seen

    try:
        wait_until(drawn, 60, "the picture is drawn")
        process.send_signal(signal.SIGINT)
        assert process.wait(240) == 130
    finally:
        process.kill()
        process.wait(240)
        os.close(master)
    text = b" ".join(re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", seen).split())
    assert b"not alive, to start it: watchdogd --home" in text  # a long path of home may break the line
    assert bool(re.search(rb"\x1b\[(?:1;)?31m", seen)) == escapes
