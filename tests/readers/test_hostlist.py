"""Slurm's node lists."""

from __future__ import annotations

import pytest

from watchdogd.readers.hostlist import LIMIT, expand


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
    assert list(expand(text)) == names


def test_a_senseless_range_is_bounded() -> None:
    assert len(expand("n[1-999999999]")) == LIMIT
