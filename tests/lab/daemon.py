"""A program that runs in the foreground as a child of the tests."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class Daemon:
    """One daemon of the cluster: started, stopped, killed and frozen by its process id.

    It dies with the thread that started it (the kernel sees to it), so nothing survives tests that are
    killed; start it from a thread that lives as long as it shall.
    """

    def __init__(
        self, argv: Sequence[str], *, log: Path, env: Mapping[str, str], user: str | None = None
    ) -> None:
        self.name = " ".join(Path(word).name for word in argv[:3])
        self._argv = [*_as(user), *argv]
        self._log = log
        self._env = dict(env)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """Its process id; None when it does not run."""
        return self._process.pid if self._process and self.running else None

    def start(self) -> None:
        """Starts it; does not wait until it is ready."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._log.parent,
                env=self._env,
                start_new_session=True,
            )

    def must_run(self) -> None:
        """Raises AssertionError with the end of its log when it has ended."""
        if not self.running:
            lines = self._log.read_text(errors="replace").splitlines()[-5:]
            raise AssertionError(f"{self.name} has ended by itself: {' | '.join(lines)}")

    def stop(self) -> None:
        """Ends it as an administrator would; one that does not obey within 20 s is killed."""
        self.thaw()
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it at once, as a crash would."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Lets it stand still: its port is open and nobody answers."""
        if self._process:
            self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets a frozen one go on."""
        if self._process:
            self._process.send_signal(signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(20.0)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(20.0)
        self._process = None


def _as(user: str | None) -> list[str]:
    """The prefix under which a program dies with its parent, as that user where one is named."""
    who = [f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
    return ["setpriv", "--pdeathsig", "KILL", *who, "--"]
