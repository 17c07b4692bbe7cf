"""File systems of our own for a test, mounted for real and gone afterwards; only root may."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def hung(place: Path) -> Iterator[Path]:
    """A FUSE file system whose server never answers: whoever looks into it waits."""
    place.mkdir()
    server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    mount = ctypes.CDLL(None, use_errno=True).mount
    assert mount(b"fuse", os.fsencode(place), b"fuse", 0, options) == 0, os.strerror(ctypes.get_errno())
    try:
        yield place
    finally:
        os.close(server)
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextmanager
def ext4(place: Path, *, megabytes: int = 64) -> Iterator[Path]:
    """An ext4 in a file beside it."""
    place.mkdir()
    image = place.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
