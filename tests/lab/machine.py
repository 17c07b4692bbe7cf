"""A machine of several users without Slurm: alice and bob, a watchdogd that both can type, and folders."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.lab import accounts, folders, interpreter, typist
from tests.lab.daemon import Daemon
from tests.lab.people import People, Words
from tests.lab.site import usual_umask
from tests.waiting import wait_until


class Machine:
    """As much of a cluster (tests/cluster.py) as its users have without any job; a context manager."""

    def __enter__(self) -> Self:
        with folders.one_at_a_time():
            folders.sweep()
            self.folder, self._lock = folders.create()
            accounts.ensure()
        self._people = People(self.folder)
        (
            self.folder / "slurm.conf"
        ).touch()  # where there is none, each tool of Slurm's looks for it for a minute
        with usual_umask():
            self._people.make_homes()
            self.watchdogd = interpreter.install(self.folder / "python", self._people) / "watchdogd"
            self.typed, self._typist = self._type()
        return self

    def _type(self) -> tuple[Path, Daemon]:
        program, path = self.folder / "watchdogd", self.folder / "typist"
        python = str(self.watchdogd.with_name("python"))
        server = Daemon(
            [python, "-P", typist.__file__, str(path)], log=self.folder / "log", env=self.env("root")
        )
        server.start()
        program.write_text(typist.CLIENT.format(python=python, path=str(path), real=str(self.watchdogd)))
        program.chmod(0o755)
        wait_until(path.exists, 60, "watchdogd can be typed")
        return program, server

    def __exit__(self, *_: object) -> None:
        self._people.end()
        self._typist.kill()
        with folders.one_at_a_time():
            folders.remove(self.folder)
            os.close(self._lock)
            if not folders.in_use():
                accounts.remove_made()

    def env(self, user: str) -> dict[str, str]:
        """The whole environment of this user's programs."""
        return self._people.env(user)

    def home(self, user: str) -> Path:
        """HOME of a user's programs."""
        return self._people.home(user)

    def new_folder(self) -> Path:
        """A fresh folder in which every user may write, as in /tmp."""
        folder = Path(tempfile.mkdtemp(prefix="scratch-", dir=self.folder))
        folder.chmod(0o1777)
        return folder

    def run_as(
        self, user: str, argv: Words, *, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as this user; AssertionError where it takes longer than 60 s."""
        return self._people.run(user, argv, env=env, cwd=cwd, check=False, timeout=60)

    def popen_as(
        self, user: str, argv: Words, *, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a program likewise, with pipes; it ends with the machine."""
        return self._people.popen(user, argv, env=env)
