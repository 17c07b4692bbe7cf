"""The Guard in a loop of one's own under Hugging Face's Accelerate, which has no callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchdogd.integrations.guarded_loop import GuardedLoop, at_step, number_in

if TYPE_CHECKING:
    from watchdogd.training import Guard


class AccelerateGuard:
    """Saves the state of an Accelerator when its Guard asks for it, and tells the loop when to stop.

    checkpoint: a folder for `accelerator.load_state`, `{step}` in it is the step; left out: where the
    Accelerator's automatic_checkpoint_naming puts it. guard, agree_every: as for GuardedLoop. Leaves the
    program at once where the run was stopped.
    """

    def __init__(
        self, guard: Guard | str, accelerator: Any, checkpoint: str | None = None, *, agree_every: int = 1
    ) -> None:
        self._accelerator = accelerator
        self._checkpoint = checkpoint
        self._loop = GuardedLoop(guard, agree_every)
        self._loop.begin(accelerator.process_index)

    def step(self, step: int, loss: Any = None) -> bool:
        """Return whether to leave the loop, saved; call it after each step, or micro-step, on every rank."""
        if not self._accelerator.sync_gradients:  # in the midst of an accumulation nothing can be saved
            return False
        folder = None if self._checkpoint is None else at_step(self._checkpoint, step)
        return self._loop.step(step, number_in(loss), lambda: self._accelerator.save_state(folder))

    def finished(self) -> None:
        """Mark the run finished: all its steps are done."""
        self._loop.guard.finished()
