"""The Guard as a callback of Hugging Face's Trainer; as a script, it trains a tiny model under the switches.

python examples/hf_trainer.py FOLDER [STEPS]

`GuardCallback(Guard("run-17"))` is all that a Trainer of one's own needs.
"""

# ruff: noqa: ARG002  hooks take what the framework gives them

import os
import sys
import time

import torch
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from watchdogd.training import Guard, torch_agree


class GuardCallback(TrainerCallback):
    """Saves and stops a Trainer when its Guard asks for it, on all ranks alike."""

    def __init__(self, guard):
        self.guard = guard
        self.agree = torch_agree()
        self.loss = None
        self.saving = False

    def on_train_begin(self, args, state, control, **others):
        self.guard.exit_if_stopped(agree=self.agree)

    def on_log(self, args, state, control, logs=None, **others):
        self.loss = (logs or {}).get("loss", self.loss)

    def on_step_end(self, args, state, control, **others):
        wish = self.guard.poll(step=state.global_step, loss=self.loss, agree=self.agree)
        if wish:
            print(f"step {state.global_step}: {wish.reason}", flush=True)
            control.should_save = self.saving = True
        if wish.stop:
            control.should_training_stop = True
        return control

    def on_save(self, args, state, control, **others):
        if self.saving:
            self.saving = False
            self.guard.saved()

    def on_train_end(self, args, state, control, **others):
        if state.global_step >= state.max_steps:
            self.guard.finished()


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
    callback = GuardCallback(Guard("hf-trainer", time_left="auto"))
    trainer = Trainer(Line(PretrainedConfig()), arguments, train_dataset=Sums(), callbacks=[callback])
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder) if os.path.isdir(folder) else None)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3000)
