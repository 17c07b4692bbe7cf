"""Checkpoints on disk: files or folders, their size, and whether they are still being written.

A framework's tracker file beside the checkpoints names the last complete one: DeepSpeed writes `latest`, with
a folder's tag (`global_step1000`); Megatron `latest_checkpointed_iteration.txt`, with the iteration, or
`release` for a converted model. It is written once all parts of a checkpoint are.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
import stat as modes
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from watchdogd.checks import checkpoint_shards
from watchdogd.checks.checkpoint_shards import Shards
from watchdogd.system import pathname
from watchdogd.system.number import digits
from watchdogd.system.smallfile import open_plain

TRACKER_NAMES = ("latest", "latest_checkpointed_iteration.txt")
_LONGEST = 256
"""Largest size of a tracker file in bytes."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Tracker:
    """Tracker file: its text, the step in it, and when it was written."""

    path: str
    said: str
    step: int
    mtime: float


def read_tracker(path: str, text: str, mtime: float) -> Tracker | None:
    """Parse a tracker's text; None if it contains no step."""
    said = text.strip()
    step = 0 if said == "release" else _step(said)
    if step is None or not said.isprintable() or len(said) >= _LONGEST:
        return None
    return Tracker(path, said, step, mtime)


def find_tracker(folder: str) -> Tracker | None:
    """Return the tracker in this folder, the newer one of two.

    None if none can be read: checkpoints are then judged by their contents alone.
    """
    found = []
    for path in (os.path.join(folder, name) for name in TRACKER_NAMES):
        with contextlib.suppress(OSError):
            seen = os.stat(path)
            if modes.S_ISREG(seen.st_mode):
                with open(open_plain(path, follow=True), encoding="utf-8", errors="replace") as file:
                    found.append(read_tracker(path, file.read(_LONGEST), seen.st_mtime))
    return max(filter(None, found), key=lambda each: each.mtime, default=None)


def named(tracker: Tracker, entries: Iterable[str]) -> str:
    """Return the path of the checkpoint that a tracker names; empty if it does not exist."""
    folder = os.path.dirname(tracker.path)
    for path in entries:
        name = os.path.basename(path)
        if os.path.dirname(path) == folder and (name == tracker.said or _step(name) == tracker.step):
            return path
    names = (tracker.said, f"iter_{tracker.step:07d}", f"global_step{tracker.step}")
    return next(filter(os.path.exists, (os.path.join(folder, name) for name in names)), "")


def not_named_yet(tracker: Tracker, entries: Iterable[tuple[str, float]]) -> str:
    """Return the one of these checkpoints, as (path, mtime), that is still being written, or empty.

    That is a checkpoint begun after the tracker was written, with a later step. If there are several, nobody
    updates the tracker (DeepSpeed's `save_latest=False`), and it means nothing.
    """
    newer = {}
    for path, mtime in entries:
        step = _step(os.path.basename(path))
        if mtime > tracker.mtime and step is not None and step > tracker.step:
            newer[step] = path
    return next(iter(newer.values())) if len(newer) == 1 else ""


def _step(name: str) -> int | None:
    """Return the last number in a name: 1000 in `global_step1000` and `iter_0001000`."""
    numbers = _NUMBER.findall(name)
    return digits(numbers[-1]) if numbers else None


FILES = 20_000
"""How many files of a checkpoint are examined; if there are more, its size is not judged."""
LARGE = 1 << 20
"""A file of so many bytes holds a part of a model, and nothing small beside it."""
_MARK = re.compile(r"^tmp[-_.]|^\.tmp|[-._](?:tmp|part|partial|incomplete|unfinished|writing)(?:[-._\d]*)$")
"""Names of frameworks for unfinished checkpoints: `tmp-checkpoint-500`, `x.ckpt-unfinished`, `x.tmp`."""
_LOG = re.compile(r"\.(?:log|out|err|txt|jsonl|csv)(?:\.\d+)?$|\.tfevents\.")


@dataclass(frozen=True, slots=True)
class CheckpointPath:
    """Path that matches the pattern, and its own mtime (of a folder, not that of its contents).

    `mark`: a tracker that names another checkpoint, although this one is newer. `beside`: other files of the
    same step.
    """

    path: str
    mtime: float
    mark: str = ""
    beside: tuple[str, ...] = ()


class Saved(NamedTuple):
    """Bytes, number of files and newest mtime: of all files, and of files of LARGE bytes or more."""

    size: int = 0
    files: int = 0
    mtime: float = 0.0
    large: float = 0.0

    def and_file(self, seen: os.stat_result) -> Saved:
        large = seen.st_mtime if seen.st_size >= LARGE else 0.0
        return Saved(
            self.size + seen.st_size,
            self.files + 1,
            max(self.mtime, seen.st_mtime),
            max(self.large, large),
        )


_NOTHING = Saved()


@dataclass(frozen=True, slots=True)
class Content:
    """Content of a checkpoint: bytes, files, newest mtime, and the first sign that it is unfinished.

    Three fields leave out files that report on the run, since they may grow at any time: `saved`; `began`,
    the mtime of the file that was finished first; and `shards`, the files by kind.
    """

    size: int
    files: int
    mtime: float
    mark: str = ""
    saved: Saved = _NOTHING
    began: float = 0.0
    shards: Mapping[str, Shards] = field(default_factory=dict)


def find_checkpoints(pattern: str) -> list[CheckpointPath]:
    """Return all matches, newest first, without trackers and without what is removed meanwhile.

    Files of one step are one checkpoint, since each rank may write its own.
    """
    found, files = list[CheckpointPath](), list[CheckpointPath]()
    for path in glob.glob(pattern, recursive=True):
        if os.path.basename(path) in TRACKER_NAMES and not os.path.isdir(path):
            continue
        with contextlib.suppress(FileNotFoundError):
            seen = os.stat(path)
            (files if modes.S_ISREG(seen.st_mode) else found).append(CheckpointPath(path, seen.st_mtime))
    found += _joined(files)
    return _tracked(sorted(found, key=lambda entry: (entry.mtime, entry.path), reverse=True))


def _joined(files: Iterable[CheckpointPath]) -> Iterator[CheckpointPath]:
    """Join the files of each step in a folder."""
    files = sorted(files, key=lambda entry: (entry.mtime, entry.path))
    steps = checkpoint_shards.steps([each.path for each in files])
    groups: dict[object, list[CheckpointPath]] = {}
    for each in files:
        step = (os.path.dirname(each.path), steps[each.path]) if each.path in steps else each.path
        groups.setdefault(step, []).append(each)
    for group in groups.values():
        first, *others = sorted(each.path for each in group)
        yield CheckpointPath(first, max(each.mtime for each in group), beside=tuple(others))


def unfinished_beside(pattern: str, found: list[str]) -> list[CheckpointPath]:
    """Return the newest two unfinished checkpoints beside these (newest first), by their names.

    An unfinished checkpoint may not match the pattern until it is complete.
    """
    folder = os.path.dirname(found[0] if found else pattern)
    if pathname.is_wild(folder):
        return []
    marked = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder or ".") as inside:
        for item in inside:
            if _MARK.search(item.name) and item.path not in found:
                with contextlib.suppress(FileNotFoundError):
                    marked.append(CheckpointPath(item.path, item.stat().st_mtime))
    return sorted(marked, key=lambda entry: entry.mtime, reverse=True)[:2]


def _tracked(entries: list[CheckpointPath]) -> list[CheckpointPath]:
    """Mark the checkpoint that its tracker does not name yet."""
    folder = os.path.dirname(entries[0].path) if entries else ""
    known = find_tracker(folder) if folder else None
    if not known:
        return entries
    beside = [(each.path, each.mtime) for each in entries if os.path.dirname(each.path) == folder]
    path = not_named_yet(known, beside)
    mark = f"{known.path}, which names {known.said} and not {os.path.basename(path)},"
    return [replace(each, mark=mark) if each.path == path else each for each in entries]


def content(entry: CheckpointPath) -> Content:
    """Examine everything in a checkpoint, up to FILES files; links to folders are not followed.

    A checkpoint of PyTorch's distributed format without `.metadata` is unfinished: that file is written once
    all ranks have written their parts, and nothing loads without it.
    """
    parts: set[str] = set()
    described: set[str] = set()
    mark = entry.path if _MARK.search(os.path.basename(entry.path)) else entry.mark
    size, files, newest, saved = 0, 0, entry.mtime, _NOTHING
    began, shards = float("inf"), dict[str, Shards]()
    inside_of = itertools.chain.from_iterable(map(every_file, (entry.path, *entry.beside)))
    for path, name, seen in inside_of:
        size, files, newest = size + seen.st_size, files + 1, max(newest, seen.st_mtime)
        if not _LOG.search(name):
            saved, began = saved.and_file(seen), min(began, seen.st_mtime)
            whole = path == entry.path or path in entry.beside
            inside = name if whole else path[len(entry.path) :].lstrip("/")
            checkpoint_shards.add(shards, inside, seen.st_size, alone=whole and not entry.beside)
        mark = mark or (path if _MARK.search(name) else "")
        if name.endswith(".distcp"):
            parts.add(os.path.dirname(path))
        elif name == ".metadata":
            described.add(os.path.dirname(path))
        if files >= FILES:
            break
    else:
        lacking = min(parts - described, default="")
        mark = mark or (f"{lacking}/.metadata, which is missing," if lacking else "")
    return Content(size, files, newest, mark, saved, min(began, newest), shards)


def every_file(top: str) -> Iterator[tuple[str, str, os.stat_result]]:
    """Yield path, name and stat of each file; files that are removed meanwhile are skipped."""
    if not os.path.isdir(top):
        yield top, os.path.basename(top), os.stat(top)
        return
    folders = [top]
    while folders:
        with contextlib.suppress(FileNotFoundError), os.scandir(folders.pop()) as inside:
            for item in inside:
                if item.is_dir(follow_symlinks=False):
                    folders.append(item.path)
                    continue
                with contextlib.suppress(FileNotFoundError):
                    yield item.path, item.name, item.stat()
