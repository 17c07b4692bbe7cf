"""watchdogd in a process of its own that has imported everything already: most of what a short verb costs.

A server imports watchdogd once for all tests of a process, and forks for each call. What a call sees is as it
is typed: its words, environment, folder, umask, standard streams. How watchdogd itself comes up is not seen
so: that is for the tests that start it for real, as all of tests/slurm do.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from watchdogd import cli

LIMIT = 300.0
VERBS = (
    "ack",
    "backtest",
    "check",
    "config",
    "doctor",
    "env",
    "export",
    "finish",
    "history",
    "import",
    "incidents",
    "init",
    "kill-switch",
    "nodes",
    "notify",
    "outbox",
    "plugins",
    "relay",
    "report",
    "save-switch",
    "silence",
    "status",
    "stop",
    "tick",
    "unsilence",
    "watch",
)
"""Those that come back soon and leave nobody behind who would hold their streams open."""
PRELOADED = (
    *{f"watchdogd.cli.{cli.VERBS[verb][0]}" for verb in VERBS},
    "alembic.command",
    "psycopg",
    "rich.table",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "tests.history.values",
    "tests.lab.forked",
    "tests.notify.sender_process",
    "watchdogd.cli.lookup",
    "watchdogd.cli.run",
    "watchdogd.daemon.wiring",
    "watchdogd.daemon.status_file",
    "watchdogd.history.store",
)
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["__main__", *PRELOADED])


def fits(words: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether this call can be forked: it has a short verb, and nothing that Python reads as it begins."""
    return words[0] in VERBS and "--help" not in words and _alike(env)


def _alike(env: Mapping[str, str]) -> bool:
    ours = {name: value for name, value in os.environ.items() if _early(name)}
    return ours == {name: value for name, value in env.items() if _early(name)}


def _early(name: str) -> bool:
    return name.startswith(("PYTHON", "LC_", "LD_", "LANG")) and name != "PYTHONPATH"


def typed(words: Sequence[str], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """`watchdogd WORDS` to its end."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        before = os.umask(0o022)
        os.umask(before)
        told = (list(words), dict(env), os.getcwd(), before, str(out), str(err))
        process = CONTEXT.Process(target=_run, args=told)
        process.start()
        process.join(LIMIT)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(list(words), LIMIT)
        argv = ["watchdogd", *words]
        return subprocess.CompletedProcess(argv, process.exitcode, out.read_text(), err.read_text())


class Forked:
    """`watchdogd WORDS` while it runs, held as Popen holds a process; what it says is added to a file."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str], said: Path) -> None:
        before = os.umask(0o022)
        os.umask(before)
        told = (list(words), dict(env), os.getcwd(), before, str(said), str(said))
        self._process = CONTEXT.Process(target=_run, args=told, daemon=True)
        self._process.start()
        self.pid = self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("watchdogd", timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


Running = Forked | subprocess.Popen[bytes]


def daemon(
    env: Mapping[str, str], said: Path, under: Sequence[str] = (), python: str = sys.executable
) -> Running:
    """`watchdogd run` in a session of its own, forked where nothing stands against it."""
    if not under and python == sys.executable and _alike(env):
        return Forked(["run"], env, said)
    with said.open("ab") as output:
        return subprocess.Popen(
            [*under, python, "-m", "watchdogd", "run"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _run(words: list[str], env: dict[str, str], folder: str, umask: int, out: str, err: str) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(env)
    sys.path[1:1] = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    time.tzset()
    os.chdir(folder)
    sys.argv[:] = ["watchdogd", *words]
    sys.stdout = _stream(1, out, "strict")
    sys.stderr = _stream(2, err, "backslashreplace")
    os.umask(umask)
    main = importlib.import_module("watchdogd.cli").main
    try:
        sys.exit(main())
    finally:
        atexit._run_exitfuncs()
        with contextlib.suppress(ValueError, OSError):
            sys.stdout.flush()


def _stream(descriptor: int, path: str, errors: str) -> TextIO:
    """This standard stream anew, as Python makes it."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, descriptor)
    os.close(file)
    return open(descriptor, "w", errors=errors, closefd=False)
