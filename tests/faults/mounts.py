"""File systems of our own for a test, mounted for real and gone afterwards; only root may."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.hungmount import HungMount


@contextmanager
def hung(place: Path) -> Iterator[Path]:
    """A FUSE file system whose server never answers: whoever looks into it waits."""
    place.mkdir()
    with HungMount(place, silent=True):
        yield place


@contextmanager
def ext4(place: Path, *, megabytes: int = 64) -> Iterator[Path]:
    """An ext4 in a file beside it."""
    place.mkdir()
    image = place.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True, timeout=60)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True, timeout=60)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True, timeout=60)
