"""A tiny model trained by Hugging Face's Trainer under the switches of its run.

python examples/hf_trainer.py FOLDER [STEPS]
"""

import os
import sys
import time

import torch
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from watchdogd.integrations import TrainerGuard
from watchdogd.training import Guard


class Line(PreTrainedModel):
    """The smallest model that a Trainer takes: it learns the sum of its inputs."""

    config_class = PretrainedConfig

    def __init__(self, config):
        super().__init__(config)
        self.linear = torch.nn.Linear(8, 1)
        self.post_init()

    def forward(self, inputs, labels):
        time.sleep(0.02)
        found = self.linear(inputs).squeeze(-1)
        return {"loss": (found - labels).square().mean(), "logits": found}


class Sums(torch.utils.data.Dataset):
    """Eight random numbers and their sum."""

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        inputs = torch.randn(8)
        return {"inputs": inputs, "labels": inputs.sum()}


def main(folder, steps):
    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=steps,
        logging_steps=20,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    guard = TrainerGuard(Guard("hf-trainer", time_left="auto"))
    trainer = Trainer(Line(PretrainedConfig()), arguments, train_dataset=Sums(), callbacks=[guard])
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder) if os.path.isdir(folder) else None)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3000)
