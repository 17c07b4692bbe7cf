"""A tiny model trained by MosaicML's Composer under the switches of its run.

python examples/composer_trainer.py FOLDER [STEPS]        (or composer, on several ranks)
"""

import os
import sys
import time

import torch
from composer import ComposerModel, Trainer

from watchdogd.integrations import ComposerGuard


class Line(ComposerModel):
    """Learns the sum of eight numbers."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 1)

    def forward(self, batch):
        time.sleep(0.02)
        return self.linear(batch).squeeze(-1)

    def loss(self, outputs, batch):
        return (outputs - batch.sum(-1)).square().mean()


def main(folder, steps):
    model = Line()
    saved = os.path.join(folder, "saved.pt")
    trainer = Trainer(
        model=model,
        optimizers=torch.optim.SGD(model.parameters(), lr=0.05),
        train_dataloader=torch.utils.data.DataLoader(torch.randn(4 * steps, 8), batch_size=4),
        max_duration=f"{steps}ba",
        callbacks=[ComposerGuard("composer", saved)],
        load_path=saved if os.path.exists(saved) else None,
        progress_bar=False,
        device="gpu" if torch.cuda.is_available() else "cpu",
    )
    trainer.fit()
    trainer.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3000)
