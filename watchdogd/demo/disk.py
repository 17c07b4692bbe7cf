"""Small disk of the demo: a folder with a budget of bytes and inodes, like a project's quota.

`python -m watchdogd.demo.disk FOLDER` measures it and prints the JSON for `quota = { command = [...] }`.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from pathlib import Path

BYTES = 16_000_000
INODES = 200
"""The budget; three quarters are used from the start, as on most disks."""
NEARLY_FULL = 0.97


def usage(folder: Path) -> tuple[int, int]:
    """Return bytes and inodes used below `folder`; a folder itself counts as an inode only.

    Files that vanish meanwhile do not count.
    """
    used = inodes = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat()
            used += found.st_size if stat.S_ISREG(found.st_mode) else 0
            inodes += 1
    return used, inodes


def prepare(folder: Path) -> None:
    """Create the folder and use three quarters of its budget: an old checkpoint, and a dataset's files."""
    (folder / "dataset").mkdir(parents=True)
    for number in range(INODES * 3 // 4):
        (folder / "dataset" / f"{number:04d}").touch()
    _write(folder / "iter_0000000.json", BYTES * 3 // 4)


def fill_bytes(folder: Path) -> None:
    """Write one large file that leaves nearly no space."""
    used, _ = usage(folder)
    _write(folder / "core.4711", round(NEARLY_FULL * BYTES) - used)


def free_bytes(folder: Path) -> None:
    (folder / "core.4711").unlink()


def fill_inodes(folder: Path) -> None:
    """Create many small files that leave nearly no inodes."""
    _, inodes = usage(folder)
    (folder / "cache").mkdir()
    for number in range(round(NEARLY_FULL * INODES) - inodes - 1):
        (folder / "cache" / f"{number:04d}").touch()


def free_inodes(folder: Path) -> None:
    for path in (folder / "cache").iterdir():
        path.unlink()
    (folder / "cache").rmdir()


def _write(path: Path, size: int) -> None:
    path.write_bytes(os.urandom(size))


def main(folder: Path) -> None:
    """Print used and limit of bytes and inodes, as one JSON object."""
    used, inodes = usage(folder)
    row = {"used_bytes": used, "limit_bytes": BYTES, "used_inodes": inodes, "limit_inodes": INODES}
    print(json.dumps({"name": "project quota", **row}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
