"""Slurm's node lists."""

from __future__ import annotations

import tracemalloc

import pytest

from watchdogd.batch.slurmtext import HOST_LIMIT, expand_hostlist


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node5", ["node5"]),
        ("node[1-3,7],login1", ["node1", "node2", "node3", "node7", "login1"]),
        ("nid[0098-0100]", ["nid0098", "nid0099", "nid0100"]),
        ("rack[1-2]n[0-1]", ["rack1n0", "rack1n1", "rack2n0", "rack2n1"]),
        ("clu-0-[3]-ipmi", ["clu-0-3-ipmi"]),
        ("n[9-11]0", ["n90", "n100", "n110"]),
        ("a[1],a[1]", ["a1"]),
        ("", []),
    ],
)
def test_names(text: str, names: list[str]) -> None:
    assert list(expand_hostlist(text)) == names


def test_a_senseless_range_is_bounded() -> None:
    assert len(expand_hostlist("n[1-999999999]")) == HOST_LIMIT


@pytest.mark.parametrize(
    "text",
    [
        "n[1-20000][1-20000]",
        "n[1-1000000000]",
        "n" + "[1-9999]" * 8,
        "n" + "[1-2]" * 40,
        ",".join(f"r{number}n[1-20000]" for number in range(500)),
        "n[" + ",".join(["1-20000"] * 500) + "]",
        "n[1-" + "9" * 5000 + "]",
        "[" * 100_000,
        "n[1-9" * 20_000,
        "n[1-20000]" + "y" * 5000,
        "n[" + "y" * 5000 + ",z][1-20000]",
    ],
    ids=(
        "square",
        "range",
        "eight",
        "forty",
        "names",
        "spans",
        "digits",
        "brackets",
        "open",
        "long",
        "longer",
    ),
)
def test_what_stands_for_millions_is_never_built(text: str) -> None:
    tracemalloc.start()
    try:
        names = expand_hostlist(text)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(names) <= HOST_LIMIT
    assert most < 30_000_000
