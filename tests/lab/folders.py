"""The folders of the clusters that run on this machine; each is locked by the tests that own it."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab import processes

PLACE = Path("/tmp")  # not TMPDIR: all users must get there
PREFIX = "watchdogd-slurm-"


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Held while folders and users come and go: by one run of the tests at a time."""
    descriptor = os.open(PLACE, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def create() -> tuple[Path, int]:
    """A new folder that every user can traverse, and the descriptor that keeps it locked."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PLACE))
    folder.chmod(0o755)
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock


def in_use() -> bool:
    """Whether any cluster of these tests lives on this machine."""
    return any(_locked(folder) for folder in PLACE.glob(f"{PREFIX}*"))


def sweep() -> None:
    """Removes what tests that were killed could not remove."""
    for folder in PLACE.glob(f"{PREFIX}*"):
        if not _locked(folder):
            remove(folder)


def remove(folder: Path) -> None:
    """Ends all processes of a cluster, unmounts what is mounted in its folder, and deletes it."""
    processes.end(processes.belonging_to(folder))
    for mount in _mounts_below(folder):
        subprocess.run(["umount", "--lazy", mount], check=True, capture_output=True, timeout=300)
    shutil.rmtree(folder)


def _locked(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _mounts_below(folder: Path) -> list[str]:
    """Mount points in a folder, the innermost first."""
    points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [point for point in reversed(points) if point.startswith(f"{folder}/")]
