"""A real DDP training of a small model, in which one rank comes to harm at a step. Needs PyTorch.

RANK=1 WORLD_SIZE=3 MASTER_PORT=... python training.py LOG BACKEND FAULT VICTIM STEP FOLDER
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from watchdogd.training import Guard

LOG, BACKEND, FAULT, VICTIM, STEP, FOLDER = sys.argv[1:7]
RANK = int(os.environ["RANK"])
HURT = int(VICTIM) == RANK
DEVICE = torch.device("cuda:0" if BACKEND == "nccl" else "cpu")


class Numbers(Dataset):
    """Endless data, of which one item never comes."""

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if FAULT == "loader" and HURT and index == 8 * int(STEP):
            time.sleep(3600)
        if FAULT == "slow" and HURT and index >= 8 * int(STEP):
            time.sleep(0.05)
        return torch.randn(64)


def deadlock() -> None:
    """Two threads that wait for each other's lock."""
    first, second = threading.Lock(), threading.Lock()

    def other() -> None:
        with second:
            time.sleep(0.2)
            with first:
                pass

    threading.Thread(target=other, daemon=True).start()
    with first:
        time.sleep(0.2)
        with second:
            pass


def spin() -> None:
    """A loop that never ends."""
    number = 0
    while True:
        number += 1


def harm(step: int, metric: torch.Tensor) -> None:
    """What befalls the victim at this step, if it is that one."""
    if not HURT or step != int(STEP):
        return
    if FAULT == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif FAULT == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif FAULT == "other":
        dist.all_gather([torch.zeros_like(metric) for _ in range(dist.get_world_size())], metric)
    elif FAULT == "memory":
        hoard = [torch.ones(1 << 40, device=DEVICE)]
        print(len(hoard))
    elif FAULT == "assert":
        torch.zeros(4, device=DEVICE)[torch.tensor([9], device=DEVICE)].cpu()
    elif FAULT == "checkpoint":
        with open(Path(FOLDER) / "frozen" / "checkpoint.pt", "wb") as file:
            file.write(b"x" * 1_000_000)
            os.fsync(file.fileno())
    elif FAULT == "spin":
        spin()
    elif FAULT == "deadlock":
        deadlock()


def main() -> None:
    """Train until the end comes from outside."""
    os.environ["NCCL_HOSTID"] = f"host{RANK}"  # else NCCL refuses a GPU that ranks share
    dist.init_process_group(BACKEND)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)).to(DEVICE)
    ddp = DistributedDataParallel(model)
    optimiser = torch.optim.SGD(ddp.parameters(), lr=1e-3)
    guard, begun = Guard("moe"), time.monotonic()
    with open(LOG, "a", buffering=1) as log:
        for step, batch in enumerate(DataLoader(Numbers(), batch_size=8)):
            loss = ddp(batch.to(DEVICE)).square().mean()
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            metric = loss.detach().clone()
            harm(step, metric)
            if not (FAULT == "skip" and HURT and step == int(STEP)):
                dist.all_reduce(metric)
            guard.poll(step=step)
            if RANK == 0:
                took, begun = 1000 * (time.monotonic() - begun), time.monotonic()
                log.write(
                    f" iteration {step:8d}/ 1000000 | elapsed time per iteration (ms): {took:.1f} | "
                    f"lm loss: {metric.item():.4E} |\n"
                )
            time.sleep(0.05)


if __name__ == "__main__":
    main()
