"""The disks of this node as the probe tells of them: room, inodes, read-only, not answering."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from watchdogd.parsers import probe_sample
from watchdogd.parsers.probe_sample import Disk
from watchdogd.system import command
from watchdogd.system.mounts import mount_at

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEADLINE = 5.0
_NUMBERS = {os.strerror(number): number for number in errno.errorcode}
_hung: set[str] = set()
"""Paths that did not answer: what hangs in the kernel would pile up, and hold up the end of the job."""


def disks(paths: Sequence[str]) -> dict[str, Disk]:
    """Each path, all at once; one that does not answer in time, or is missing, has that as its trouble."""
    if not paths:
        return {}
    with ThreadPoolExecutor(max_workers=8) as pool:
        return dict(zip(paths, pool.map(_disk, paths), strict=True))


def _disk(path: str) -> Disk:
    if path in _hung:
        return Disk(trouble="it did not answer before")
    answer = command.ask(
        ["stat", "--file-system", f"--format={probe_sample.STAT_FORMAT}", "--", path], deadline=_DEADLINE
    )
    if answer.silent:
        _hung.add(path)
        return Disk(trouble=answer.trouble)
    read_only = _read_only(path) if answer.ok else False
    return probe_sample.read_stat(answer.output, read_only=read_only) or _unseen(answer)


def _unseen(answer: command.Answer) -> Disk:
    """What stat(1) says behind its last colon is the system's word for an error."""
    word = answer.said.rpartition(": ")[2]
    return Disk(trouble=word or answer.complaint(), errno=_NUMBERS.get(word, 0))


def _read_only(path: str) -> bool:
    """As the file system itself is, after an error for instance."""
    mount = mount_at(path)
    return mount is not None and "ro" in mount.options.split(",")
