"""A PostgreSQL server of our own: Debian's programs, a folder below /tmp, a socket in it and no port."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

PROGRAMS = "/usr/lib/postgresql"
USER = "postgres"
"""Debian's package makes it; the server refuses to run as root."""


class Postgres:
    """A context manager; `url` makes a database that nobody has used yet."""

    def __init__(self) -> None:
        found = sorted(Path(PROGRAMS).glob("*/bin/pg_ctl"))
        if not found:
            raise RuntimeError("there is no PostgreSQL: run scripts/packages")
        self._programs = found[-1].parent
        self._made = 0

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="watchdogd-postgres-"))
        self._as_root = os.geteuid() == 0
        if self._as_root:
            person = pwd.getpwnam(USER)
            os.chown(self._folder, person.pw_uid, person.pw_gid)
        self._folder.chmod(0o755)
        data = self._folder / "data"
        try:
            self._run(
                "initdb",
                "-D",
                str(data),
                "-U",
                "alice",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "-N",
            )
            options = f"-c listen_addresses='' -c unix_socket_directories={self._folder} -c fsync=off"
            log = str(self._folder / "log")
            self._run("pg_ctl", "-D", str(data), "-l", log, "-o", options, "-w", "-t", "60", "start")
        except BaseException:
            shutil.rmtree(self._folder)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._run("pg_ctl", "-D", str(self._folder / "data"), "-m", "immediate", "-w", "stop")
        finally:
            shutil.rmtree(self._folder)

    @property
    def folder(self) -> Path:
        """Where its socket is: the `host` of a client."""
        return self._folder

    @property
    def env(self) -> dict[str, str]:
        """For the shell of its administrator."""
        path = f"{self._programs}:{os.environ['PATH']}"
        return {"PGHOST": str(self._folder), "PGUSER": "alice", "PATH": path}

    def url(self) -> str:
        """The URL of a fresh, empty database."""
        self._made += 1
        name = f"history{self._made}"
        self._run("createdb", "-h", str(self._folder), "-U", "alice", name)
        return f"postgresql+psycopg://alice@/{name}?host={self._folder}"

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            [str(self._programs / program), *words],
            check=True,
            user=USER if self._as_root else None,
            group=USER if self._as_root else None,
            extra_groups=[] if self._as_root else None,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=300,
        )
