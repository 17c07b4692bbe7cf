"""A real DDP training in which one rank comes to harm at a step. Needs PyTorch; runs below torchrun.

It writes its log, in FOLDER/train.log, and when the harm began, in FOLDER/harmed.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from watchdogd.training import Guard

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--backend", default="gloo")
parser.add_argument("--fault", default="none")
parser.add_argument("--victim", type=int, default=1)
parser.add_argument("--step", type=int, default=60, help="the iteration at which it is hurt")
parser.add_argument("--guard", action="store_true")
parser.add_argument("--pause", type=float, default=0.05, help="seconds between two iterations")
parser.add_argument("--width", type=int, default=64, help="of the model, and of its batches")
parser.add_argument("--rest", type=float, default=0.0, help="seconds of an evaluation and of a save")
parser.add_argument("--timeout", type=float, default=600.0, help="seconds of a collective operation")
ARGS = parser.parse_args()
RANK, LOCAL_RANK = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
HURT = ARGS.victim == RANK
EVALUATE, SAVE = 100, 150
"""Iterations between two evaluations, and between two saves."""


def device() -> torch.device:
    """Return this rank's own; ranks that share a GPU are told a host each, else NCCL refuses them."""
    if ARGS.backend != "nccl":
        return torch.device("cpu")
    if torch.cuda.device_count() < int(os.environ["LOCAL_WORLD_SIZE"]):
        os.environ["NCCL_HOSTID"] = f"host{RANK}"
    return torch.device("cuda", LOCAL_RANK % torch.cuda.device_count())


DEVICE = device()


def harmed() -> None:
    """Write down when it began."""
    (ARGS.folder / "harmed").touch(exist_ok=True)


class Numbers(Dataset):
    """Endless data, of which one item never comes."""

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if HURT and index == 8 * ARGS.step and ARGS.fault in ("loader", "slow"):
            harmed()
        if ARGS.fault == "loader" and HURT and index == 8 * ARGS.step:
            time.sleep(3600)
        if ARGS.fault == "slow" and HURT and index >= 8 * ARGS.step:
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
    if not HURT or step != ARGS.step or ARGS.fault in ("none", "loader", "slow"):
        return
    harmed()
    if ARGS.fault == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif ARGS.fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif ARGS.fault == "other":
        dist.all_gather([torch.zeros_like(metric) for _ in range(dist.get_world_size())], metric)
    elif ARGS.fault == "memory":
        hoard = [torch.ones(1 << 40, device=DEVICE)]
        print(len(hoard))
    elif ARGS.fault == "assert":
        torch.zeros(4, device=DEVICE)[torch.tensor([9], device=DEVICE)].cpu()
    elif ARGS.fault == "checkpoint":
        with open(ARGS.folder / "frozen" / "checkpoint.pt", "wb") as file:
            file.write(b"x" * 1_000_000)
            os.fsync(file.fileno())
    elif ARGS.fault == "spin":
        spin()
    elif ARGS.fault == "deadlock":
        deadlock()


def rest(ddp: nn.Module, step: int, write) -> None:
    """Evaluate and save from time to time: nothing is logged for longer than a hang is allowed."""
    seconds = ARGS.rest * (0.7 + 0.3 * (step // EVALUATE % 2))
    if step and step % EVALUATE == 0:
        write(f"evaluating on the validation set at iteration {step}")
        with torch.no_grad():
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                ddp(torch.randn(8, ARGS.width, device=DEVICE, dtype=next(ddp.parameters()).dtype))
                time.sleep(0.01)
        dist.barrier()
        write(f" validation loss at iteration {step} | lm loss value: 2.3E+00 |")
    if step and step % SAVE == 0:
        write(f"saving checkpoint at iteration {step} to checkpoints/")
        if RANK == 0:
            torch.save(ddp.state_dict(), ARGS.folder / "checkpoint.pt")
            time.sleep(seconds)
        dist.barrier()
        write(f"successfully saved checkpoint at iteration {step}")


def main() -> None:
    """Train until the end comes from outside."""
    if DEVICE.type == "cuda":
        torch.cuda.set_device(DEVICE)
    dist.init_process_group(ARGS.backend, timeout=timedelta(seconds=ARGS.timeout))
    width, heavy = ARGS.width, ARGS.width > 64
    layers = [layer for _ in range(4 if heavy else 1) for layer in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(width, 1))
    ddp = DistributedDataParallel(model.to(DEVICE, torch.bfloat16 if heavy else torch.float32))
    optimiser = torch.optim.SGD(ddp.parameters(), lr=1e-3)
    guard = Guard("moe") if ARGS.guard else None
    begun = time.monotonic()
    with open(ARGS.folder / "train.log", "a", buffering=1) if RANK == 0 else nullcontext() as log:

        def write(line: str) -> None:
            if log:
                log.write(f"{line}\n")

        for step, batch in enumerate(DataLoader(Numbers(), batch_size=8)):
            data = batch.to(DEVICE, next(model.parameters()).dtype)
            loss = ddp(data.repeat(width // 8 if heavy else 1, width // 64)).square().mean()
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            metric = loss.detach().clone()
            harm(step, metric)
            if not (ARGS.fault == "skip" and HURT and step == ARGS.step):
                dist.all_reduce(metric)
            if guard:
                guard.poll(step=step)
            if log:  # the others do not wait for their GPU here
                value = metric.item()
                took, begun = 1000 * (time.monotonic() - begun), time.monotonic()
                write(
                    f" iteration {step:8d}/ 1000000 | elapsed time per iteration (ms): {took:.3f} | "
                    f"lm loss: {value:.4E} |"
                )
            if ARGS.rest:
                rest(ddp, step, write)
                begun = time.monotonic()
            time.sleep(ARGS.pause)


if __name__ == "__main__":
    main()
