"""Dumps of PyTorch's Flight Recorder: found by what the run's processes were told, kept, and analysed."""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.lab.environments import python_of
from watchdogd.home.layout import Home
from watchdogd.probe.node_ranks import NodeRanks, RankProcess
from watchdogd.remediation import flight_recorder
from watchdogd.remediation.executor import do
from watchdogd.remediation.flight_recorder import Analysis
from watchdogd.remediation.stall_inquiry import RunEvidence

from .test_evidence import task

ANALYSER = """
import os, sys
def main(words):
    folder, *options = words
    if "old" in os.environ.get("TORCH_KIND", "") and "--allow-incomplete-ranks" in options:
        sys.exit("fr_trace: error: unrecognized arguments: --allow-incomplete-ranks")
    print("world size:", len(os.listdir(folder)), options)
    print("error msg: Culprit rank 1; Error type: COLLECTIVE_TYPE_MISMATCH")
"""


MISSING = """
def main(words):
    print("Not all ranks joining collective, sequence number: 411")
    print("internal record id: 410\\ngroup info: 0:default_pg\\ncollective: nccl:all_reduce")
    print("missing ranks: {2, 3}\\ninput sizes: [[7168]]\\nworld size: 4\\nexpected ranks: {0, 1, 2, 3}")
    print("Not all ranks joining collective, sequence number: 412")
    print("internal record id: 411\\ngroup info: 0:default_pg\\ncollective: nccl:broadcast")
    print("missing ranks: {2}")
"""
"""What it prints of ranks that hang, as of PyTorch 2.11."""


def entry(number: int, kind: str, sizes: list[list[int]]) -> dict[str, Any]:
    """One operation, as the recorder of PyTorch 2.13 writes it."""
    times = {"time_created_ns": 17_000 + number, "time_discovered_started_ns": None}
    shapes = {"input_sizes": [[4]], "input_dtypes": ["Float"], "output_sizes": sizes}
    return {
        **times,
        **shapes,
        "output_dtypes": ["Float"],
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number + 1,
        "p2p_seq_id": 0,
        "op_id": number + 1,
        "profiling_name": f"nccl:{kind}",
        "state": "scheduled",
        "time_discovered_completed_ns": None,
        "retired": False,
        "timeout_ms": 600_000,
        "is_p2p": False,
        "frames": [{"name": "train", "filename": "/home/ann/train.py", "line": 12}],
    }


def dump(folder: Path, kinds: Mapping[int, str]) -> str:
    """Dumps of these ranks, whose second operation is the one named; what their paths begin with."""
    world = {"0": {"name": "0", "desc": "default_pg", "ranks": str([*kinds])}}
    for rank, kind in kinds.items():
        entries = [entry(0, "all_reduce", [[4]]), entry(1, kind, [[len(kinds), 4]])]
        whole = {"version": "2.10", "pg_config": world, "pg_status": {}, "entries": entries}
        (folder / f"fr_rank_{rank}").write_bytes(pickle.dumps(whole))
    return str(folder / "fr_rank_")


@pytest.fixture
def analyser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for PyTorch's, where Python finds it."""
    package = tmp_path / "lib" / "torch" / "distributed" / "flight_recorder"
    package.mkdir(parents=True)
    for each in (package, package.parent, package.parent.parent):
        (each / "__init__.py").touch()
    (package / "fr_trace.py").write_text(ANALYSER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    return package


@pytest.mark.parametrize(
    ("env", "places"),
    [
        ({"TORCH_FR_DUMP_TEMP_FILE": "/s/fr_", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/s/old_"}, ["/s/fr_"]),
        ({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/s/old_"}, ["/s/old_"]),
        (
            {"XDG_CACHE_HOME": "/c", "HOME": "/h"},
            ["/c/torch/comm_lib_trace_rank_", "/c/torch/nccl_trace_rank_", "/tmp/nccl_trace_rank_"],
        ),
        (
            {"HOME": "/h"},
            [
                "/h/.cache/torch/comm_lib_trace_rank_",
                "/h/.cache/torch/nccl_trace_rank_",
                "/tmp/nccl_trace_rank_",
            ],
        ),
    ],
)
def test_where_dumps_are_looked_for(env: Mapping[str, str], places: list[str]) -> None:
    told = [RankProcess(1, rank, "S", env=env) for rank in range(2)]
    assert flight_recorder.prefixes(told) == tuple(places)
    assert flight_recorder.prefixes(told, "/cfg/fr_") == ("/cfg/fr_", *places)


def test_only_plain_dumps_of_this_job_are_found(tmp_path: Path) -> None:
    prefix = dump(tmp_path, {0: "all_reduce", 11: "all_reduce", 2: "all_reduce"})
    os.utime(f"{prefix}2", (1, 1))
    (tmp_path / "fr_rank_4").symlink_to(tmp_path / "fr_rank_0")
    (tmp_path / "fr_rank_5").mkdir()
    (tmp_path / "fr_rank_6.txt").touch()
    os.mkfifo(tmp_path / "fr_rank_7")
    found = flight_recorder.find([str(tmp_path / "none_"), prefix], time.time() - 60)
    assert [each.rank for each in found] == [0, 11]
    assert flight_recorder.find([str(tmp_path / "fr[rank_")], 0.0) == []


def test_what_is_kept_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = dump(tmp_path, dict.fromkeys(range(4), "all_reduce"))
    found = flight_recorder.find([prefix], 0.0)
    monkeypatch.setattr(flight_recorder, "KEPT", found[0].size * 2 + 1)
    assert [each.rank for each, _ in flight_recorder.contents(found)] == [0, 1]


@pytest.mark.parametrize("kind", ["new", "old"])
def test_the_mismatch_is_quoted(
    tmp_path: Path, analyser: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("TORCH_KIND", kind)
    found = flight_recorder.find([dump(tmp_path, dict.fromkeys(range(3), "all_reduce"))], 0.0)
    said = flight_recorder.analyse(found, sys.executable)
    assert said.mismatch == "Culprit rank 1; Error type: COLLECTIVE_TYPE_MISMATCH"
    assert said.text.startswith("world size: 3 ")
    assert analyser.exists()


def test_who_is_missing_from_a_collective_is_quoted(tmp_path: Path, analyser: Path) -> None:
    (analyser / "fr_trace.py").write_text(MISSING)
    found = flight_recorder.find([dump(tmp_path, dict.fromkeys(range(4), "all_reduce"))], 0.0)
    said = flight_recorder.analyse(found, sys.executable)
    assert said.mismatch == "missing from nccl:all_reduce, sequence number 411: rank 2, 3"


@pytest.mark.root
@pytest.mark.parametrize("whose", ["dump", "python"])
def test_what_is_somebody_elses_is_not_run(tmp_path: Path, analyser: Path, whose: str) -> None:
    """To read a pickle is to run it, also as root, and as whoever wrote the interpreter wants."""
    prefix = dump(tmp_path, {0: "all_reduce", 1: "all_gather"})
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\ntouch ran\n")
    python.chmod(0o755)
    os.chown(python if whose == "python" else f"{prefix}1", 65534, 65534)
    said = flight_recorder.analyse(flight_recorder.find([prefix], 0.0), str(python))
    assert said.mismatch.startswith("not analysed")
    assert said.text == ""
    assert not list(tmp_path.rglob("ran"))
    assert analyser.exists()


@pytest.mark.parametrize("python", ["", "/nowhere/python", "/bin/false"])
def test_without_an_analyser_why_is_said(tmp_path: Path, python: str) -> None:
    said = flight_recorder.analyse(flight_recorder.find([dump(tmp_path, {0: "all_reduce"})], 0.0), python)
    assert said.mismatch.startswith(("not analysed", "PyTorch's analyser failed"))


def test_it_becomes_a_part_of_the_evidence(
    tmp_path: Path, analyser: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = dump(tmp_path, dict.fromkeys(range(3), "all_reduce"))
    process = RankProcess(7, 0, "S", (7,), sys.executable, {"TORCH_FR_DUMP_TEMP_FILE": prefix})
    seen = RunEvidence((NodeRanks("node5", (), (process,)),))
    monkeypatch.setattr("watchdogd.remediation.evidence.look_at", lambda run, jobs: seen)
    home = Home(tmp_path / "home")
    home.make()
    outcome = do(task(home))
    folder = home.evidence / "3"
    assert outcome.text.startswith("PyTorch's Flight Recorder: Culprit rank 1; ")
    assert "error msg: Culprit rank 1" in outcome.details
    assert f"{prefix}2 " in (folder / "flight-recorder.txt").read_text()
    assert (folder / "flight-recorder.2").read_bytes() == Path(f"{prefix}2").read_bytes()
    assert analyser.exists()


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_FR_DUMP_TEMP_FILE": "/s/fr_"}, ""),
        ({"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/s/fr_"}, ""),
        ({"TORCH_FR_BUFFER_SIZE": "0"}, "TORCH_FR_BUFFER_SIZE is 0"),
        (
            {"TORCH_FR_BUFFER_SIZE": "9", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"},
            "TORCH_NCCL_DUMP_ON_TIMEOUT is off",
        ),
        ({}, "TORCH_FR_BUFFER_SIZE is not set"),
        ({"TORCH_FR_BUFFER_SIZE": "9"}, "TORCH_FR_DUMP_TEMP_FILE is not set"),
    ],
)
def test_what_the_doctor_misses(env: Mapping[str, str], why: str) -> None:
    assert flight_recorder.lacking(env).startswith(why)
    assert bool(flight_recorder.lacking(env)) == bool(why)


@pytest.mark.torch
@pytest.mark.slow
def test_pytorchs_own_analyser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight_recorder, "_DEADLINE", 300.0)  # PyTorch may be read for the first time
    prefix = dump(tmp_path, {0: "all_reduce", 1: "all_gather"})
    said = flight_recorder.analyse(
        flight_recorder.find([prefix], 0.0), str(python_of("examples", "examples"))
    )
    assert said != Analysis("")
    assert "COLLECTIVE_TYPE_MISMATCH" in said.mismatch
    assert said.mismatch.startswith("Culprit rank ")
