"""Real control groups with a limit of memory."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_until
from watchdogd import training


@contextlib.contextmanager
def control_group(limit: int, above: Path | None = None) -> Iterator[Path]:
    """A group of `limit` bytes below `above`, or this process's own, of the version that this machine has.

    At the end it must be empty within some seconds.
    """
    group = _new(limit, above)
    try:
        yield group
    finally:
        wait_until(lambda: _removed(group), 10, f"{group} is empty")


def _new(limit: int, above: Path | None) -> Path:
    for folder, version in training._group_folders("/proc", "self"):
        group = (above or Path(folder)) / f"guard-test-{os.getpid()}-{limit}"
        with contextlib.suppress(OSError):
            group.mkdir()
            try:
                (group / training.GROUP_FILES[version][0]).write_text(str(limit))
            except OSError:
                group.rmdir()
                continue
            return group
    pytest.fail("no control group with a memory limit can be made here, not even by root")


def _removed(group: Path) -> bool:
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()
