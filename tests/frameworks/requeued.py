"""Lightning in a job of Slurm that is requeued: requeued.py before|after, when the Guard is made.

Its own checkpoint and the Guard's are left in this folder.
"""

import sys
from pathlib import Path

import lightning
import torch

sys.path.append(str(Path(__file__).parents[2] / "examples"))
from lightning_callback import Line

from watchdogd.integrations import LightningGuard
from watchdogd.training import Guard


class Late(lightning.Callback):
    """Makes the Guard when Lightning has set its handlers."""

    def on_train_start(self, trainer, module):
        trainer.callbacks.append(LightningGuard(Guard("lightning", every=0.0), "stopped.ckpt"))


early = (
    [LightningGuard(Guard("lightning", every=0.0), "stopped.ckpt")] if sys.argv[1] == "before" else [Late()]
)
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=1,
    max_steps=100_000,
    callbacks=early,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(Line(), torch.utils.data.DataLoader(torch.randn(100_000, 8), batch_size=32))
