"""Trying a job's GPUs: the program with a stand-in for PyTorch, and what is made of what it prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from watchdogd.plugin import Status
from watchdogd.preflight import gpu_trial
from watchdogd.preflight.gpu_trial import PROGRAM, Trial, Tried

TORCH = """
__version__ = "2.9"
class Tensor:
    def __init__(self, value): self.value = value
    def __matmul__(self, other): return Tensor(2.0**30)
    def sum(self): return self
    def item(self): return self.value
    def __getitem__(self, place): return self
def ones(*shape, device):
    if device == "cuda:1": raise RuntimeError("CUDA error: out of memory\\nmore words")
    return Tensor(1.0)
class cuda:
    device_count = staticmethod(lambda: 3)
"""
DISTRIBUTED = """
def init_process_group(backend, *, init_method, rank, world_size, timeout):
    global world
    world = world_size
    if rank == 5: raise RuntimeError("NCCL error: unhandled system error")
    assert (backend, init_method) == ("nccl", "tcp://node1:29500")
def all_reduce(block): block.value *= world
def destroy_process_group(): pass
"""


def run(folder: Path, *words: str, **env: str) -> Tried:
    (folder / "torch").mkdir(exist_ok=True)
    (folder / "torch/__init__.py").write_text(TORCH)
    (folder / "torch/distributed.py").write_text(DISTRIBUTED)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        env={**os.environ, "PYTHONPATH": str(folder), "SLURMD_NODENAME": "node1", **env},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("@@ node node1\n")
    return gpu_trial.read(done.stdout)


def test_each_gpu_computes_or_says_why_not(tmp_path: Path) -> None:
    tried = run(tmp_path)
    assert tried == Tried("2.9", "", 3, {1: "CUDA error: out of memory"})


def test_an_all_reduce_is_right_or_fails(tmp_path: Path) -> None:
    words = ("node1", "29500", "20")
    well = run(tmp_path, *words, SLURM_PROCID="1", SLURM_NTASKS="4")
    assert well.reduced is not None
    assert well.reduced < 5.0
    broken = run(tmp_path, *words, SLURM_PROCID="5", SLURM_NTASKS="8")
    assert (broken.reduced, broken.broken) == (None, "NCCL error: unhandled system error")


def test_without_pytorch_that_is_said() -> None:
    done = subprocess.run([sys.executable, "-S", "-c", PROGRAM], capture_output=True, text=True, check=True)
    tried = gpu_trial.read(done.stdout)
    assert tried.missing == "No module named 'torch'"
    (finding,) = gpu_trial.judge(Trial({"node1": tried}), 4)
    text = "nothing was tried: no PyTorch in this python3: No module named 'torch'"
    assert (finding.status, finding.text) == (Status.OK, text)
    (finding,) = gpu_trial.judge(Trial({"node1": tried}, reduce=True), 4)
    assert finding.status is Status.CRITICAL


WELL = Tried("2.9", gpus=4, reduced=0.012)


@pytest.mark.parametrize(
    ("tried", "texts", "nodes"),
    [
        (Trial({"a": WELL, "b": WELL}), ["each GPU of a,b computes"], ()),
        (
            Trial({"a": WELL, "b": WELL}, reduce=True),
            ["each GPU of a,b computes", "an all-reduce of 64 MiB across 2 nodes took 12 ms"],
            (),
        ),
        (
            Trial({"a": WELL, "b": Tried("2.9", gpus=3)}),
            ["b: PyTorch sees 3 GPUs of 4", "each GPU of a,b computes"],
            ("b",),
        ),
        (
            Trial({"a": Tried("2.9", gpus=4, faults={2: "out of memory"})}),
            ["a gpu2: nothing can be computed on it: out of memory"],
            ("a",),
        ),
        (
            Trial({"a": WELL}, {"b": "did not answer within 60 s"}, reduce=True),
            [
                "b: its GPUs were not tried to the end: did not answer within 60 s",
                "each GPU of a computes",
                "the all-reduce across 2 nodes did not come to its end",
            ],
            ("b",),
        ),
        (
            Trial({"a": WELL, "b": Tried("2.9", gpus=4, broken="NCCL error")}, reduce=True),
            ["each GPU of a,b computes", "the all-reduce across 2 nodes fails, on b: NCCL error"],
            ("b",),
        ),
        (Trial({}, trouble="srun: refused"), ["nothing could be tried: srun: refused"], ()),
    ],
)
def test_what_is_made_of_it(tried: Trial, texts: list[str], nodes: tuple[str, ...]) -> None:
    findings = list(gpu_trial.judge(tried, 4))
    assert [finding.text.replace("[", "").replace("]", "") for finding in findings] == texts
    assert tuple({node for finding in findings for node in finding.nodes}) == nodes
