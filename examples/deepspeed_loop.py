"""A loop around a DeepSpeed engine, with the switches of its run.

deepspeed examples/deepspeed_loop.py FOLDER [STEPS]        (or torchrun)
"""

import os
import sys
import time

import deepspeed
import torch

from watchdogd.integrations import DeepSpeedGuard


def main(folder, steps):
    model = torch.nn.Linear(8, 1)
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
        config={"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2},
    )
    if os.path.isdir(folder):
        engine.load_checkpoint(folder)
    guard = DeepSpeedGuard("deepspeed", engine, folder)
    while engine.global_steps < steps:
        inputs = torch.randn(2, 8, device=engine.device)
        loss = (engine(inputs).squeeze(-1) - inputs.sum(-1)).square().mean()
        engine.backward(loss)
        engine.step()
        time.sleep(0.01)
        if guard.step(loss):
            break
    else:
        guard.finished()


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if not word.startswith("--local_rank")]
    main(words[0], int(words[1]) if len(words) > 1 else 3000)
