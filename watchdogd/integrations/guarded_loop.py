"""Loop that the Guards of all frameworks share, whatever calls them after each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchdogd.training import Guard, Wish, torch_agree

if TYPE_CHECKING:
    from collections.abc import Callable

NOTHING = Wish(stop=False, save=False, reason="")


class GuardedLoop:
    """A Guard that knows its rank, asked at the same steps on every rank, so that all decide alike.

    guard: a Guard, or the name of its run, whose Guard is then made when the training begins. agree_every:
    steps from one agreement of the ranks to the next; each waits for the slowest of them, so take ten where
    steps are short. ValueError where it is less than one.
    """

    def __init__(self, guard: Guard | str, agree_every: int = 1) -> None:
        if agree_every < 1:
            raise ValueError(f"agree_every = {agree_every}: the ranks agree every step (1) or less often")
        self._guard = guard
        self._agree_every = agree_every
        self._agree = torch_agree()
        self._polls = self._rank = 0
        self.stopped = False

    @property
    def guard(self) -> Guard:
        """The Guard itself, for what the framework has no place for."""
        if isinstance(self._guard, str):
            self._guard = Guard(self._guard)
        return self._guard

    def begin(self, rank: int) -> None:
        """Leave the program where the run was stopped or is finished; rank: of this process, among all."""
        self._rank, self._polls, self.stopped = rank, 0, False
        self.guard.set_rank(rank)
        self.guard.exit_if_stopped(agree=self._agree)

    def poll(self, step: int, loss: Any = None) -> Wish:
        """Return what all ranks do after this step; after a stop nothing more. The first rank prints why."""
        if self.stopped:
            return NOTHING
        self._polls += 1
        if self._polls % self._agree_every:
            self.guard.poll(step=step, loss=loss)
            return NOTHING
        wish = self.guard.poll(step=step, loss=loss, agree=self._agree)
        self.stopped = wish.stop
        if wish and self._rank == 0:
            print(f"watchdogd: {self.guard.run}, step {step}: {wish.reason}", flush=True)
        return wish

    def step(self, step: int, loss: Any, save: Callable[[], object]) -> bool:
        """Poll, and `save` where that is asked for; return whether to stop. Every rank saves."""
        wish = self.poll(step, loss)
        if wish:
            save()
            self.guard.saved()
        return wish.stop


def at_step(checkpoint: str, step: int) -> str:
    """Return the checkpoint's path, the step in the place of `{step}`."""
    return checkpoint.replace("{step}", str(step))


def number_in(outputs: Any) -> Any:
    """Return the loss, a tensor or a number, of what a framework calls outputs; None where there is none."""
    loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
    return loss if hasattr(loss, "detach") or isinstance(loss, (int, float)) else None
