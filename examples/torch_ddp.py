"""A PyTorch training on several ranks that all stop and save at the same step.

torchrun --nproc-per-node 2 examples/torch_ddp.py CHECKPOINT [STEPS]

On processors through gloo, on GPUs through NCCL. `torch_agree` makes the wish of one rank the wish of all: a
rank that left alone would leave the others waiting in their next all-reduce.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from watchdogd.training import Guard, torch_agree


def device():
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return torch.device("cuda", torch.cuda.current_device())


def load(path, model, optimizer):
    if not os.path.exists(path):
        return 0
    saved = torch.load(path, map_location="cpu")
    model.module.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["step"]


def save(path, model, optimizer, step):
    if dist.get_rank() == 0:
        state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)
    dist.barrier()


def train_step(model, optimizer, where):
    inputs = torch.randn(32, 8, device=where)
    loss = (model(inputs).squeeze(-1) - inputs.sum(-1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.02)
    return loss


def main(checkpoint, steps):
    where = device()
    dist.init_process_group("nccl" if where.type == "cuda" else "gloo")
    guard, agree = Guard("torch-ddp", time_left="auto", gpu_memory_free="2%"), torch_agree()
    guard.exit_if_stopped(agree=agree)
    model = DistributedDataParallel(torch.nn.Linear(8, 1).to(where))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(load(checkpoint, model, optimizer) + 1, steps + 1):
        loss = train_step(model, optimizer, where)
        wish = guard.poll(step=step, loss=loss, agree=agree)
        if wish:
            print(f"rank {dist.get_rank()}, step {step}: {wish.reason}", flush=True)
            save(checkpoint, model, optimizer, step)
        if wish.save:
            guard.saved()
        if wish.stop:
            break
    else:
        save(checkpoint, model, optimizer, steps)
        guard.finished()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3000)
