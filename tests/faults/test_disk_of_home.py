"""The disk of home fails in every way: the daemon goes on telling, says what is wrong, and loses nothing."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from tests.faults.rig import Rig
from tests.lab.processes import started
from tests.servers.web import WebServer
from tests.waiting import wait_until

UNPRIVILEGED = ("setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource")
"""Root as an ordinary user is to a disk: bound by quotas, and kept off its reserve."""


@contextmanager
def injected(rig: Rig, calls: str, what: str) -> Iterator[None]:
    """System calls of the daemon's threads and children are answered so."""
    arguments = ["-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", f"inject={calls}:{what}"]
    command = ["strace", *arguments, "-p", str(rig.daemon.pid)]
    with started(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as strace:
        try:
            yield
        finally:
            strace.send_signal(signal.SIGINT)


class Disk:
    """An ext4 of few inodes with quotas, mounted at `place`."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.image = place.with_suffix(".image")
        place.mkdir()
        with self.image.open("wb") as file:
            file.truncate(24 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-N", "160", str(self.image)], check=True)
        self.mount()

    def mount(self) -> None:
        options = "loop,errors=remount-ro"
        subprocess.run(["mount", "-o", options, str(self.image), str(self.place)], check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.place)], check=False, stderr=subprocess.DEVNULL)

    @contextmanager
    def frozen(self, rig: Rig) -> Iterator[None]:
        subprocess.run(["fsfreeze", "--freeze", str(self.place)], check=True)
        try:
            yield
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", str(self.place)], check=True)

    @contextmanager
    def out_of_inodes(self, rig: Rig) -> Iterator[None]:
        ballast = self.place / "ballast"
        ballast.mkdir()
        with suppress(OSError):
            for number in range(1000):
                (ballast / str(number)).touch()
        yield
        for path in ballast.iterdir():
            path.unlink()

    @contextmanager
    def over_quota(self, rig: Rig) -> Iterator[None]:
        """Not each kernel knows quotas: each write into a file of home's is answered as one over quota is."""
        with injected(rig, "pwrite64,fsync,fdatasync", "error=EDQUOT"):
            yield

    @contextmanager
    def slow(self, rig: Rig) -> Iterator[None]:
        with injected(rig, "fsync,fdatasync", "delay_enter=7s"):
            yield

    @contextmanager
    def read_only(self, rig: Rig) -> Iterator[None]:
        """The kernel finds the file system broken."""
        command = ["findmnt", "-no", "SOURCE", str(self.place)]
        device = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        Path("/sys/fs/ext4", Path(device).name, "trigger_fs_error").write_text("1")
        yield
        self.unmount()
        mended = self.image.with_suffix(".mended")
        shutil.copyfile(self.image, mended)
        subprocess.run(["e2fsck", "-fy", str(mended)], check=False, capture_output=True)
        self.image = mended
        self.mount()


Fault = Callable[[Disk, Rig], AbstractContextManager[None]]
SILENT: tuple[tuple[Fault, tuple[str, ...]], ...] = (
    (Disk.frozen, ("has not answered",)),
    (Disk.slow, ("has not answered",)),
)
REFUSING: tuple[tuple[Fault, tuple[str, ...]], ...] = (
    (Disk.over_quota, ("history", "over quota")),
    (Disk.out_of_inodes, ("no new file", "inodes")),
    (Disk.read_only, ("history", "read-only")),
)
"""Two daemons: what one subject says three times in a minute counts as flapping, and ends later."""


@pytest.mark.parametrize("faults", [SILENT, REFUSING], ids=["silent", "refusing"])
def test_each_fault_is_told_beside_all_else_and_nothing_is_lost(
    tmp_path: Path, endpoint: WebServer, faults: tuple[tuple[Fault, tuple[str, ...]], ...]
) -> None:
    disk = Disk(tmp_path / "disk")
    rig = Rig(disk.place / "home", tmp_path, endpoint, as_user=UNPRIVILEGED)
    rig.start()
    try:
        for fault, words in faults:
            before = len(rig.bodies)
            with fault(disk, rig):
                rig.pull()
                rig.wait_told("CRITICAL", "bloom-watch", *words, after=before)
            rig.wait_well()
        wait_until(lambda: rig.recorded() == rig.pulled, 60, "all that was told is recorded", every=0.5)
        assert rig.daemon.poll() is None
    finally:
        rig.end()
        disk.unmount()
