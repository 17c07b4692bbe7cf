"""Leadership of a daemon, as a link or a plain process: taking, keeping and handing over the lease."""

from __future__ import annotations

import math
import os
import signal
import threading
import time

from watchdogd.chain.chain import ENVIRONMENT, Chain
from watchdogd.config.models import Config
from watchdogd.daemon.trouble import Trouble, TroubleKind
from watchdogd.errors import HomeError
from watchdogd.home import markers
from watchdogd.home.layout import Home
from watchdogd.home.lease import STALE, WATCH, Lease, alive
from watchdogd.home.lease_record import Holder
from watchdogd.system import startup
from watchdogd.units import format_duration

HAND_OVER = 60.0
"""Seconds for the last link to hand over before its successor takes the lease by force."""
_FIRST_STEP, _LAST_STEP = 20.0, 20.0
_HANGS = 300.0
"""Seconds after which a step of the chain counts as hanging in something without deadline."""


class DaemonLeadership:
    """Leadership: call `begin`, then `watch` every second, which also looks after the chain, then `end`."""

    def __init__(self, home: Home, config: Config) -> None:
        self._home = home
        self.chain = Chain.of_this_job(home, config)
        self.lease = Lease(home, self.chain.job_id if self.chain else os.environ.get("SLURM_JOB_ID", ""))
        self._unwatched = ""
        self._stepping: threading.Thread | None = None
        self._stepped_at = 0.0
        self._followed = True

    @staticmethod
    def in_chain() -> bool:
        return bool(os.environ.get(ENVIRONMENT))

    def begin(self) -> None:
        """Submit the successor, then take the lease. HomeError where another acts, or after a stop."""
        if self.chain is None:
            holder = alive(self._home) or self.lease.wait(STALE + WATCH)
        else:
            holder = self._begin_link(self.chain)
        if holder is not None:
            raise HomeError(
                f"{holder} watches for {self._home.path} already: see '{self._home.command('status')}'"
            )
        self._followed = False
        if self.chain is None:
            markers.lift_stop(self._home)  # a run by hand ends the stop
        else:
            signal.signal(signal.SIGTERM, _leave)  # so that `end` is called before the schedule handles it

    def watch(self) -> bool:
        """Renew the lease; False: the daemon must end. OSError where home does not answer."""
        if markers.is_stopped(self._home) or self.lease.asked():
            self._followed = True
            return False
        self._look_after()
        self._followed = not self.lease.renew()
        return not self._followed

    def left(self, now: float) -> float:
        """Return seconds until this process ends with its link, as far as known; else infinite."""
        return self.chain.left(now) if self.chain else math.inf

    def troubles(self) -> list[str]:
        """Return the present problems of the chain, a line each; its next step may be minutes away."""
        hangs = time.monotonic() - self._stepped_at
        if self._under_way() and hangs > _HANGS:
            return [f"nobody looks after the chain: the last look at it hangs for {format_duration(hangs)}"]
        if self._unwatched:
            return [self._unwatched]
        return self.chain.troubles(time.time()) if self.chain else []

    def settle(self, patience: float) -> list[str]:
        """Wait until the successor of a one-round link is in the queue; return problems."""
        until = time.monotonic() + patience
        if self.chain is not None:
            self.chain.hurry()  # a submitted job shows at once, and waiting is billed
        while self.chain is not None and not self.chain.successor and time.monotonic() < until:
            self._look_after()
            time.sleep(1.0)
        return self.troubles()

    def end(self) -> None:
        """Release the lease, and the successor's dependency where this link is ended from outside.

        Where the watchdog was stopped, the other links are cancelled.
        """
        self.lease.release()
        if self.chain is None:
            return
        if self.chain.stopped():
            if self._stepping is not None:
                self._stepping.join(_LAST_STEP)  # so that a successor being submitted is known
            self.chain.wind_up()
        elif not self._followed:
            self.chain.let_go()

    def _begin_link(self, chain: Chain) -> Holder | None:
        if chain.stopped():
            chain.wind_up()
            raise HomeError(f"the watchdog was {markers.stop_words(self._home)}: this link ends")
        signal.signal(signal.SIGUSR1, lambda *_: chain.hurry())
        self._look_after()  # on a thread, since Slurm may hang
        if self._stepping is not None:
            self._stepping.join(_FIRST_STEP)
        holder = alive(self._home) if os.environ.get("SLURM_RESTART_COUNT", "0") != "0" else None
        if holder is not None and chain.is_followed(holder.job_id):
            raise HomeError(f"{holder} watches since this link was requeued, and is followed: this link ends")
        return self.lease.wait(HAND_OVER, ask=chain.mode == "daemon")

    def _look_after(self) -> None:
        """Run a due step of the chain on a thread, since Slurm may hang."""
        if self.chain is None or not self.chain.due(time.time()):
            return
        if not self._under_way():
            self._stepped_at = time.monotonic()
            stepping = threading.Thread(target=self._step, args=[self.chain], name="chain", daemon=True)
            try:
                stepping.start()
            except RuntimeError:  # the next call tries again
                text = f"nobody looks after the chain: {startup.NO_THREAD}"
                self._unwatched = Trouble(text, TroubleKind.PROCESSES)
            else:
                self._stepping, self._unwatched = stepping, ""

    def _under_way(self) -> bool:
        return self._stepping is not None and self._stepping.is_alive()

    def _step(self, chain: Chain) -> None:
        chain.step(time.time())


def _leave(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)
