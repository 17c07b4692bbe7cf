"""Running programs as the users of a cluster, in an environment that holds nothing of the tests' own."""

import os
import pwd
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab.accounts import USERS

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

Words = Sequence[str | Path]


class People:
    """root and the users, each with a home below the cluster's folder (real ones would be shared)."""

    def __init__(self, folder: Path) -> None:
        self._conf = folder / "slurm.conf"
        self._homes = folder / "home"
        self._started: list[subprocess.Popen[str]] = []

    def make_homes(self) -> None:
        """Makes those that are missing, empty and private."""
        for user in ("root", *USERS):
            home = self.home(user)
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            entry = pwd.getpwnam(user)
            os.chown(home, entry.pw_uid, entry.pw_gid)

    def home(self, user: str) -> Path:
        """Where HOME points for this user."""
        return self._homes / user

    def env(self, user: str) -> dict[str, str]:
        """The whole environment of this user's programs."""
        return {
            "PATH": PATH,
            "HOME": str(self.home(user)),
            "USER": user,
            "LOGNAME": user,
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "SLURM_CONF": str(self._conf),
        }

    def popen(
        self, user: str, argv: Words, *, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Starts a program with pipes on all three ends, in a process group of its own."""
        entry = pwd.getpwnam(user)
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd or self.home(user),
            env=self.env(user) | dict(env or {}),
            user=entry.pw_uid,
            group=entry.pw_gid,
            extra_groups=os.getgrouplist(user, entry.pw_gid),
            umask=0o022,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def run(
        self,
        user: str,
        argv: Words,
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        check: bool = True,
        timeout: float = 180.0,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end; AssertionError with all it said when it fails or takes too long."""
        process = self.popen(user, argv, cwd=cwd, env=env)
        words = f"{user}: {' '.join(map(str, argv))}"
        try:
            out, err = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{words} did not end (or kept its output open) in {timeout:g} s") from None
        finally:
            self._started.remove(process)
            _kill(process)
        if check and process.returncode:
            raise AssertionError(f"{words} ended with {process.returncode}\n{out}\n{err}")
        return subprocess.CompletedProcess(list(map(str, argv)), process.returncode, out, err)

    def end(self) -> None:
        """Kills what `popen` started and nobody ended, with its process group, and closes all pipes."""
        for process in self._started:
            _kill(process)
        self._started.clear()


def _kill(process: subprocess.Popen[str]) -> None:
    """Ends a program that still runs, with its process group, and closes its pipes."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20.0)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()
