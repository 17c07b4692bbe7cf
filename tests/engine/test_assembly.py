"""What a daemon finds in home when it begins."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.notify.values import letter
from watchdogd.engine.assembly import assembled, outbox_of
from watchdogd.engine.setup import Setup
from watchdogd.history.record import Record
from watchdogd.home import Home

KILLED = """
import os, signal, sys
from pathlib import Path
from watchdogd.home import Home
from watchdogd.notify.claims import Claims
Claims(Home(Path(sys.argv[1]))).take(sys.argv[2], "slack")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("state", ["sent", "failed", "expired", "diverted"])
def test_the_claim_of_one_who_was_killed_goes_when_its_message_is_settled(tmp_path: Path, state: str) -> None:
    home = Home(tmp_path)
    home.make()
    home.write(home.config, "")
    settled = replace(letter(1, now=time.time()), state=state)
    waiting = letter(2, now=time.time())
    for each in (settled, waiting):
        subprocess.run([sys.executable, "-c", KILLED, str(home.path), each.key], check=False)
    with assembled(home, Setup.load(home)) as parts:
        parts.storage.record(Record(time.time(), notifications=(settled, waiting)))
        assert len(os.listdir(tmp_path / ".outbox")) == 2
        outbox_of(parts, lambda: True)
    (left,) = (tmp_path / ".outbox").iterdir()
    assert waiting.key in left.read_text()
