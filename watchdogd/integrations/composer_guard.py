"""The Guard as a callback of MosaicML's Composer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from composer import Callback
from composer.utils import dist, save_checkpoint

from watchdogd.integrations.guarded_loop import GuardedLoop, number_in

if TYPE_CHECKING:
    from watchdogd.training import Guard


class ComposerGuard(Callback):  # type: ignore[misc]  # not there where types are checked
    """Saves to `checkpoint` and stops the Trainer when its Guard asks for it, on all ranks alike.

    checkpoint: a path for `Trainer(load_path=...)`, with Composer's names in it, such as
    `run-17/ba{batch}-rank{rank}.pt`. guard, agree_every: as for GuardedLoop. The run is marked finished where
    the max_duration that it began with is reached.
    """

    def __init__(self, guard: Guard | str, checkpoint: str, *, agree_every: int = 1) -> None:
        super().__init__()
        self._loop = GuardedLoop(guard, agree_every)
        self._checkpoint = checkpoint
        self._until: Any = None

    def fit_start(self, state: Any, logger: Any) -> None:  # noqa: ARG002
        """Leave the program where the run was stopped."""
        self._until = state.max_duration
        self._loop.begin(dist.get_global_rank())

    def batch_checkpoint(self, state: Any, logger: Any) -> None:  # noqa: ARG002
        """Save and stop where that is asked for."""
        step, loss = state.timestamp.batch.value, number_in(state.loss)
        if self._loop.step(step, loss, lambda: save_checkpoint(state, self._checkpoint)):
            state.stop_training()

    def fit_end(self, state: Any, logger: Any) -> None:  # noqa: ARG002
        """Mark the run finished where all was done that it began with."""
        if not self._loop.stopped and self._until is not None and state.timestamp >= self._until:
            self._loop.guard.finished()
