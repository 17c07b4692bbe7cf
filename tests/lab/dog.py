"""watchdogd as people call it, on a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.lab import forked
from tests.lab.forked import Running
from tests.waiting import wait_until


def typed(
    words: Sequence[str], env: Mapping[str, str], under: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """watchdogd with these words, to its end, without a traceback; `under` is a prefix such as setpriv's."""
    if not under and forked.fits(words, env):
        done = forked.typed(words, env)
    else:
        argv = [*under, sys.executable, "-m", "watchdogd", *words]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert "Traceback" not in done.stdout + done.stderr
    return done


class Dog:
    """watchdogd on one home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = {**os.environ, "WATCHDOGD_HOME": str(home)}

    def settle(self, config: str) -> Dog:
        """Make the home, and configure it."""
        assert self("init").returncode == 0
        (self.home / "config.toml").write_text(config)
        return self

    @contextmanager
    def running(self) -> Iterator[Running]:
        """A daemon whose first round is over."""
        before = self._written()
        process = forked.daemon(self.env, self.home.with_name("said"))
        try:
            wait_until(lambda: self._written() != before, 60, "the first round is over")
            yield process
            process.terminate()
            process.wait(240)
        finally:
            process.kill()
            process.wait(240)

    def _written(self) -> float:
        """When the last round ended, as a time of its file."""
        path = self.home / "status.json"
        return path.stat().st_mtime if path.exists() else 0.0

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return typed(words, self.env)

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json").stdout)

    def alerts(self) -> str:
        path = self.home / "alerts.log"
        return path.read_text() if path.exists() else ""
