"""Which nodes a job leaves out beside those of its owner: tables of scripts and jobs."""

from __future__ import annotations

import pytest

from watchdogd.remediation import node_exclusion
from watchdogd.remediation.node_exclusion import NodeExclusion


@pytest.mark.parametrize(
    ("lines", "hosts", "nodes", "words"),
    [
        ("", ["n7", "n9"], ["n7", "n9"], ""),
        ("#SBATCH -x n[1-2]", ["n[1-2]", "n7", "n9"], ["n7", "n9"], ""),
        ("#SBATCH --exclude n1, n2", ["n1", "n7", "n9"], ["n7", "n9"], ""),
        ("#SBATCH -x n1\n#SBATCH -x n2", ["n2", "n7", "n9"], ["n7", "n9"], ""),
        ("#SBATCH --exclude=n[7-9]", ["n[7-9]"], [], ""),
        ("#SBATCH --exclude=./bad.txt", [], [], "its script has --exclude=./bad.txt, a file"),
        ("#SBATCH --nodelist=/home/ann/nodes", [], [], "its script has --nodelist=/home/ann/nodes, a file"),
        ("#SBATCH -w n[6-8]", ["n9"], ["n9"], "n7 stays: the job asks for it by name"),
        ("#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2", [], [], "it is a heterogeneous job"),
        ("#SBATCH -N1\n#SBATCH packjob\n#SBATCH -N2", [], [], "it is a heterogeneous job"),
    ],
)
def test_of_a_script(lines: str, hosts: list[str], nodes: list[str], words: str) -> None:
    found = node_exclusion.of_script(f"#!/bin/sh\n{lines}\nsrun train\n", ["n7", "n9"])
    assert ([*found.hosts], [*found.nodes], found.said or found.refused) == (hosts, nodes, words)


@pytest.mark.parametrize(
    ("asked", "excluded", "written", "hosts", "nodes"),
    [
        ("(null)", "(null)", [], ["n7"], ["n7"]),
        ("(null)", "n[1-2]", [], ["n1", "n2", "n7"], ["n7"]),
        ("(null)", "n[5,7]", [], ["n5", "n7"], []),
        ("(null)", "n[5,8]", ["n8"], ["n5", "n7"], ["n7"]),
        ("(null)", "n[5,7]", ["n7"], ["n5", "n7"], []),
        ("n[7-9]", "n5", [], ["n5"], []),
    ],
)
def test_of_a_job(asked: str, excluded: str, written: list[str], hosts: list[str], nodes: list[str]) -> None:
    shown = f"JobId=501 JobName=x\n   ReqNodeList={asked} ExcNodeList={excluded}\n"
    found = node_exclusion.of_job(shown, ["n7"], written)
    assert ([*found.hosts], [*found.nodes]) == (hosts, nodes)


@pytest.mark.parametrize(
    ("usable", "needed", "hosts", "words"),
    [
        ("n1 n2 n3 n7 n9", 2, ["n1", "n9", "n7"], ""),
        ("n1 n2 n7 n9", 2, ["n1", "n9"], "not without n7: the job needs 2 of the 4 nodes that work"),
        ("n1 n2 n9", 2, ["n1"], "not without n7, n9: the job needs 2 of the 3 nodes that work"),
        ("n1 n2", 2, ["n1"], "not without n7, n9: the job needs 2 of the 2 nodes that work"),
        ("", 2, ["n1", "n9", "n7"], ""),
    ],
)
def test_enough_nodes_are_left_to_start_on(usable: str, needed: int, hosts: list[str], words: str) -> None:
    """The owner's own n1 stays left out; the newest suspicion, of n9, is the last to be dropped."""
    found = NodeExclusion(("n1", "n9", "n7"), ("n9", "n7"))
    fit = node_exclusion.as_many_as_fit(found, ["n9", "n7"], usable.split(), needed)
    assert ([*fit.hosts], fit.said) == (hosts, words)
    assert set(fit.nodes) == set(hosts) - {"n1"}


def test_components_of_a_job_are_left_alone() -> None:
    shown = "JobId=123 HetJobId=123 JobName=x\n   ReqNodeList=(null) ExcNodeList=(null)\n"
    assert node_exclusion.of_job(shown, ["n7"], []) == NodeExclusion(refused="it is a heterogeneous job")
