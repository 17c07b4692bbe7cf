"""Who slows a run down: NCCL's counts, the Guards' looks at their loops, GPUs and links."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.remediation.test_suspicions import behind, node
from watchdogd.batch.run_models import ASIDE, FAIR, Suspect
from watchdogd.parsers.gpu.models import Gpu
from watchdogd.parsers.stack_models import Frame, LoopLooks
from watchdogd.remediation import slow_suspects, suspects
from watchdogd.stacks.stack_folding import Process

SIZE = 8
WAITS = Frame(
    "all_reduce", "torch/distributed/distributed_c10d.py", 9, "/x/site-packages/torch/distributed/x.py"
)
BACKWARD = Frame("backward", "torch/_tensor.py", 7, "/x/site-packages/torch/_tensor.py")
MAIN = Frame("main", "train.py", 4, "/home/train.py")
LOADS = Frame("__getitem__", "data.py", 61, "/home/data.py")


def test_who_is_behind_in_most_looks_slows_the_run_down() -> None:
    nodes = [node(1, moving=True), node(2, moving=True, lagging=(behind(looks=5),))]
    (found,) = slow_suspects.of_slow(nodes, [])
    assert (found.rank, found.node, found.gpu, found.strength) == (5, "n2", 1, FAIR)
    assert found.what == "has launched fewer operations than the others in 5 of 6 looks"


def cards(
    *clocks: float,
    throttled: str = "",
    utilisation: float = 98.0,
    watts: float | None = None,
    name: str = "H200",
) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(
            index=number,
            name=name,
            power_w=watts,
            power_cap_w=700.0,
            clock_mhz=clock,
            utilisation=utilisation,
            throttled=(throttled,) if throttled and not number else (),
        )
        for number, clock in enumerate(clocks)
    )


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (cards(1980, 1980), cards(1970, 1965), []),
        (cards(1980, 1980), cards(1965, 1200), ["n2 1 works at 1200 MHz, the others at 1972 MHz"]),
        (cards(1980, 1980), cards(345, 345, utilisation=0), []),
        (cards(1980), cards(1200), []),
        (cards(1980, 1980), cards(900, 1980, throttled="hw thermal"), ["n2 0 is throttled (hw thermal)"]),
        (cards(900, throttled="sw"), cards(900, throttled="sw"), []),
        (cards(900, throttled="sw"), cards(1900, 1900), ["n1 0 is throttled (sw)"]),
        (cards(1300, 1300), cards(1980, 1980), []),
        (cards(1320, 1320, watts=700), cards(*[1980] * 6, watts=124), []),
        (cards(1320, watts=700), cards(*[1980] * 6, watts=400), []),
        (
            cards(1320, watts=400),
            cards(*[1980] * 6, watts=690),
            ["n1 0 works at 1320 MHz, the others at 1980 MHz"],
        ),
        (cards(1200, name="A100"), cards(*[1980] * 6), []),
        # at its limit: work may be heavier than that of peers who are not
        (cards(1400, watts=698), cards(*[1980] * 6, watts=600), []),
        (
            cards(1100, watts=698),
            cards(*[1650] * 6, watts=690),
            ["n1 0 works at 1100 MHz, the others at 1650 MHz"],
        ),
        # the clock of a moment: who drew that much did not work so slowly
        (cards(132, watts=550), cards(*[1700] * 6, watts=550), []),
    ],
)
def test_gpus_that_work_slower_than_the_others(
    first: tuple[Gpu, ...], second: tuple[Gpu, ...], said: list[str]
) -> None:
    found = slow_suspects.of_slow([node(1, gpus=first), node(2, gpus=second)], [])
    assert [f"{each.node} {each.gpu} {each.what}" for each in found] == said


def rank(
    number: int,
    own: int,
    of: int = 20,
    *,
    steps: int = 9,
    took: float = 1.9,
    step: int = 41,
    synchronous: bool = True,
    waits: Frame = BACKWARD,
) -> Process:
    """A rank that was at work of its own in so many looks; four are on a node."""
    places = ((own, (LOADS, MAIN)), (of - own, (waits, MAIN)))
    looks = LoopLooks(steps, took, places, synchronous)
    return Process(f"n{number // 4 + 1}", 100 + number, number, step=step, looks=looks)


@pytest.mark.parametrize(
    ("guards", "said"),
    [
        ([rank(each, 2) for each in range(SIZE)], []),
        (
            [rank(each, 18 if each == 5 else 2) for each in range(SIZE)],
            ["rank 5 (node n2, pid 105) takes 1.7 s a step of its own, the others 0.19 s, "
             "mostly in __getitem__ (data.py)"],
        ),
        (
            [rank(each, 18 if each == 5 else 2, waits=WAITS) for each in range(2, 6)],
            ["rank 5 (node n2, pid 105) takes 1.7 s a step of its own, the others 0.19 s, "
             "mostly in __getitem__ (data.py)"],
        ),
        (
            [rank(0, 1), rank(1, 19)],
            ["rank 1 (node n1, pid 101) takes 1.8 s a step of its own, the others 0.095 s, "
             "mostly in __getitem__ (data.py)"],
        ),
        # a node whose ranks are all slow
        (
            [rank(each, 18 if each > 7 else 2) for each in range(12)],
            ["node n3 takes 1.7 s a step of its own, the others 0.19 s, "
             "mostly in __getitem__ (data.py)"],
        ),
        ([rank(each, 18 if each > 3 else 2) for each in range(SIZE)], []),  # half of them
        ([rank(each, 18 if each == 5 else 14) for each in range(SIZE)], []),  # the others hardly wait
        ([rank(each, 6 if each == 5 else 2) for each in range(SIZE)], []),  # chance
        ([rank(each, 18 if each == 5 else 2, steps=2) for each in range(SIZE)], []),
        ([rank(each, 9 if each == 5 else 1, of=10) for each in range(SIZE)], []),
        ([rank(5, 18)], []),
        # not in step: the one takes longer, and is left behind
        (
            [rank(each, 2, took=1.9 if each == 5 else 1.1, step=20 if each == 5 else 41)
             for each in range(SIZE)],
            ["rank 5 (node n2, pid 105) takes 1.9 s a step, the others 1.1 s"],
        ),
        # a pause that not all saw
        ([rank(each, 2, took=1.9 if each == 5 else 1.1) for each in range(SIZE)], []),
    ],
)  # fmt: skip
def test_who_takes_longer_than_the_others_over_several_steps(guards: list[Process], said: list[str]) -> None:
    found = suspects.merge(slow_suspects.of_slow([], guards))
    assert list(filter(None, [found.words()])) == said


@pytest.mark.parametrize("ranks", [2, 8, 512])
def test_chance_makes_nobody_slow(ranks: int) -> None:
    chance = random.Random(11)
    for share in (0.1, 0.2, 0.35, 0.5) * max(40 // ranks, 2):
        owns = [sum(chance.random() < share for _ in range(16)) for _ in range(ranks)]
        assert not [*slow_suspects.of_slow([], [rank(each, own, 16) for each, own in enumerate(owns)])]


def test_who_has_steps_of_its_own_is_not_sure() -> None:
    guards = [
        rank(each, 2, took=4.0 if each == 7 else 1.0, step=10 if each == 7 else 40) for each in range(8)
    ]
    assert [each.strength for each in slow_suspects.of_slow([], guards)] == [FAIR]


def test_where_work_is_queued_for_a_gpu_the_stacks_say_little() -> None:
    """A rank that writes the log waits for its GPU in a line of the user's own."""
    guards = [rank(each, 19 if each == 0 else 2, synchronous=False) for each in range(SIZE)]
    assert [each.strength for each in slow_suspects.of_slow([], guards)] == [ASIDE]


@pytest.mark.parametrize(
    ("pids", "why", "gpu"), [(105, "its GPU 3", 3), (None, "GPU 3 of its node", None), (104, "", None)]
)
def test_why_a_rank_is_slow(pids: int | None, why: str, gpu: int | None) -> None:
    """By the process on the GPU; where none is named, by its node; not by the GPU of another process."""
    throttled = Gpu(3, throttled=("HW thermal slowdown",), pids=(pids,) if pids else ())
    nodes = [node(1, gpus=(Gpu(0), Gpu(1))), node(2, gpus=(Gpu(1), throttled))]
    guards = [rank(each, 18 if each == 5 else 2) for each in range(SIZE)]
    found = suspects.merge(slow_suspects.of_slow(nodes, guards))
    (guilty,) = [each for each in (*found.culprits, *found.others) if each.rank == 5]
    assert guilty.gpu == gpu
    assert guilty.said[0].what.endswith(f"0.19 s: {why} is throttled (HW thermal slowdown)") == bool(why)
    assert found.sure == bool(why)


def test_a_slow_node_and_its_gpu() -> None:
    throttled = Gpu(3, throttled=("HW thermal slowdown",))
    nodes = [node(1), node(2), node(3, gpus=(Gpu(0), Gpu(1), throttled))]
    guards = [rank(each, 20 if each > 7 else 2) for each in range(12)]
    found = suspects.merge(slow_suspects.of_slow(nodes, guards))
    assert found.words().startswith("node n3 takes 1.9 s a step of its own, the others 0.19 s")
    assert found.words().endswith(": its GPU 3 is throttled (HW thermal slowdown)")
    assert found.sure


@pytest.mark.parametrize(
    ("changed", "said", "strength"),
    [
        ({"temperature_c": 92.0, "slowdown_c": 93.0}, "is at 92 °C, the others at 60 °C", FAIR),
        ({"temperature_c": 85.0, "slowdown_c": 93.0}, "is at 85 °C, the others at 60 °C", ASIDE),
        ({"temperature_c": 85.0}, "is at 85 °C, the others at 60 °C", ASIDE),
        ({"temperature_c": 75.0}, "", 0),
        ({"power_cap_w": 500.0}, "is limited to 500 W, the others to 700 W", FAIR),
        ({"power_cap_w": 690.0}, "", 0),
        ({"clock_mhz": 1200.0}, "works at 1200 MHz, the others at 1980 MHz", FAIR),
    ],
)
def test_what_differs_from_gpus_at_like_work(changed: dict[str, float], said: str, strength: int) -> None:
    usual = Gpu(0, name="H200", utilisation=98.0, power_w=600.0, power_cap_w=700.0, temperature_c=60.0,
                clock_mhz=1980.0)  # fmt: skip
    cards_of = [tuple(replace(usual, index=each) for each in range(4)) for _ in range(2)]
    cards_of[1] = (*cards_of[1][:3], replace(usual, index=3, **changed))  # type: ignore[arg-type]
    found = list(slow_suspects.of_slow([node(1, gpus=cards_of[0]), node(2, gpus=cards_of[1])], []))
    assert found == ([Suspect("GPU", said, strength, node="n2", gpu=3)] if said else [])


@pytest.mark.parametrize(
    "more",
    [
        {"links": {"mlx5_0 port 1, symbol_error": 3}},
        {"gpus": (Gpu(0, throttled=("sw thermal slowdown",)), *(Gpu(each) for each in range(1, 4)))},
        {"gpus": tuple(Gpu(each, utilisation=98.0, clock_mhz=1980.0, temperature_c=60.0 + 30 * (not each))
                       for each in range(4))},
    ],
)  # fmt: skip
def test_what_only_stands_beside_who_is_slow_is_not_in_the_first_line(more: dict[str, object]) -> None:
    nodes = [node(1), node(2), replace(node(3), **more)]  # type: ignore[arg-type]
    guards = [rank(each, 18 if each == 5 else 2) for each in range(12)]
    found = suspects.merge(slow_suspects.of_slow(nodes, guards))
    assert len([*found.lines()]) == 2
    assert found.words().endswith("the others 0.19 s, mostly in __getitem__ (data.py)")
    assert found.words().startswith("rank 5 ")


@pytest.mark.parametrize(
    ("bad", "number", "said"),
    [
        ([2], 3, ["n2"]), ([1, 2], 3, []), ([1], 1, ["n1"]), ([], 3, []), ([1, 2, 3], 3, []),
    ],
)  # fmt: skip
def test_links_that_count_errors_on_few_nodes(bad: list[int], number: int, said: list[str]) -> None:
    links = {"mlx5_0 port 1, symbol_error": 12, "GPU 3 NVLink 2, Replay Errors": 40}
    nodes = [node(each, links=links if each in bad else {}) for each in range(1, number + 1)]
    found = list(slow_suspects.of_slow(nodes, []))
    assert [each.node for each in found] == said
    assert {each.what for each in found} <= {
        "counts errors on a link just now (GPU 3 NVLink 2, Replay Errors: 40 and 1 more)"
    }
    nodes = [replace(each, links={}, nvlinks=each.links) for each in nodes]
    assert not [*slow_suspects.of_slow(nodes, [])]
    errors = "GPU 3 NVLink 2, Replay Errors: 40 and 1 more"
    assert [*slow_suspects.notes(nodes)] == [
        f"link: node {each} counted errors since its driver was loaded ({errors})" for each in said
    ]
