"""Who slows a run down that gets on: by NCCL's counts, Guards' looks at their loops, GPUs and links. Pure.

Ranks in step take the same time for one: what tells is how much of it each spends while the others wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf, log, sqrt
from statistics import median

from watchdogd.batch.run_models import ASIDE, FAIR, SURE, WEAK, Suspect
from watchdogd.parsers.gpu.models import Gpu
from watchdogd.parsers.stack_models import Frame, LoopLooks
from watchdogd.plugins.gpu_health import activity
from watchdogd.probe.node_ranks import NodeRanks
from watchdogd.remediation import nccl_suspects
from watchdogd.remediation.suspects import short
from watchdogd.stacks import stack_folding
from watchdogd.stacks.stack_folding import Process

STEPS, LOOKS, WAITS = 3, 12, 0.5
"""Steps and looks from which a rank is measured, and the share of looks in which others wait, at least."""
APART, CHANCE = 0.3, 0.001
"""Share of its looks by which who is slow waits less than the others, at least, and how likely chance alone
may make one of all ranks seem so."""
LONGER, BEHIND = 1.25, 2
"""Times the others' step of who is slow where ranks are not in step, and by how many steps it is behind."""
BUSY, SLOW_CLOCK, LOW_CAP, LIKE_POWER, PEERS = 50.0, 0.8, 0.9, 0.8, 4
"""Per cent of utilisation from which a GPU works; the shares of its peers' clock and power limit below which
it is slow, that of its power which they draw at least, and how many there are at least, itself among them."""
AT_CAP, MOMENT = 0.95, 0.5
"""Share of its power limit from which heavier work alone may slow a GPU down, and of its peers' clock below
which its own is that of a moment, where it draws as much as they do."""
HOTTER, TOO_HOT = 20.0, 3.0
"""Degrees above its peers at which a GPU is hot, and below its slowdown at which heat may slow it down."""
GPU, GUARD, LINK = "GPU", "Guard", "link"


def few(part: int, whole: int) -> bool:
    """Return whether so many stand out of the whole: fewer than half, or one of two."""
    return 0 < 2 * part < whole or (part, whole) == (1, 2)


def of_slow(nodes: Sequence[NodeRanks], guards: Sequence[Process]) -> Iterator[Suspect]:
    """Return who may slow the run down; a rank or node with what is wrong with its GPU is sure.

    What is wrong with other GPUs says little where it is measured who is slow.
    """
    gpus = [*_of_gpus(nodes)]
    measured = [*((each, "") for each in nccl_suspects.of_slow(nodes)), *_of_guards(guards)]
    most = ASIDE if any(slow.strength > WEAK for slow, _ in measured) else SURE
    told: set[Suspect] = set()
    for slow, stands in measured:
        if found := _of_its_gpu(slow, gpus, nodes):
            told.add(found[0])
            yield _explained(slow, found[0], own=found[1])
        else:
            yield replace(slow, what=slow.what + stands)
    yield from (replace(each, strength=min(each.strength, most)) for each in gpus if each not in told)
    yield from of_links(nodes)


# ------------------------------------------------------------------ ranks


def _of_guards(guards: Sequence[Process]) -> Iterator[tuple[Suspect, str]]:
    """Compare the ranks that were measured over several steps; of a whole node, that one is named.

    With each suspect goes where it stands most of the time.
    """
    found = {
        each: each.looks
        for each in guards
        if each.rank is not None and each.looks and each.looks.steps >= STEPS and each.looks.number >= LOOKS
    }
    apart = _behind(found)
    slow = apart or _own_work(found)
    if not few(len(slow), len(found)):
        return
    others = median(seconds for each, seconds in _seconds(found, apart=bool(apart)) if each not in slow)
    where = "" if apart else " of its own"
    fair = FAIR if all(looks.synchronous for looks in found.values()) else ASIDE
    for members in _by_node(slow, found):
        took = max(seconds for each, seconds in _seconds(found, apart=bool(apart)) if each in members)
        stands = "" if apart else f", mostly in {_usual_place(found[members[0]])}"
        what = f"takes {took:.2g} s a step{where}, the others {others:.2g} s"
        one = members[0] if len(members) == 1 else None
        who = (one.rank, one.node, None, one.pid) if one else (None, members[0].node)
        yield Suspect(GUARD, what, FAIR if apart else fair, *who), stands


def _behind(found: Mapping[Process, LoopLooks]) -> list[Process]:
    """Return who takes longer for a step and is left behind: where ranks are not in step.

    Not for sure: it may have work of its own, whose steps are others.
    """
    if len(found) < 2:
        return []
    usual = median(looks.step_seconds for looks in found.values())
    at = median(each.step or 0 for each in found)
    return [
        each
        for each, looks in found.items()
        if looks.step_seconds >= LONGER * usual and (each.step or 0) < at - BEHIND
    ]


def _own_work(found: Mapping[Process, LoopLooks]) -> list[Process]:
    """Return who is at work of its own in looks in which the others wait in most of theirs."""
    shares = {each: _share(looks) for each, looks in found.items()}
    usual = median(shares.values()) if len(shares) > 2 else min(shares.values(), default=1.0)
    if usual > 1 - WAITS:
        return []
    errors = sqrt(2 * log(len(found) / CHANCE))
    spread = usual if len(shares) > 2 else sum(shares.values()) / 2
    return [
        each
        for each, looks in found.items()
        if shares[each] - usual >= max(APART, errors * _error(spread, looks.number))
    ]


def _error(share: float, number: int) -> float:
    """Return the standard error of the difference of two shares of so many looks, one of them this."""
    share = max(share, 1 / number)
    return sqrt(2 * share * (1 - share) / number)


def _seconds(found: Mapping[Process, LoopLooks], *, apart: bool) -> Iterator[tuple[Process, float]]:
    """Yield each rank's seconds a step: those of its own, where all are in step."""
    for each, looks in found.items():
        yield each, looks.step_seconds * (1.0 if apart else _share(looks))


def _share(looks: LoopLooks) -> float:
    own = sum(times for times, frames in looks.places if not stack_folding.waits(frames))
    return own / looks.number


def _by_node(slow: Sequence[Process], found: Iterable[Process]) -> Iterator[list[Process]]:
    """Yield the ranks of a node together where all of them are slow, and others are elsewhere; else each."""
    everywhere = Counter(each.node for each in found)
    for node, number in Counter(each.node for each in slow).items():
        here = [each for each in slow if each.node == node]
        if number > 1 and everywhere[node] == number and len(everywhere) > 1:
            yield here
        else:
            yield from ([each] for each in here)


def _usual_place(looks: LoopLooks) -> Frame | str:
    """Return where the rank stands most often while it does not wait."""
    own = Counter[Frame]()
    for times, frames in looks.places:
        if not stack_folding.waits(frames) and (place := stack_folding.own_place(frames)):
            own[replace(place, line=None)] += times
    return own.most_common(1)[0][0] if own else "no frame"


def _explained(slow: Suspect, why: Suspect, *, own: bool) -> Suspect:
    whose = f"its GPU {why.gpu}" if own else f"GPU {why.gpu} of its node"
    strength = SURE if slow.strength > WEAK else why.strength
    gpu = why.gpu if own and slow.rank is not None else slow.gpu
    return replace(slow, what=f"{slow.what}: {whose} {why.what}", strength=strength, gpu=gpu)


def _of_its_gpu(
    slow: Suspect, gpus: Sequence[Suspect], nodes: Sequence[NodeRanks]
) -> tuple[Suspect, bool] | None:
    """Return what is wrong with the GPU on which its process is, and that it is its own.

    Any of its node counts where the node is slow as one, or where nobody tells whose it is: not as its own.
    """
    here = [node for node in nodes if short(node.node) == short(slow.node)]
    ranks = [each for node in here for each in node.processes if each.rank == slow.rank]
    pids = {slow.pid, *(pid for each in ranks for pid in each.pids)}
    cards = [gpu for node in here for gpu in node.gpus]
    own = {gpu.index for gpu in cards if not pids.isdisjoint(gpu.pids)} | {slow.gpu} - {None}
    whole = (slow.rank, slow.pid, slow.gpu) == (None, None, None)
    unknown = not own and not any(gpu.pids for gpu in cards)
    names = {node.node for node in here}
    for each in gpus:
        if each.node in names and each.gpu is not None and each.strength > WEAK:
            if whole or each.gpu in own:
                return each, True
            if unknown:
                return each, False
    return None


# ------------------------------------------------------------------ GPUs and links


def _of_gpus(nodes: Sequence[NodeRanks]) -> Iterator[Suspect]:
    """Accuse GPUs that slow themselves down, and those that are slower or hotter than peers at like work."""
    gpus = [(node.node, gpu) for node in nodes for gpu in node.gpus]
    slowed = [(node, gpu) for node, gpu in gpus if gpu.throttled]
    if few(len(slowed), len(gpus)):
        for node, gpu in slowed:
            what = f"is throttled ({', '.join(gpu.throttled)})"
            yield Suspect(GPU, what, FAIR, node=node, gpu=gpu.index)
    busy = [(node, gpu) for node, gpu in gpus if _works(gpu)]
    for node, gpu in busy:
        yield from (
            replace(each, node=node, gpu=gpu.index) for each in _beside(gpu, [other for _, other in busy])
        )


def _beside(gpu: Gpu, busy: Sequence[Gpu]) -> Iterator[Suspect]:
    peers = [other for other in busy if other.name == gpu.name]
    watts = gpu.power_w or 0.0
    like = AT_CAP if watts >= AT_CAP * (gpu.power_cap_w or inf) else LIKE_POWER
    alike = [other for other in peers if (other.power_w or 0.0) >= like * watts]
    slow = _odd(
        gpu.clock_mhz, [other.clock_mhz for other in alike], lambda own, usual: own < SLOW_CLOCK * usual
    )
    usual_watts = median(other.power_w or 0.0 for other in alike)
    moment = watts > LIKE_POWER * usual_watts and (gpu.clock_mhz or 0.0) < MOMENT * (slow or 0.0)
    if slow and not gpu.throttled and not moment:
        yield Suspect(GPU, f"works at {gpu.clock_mhz:.0f} MHz, the others at {slow:.0f} MHz")
    caps = [other.power_cap_w for other in peers]
    if cap := _odd(gpu.power_cap_w, caps, lambda own, usual: own < LOW_CAP * usual):
        yield Suspect(GPU, f"is limited to {gpu.power_cap_w:.0f} W, the others to {cap:.0f} W")
    heat = [other.temperature_c for other in alike]
    if warm := _odd(gpu.temperature_c, heat, lambda own, usual: own >= usual + HOTTER):
        near = gpu.slowdown_c is not None and (gpu.temperature_c or 0.0) >= gpu.slowdown_c - TOO_HOT
        what = f"is at {gpu.temperature_c:.0f} °C, the others at {warm:.0f} °C"
        yield Suspect(GPU, what, FAIR if near else ASIDE)


def _odd(
    own: float | None, peers: Iterable[float | None], stands_out: Callable[[float, float], bool]
) -> float | None:
    """Return what is usual among the peers, itself among them, where it stands out as few of them do."""
    known = [each for each in peers if each is not None]
    usual = median(known) if len(known) >= PEERS else None
    if own is None or usual is None or not stands_out(own, usual):
        return None
    return usual if 2 * sum(stands_out(each, usual) for each in known) < len(known) else None


def _works(gpu: Gpu) -> bool:
    """Return whether it computes: one that waits for others is as busy, at a power near idle."""
    waits = gpu.power_w is not None and gpu.power_w <= activity.NEAR_IDLE * (gpu.power_cap_w or 0.0)
    return (gpu.utilisation or 0.0) >= BUSY and bool(gpu.clock_mhz) and not waits


def of_links(nodes: Sequence[NodeRanks]) -> Iterator[Suspect]:
    """Accuse the few nodes whose links count errors while they are looked at; a few errors are normal."""
    for name, most in _odd_links({node.node: node.links for node in nodes}):
        yield Suspect(LINK, f"counts errors on a link just now ({most})", ASIDE, node=name)


def notes(nodes: Sequence[NodeRanks]) -> Iterator[str]:
    """Return what the NVLinks of few nodes have counted, which may be months old and accuses nobody."""
    for name, most in _odd_links({node.node: node.nvlinks for node in nodes}):
        yield f"{LINK}: node {name} counted errors since its driver was loaded ({most})"


def _odd_links(counted: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, str]]:
    """Yield the few nodes with errors, and the most frequent one of each."""
    bad = {node: errors for node, errors in counted.items() if errors}
    for node, errors in bad.items() if few(len(bad), len(counted)) or len(counted) == 1 else ():
        name, number = max(errors.items(), key=lambda each: each[1])
        yield node, f"{name}: {number}" + (f" and {len(errors) - 1} more" if len(errors) > 1 else "")
