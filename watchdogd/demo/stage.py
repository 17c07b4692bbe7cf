"""Stage of the demo: a temporary home with a training, a small disk and a real daemon.

The daemon posts its alerts to a webhook on this machine. Leaving the stage ends every process and removes
every file.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psutil

from watchdogd.demo import disk, toy_training
from watchdogd.demo.toy_training import RUN
from watchdogd.errors import WatchdogError
from watchdogd.home.layout import Home
from watchdogd.system import command
from watchdogd.system.text import paragraphs


@dataclass(frozen=True, slots=True)
class PostedAlert:
    """Message: first line, body, time, and the subjects that it names."""

    status: str
    target: str
    headline: str
    body: str = ""
    at: str = ""
    subjects: frozenset[str] = frozenset()

    @classmethod
    def from_json(cls, posted: dict[str, Any]) -> PostedAlert:
        """Return the alert that a channel of type webhook posted."""
        subjects = frozenset(item["subject"] for item in posted["items"])
        words = {key: str(posted[key]) for key in ("status", "target", "headline", "body", "at")}
        return cls(**words, subjects=subjects)

    @property
    def clock(self) -> str:
        return datetime.fromisoformat(self.at).strftime("%H:%M:%S")

    @property
    def evidence(self) -> tuple[str, ...]:
        """Return its verbatim lines, such as those of a log, without commands."""
        shown = (text.splitlines() for verbatim, text in paragraphs(self.body) if verbatim)
        return tuple(line for lines in shown for line in lines if not line.startswith("watchdogd "))


class Mailbox:
    """Server on loopback that keeps the `alerts` sent to it, oldest first."""

    def __init__(self) -> None:
        self._alerts: list[PostedAlert] = []
        keep = self._alerts.append

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                keep(PostedAlert.from_json(json.loads(self.rfile.read(length))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/"

    @property
    def alerts(self) -> tuple[PostedAlert, ...]:
        """Return the alerts so far, oldest first."""
        return tuple(self._alerts)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


CONFIG = """\
[daemon]
name = "demo-watch"
interval = "1s"

[slurm]
min_poll = "1s"

[channels.alerts]
type = "webhook"
url = "{mailbox}"
rate = "none"

[runs.{run}]
backend = "process"
pid_file = "train/train.pid"
log = "train/train.log"
stale_after = "5s"

[disks.scratch]
path = "scratch"
quota = {{ command = {quota} }}
warn_free = "2MB"
crit_free = "1MB"
warn_inodes_free = "20"
crit_inodes_free = "10"
"""
GONE = 15.0
"""Seconds for the kernel to end killed processes."""
_VERB = 60.0
"""Maximum seconds for one verb on a busy machine."""


class BrokenError(WatchdogError):
    """A process on the stage ended unexpectedly: the text says which, with its last words."""


@dataclass(frozen=True, slots=True)
class StageView:
    """State of the stage at one moment.

    `status`: output of `watchdogd status --json`. `fine_for`: seconds for which every check has been OK.
    `exit_code`: the training's, None while it lives. `log`: last lines of its log.
    """

    status: dict[str, Any] = field(default_factory=dict)
    alerts: tuple[PostedAlert, ...] = ()
    fine_for: float = 0.0
    exit_code: int | None = None
    log: tuple[str, ...] = ()


class Stage:
    """Home and its processes; `with` creates and removes them.

    `read_status`: returns the output of `watchdogd status --json` for a home.
    """

    def __init__(self, read_status: Callable[[Home], dict[str, Any]]) -> None:
        self._read_status = read_status
        self._children: list[subprocess.Popen[bytes]] = []
        self._mailbox = Mailbox()
        self._fine_since: float | None = None

    def __enter__(self) -> Stage:
        self.home = Home(Path(tempfile.mkdtemp(prefix="watchdogd-demo-")).resolve())
        try:
            self._build()
        except BaseException:  # raised again; no process or folder is left
            self._clear()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    @property
    def scratch(self) -> Path:
        return self.home.path / "scratch"

    @property
    def worker(self) -> psutil.Process:
        """Return the process that trains, below its launcher."""
        return psutil.Process(self._training.pid).children()[0]

    def verb(self, *words: str) -> str:
        """Return what a verb of watchdogd prints. BrokenError where it fails."""
        argv = [sys.executable, "-m", "watchdogd", *words]
        answer = command.ask(argv, deadline=_VERB, env=self._environment(), cwd=str(self.home.path))
        if not answer.ok:
            raise BrokenError(f"'watchdogd {' '.join(words)}' failed: {answer.complaint()}")
        return answer.output.strip()

    def look(self) -> StageView:
        """Return what is to be seen now. BrokenError where the daemon or the training has died."""
        if self._daemon.poll() is not None:
            raise BrokenError(f"the daemon ended by itself: {self._last_words('daemon.err')}")
        code = self._training.poll()
        if code:
            raise BrokenError(f"the training ended with {code}: {self._last_words('train.err')}")
        status = self._read_status(self.home)
        return StageView(
            status,
            self._mailbox.alerts,
            self._fine_for(status),
            code,
            tuple(self._text("train/train.log").splitlines()[-10:]),
        )

    def _build(self) -> None:
        self.home.make()
        quota = json.dumps([sys.executable, "-m", "watchdogd.demo.disk", str(self.scratch)])
        self.home.write(self.home.config, CONFIG.format(run=RUN, quota=quota, mailbox=self._mailbox.url))
        disk.prepare(self.scratch)
        (self.home.path / "train").mkdir()
        words = [str(self.home.path / "train"), str(self.scratch)]
        self._training = self._start("train", signal.SIGKILL, "watchdogd.demo.toy_training", *words)
        self._daemon = self._start("daemon", signal.SIGTERM, "watchdogd", "run")

    def _start(self, name: str, end: signal.Signals, *words: str) -> subprocess.Popen[bytes]:
        """Start a Python module in a session of its own, so that Ctrl-C reaches the demo alone.

        What it prints goes to NAME.out, complaints to NAME.err.
        """
        path = self.home.path
        with (path / f"{name}.out").open("ab") as output, (path / f"{name}.err").open("ab") as errors:
            child = subprocess.Popen(
                [sys.executable, "-m", *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                cwd=path,
                env=self._environment(),
                start_new_session=True,
                preexec_fn=partial(toy_training.end_with_parent, end),
            )
        self._children.append(child)
        return child

    def _environment(self) -> dict[str, str]:
        return command.environment({"WATCHDOGD_HOME": str(self.home.path), "no_proxy": "127.0.0.1"})

    def _fine_for(self, status: dict[str, Any]) -> float:
        checks = status["checks"]
        fine = status["alive"] and checks and all(check["status"] == "OK" for check in checks)
        if not fine:
            self._fine_since = None
            return 0.0
        self._fine_since = self._fine_since or time.monotonic()
        return time.monotonic() - self._fine_since

    def _text(self, name: str) -> str:
        try:
            return (self.home.path / name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def _last_words(self, name: str) -> str:
        lines = self._text(name).strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def _clear(self) -> None:
        """End all processes and remove the home."""
        self._mailbox.close()
        left = [each for child in self._children if child.poll() is None for each in _frozen(child.pid)]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=GONE)
        for child in self._children:
            child.poll()
        shutil.rmtree(self.home.path)


def _frozen(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants, each stopped before its children are listed."""
    try:
        process = psutil.Process(pid)
        process.suspend()
        return [process, *(below for child in process.children() for below in _frozen(child.pid))]
    except psutil.NoSuchProcess:
        return []
