"""A real user manager of systemd of a test's own, on machines that systemd did not boot, too.

It gets what it expects: a runtime folder, the sign that systemd is there, and a cgroup that it may divide.
All of it stands in a mount namespace, which sees what the test mounts, and a cgroup; they go when it is left.
"""

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.waiting import wait_until

PROGRAM = Path("/lib/systemd/systemd")
RUNTIME = "/run/watchdogd-manager"
# USER HOME RUNTIME GROUP PROGRAM
PREPARE = """\
set -e
user=$1 home=$2 runtime=$3 group=/sys/fs/cgroup/$4 program=$5
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/systemd/system
install -d -m 700 -o "$user" "$runtime"
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir "$group" "$group/manager"
chown -R "$user" "$group"
clean_up() {
    echo $$ >/sys/fs/cgroup/cgroup.procs
    echo 1 >"$group/cgroup.kill"
    while grep -q 'populated 1' "$group/cgroup.events"; do sleep 0.1; done
    find "$group" -depth -type d -exec rmdir {} ';'
}
trap clean_up EXIT
echo $$ >"$group/manager/cgroup.procs"
setpriv --reuid="$user" --regid="$user" --init-groups env -i HOME="$home" USER="$user" LOGNAME="$user" \
    PATH=/usr/local/bin:/usr/bin:/bin XDG_RUNTIME_DIR="$runtime" "$program" --user &
manager=$!
trap 'kill $manager' TERM
wait $manager || wait $manager
"""


class Manager:
    """A context manager: `systemctl --user` works for one user until it is left."""

    def __init__(self, user: str, home: Path) -> None:
        self._user, self._home = user, home

    def __enter__(self) -> Self:
        assert shutil.which("systemctl"), "the unit is tested with Debian's systemd: run scripts/packages"
        words: list[str | Path] = [self._user, self._home, RUNTIME, f"watchdogd-test-{os.getpid()}", PROGRAM]
        self._leader = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "slave", "sh", "-c", PREPARE, "sh", *words],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )
        try:
            wait_until(self._answers, 60, "the user manager answers", every=0.2)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def systemctl(self, *words: str, check: bool = True) -> str:
        """`systemctl --user`, as the user: what it prints. AssertionError where it fails."""
        as_user = ["setpriv", f"--reuid={self._user}", f"--regid={self._user}", "--init-groups"]
        environment = ["env", "-i", f"HOME={self._home}", "PATH=/usr/bin:/bin", f"XDG_RUNTIME_DIR={RUNTIME}"]
        inside = ["nsenter", f"--mount=/proc/{self._leader.pid}/ns/mnt"]
        done = subprocess.run(
            [*inside, *as_user, *environment, "systemctl", "--user", *words],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def show(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.systemctl("show", "--value", f"--property={name}", unit)

    def _answers(self) -> bool:
        assert self._leader.poll() is None, f"the manager ended with {self._leader.returncode}"
        return self.systemctl("is-system-running", check=False) in ("running", "degraded")

    def _end(self) -> None:
        self._leader.terminate()
        self._leader.wait(240)
