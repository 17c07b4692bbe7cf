"""A loop of one's own under Hugging Face's Accelerate, with the switches of its run.

python examples/accelerate_loop.py FOLDER [STEPS]        (or accelerate launch, on several ranks)
"""

import os
import sys
import time

import torch
from accelerate import Accelerator

from watchdogd.integrations import AccelerateGuard


class Steps:
    """How many are done: a part of each checkpoint."""

    done = 0

    def state_dict(self):
        return {"done": self.done}

    def load_state_dict(self, state):
        self.done = state["done"]


def main(folder, steps):
    accelerator = Accelerator(cpu=not torch.cuda.is_available(), gradient_accumulation_steps=2)
    model = torch.nn.Linear(8, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.05))
    count = Steps()
    accelerator.register_for_checkpointing(count)
    if os.path.isdir(folder):
        accelerator.load_state(folder)
    guard = AccelerateGuard("accelerate", accelerator, folder)
    while count.done < steps:
        with accelerator.accumulate(model):
            inputs = torch.randn(2, 8, device=accelerator.device)
            loss = (model(inputs).squeeze(-1) - inputs.sum(-1)).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        time.sleep(0.01)
        count.done += accelerator.sync_gradients
        if guard.step(count.done, loss):
            break
    else:
        guard.finished()
    accelerator.end_training()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3000)
