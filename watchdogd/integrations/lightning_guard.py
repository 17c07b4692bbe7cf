"""The Guard as a callback of Lightning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from lightning.pytorch import Callback
except ModuleNotFoundError as error:
    try:  # under its older name
        from pytorch_lightning import Callback
    except ModuleNotFoundError:
        raise error from None

from watchdogd.integrations.guarded_loop import GuardedLoop, at_step, number_in

if TYPE_CHECKING:
    from watchdogd.training import Guard


class LightningGuard(Callback):  # type: ignore[misc]  # not there where types are checked
    """Saves to `checkpoint` and stops the Trainer when its Guard asks for it, on all ranks alike.

    checkpoint: a path for `trainer.fit(ckpt_path=...)`; `{step}` in it is the step. guard, agree_every: as
    for GuardedLoop. The run is marked finished where max_steps or max_epochs is reached.
    """

    def __init__(self, guard: Guard | str, checkpoint: str, *, agree_every: int = 1) -> None:
        super().__init__()
        self._loop = GuardedLoop(guard, agree_every)
        self._checkpoint = checkpoint

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Leave the program where the run was stopped."""
        self._loop.begin(trainer.global_rank)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:  # noqa: ARG002
        """Save and stop where that is asked for."""
        step = trainer.global_step
        path = at_step(self._checkpoint, step)
        if self._loop.step(step, number_in(outputs), lambda: trainer.save_checkpoint(path)):
            trainer.should_stop = True
            trainer.fit_loop.min_epochs = trainer.fit_loop.epoch_loop.min_steps = None  # else it goes on

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Mark the run finished where it has made all its steps or epochs."""
        made = ((trainer.global_step, trainer.max_steps), (trainer.current_epoch, trainer.max_epochs))
        if not self._loop.stopped and any((wanted or -1) >= 0 and done >= wanted for done, wanted in made):
            self._loop.guard.finished()
