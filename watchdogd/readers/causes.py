"""Why a training died or hangs, as its log says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdogd.readers import peers
from watchdogd.readers.causekinds import CONNECTION, KINDS, PROGRAM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from watchdogd.readers.causekinds import Kind
    from watchdogd.readers.lines import Line


@dataclass(frozen=True, slots=True)
class Cause:
    """What a line tells: its kind (of KINDS), and a sentence with the rank or node where it names one.

    `peer`: the address or name of the host at the other end of a connection that failed.
    """

    kind: str
    sentence: str
    peer: str = ""


_OVERCOME = re.compile(r"(?<!not )(?<!be )\b(?:succeeded|recovered|reconnected)\b")
_CONNECTED = re.compile(
    r"(?<!not )(?<!be )(?<!been )\b(?:(?:re)?connected|connection (?:to \S+ )?(?:is |was )?(?:established|ok)"
    r"|established (?:a )?connection|joined (?:the )?rendezvous|rendezvous (?:is |was )?complete)\b"
)
_NOT_CONNECTED = re.compile(
    r"\b(?:fail|error|refused|lost|cannot|can't|could not|unable|until|while|when|if)"
)
_NEEDLES = tuple(needle for kind in KINDS for needle in kind.needles)
_WEIGHTS = {kind.name: kind.weight for kind in KINDS}
_SHOWN = 160
_RANK = re.compile(
    r"\brank\s?(\d+)|^\s*\[(\d+)\] (?:finished|joined) collective|^srun: error: \S+: task (\d+): ",
    re.IGNORECASE,
)
_GPU = re.compile(r"\bGPU (\d+)(?:;| has a total)")
_MISSING = re.compile(r"\b[Rr]anks? (\d+(?:, \d+)*) failed to pass")
_NODE = re.compile(r"\bON (\S*\w) CANCELLED|srun: error: ([\w.-]+): task|\[([\w.-]+)\] - Abort\(")
_OF_ELASTIC = re.compile(r"^\s+(host|rank)\s*: (\S+)")
_CORE = re.compile(r"(?i:core)\b.*?(/\S*core[\w.-]*)")


def find(lines: Sequence[Line], before: Sequence[Cause] = ()) -> list[Cause]:
    """The causes that the lines tell, in their order, behind those of `before`.

    A connection that failed is none any more once a later line says that it is there.
    """
    found = list(before)
    whole = "\n".join(line.text for line in lines).lower()
    present = [needle for needle in _NEEDLES if needle in whole]
    if not present and not any(cause.kind == CONNECTION for cause in found):
        return found
    told: dict[str, str] = {}
    for line in lines:
        told |= dict(_OF_ELASTIC.findall(line.text))
        cause = _of_line(line, present, told)
        if cause:
            found.append(cause)
        elif found and _connected(line.text.lower()):
            found = [cause for cause in found if not _settled(cause, line)]
    return found


def root(causes: Sequence[Cause]) -> Cause | None:
    """Of several causes the one nearest to the root; of equals the first that says more than its kind."""
    return min(causes, key=lambda cause: (_WEIGHTS[cause.kind], cause.sentence == cause.kind), default=None)


def _connected(low: str) -> bool:
    return _CONNECTED.search(low) is not None and not _NOT_CONNECTED.search(low)


def _settled(cause: Cause, line: Line) -> bool:
    """Whether a line that says `connected` speaks of this cause: it is not another rank's."""
    return cause.kind == CONNECTION and (
        " on " not in cause.sentence or not line.rank or f"{_on_rank(line.rank)} " in f"{cause.sentence} "
    )


def _of_line(line: Line, present: Sequence[str], told: Mapping[str, str]) -> Cause | None:
    """`told`: the host and the rank that torchrun's report names in the lines before."""
    low = line.text.lower()
    if not any(needle in low for needle in present) or "nccl info" in low or _OVERCOME.search(low):
        return None
    for kind in KINDS:
        if kind.fits(line.text, low):
            peer = peers.of(line.text) if kind.name == CONNECTION else ""
            places = _places(kind, line, peer)
            if "exitcode" in low and not places:
                places = [f"on {'node' if what == 'host' else what} {which}" for what, which in told.items()]
            return Cause(kind.name, " ".join([kind.name, *places]), peer)
    return None


def _places(kind: Kind, line: Line, peer: str) -> list[str]:
    """`on rank 3`, `on node n12`, `with peer 10.0.0.7`, the error itself, as far as the line says so."""
    found = []
    missing, rank, gpu = _MISSING.search(line.text), _RANK.search(line.text), _GPU.search(line.text)
    if missing:
        found.append(f"on rank {missing[1]}")
    elif rank:
        found.append(f"on rank {rank[rank.lastindex or 0]}")
    elif line.rank:
        found.append(_on_rank(line.rank))
    elif gpu and kind.name == "GPU out of memory":
        found.append(f"on GPU {gpu[1]}")
    node = _NODE.search(line.text)
    if node:
        found.append(f"on node {node[node.lastindex or 0]}")
    if peer:
        found.append(f"with peer {peer}")
    core = _CORE.search(line.text) if kind.name == "segmentation fault" else None
    if core:
        found.append(f"with core file {core[1]}")
    if kind.name == PROGRAM and not line.text.startswith("Traceback"):
        found.append(f"({line.text.strip()[:_SHOWN]})")
    return found


def _on_rank(prefix: str) -> str:
    """A line's prefix as a place; `node:rank` and `node:pid` are told as they stand."""
    return f"on {prefix}" if ":" in prefix else f"on rank {prefix.removeprefix('rank').removeprefix('Rank ')}"
