"""The Guard in a loop of one's own around a DeepSpeed engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchdogd.integrations.guarded_loop import GuardedLoop, number_in

if TYPE_CHECKING:
    from watchdogd.training import Guard


class DeepSpeedGuard:
    """Saves a checkpoint of an engine when its Guard asks for it, and tells the loop when to stop.

    checkpoint: the folder for `engine.load_checkpoint`; each checkpoint has a tag of its own there. guard,
    agree_every: as for GuardedLoop. Leaves the program at once where the run was stopped.
    """

    def __init__(self, guard: Guard | str, engine: Any, checkpoint: str, *, agree_every: int = 1) -> None:
        self._engine = engine
        self._checkpoint = checkpoint
        self._loop = GuardedLoop(guard, agree_every)
        self._loop.begin(engine.global_rank)
        self._seen = engine.global_steps

    def step(self, loss: Any = None) -> bool:
        """Return whether to leave the loop, saved; call it after each `engine.step()` on every rank."""
        if self._engine.global_steps == self._seen:  # in the midst of an accumulation nothing can be saved
            return False
        self._seen = self._engine.global_steps
        return self._loop.step(
            self._seen, number_in(loss), lambda: self._engine.save_checkpoint(self._checkpoint)
        )

    def finished(self) -> None:
        """Mark the run finished: all its steps are done."""
        self._loop.guard.finished()
