"""Suspects of slowing down a run: by NCCL's counts, Guards' looks at their loops, GPUs and links. Pure.

Ranks in step take equally long for a step; what differs is how much of it each spends at work while the
others wait.
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
"""Least number of steps and of looks by which a rank is measured, and the share of looks in which the others
must wait."""
APART, CHANCE = 0.3, 0.001
"""APART: share of its looks by which a slow rank must wait less than the others. CHANCE: how probable it may
be that any rank seems so by chance."""
LONGER, BEHIND = 1.25, 2
"""If ranks are not in step: how many times as long as the others' a slow rank's step is, and how many steps
it is behind."""
BUSY, SLOW_CLOCK, LOW_CAP, LIKE_POWER, PEERS = 50.0, 0.8, 0.9, 0.8, 4
"""Per cent of utilisation from which a GPU counts as working; shares of its peers' clock and power limit
below which it is slow; share of its power that its peers must draw; least number of peers, including
itself."""
AT_CAP, MOMENT = 0.95, 0.5
"""AT_CAP: share of its power limit above which heavier work alone may slow a GPU down. MOMENT: share of its
peers' clock below which its own is only momentary, if it draws as much as they do."""
HOTTER, TOO_HOT = 20.0, 3.0
"""Degrees above its peers from which a GPU is hot; degrees below its slowdown from which heat may slow it
down."""
GPU, GUARD, LINK = "GPU", "Guard", "link"


def few(part: int, whole: int) -> bool:
    """Return True if so many are a minority of the whole: fewer than half, or one of two."""
    return 0 < 2 * part < whole or (part, whole) == (1, 2)


def of_slow(nodes: Sequence[NodeRanks], guards: Sequence[Process]) -> Iterator[Suspect]:
    """Return the suspects of slowness; a slow rank or node whose own GPU has a fault is a certain one.

    Faults of other GPUs mean little once it is measured who is slow.
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
    """Compare the ranks measured over several steps; if a whole node is slow, it is named.

    Each suspect comes with the place where it stands most of the time.
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
    """Return the ranks with longer steps that fall behind, if ranks are not in step.

    They are not certain, since they may have work of their own, with other steps.
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
    """Return the ranks that do work of their own in looks in which the others mostly wait."""
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
    """Return the standard error of the difference of two shares, each of `number` looks."""
    share = max(share, 1 / number)
    return sqrt(2 * share * (1 - share) / number)


def _seconds(found: Mapping[Process, LoopLooks], *, apart: bool) -> Iterator[tuple[Process, float]]:
    """Yield each rank's seconds for a step; if all are in step, only those of its own work."""
    for each, looks in found.items():
        yield each, looks.step_seconds * (1.0 if apart else _share(looks))


def _share(looks: LoopLooks) -> float:
    own = sum(times for times, frames in looks.places if not stack_folding.waits(frames))
    return own / looks.number


def _by_node(slow: Sequence[Process], found: Iterable[Process]) -> Iterator[list[Process]]:
    """Yield ranks grouped by node if all of a node are slow and others are elsewhere; else one by one."""
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
    """Return a fault of the suspect's GPU, and whether it is its own.

    For a whole node, any of its GPUs is its own. If nobody knows which GPU is whose, any GPU of the node
    counts, with False.
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
    """Accuse GPUs that slow themselves down, or are slower or hotter than peers with similar work."""
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
    """Return the usual value among the peers, including itself, if it is one of few that differ."""
    known = [each for each in peers if each is not None]
    usual = median(known) if len(known) >= PEERS else None
    if own is None or usual is None or not stands_out(own, usual):
        return None
    return usual if 2 * sum(stands_out(each, usual) for each in known) < len(known) else None


def _works(gpu: Gpu) -> bool:
    """Return True if it computes; a GPU that waits for others is as busy, at a power near idle."""
    waits = gpu.power_w is not None and gpu.power_w <= activity.NEAR_IDLE * (gpu.power_cap_w or 0.0)
    return (gpu.utilisation or 0.0) >= BUSY and bool(gpu.clock_mhz) and not waits


def of_links(nodes: Sequence[NodeRanks]) -> Iterator[Suspect]:
    """Accuse the few nodes whose links count errors during the look; a few errors are normal."""
    for name, most in _odd_links({node.node: node.links for node in nodes}):
        yield Suspect(LINK, f"counts errors on a link just now ({most})", ASIDE, node=name)


def notes(nodes: Sequence[NodeRanks]) -> Iterator[str]:
    """Yield the NVLink errors of few nodes; they may be months old and accuse nobody."""
    for name, most in _odd_links({node.node: node.nvlinks for node in nodes}):
        yield f"{LINK}: node {name} counted errors since its driver was loaded ({most})"


def _odd_links(counted: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, str]]:
    """Yield the few nodes with errors, each with its most frequent error."""
    bad = {node: errors for node, errors in counted.items() if errors}
    for node, errors in bad.items() if few(len(bad), len(counted)) or len(counted) == 1 else ():
        name, number = max(errors.items(), key=lambda each: each[1])
        yield node, f"{name}: {number}" + (f" and {len(errors) - 1} more" if len(errors) > 1 else "")
