"""The little disk of the demo: a folder with a budget of bytes and inodes, as a project's quota is one.

`python -m watchdogd.demo.disk FOLDER` measures it and prints the JSON that `quota = { command = [...] }`
asks for.
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
    """Bytes and inodes of what lies below `folder`; of a folder itself the inode alone, whatever its size.

    What vanishes meanwhile does not count.
    """
    used = inodes = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat()
            used += found.st_size if stat.S_ISREG(found.st_mode) else 0
            inodes += 1
    return used, inodes


def prepare(folder: Path) -> None:
    """Make the folder and use three quarters of its budget: an older checkpoint, and a dataset's files."""
    (folder / "dataset").mkdir(parents=True)
    for number in range(INODES * 3 // 4):
        (folder / "dataset" / f"{number:04d}").touch()
    _write(folder / "iter_0000000.json", BYTES * 3 // 4)


def fill_bytes(folder: Path) -> None:
    """Write one large file, until there is nearly no room."""
    used, _ = usage(folder)
    _write(folder / "core.4711", round(NEARLY_FULL * BYTES) - used)


def free_bytes(folder: Path) -> None:
    (folder / "core.4711").unlink()


def fill_inodes(folder: Path) -> None:
    """Make many small files, until hardly another one may be made."""
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
    """Print what is used of what, as one JSON object."""
    used, inodes = usage(folder)
    row = {"used_bytes": used, "limit_bytes": BYTES, "used_inodes": inodes, "limit_inodes": INODES}
    print(json.dumps({"name": "project quota", **row}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
