"""The Guard as a callback of Lightning; run as a script, it trains a tiny model under the switches.

python examples/lightning_callback.py CHECKPOINT [STEPS]

`GuardCallback(Guard("run-17"), "run-17.ckpt")` is all that a Trainer of one's own needs. Under Slurm
Lightning saves and requeues its job at SIGUSR1 (`#SBATCH --signal=SIGUSR1@300`), then the Guard ends
the loop. Where no such signal is asked for, `time_left="auto"` stops the loop before the job's end.
"""

# ruff: noqa: ARG002  hooks take what the framework gives them

import os
import sys
import time

import lightning
import torch

from watchdogd.training import Guard, torch_agree


class GuardCallback(lightning.Callback):
    """Saves to `checkpoint` and stops a Trainer when its Guard asks for it, on all ranks alike."""

    def __init__(self, guard, checkpoint):
        self.guard = guard
        self.checkpoint = checkpoint
        self.agree = torch_agree()

    def on_train_start(self, trainer, module):
        self.guard.exit_if_stopped(agree=self.agree)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_index):
        wish = self.guard.poll(step=trainer.global_step, loss=outputs["loss"], agree=self.agree)
        if wish:
            print(f"step {trainer.global_step}: {wish.reason}", flush=True)
            trainer.save_checkpoint(self.checkpoint)
        if wish.save:
            self.guard.saved()
        if wish.stop:
            trainer.should_stop = True

    def on_train_end(self, trainer, module):
        if trainer.max_steps != -1 and trainer.global_step >= trainer.max_steps:
            self.guard.finished()


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
    guard = Guard("lightning")
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=steps,
        callbacks=[GuardCallback(guard, checkpoint)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    loader = torch.utils.data.DataLoader(torch.randn(100_000, 8), batch_size=32, num_workers=1)
    trainer.fit(Line(), loader, ckpt_path=checkpoint if os.path.exists(checkpoint) else None)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3000)
