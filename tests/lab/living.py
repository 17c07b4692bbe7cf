"""watchdogd in this process's environment: verbs within it, which is quick; a daemon and a page beside it."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.lab import dog
from tests.lab.processes import started
from watchdogd.cli import main
from watchdogd.home.layout import Home
from watchdogd.home.lease import alive


def said(*words: str) -> str:
    """What a verb says, on both its streams."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        main(list(words))
    return out.getvalue()


def typed(*words: str) -> str:
    """The same by a process of its own, which has to end well."""
    done = dog.typed(words, os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def daemon_of(home: Path) -> psutil.Process:
    """The daemon that acts for a home."""
    holder = alive(Home(home))
    assert holder
    return psutil.Process(holder.pid)


@contextlib.contextmanager
def page() -> Iterator[tuple[psutil.Process, str]]:
    """`web` on a free port: its process, and the address that it prints."""
    argv = [sys.executable, "-m", "watchdogd", "web", "--port", "0"]
    with started(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield psutil.Process(process.pid), process.stdout.readline().strip()
        finally:
            process.terminate()
