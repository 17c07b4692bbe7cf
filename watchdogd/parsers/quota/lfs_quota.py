"""Output of `lfs quota` and quota(1), which share a format, of `lfs project` and of `lfs df`.

    Disk quotas for usr alice (uid 1234):
         Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace
         /scratch   [1048576] 2097152 4194304       - [1000]   5000   10000       -

Quotas of a pool follow a line `Pool: ark.flash`. Lines of single storage targets (`lfs quota -v`) are left
out: their limits are slices that Lustre grants on demand. A report without rows is marked as bare.

Also read: wrapped lines (a long file system alone on its line), several reports in one output, missing grace
columns, `*` (over the limit) and `[]` (inaccurate). Blocks without a suffix are KiB; `k` in a file count is
1000.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from watchdogd.errors import UnreadableError
from watchdogd.parsers.quota.models import BYTES, INODES, Owner, StorageLimit
from watchdogd.parsers.quota.tool_output import ToolOutput, as_output, first_line, parse_amount, read_limit
from watchdogd.system.number import count, whole
from watchdogd.system.text import split_lines

_OWNER = re.compile(
    r"Disk quotas for (usr|user|grp|group|prj|project) (.+?)(?: \([ugp]id (\d+)\))?:\s*(none)?"
)
_WORDS = {"usr": "user", "grp": "group", "prj": "project"}
_NUMBER = re.compile(r"\[?[\d.,]+[KMGTPE]?\]?\*?", re.IGNORECASE)
_TARGET_ROW = re.compile(r".*-(?:MDT|OST)[0-9a-f]{4}(?:_UUID)?|.*_UUID")
_NOTE = re.compile(
    r"\(.*\)|[ugp]id \S+ is using default .*|Total allocated .*|Some errors happened .*|quotactl .* failed.*",
    re.DOTALL,
)
"""Lines that tools print between the rows."""
_DOUBT = re.compile(r"Some errors happened when getting quota info|^quotactl .* failed", re.MULTILINE)
_OVER = frozenset({"none", "expired"})


def fits(text: str | ToolOutput) -> bool:
    """Return True if the output has such a report that nobody has read yet."""
    return any(_OWNER.match(line.strip()) for line in as_output(text))


def doubt(text: str) -> str:
    """Return what `lfs quota` says against its own figures (a storage target did not answer), or empty."""
    return "lfs quota could not ask every storage target" if _DOUBT.search(text) else ""


def read_limits(text: str | ToolOutput, now: float | None = None) -> list[StorageLimit]:
    """Return the limits in all reports; a raw grace time (`quota -p`) before `now` has expired.

    A row that cannot be understood is marked as missed. Raise UnreadableError if there is no report at all.
    """
    said = as_output(text)
    said.doubt = said.doubt or doubt(said.text)
    state, reports = _State(), 0
    for line in said:
        if match := _OWNER.match(line.strip()):
            reports += 1
            state.close(said)
            state = _State(
                f"{_WORDS.get(match[1], match[1])} {match[2]}", said.at, bare=not match[4], found=state.found
            )
            said.know()
        elif state.owner:
            _line(line, state, said, now)
    state.close(said)
    if not reports:
        raise UnreadableError(f"no quota report: '{first_line(said.text)}'")
    return state.found


@dataclass(slots=True)
class _State:
    """Parser state: owner of the current report, its first line, and a path waiting for its figures."""

    owner: str = ""
    began: int = 0
    bare: bool = False
    path: str = ""
    pool: str = ""
    found: list[StorageLimit] = field(default_factory=list)

    def close(self, said: ToolOutput) -> None:
        if self.bare:
            said.bare(self.began)


def _line(line: str, state: _State, said: ToolOutput, now: float | None) -> None:
    words = line.split()
    if words[:1] == ["Pool:"] and len(words) > 1:
        state.pool = f" in pool {words[1].rpartition('.')[2]}"
        said.know()
    elif not words or words[0] == "Filesystem" or _NOTE.fullmatch(line.strip()):
        said.know()
    elif len(words) == 1 and not state.path:
        state.path = words[0]
    else:
        _cells_of(line, words, state, said, now)


def _cells_of(line: str, words: list[str], state: _State, said: ToolOutput, now: float | None) -> None:
    """Read a row, or text between rows; text indented like a row that cannot be read is marked as missed."""
    try:
        limits = _row(words, state.path, state.owner + state.pool, now)
    except UnreadableError:
        limits = None
    if limits:
        said.know()
        state.found += [] if _TARGET_ROW.fullmatch(limits[0].path) else limits
        state.path = ""
    elif line[0] in " \t/" and len(words) > 2:
        said.miss()
    else:
        return
    state.bare = False


def limits_of(
    words: list[str], path: str, whose: str, now: float | None
) -> tuple[StorageLimit, StorageLimit] | None:
    """Return the limits in eight cells (used, soft, hard and grace of blocks, then of files), or None."""
    cells = _cells(words)
    if cells is None:
        return None
    return _limit(BYTES, whose, path, cells[:4], now), _limit(INODES, whose, path, cells[4:], now)


def _row(
    words: list[str], path: str, owner: str, now: float | None
) -> tuple[StorageLimit, StorageLimit] | None:
    if not path:
        name = max(len(words) - 8, 1)  # a file system may have blanks in its name
        path, words = " ".join(words[:name]), words[name:]
    kind, _, whose = owner.partition(" ")
    return limits_of(words, path, Owner(kind, whose), now)


def _cells(words: list[str]) -> list[str] | None:
    """Return the eight cells; blank graces (quota(1) without -p) become `-`."""
    if len(words) == 8:
        cells = list(words)
    elif len(words) == 7:
        graced = not _NUMBER.fullmatch(words[3])
        cells = [*words, "-"] if graced else [*words[:3], "-", *words[3:]]
    elif len(words) == 6:
        cells = [*words[:3], "-", *words[3:], "-"]
    else:
        return None
    numbers = cells[:3] + cells[4:7]
    return cells if all(_NUMBER.fullmatch(cell) or cell == "-" for cell in numbers) else None


def _limit(kind: str, of: str, path: str, cells: Sequence[str], now: float | None) -> StorageLimit:
    used, soft, hard, grace = cells
    doubted = "[" in used + soft + hard
    return read_limit(
        kind,
        of,
        "0" if used == "-" else used,
        hard,
        soft,
        bare=1024.0,
        path=path,
        inaccurate=doubted,
        grace=_grace(grace, now),
        expired=_expired(grace, now),
    )


def _expired(grace: str, now: float | None) -> bool:
    """Return True if the grace period is over: `none`, or with `-p` a time that has passed."""
    ends = count(grace)
    return grace in _OVER if ends is None else now is not None and 0 < ends <= now


def _grace(grace: str, now: float | None) -> str:
    ends = count(grace)
    if ends is None:
        return "" if grace in ("-", *_OVER) else grace
    left = ends - (now or 0.0)
    return f"{left / 86400:.1f} days" if now is not None and 0 < left < 10 * 365 * 86400 else ""


_TARGET = re.compile(r"(?<!\S)(\S+)_UUID\s(.{0,200})(?<=\s)(\d++)%\s++(\S+)\[(?:MDT|OST):\w+\]")
_INACTIVE = re.compile(r"(\S*(?:MDT|OST)[0-9a-fA-F]{4}(?:_UUID)?)\s+:\s")
_PROJECT = re.compile(r"^[ \t]*+(\d++)\s+[P-]?\s", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class StorageTarget:
    """One storage target (OST or MDT). `of` is what is counted: BYTES, or INODES with `lfs df -i`.

    `size` is 0 if the target is inactive or its figures could not be read.
    """

    name: str
    size: float
    used: float
    free: float
    of: str = BYTES


def read_targets(text: str) -> list[StorageTarget]:
    """Return the targets in the output of `lfs df`, with or without -h and -i; the header gives the unit.

    Raise UnreadableError if there is no header.
    """
    if "UUID" not in text:
        raise UnreadableError(f"no answer of lfs df: '{first_line(text)}'")
    of = INODES if re.search(r"UUID\s+Inodes", text) else BYTES
    bare = 1.0 if of == INODES or re.search(r"UUID\s+bytes", text) else 1024.0
    targets = []
    for line in split_lines(text):
        if match := _TARGET.match(line.strip()):
            targets.append(_target(match, of, bare))
        elif match := _INACTIVE.match(line.strip()):
            targets.append(StorageTarget(match[1].removesuffix("_UUID"), 0.0, 0.0, 0.0, of))
    return targets


def _target(match: re.Match[str], of: str, bare: float) -> StorageTarget:
    cells = match[2].split()
    base = 1024 if of == BYTES else 1000
    try:
        size, used, free = (parse_amount(cell, bare=bare, base=base) for cell in cells)
    except (UnreadableError, ValueError):
        size = used = free = 0.0
    return StorageTarget(match[1], size, used, free, of)


def read_project(text: str) -> int | None:
    """Return the project id that `lfs project -d DIR` printed (` 12345 P /scratch/x`), or None."""
    match = _PROJECT.search(text)
    return whole(match[1]) or None if match else None
