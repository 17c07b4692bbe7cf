"""A tiny model trained by Lightning under the switches of its run.

python examples/lightning_callback.py CHECKPOINT [STEPS]

Under Slurm Lightning saves and requeues its job at SIGUSR1 (`#SBATCH --signal=SIGUSR1@300`), then the Guard
ends the loop. Where no such signal is asked for, `Guard("run-17", time_left="auto")` stops the loop before
the job's end.
"""

# ruff: noqa: ARG002  hooks take what the framework gives them

import os
import sys
import time

import lightning
import torch

from watchdogd.integrations import LightningGuard


class Line(lightning.LightningModule):
    """Learns the sum of eight numbers."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 1)

    def training_step(self, batch, batch_index):
        time.sleep(0.02)
        return (self.linear(batch).squeeze(-1) - batch.sum(-1)).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main(checkpoint, steps):
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=steps,
        callbacks=[LightningGuard("lightning", checkpoint)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    loader = torch.utils.data.DataLoader(torch.randn(100_000, 8), batch_size=32, num_workers=1)
    trainer.fit(Line(), loader, ckpt_path=checkpoint if os.path.exists(checkpoint) else None)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3000)
