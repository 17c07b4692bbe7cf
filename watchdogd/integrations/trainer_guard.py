"""The Guard as a callback of Hugging Face's Trainer, and of those made of it (TRL, Axolotl, ...)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from watchdogd.integrations.guarded_loop import GuardedLoop

if TYPE_CHECKING:
    from watchdogd.training import Guard


class TrainerGuard(TrainerCallback):  # type: ignore[misc]  # not there where types are checked
    """Has the Trainer save a checkpoint of its own and stop when its Guard asks for it, on all ranks alike.

    guard, agree_every: as for GuardedLoop. The loss is told as often as the Trainer logs it. The run is
    marked finished where max_steps is reached, by whatever number of epochs that was given.
    """

    def __init__(self, guard: Guard | str, *, agree_every: int = 1) -> None:
        self._loop = GuardedLoop(guard, agree_every)
        self._loss: float | None = None
        self._saving = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Leave the program where the run was stopped."""
        self._loop.begin(args.process_index)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:  # noqa: ARG002
        """Keep the loss for the next poll."""
        self._loss = (logs or {}).get("loss", self._loss)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:  # noqa: ARG002
        """Ask for what the Guard wishes."""
        wish = self._loop.poll(state.global_step, self._loss)
        self._loss = None  # a loss that is told again is no news
        if wish:
            control.should_save = self._saving = True
        if wish.stop:
            control.should_training_stop = True
        return control

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Answer a save that was asked for."""
        if self._saving:
            self._saving = False
            self._loop.guard.saved()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Mark the run finished where it has made all its steps."""
        if not self._loop.stopped and state.global_step >= state.max_steps:
            self._loop.guard.finished()
