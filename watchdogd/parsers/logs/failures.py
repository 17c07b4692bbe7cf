"""Causes for which a training died or hangs, as its log reports them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from watchdogd.parsers.logs import error_lines, log_lines
from watchdogd.parsers.logs.error_lines import Tracebacks
from watchdogd.parsers.logs.failure_patterns import (
    CONNECTION,
    CONSEQUENCES,
    ENDED,
    FATAL,
    KILLED,
    KINDS,
    LAST_ERROR,
    PROGRAM,
    RAISED,
    UNKNOWN,
)
from watchdogd.parsers.logs.root_causes import FailureKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from watchdogd.parsers.logs.log_lines import LogLine


@dataclass(frozen=True, slots=True)
class Cause:
    """Cause in one line: its kind (of KINDS), and a sentence with the rank or node if the line names one.

    `peer`: address or name of the host at the other end of a failed connection.
    `rank`: the line's rank prefix, or empty. `node`: the node that the line names, or on which the rank ran
        according to a launcher's report.
    `death`: the line has the form in which a program reports its own end; it is no mere mention.
    `core`: the core file that the line names. `first`: the launcher saw no other process end before.
    """

    kind: str
    sentence: str
    peer: str = ""
    rank: str = ""
    death: bool = False
    core: str = ""
    node: str = ""
    first: bool = False


_OVERCOME = re.compile(r"(?<!not )(?<!be )\b(?:succeeded|recovered|reconnected|corrected)\b")
_CONNECTED = re.compile(
    r"(?<!not )(?<!be )(?<!been )\b(?:(?:re)?connected"
    r"|connection (?:to \S{1,99} )?(?:is |was )?(?:established|ok)|established (?:a )?connection"
    r"|joined (?:the )?rendezvous|rendezvous (?:is |was )?complete)\b"
)
_NOT_CONNECTED = re.compile(
    r"\b(?:fail|error|refused|lost|cannot|can't|could not|unable|until|while|when|if)"
)
_RAISED = re.compile(
    r"^\s*(?:[\w.-]{1,40}:\s)?(?:[\w.]*(?:Error|Exception|Failure)\b\s?[:(]|what\(\):|terminate called|Fatal "
    r"|FATAL\b|Assert|CUDA error\b|Aborting\b|\S+:\d+: |\S*\.(?:cu|cuh|cpp|h):)"
)
"""Lines in which a program reports the error that ends it, with its name at the beginning of the line."""
_WEIGHTS = {kind.name: kind.weight for kind in KINDS} | UNKNOWN
_NEEDLES = tuple({needle: None for kind in KINDS for needle in kind.needles})
_ONE_DIGIT = str.maketrans("123456789", "000000000")
_SHAPES = tuple({needle.translate(_ONE_DIGIT): None for needle in (*_NEEDLES, *error_lines.NEEDLES)})
_SURVIVED = frozenset({PROGRAM, *RAISED, *UNKNOWN})
"""Kinds after which a program may report that it continues."""
_SHOWN = 160
_RANK = re.compile(
    r"\brank\s?(\d+)|^\s*\[(\d+)\] (?:finished|joined) collective"
    r"|^srun: error: \S+: task (\d+): |/job:\w{1,80}/(?:replica:\d+/)?task:(\d+)",
    re.IGNORECASE,
)
_LOCAL_RANK = re.compile(r"\blocal_rank: (\d+)")
_GPU = re.compile(r"\bGPU (\d+)(?:;| has a total)")
_MISSING = re.compile(
    r"\b[Rr]anks? (\d++(?:, \d++)*+) failed to pass|collective timeout from\s{1,20}rank (\d+)"
)
_NODE = re.compile(
    r"\bON (\S{0,99}\w) (?:CANCELLED|FAILED|AT)|srun: error: ([\w.-]{1,255}): task"
    r"|\[([\w.-]{1,99})\] - Abort\(|\bNode failure on ([\w.-]{1,255})|\bon node ([\w.-]{1,255})(?: exited|: )"
    r"|, node:? ([\d._-]{0,99}[A-Za-z][\w.-]{0,255})(?:,|$)"
)
_OF_NCCL = re.compile(r"([\w.-]++):\d+:\d+ \[\d+\] .*NCCL WARN")
_OF_ELASTIC = re.compile(r"^\s+(host|rank)\s*: (?!localhost\b)(\S+)")
_TOLD = {"host": "node", "rank": "rank"}
_FIRST = re.compile(r"^Root Cause \((first) observed failure\):|^(Failures):")
_OF_HYDRA = re.compile(r"^=\s+RANK (\d+) PID \d+ RUNNING AT (\S+)")
"""Rank and node in the line before the one in which Intel MPI or MPICH reports that process's death."""
_CORE = re.compile(r"(?i:core)\b[^/\n]{0,99}(/\S{0,300}?core[\w.-]*+)")


def possible(text: str) -> bool:
    """Return True if a line, or another that differs only in its digits, can tell a cause."""
    low = text.lower().translate(_ONE_DIGIT)
    return any(map(low.__contains__, _SHAPES))


def find(lines: Sequence[LogLine], before: Sequence[Cause] = ()) -> list[Cause]:
    """Return the causes in the lines, in their order, after those in `before`.

    A failed connection is dropped once a later line reports it established, and an error once its rank
    reports that it continues. Of errors of unknown kind only the last is kept.
    """
    found = list(before)
    whole = "\n".join(line.text for line in lines).lower()
    present = [needle for needle in _NEEDLES if needle in whole]
    forms = [needle for needle in error_lines.NEEDLES if needle in whole]
    if not (present or forms or found):
        return found
    kinds = [kind for kind in KINDS if any(needle in present for needle in kind.needles)]
    told: dict[str, str] = {}
    tracebacks = Tracebacks() if "traceback (most" in whole else None
    for index, line in enumerate(lines):
        caught = tracebacks.ends_in(line) if tracebacks else None
        low = line.text.lower()
        if present:
            told |= _ran_at(line.text)
        cause = _of_line(line, low, kinds, present, told)
        if caught is not None:
            cause = _raised(line, cause, caught=caught)
        elif cause is None and any(needle in low for needle in forms):
            cause = _unknown(line, lines[index + 1 : index + 2])
        if cause:
            found = [*_without_former(found, cause), cause]
        elif found:
            found = [cause for cause in found if not _settled(cause, line, low)]
    return found


def _raised(line: LogLine, known: Cause | None, *, caught: bool) -> Cause:
    """Return the exception that ends a traceback as a cause; uncaught, it is the program's end."""
    cause = known or _quoted(PROGRAM, line, line.text)
    if cause.kind in (PROGRAM, *UNKNOWN):
        return replace(cause, death=not caught)
    return replace(cause, death=False) if caught and cause.kind in RAISED else cause


def _unknown(line: LogLine, following: Sequence[LogLine]) -> Cause | None:
    """Return the cause in a line that has the form of an error of unknown kind, or None.

    If the line ends with a colon, the next one completes it.
    """
    form = error_lines.form_of(line.text)
    if form is None or _OVERCOME.search(line.text) or error_lines.goes_on(line.text):
        return None
    text = line.text.strip()
    if text.endswith(":") and following and following[0].rank == line.rank:
        text = f"{text} {following[0].text.strip()}"
    return _quoted(ENDED if form.bare else LAST_ERROR, line, text, death=form.dies)


def _quoted(kind: str, line: LogLine, text: str, *, death: bool = False) -> Cause:
    places = _places(FailureKind(kind, 0, ()), line, "")
    return Cause(kind, " ".join([kind, *places, f"({text[:_SHOWN]})"]), "", line.rank, death)


def _without_former(found: list[Cause], cause: Cause) -> list[Cause]:
    """Drop earlier errors of the same unknown kind, but never a death in favour of a mere error."""
    if cause.kind not in UNKNOWN:
        return found
    return [each for each in found if each.kind != cause.kind or (each.death and not cause.death)]


def root(causes: Sequence[Cause]) -> Cause | None:
    """Return the cause nearest to the root; of equals, the first that says more than its kind.

    An exception is the root if it came before the consequences that other ranks report; so is the kill of the
    process that its launcher saw end first. If the same rank reports the cause and then its end, the cause is
    a death.
    """
    first = next((index for index, cause in enumerate(causes) if cause.kind in CONSEQUENCES), len(causes))
    raised = next((each for each in causes[:first] if each.kind == PROGRAM and _says_more(each)), None)
    nearest = min(causes, key=lambda each: (_WEIGHTS[each.kind], not _says_more(each)), default=None)
    killed = next((each for each in causes if each.first and each.kind == KILLED), None)
    if nearest and nearest.kind in CONSEQUENCES and (raised or killed):
        return killed or raised
    ended = nearest and any(
        each.kind == ENDED and each.death and each.rank == nearest.rank for each in causes
    )
    return replace(nearest, death=True) if nearest and ended else nearest


def _says_more(cause: Cause) -> bool:
    return "(" in cause.sentence if cause.kind == PROGRAM else cause.sentence != cause.kind


def _connected(low: str) -> bool:
    return _CONNECTED.search(low) is not None and not _NOT_CONNECTED.search(low)


def _settled(cause: Cause, line: LogLine, low: str) -> bool:
    """Return True if a line reports, for the same rank, that this cause is over."""
    if cause.kind == CONNECTION:
        own = not line.rank or " on " not in cause.sentence
        return _connected(low) and (own or f"{_on_rank(line.rank)} " in f"{cause.sentence} ")
    return cause.kind in _SURVIVED and cause.rank == line.rank and error_lines.goes_on(line.text)


def _ran_at(text: str) -> dict[str, str]:
    """Return the host and rank that a launcher's report names for its next lines."""
    if head := _FIRST.match(text):
        return {"order": head[1] or ""}
    hydra = _OF_HYDRA.match(text)
    return {"rank": hydra[1], "host": hydra[2]} if hydra else dict(_OF_ELASTIC.findall(text))


def _of_line(
    line: LogLine, low: str, kinds: Sequence[FailureKind], present: Sequence[str], told: Mapping[str, str]
) -> Cause | None:
    """Return the cause in a line, or None.

    `kinds` are those whose needles are `present` in some line; `told` is what a launcher's report said in the
    lines before: host, rank, order.
    """
    if not any(needle in low for needle in present) or "nccl info" in low or _OVERCOME.search(low):
        return None
    for kind in kinds:
        if kind.fits(line.text, low):
            peer = log_lines.of(line.text) if kind.name == CONNECTION else ""
            core = _core_of(kind, line.text)
            places = _places(kind, line, peer, core)
            if ("exitcode" in low or "by signal" in low) and not places:
                whose = ((_TOLD[what], which) for what, which in told.items() if what in _TOLD)
                places = [f"on {what} {which}" for what, which in whose]
            node = _node_of(kind, line) or told.get("host", "")
            death = _is_death(kind.name, line.text)
            first = "exitcode" in low and bool(told.get("order"))
            return Cause(kind.name, " ".join([kind.name, *places]), peer, line.rank, death, core, node, first)
    return None


def _is_death(kind: str, text: str) -> bool:
    """Return True if a program that ends writes a line of this kind; False for a mere mention."""
    if kind in FATAL:
        return kind not in RAISED or _RAISED.search(text) is not None
    form = error_lines.form_of(text)
    return form is not None and form.dies


def _core_of(kind: FailureKind, text: str) -> str:
    found = _CORE.search(text) if kind.name == "segmentation fault" else None
    return found[1] if found else ""


def _places(kind: FailureKind, line: LogLine, peer: str, core: str = "") -> list[str]:
    """Return where it happened, as far as the line says, and the error itself.

    Examples: `on rank 3`, `on node n12`, `with peer 10.0.0.7`.
    """
    found = []
    missing, rank, gpu = _MISSING.search(line.text), _RANK.search(line.text), _GPU.search(line.text)
    if missing:
        found.append(f"on rank {missing[missing.lastindex or 0]}")
    elif rank:
        found.append(f"on rank {rank[rank.lastindex or 0]}")
    elif line.rank:
        found.append(_on_rank(line.rank))
    elif local := _LOCAL_RANK.search(line.text):
        found.append(f"on local rank {local[1]}")
    elif gpu and kind.name == "GPU out of memory":
        found.append(f"on GPU {gpu[1]}")
    if node := _node_of(kind, line):
        found.append(f"on node {node}")
    if peer:
        found.append(f"with peer {peer}")
    if core:
        found.append(f"with core file {core}")
    if kind.quoted and not line.text.startswith("Traceback"):
        found.append(f"({line.text.strip()[:_SHOWN]})")
    return found


def _node_of(kind: FailureKind, line: LogLine) -> str:
    found = _NODE.search(line.text) or (_OF_NCCL.match(line.text) if kind.name != CONNECTION else None)
    return found[found.lastindex or 0] if found else ""


def _on_rank(prefix: str) -> str:
    """Return a rank prefix as a place; `node:rank`, `node:pid` and `Actor pid=7` stay as they are."""
    if ":" in prefix or "=" in prefix or not prefix[-1].isdecimal():
        return f"on {prefix}"
    return f"on rank {prefix.removeprefix('rank').removeprefix('Rank ')}"
